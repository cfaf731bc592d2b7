//! `farhop keys`: the key of this node, and the keys that it trusts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use farhop_proto::base::PublicKey;
use farhop_run::keys::{Entry, KeysStatus, Store, Told, Trust};
use farhop_run::lab;
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use serde::Serialize;
use strsim::levenshtein;

use super::{print_json, print_text};
use crate::{Failure, progress};

/// Black on white, regardless of the terminal's colours: few cameras read anything else.
const INK: &str = "\x1b[38;5;16;48;5;231m";
/// Resets to the terminal's own colours.
const PLAIN: &str = "\x1b[0m";
/// Most names of nodes that a message lists.
const LISTED: usize = 8;

/// Shows the public key of this node, creating it if needed, or changes which keys it trusts.
///
/// Two nodes accept each other's frames once each trusts the other's key. Changes take effect at
/// once in a running daemon that uses this folder.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    farhop keys                            on hill: its line, to be carried to valley\n  \
    farhop keys trust fh1-... --name hill  on valley: what was carried there\n  \
    farhop keys list\n  \
    farhop keys revoke hill                it is not heard any more, from now on\n\n\
The folder is /etc/farhop for root, else ~/.config/farhop, and in `farhop lab exec` that of the\n\
node; --keys names another.")]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    /// Folder of the keys.
    #[arg(long, value_name = "DIR", global = true)]
    keys: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Trusts the key of another node.
    #[command(after_help = "Examples:\n  \
        farhop keys trust fh1-... --name hill\n  \
        ssh hill farhop keys | head -n 1 | xargs farhop keys trust --name hill")]
    Trust {
        /// The key: the line that `farhop keys` prints on that node.
        line: PublicKey,
        /// The name of that node in scenario files.
        #[arg(long)]
        name: Option<String>,
        /// Trust the key even if it was revoked before.
        #[arg(long)]
        again: bool,
    },
    /// Lists the keys that were trusted or revoked here.
    #[command(after_help = "Examples:\n  \
        farhop keys list\n  \
        farhop keys list --json | jq '.[] | select(.state == \"added\").name'")]
    List,
    /// Revokes a key: from now on frames of its node are rejected.
    ///
    /// A running daemon that uses this folder applies it at once, any other one when it starts.
    /// Other nodes, and daemons with another folder, are not told: revoke the key there as well.
    #[command(after_help = "Examples:\n  \
        farhop keys revoke hill\n  \
        farhop keys revoke fh1-...")]
    Revoke {
        /// The node's name, its key line, or the key's fingerprint.
        #[arg(value_name = "NAME|LINE")]
        who: String,
    },
}

/// A key in JSON output.
#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    key: PublicKey,
    fingerprint: String,
    state: Trust,
    since: &'a str,
    /// Whether the running daemon uses this key for the node of this name; `null` if none runs.
    used: Option<bool>,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let store = match &options.keys {
        None if lab::is_inside() => Store::open(Some(&lab_keys()?))?,
        keys => Store::open(keys.as_deref())?,
    };
    match &options.command {
        None => show(options, &store),
        Some(Command::Trust { line, name, again }) => {
            let (entry, is_news) = store.trust(*line, name.as_deref(), *again)?;
            tell_trusted(options, &store, &entry, is_news)
        }
        Some(Command::List) => list(options, &store),
        Some(Command::Revoke { who }) => revoke(options, &store, who),
    }
}

/// The key folder of the lab node in which this runs, because the host's folder is not meant there.
fn lab_keys() -> Result<PathBuf, Failure> {
    lab::own_keys().filter(|folder| folder.is_dir()).ok_or_else(|| {
        let why = "this runs in the node of a lab, which has no keys: its frames are not protected";
        Failure::Failed(format!("{why}, or the lab is gone; --keys DIR names another folder"))
    })
}

fn show(options: &Options, store: &Store) -> Result<(), Failure> {
    let (identity, is_new) = store.own_or_new()?;
    if is_new {
        progress::tell(&format!("farhop: made a new key in {}", store.dir().display()));
    }
    let key = identity.public();
    let (fingerprint, folder) = (key.fingerprint(), store.dir().display());
    if options.json {
        return print_json(&serde_json::json!({
            "key": key, "fingerprint": fingerprint, "folder": folder.to_string(), "new": is_new,
        }));
    }
    print_text(&key.to_string())?;
    print_text(&format!("fingerprint {fingerprint}, key in {folder}"))?;
    if std::io::stdout().is_terminal() {
        print_text(&picture(&key))?;
    }
    Ok(())
}

/// The QR code of a key, for a terminal.
fn picture(key: &PublicKey) -> String {
    let code = QrCode::new(key.to_string()).expect("a key is far shorter than a code may be");
    let code = code.render::<Dense1x2>().build();
    let line = |line| format!("{INK}{line}{PLAIN}\n");
    code.lines().map(line).collect()
}

/// Tells the daemon and the user that a key is trusted.
fn tell_trusted(
    options: &Options,
    store: &Store,
    entry: &Entry,
    is_news: bool,
) -> Result<(), Failure> {
    let told = tell(store, entry)?;
    if options.json {
        return print_json(&row(entry, told.as_ref().map(|told| &told.keys)));
    }
    let word = if is_news { "trusted" } else { "trusted already" };
    print_text(&format!("{word}: {}{}", named(entry), holds(&told)))?;
    if let Some(note) = note(entry, told.as_ref().map(|told| &told.keys)) {
        print_text(&note)?;
    }
    Ok(())
}

fn revoke(options: &Options, store: &Store, who: &str) -> Result<(), Failure> {
    // Only the daemon knows the keys in the scenario. One that does not answer is reported below.
    let known = store.ask().ok().flatten();
    let is_blind = known.is_none();
    let known: BTreeMap<String, PublicKey> = known.map(|told| told.keys.nodes).unwrap_or_default();
    let (entry, is_news) = store.revoke(who, &known)?;
    let told = tell(store, &entry)?;
    if options.json {
        return print_json(&row(&entry, told.as_ref().map(|told| &told.keys)));
    }
    let word = if is_news { "revoked" } else { "revoked already" };
    print_text(&format!("{word}: {}{}", named(&entry), holds(&told)))?;
    if !is_news && is_blind && entry.name == who {
        print_text(&format!(
            "no daemon says which keys the scenario has: if it gives {who} another key, revoke \
             that one by its line or fingerprint"
        ))?;
    }
    print_text(
        "other nodes do not learn of it, nor daemons here with another folder (--keys): say it for \
         each that trusts it",
    )?;
    Ok(())
}

/// Tells the daemon that runs with these keys, if any, to read them again.
fn tell(store: &Store, entry: &Entry) -> Result<Option<Told>, Failure> {
    store.tell().map_err(|error| {
        let done = match entry.state {
            Trust::Added => "trusted",
            Trust::Revoked => "revoked",
        };
        Failure::Failed(format!(
            "{} is {done} in {}, but the daemon that runs with these keys did not take it and \
             keeps those it had: {error}; put that right and say it again, or start it anew",
            entry.name,
            store.trusted_file().display()
        ))
    })
}

/// The name and fingerprint of a key; only the fingerprint if it has no name.
fn named(entry: &Entry) -> String {
    let fingerprint = entry.key.fingerprint();
    if entry.name == fingerprint { fingerprint } else { format!("{}, {fingerprint}", entry.name) }
}

fn holds(told: &Option<Told>) -> String {
    match told {
        Some(told) => format!("; the daemon of '{}' knows", told.node),
        None => "; no daemon runs with these keys".into(),
    }
}

fn row<'a>(entry: &'a Entry, keys: Option<&KeysStatus>) -> Row<'a> {
    Row {
        name: &entry.name,
        key: entry.key,
        fingerprint: entry.key.fingerprint(),
        state: entry.state,
        since: &entry.since,
        used: keys.map(|keys| keys.nodes.get(&entry.name) == Some(&entry.key)),
    }
}

/// A note about a key that has no effect, or `None`.
fn note(entry: &Entry, keys: Option<&KeysStatus>) -> Option<String> {
    let has_no_name = entry.name == entry.key.fingerprint();
    let is_unused = keys.is_some_and(|keys| keys.unused.contains(&entry.name));
    if !has_no_name && !is_unused {
        return None;
    }
    let name = match keys.map(|keys| keys.missing.as_slice()) {
        Some([name]) => name,
        _ => "NODE",
    };
    let remedy = match keys {
        Some(keys) if !has_no_name && !keys.names.is_empty() => {
            format!("the others of the scenario are {}", nearest_first(&entry.name, &keys.names))
        }
        _ if has_no_name => format!("`farhop keys trust {} --name {name}` names it", entry.key),
        _ => "names are those in the scenario".into(),
    };
    let what = match has_no_name {
        true => "it has the name of no node".into(),
        false => format!("no node is called {}", entry.name),
    };
    Some(format!("{what}: {remedy}"))
}

/// The names of nodes, nearest to a mistyped word first.
fn nearest_first(word: &str, names: &[String]) -> String {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_by_key(|name| levenshtein(word, name));
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let listed = names.join(", ");
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}

fn list(options: &Options, store: &Store) -> Result<(), Failure> {
    let trusted = store.trusted()?;
    // The list is the same if the daemon does not answer.
    let told = store.ask().ok().flatten();
    let keys = told.as_ref().map(|told| &told.keys);
    if options.json {
        let rows: Vec<Row<'_>> = trusted.entries().map(|entry| row(entry, keys)).collect();
        return print_json(&rows);
    }
    let mut out = String::new();
    for entry in trusted.entries() {
        let state = match entry.state {
            Trust::Added => "added",
            Trust::Revoked => "REVOKED",
        };
        let fingerprint = entry.key.fingerprint();
        let name = if entry.name == fingerprint { "-" } else { &entry.name };
        let line = format!("{name:<20} {fingerprint} {state} {}", entry.since);
        let _ = writeln!(out, "{}", line.trim_end());
        if let Some(note) = note(entry, keys).filter(|_| entry.state == Trust::Added) {
            let _ = writeln!(out, "  {note}");
        }
    }
    if out.is_empty() {
        let folder = store.dir().display();
        let none = if store.dir().exists() { "" } else { ", which is not there yet" };
        out = format!(
            "no keys are trusted by {folder}{none}: `farhop keys trust LINE --name NODE`, or \
             `key` in a [[node]] of the scenario"
        );
    }
    print_text(out.trim_end())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_proto::base::Identity;

    fn key(byte: u8) -> PublicKey {
        Identity::from_secret([byte; 32]).public()
    }

    #[test]
    fn the_picture_is_a_square_that_fits_a_terminal() {
        let picture = picture(&key(1));
        let rows: Vec<&str> = picture.lines().collect();
        let signs = |row: &str| {
            let inner = row.strip_prefix(INK).and_then(|row| row.strip_suffix(PLAIN));
            inner.expect("colours of its own").chars().count()
        };
        let width = signs(rows[0]);
        assert!(rows.iter().all(|row| signs(row) == width));
        // A character shows two squares, one above the other; the last row may have only one.
        assert_eq!(rows.len(), width.div_ceil(2));
        assert!(width <= 80 && rows.len() <= 24, "{width} by {}", rows.len());
    }

    #[test]
    fn a_key_that_does_nothing_is_noted_with_the_name_that_it_should_have() {
        let entry = |name: &str| Entry {
            key: key(2),
            name: name.into(),
            state: Trust::Added,
            since: "2026-11-21".into(),
        };
        let keys = KeysStatus {
            folder: "/etc/farhop".into(),
            key: key(1),
            nodes: BTreeMap::new(),
            names: ["hill", "moor", "valley"].map(String::from).into(),
            missing: vec!["valley".into()],
            unused: vec![key(2).fingerprint(), "moon".into()],
            revoked: Vec::new(),
        };
        let said = note(&entry(&key(2).fingerprint()), Some(&keys)).expect("a note");
        assert!(said.contains(&format!("`farhop keys trust {} --name valley`", key(2))), "{said}");
        let said = note(&entry(&key(2).fingerprint()), None).expect("a note");
        assert!(said.contains("--name NODE"), "{said}");
        let said = note(&entry("moon"), Some(&keys)).expect("a note");
        let right = "no node is called moon: the others of the scenario are moor, hill, valley";
        assert_eq!(said, right);
        assert_eq!(note(&entry("valley"), Some(&keys)), None);
        assert_eq!(note(&entry("moon"), None), None, "no daemon says which names there are");
    }
}
