//! The file with the keys of others: one key per line. Comments in it are preserved.
//!
//! ```text
//! # the hill, from Anna by telephone
//! fh1-AAAA... hill added 2026-11-21
//! fh1-BBBB... valley revoked 2026-11-22
//! ```
//!
//! A revoked key stays in the file, so that it is refused even if a scenario names it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use farhop_proto::base::PublicKey;
use serde::{Deserialize, Serialize};

use super::KeysError;

/// Longest name of a node, in bytes.
const NAME_LENGTH: usize = 32;

/// The key of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: PublicKey,
    /// The node that has it; its fingerprint if no name was given.
    pub name: String,
    /// Whether it is trusted.
    pub state: Trust,
    /// Since which day, as `2026-11-21`, for people to read; empty in a line written by hand
    /// without it.
    pub since: String,
}

/// Whether a key is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// It is trusted.
    Added,
    /// It is refused, even if a scenario names it.
    Revoked,
}

impl Trust {
    fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Revoked => "revoked",
        }
    }
}

/// The contents of the file.
#[derive(Clone, Debug, Default)]
pub struct Trusted {
    lines: Vec<Line>,
}

#[derive(Clone, Debug)]
enum Line {
    Entry { entry: Entry, comment: String },
    Other(String),
}

impl Trusted {
    /// Reads the file; `path` is for messages.
    ///
    /// Fails at an invalid line, a key that occurs twice, or a name with two trusted keys.
    pub fn parse(path: &Path, text: &str) -> Result<Self, KeysError> {
        let mut found = Self::default();
        for (index, line) in text.lines().enumerate() {
            let refuse = |reason| KeysError::Line { path: path.into(), line: index + 1, reason };
            let line = Line::parse(line).map_err(refuse)?;
            if let Line::Entry { entry, .. } = &line {
                found.check(entry).map_err(|error| refuse(error.to_string()))?;
            }
            found.lines.push(line);
        }
        Ok(found)
    }

    fn check(&self, new: &Entry) -> Result<(), KeysError> {
        for old in self.entries() {
            if old.key == new.key {
                return Err(key_twice(old, &new.name));
            }
            let both = [old.state, new.state] == [Trust::Added; 2];
            if both && old.name == new.name {
                return Err(name_twice(old, &new.key));
            }
        }
        Ok(())
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let line = |line: &Line| match line {
            Line::Other(text) => format!("{text}\n"),
            Line::Entry { entry: Entry { key, name, state, since }, comment } => {
                let text = format!("{key} {name} {} {since}", state.word());
                format!("{} {comment}", text.trim_end()).trim_end().to_owned() + "\n"
            }
        };
        self.lines.iter().map(line).collect()
    }

    /// All keys, in the order of the file.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.lines.iter().filter_map(|line| match line {
            Line::Entry { entry, .. } => Some(entry),
            Line::Other(_) => None,
        })
    }

    /// The trusted keys.
    pub fn added(&self) -> impl Iterator<Item = &Entry> {
        self.entries().filter(|entry| entry.state == Trust::Added)
    }

    /// Whether a key is refused, even if a scenario names it.
    pub fn is_revoked(&self, key: &PublicKey) -> bool {
        self.entries().any(|entry| entry.key == *key && entry.state == Trust::Revoked)
    }

    /// Trusts a key, under a name if one is given; a revoked key only if `again`. Returns its
    /// entry, and whether anything changed.
    ///
    /// Fails if the key was revoked, has another name, or the name has another key.
    pub(super) fn trust(
        &mut self,
        key: PublicKey,
        name: Option<&str>,
        again: bool,
    ) -> Result<(Entry, bool), KeysError> {
        let own_name = key.fingerprint();
        let old = self.entries().find(|entry| entry.key == key).cloned();
        if let Some(old) = old.as_ref().filter(|old| old.state == Trust::Revoked && !again) {
            let (name, since) = (old.name.clone(), old.since.clone());
            return Err(KeysError::WasRevoked { fingerprint: own_name, name, since });
        }
        let kept = old.as_ref().map_or(own_name.as_str(), |entry| &entry.name);
        let name = name.unwrap_or(kept).to_owned();
        check_name(&name)?;
        if let Some(other) = self.added().find(|entry| entry.name == name && entry.key != key) {
            return Err(name_twice(other, &key));
        }
        let mut new = Entry { key, name, state: Trust::Added, since: today() };
        match old {
            Some(old) if old.state == Trust::Revoked => {}
            Some(old) if old.name == new.name => return Ok((old, false)),
            Some(old) if old.name != own_name => return Err(key_twice(&old, &new.name)),
            Some(old) => new.since = old.since,
            None => {}
        }
        self.put(new.clone());
        Ok((new, true))
    }

    /// Replaces the entry of this key, or appends one.
    fn put(&mut self, new: Entry) {
        let old = self.lines.iter_mut().find_map(|line| match line {
            Line::Entry { entry, .. } if entry.key == new.key => Some(entry),
            _ => None,
        });
        match old {
            Some(old) => *old = new,
            None => self.lines.push(Line::Entry { entry: new, comment: String::new() }),
        }
    }

    /// Revokes the key with this name, line or fingerprint. `known` are keys, by name, that a
    /// daemon has from elsewhere. Returns the entry, and whether anything changed.
    ///
    /// Fails if no such key is known.
    pub(super) fn revoke(
        &mut self,
        who: &str,
        known: &BTreeMap<String, PublicKey>,
    ) -> Result<(Entry, bool), KeysError> {
        let is_it = |key: &PublicKey, name: &str| {
            name == who || key.fingerprint() == who || who.parse() == Ok(*key)
        };
        let unknown = || KeysError::Unknown { who: who.into() };
        let here = self.added().find(|entry| is_it(&entry.key, &entry.name));
        let elsewhere = known.iter().find(|(name, key)| is_it(key, name));
        let elsewhere = elsewhere.map(|(name, key)| (*key, name.clone()));
        let gone = self.entries().find(|entry| is_it(&entry.key, &entry.name));
        let (key, name) = here
            .map(|entry| (entry.key, entry.name.clone()))
            .or(elsewhere)
            .or_else(|| gone.map(|entry| (entry.key, entry.name.clone())))
            .or_else(|| who.parse().ok().map(|key: PublicKey| (key, key.fingerprint())))
            .ok_or_else(unknown)?;
        let old = self.entries().find(|entry| entry.key == key);
        if let Some(old) = old.filter(|entry| entry.state == Trust::Revoked) {
            return Ok((old.clone(), false));
        }
        let revoked = Entry { key, name, state: Trust::Revoked, since: today() };
        self.put(revoked.clone());
        Ok((revoked, true))
    }
}

impl Line {
    fn parse(line: &str) -> Result<Self, String> {
        let (text, comment) = match line.find('#') {
            Some(at) => line.split_at(at),
            None => (line, ""),
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let Some((key, rest)) = words.split_first() else { return Ok(Self::Other(line.into())) };
        let key: PublicKey = key.parse().map_err(|error| format!("{error}"))?;
        let (name, state, since) = match rest {
            [] => (key.fingerprint(), Trust::Added, ""),
            [name] | [name, "added"] => ((*name).into(), Trust::Added, ""),
            [name, "added", since] => ((*name).into(), Trust::Added, *since),
            [name, "revoked"] => ((*name).into(), Trust::Revoked, ""),
            [name, "revoked", since] => ((*name).into(), Trust::Revoked, *since),
            _ => return Err("right would be: KEY NAME added DATE, or a comment behind #".into()),
        };
        check_name(&name).map_err(|error| error.to_string())?;
        let entry = Entry { key, name, state, since: since.into() };
        Ok(Self::Entry { entry, comment: comment.trim_end().into() })
    }
}

fn check_name(name: &str) -> Result<(), KeysError> {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || sign == '-';
    if name.is_empty() || name.len() > NAME_LENGTH || !name.chars().all(plain) {
        return Err(KeysError::Name { name: name.into() });
    }
    Ok(())
}

fn key_twice(old: &Entry, other: &str) -> KeysError {
    let fingerprint = old.key.fingerprint();
    KeysError::KeyTwice { fingerprint, name: old.name.clone(), other: other.into() }
}

fn name_twice(old: &Entry, other: &PublicKey) -> KeysError {
    KeysError::NameTwice {
        name: old.name.clone(),
        fingerprint: old.key.fingerprint(),
        other: other.fingerprint(),
    }
}

/// The day in UTC, as `2026-11-21`.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// A day counted from 1970-01-01, in the Gregorian calendar.
fn date(mut day: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_proto::base::Identity;

    fn key(byte: u8) -> PublicKey {
        Identity::from_secret([byte; 32]).public()
    }

    fn parse(text: &str) -> Result<Trusted, KeysError> {
        Trusted::parse(Path::new("trusted"), text)
    }

    #[test]
    fn comments_and_the_order_of_lines_survive_a_change() {
        let (hill, peak) = (key(1), key(2));
        let text = format!("# ours\n\n{hill} hill added 2026-11-20 # by telephone\n# end\n");
        let mut trusted = parse(&text).expect("a good file");
        assert_eq!(trusted.text(), text);
        let (entry, is_news) = trusted.trust(peak, Some("peak"), false).expect("a new key");
        assert!(is_news);
        assert_eq!(trusted.text(), format!("{text}{peak} peak added {}\n", entry.since));
        trusted.revoke("hill", &BTreeMap::new()).expect("it is there");
        assert!(trusted.text().contains(&format!("{hill} hill revoked {}", entry.since)));
        assert!(trusted.text().contains(" # by telephone\n# end\n"));
    }

    #[test]
    fn what_was_written_by_hand_can_be_read_after_a_change() {
        let lines = ["", " hill", " hill added", " hill added 2026-11-20", " hill revoked"];
        for line in lines.iter().flat_map(|line| [line.to_string(), format!("{line} # ours")]) {
            let mut trusted = parse(&format!("{}{line}\n", key(1))).expect("a good line");
            let before: Vec<Entry> = trusted.entries().cloned().collect();
            trusted.trust(key(2), Some("peak"), false).expect("a new key");
            let after = parse(&trusted.text()).expect("its own text");
            assert_eq!(after.entries().take(1).cloned().collect::<Vec<_>>(), before, "{line}");
            assert_eq!(after.text(), trusted.text());
        }
    }

    #[test]
    fn a_key_without_a_name_has_its_fingerprint_until_it_gets_one() {
        let mut trusted = Trusted::default();
        let (entry, _) = trusted.trust(key(1), None, false).expect("a new key");
        assert_eq!(entry.name, key(1).fingerprint());
        assert!(!trusted.trust(key(1), None, false).expect("again").1);
        let (entry, is_news) = trusted.trust(key(1), Some("hill"), false).expect("a name");
        assert_eq!((entry.name.as_str(), is_news), ("hill", true));
        assert!(!trusted.trust(key(1), None, false).expect("it has a name").1);
    }

    #[test]
    fn one_name_has_one_key_and_one_key_one_name() {
        let mut trusted = Trusted::default();
        trusted.trust(key(1), Some("hill"), false).expect("a new key");
        let error = trusted.trust(key(2), Some("hill"), false).expect_err("a second key");
        assert!(error.to_string().contains("`farhop keys revoke hill` first"), "{error}");
        let error = trusted.trust(key(1), Some("peak"), false).expect_err("a second name");
        assert!(error.to_string().contains("two names, 'hill' and 'peak'"), "{error}");
        trusted.revoke("hill", &BTreeMap::new()).expect("it is there");
        trusted.trust(key(2), Some("hill"), false).expect("the new key of the node");
        assert!(trusted.is_revoked(&key(1)) && !trusted.is_revoked(&key(2)));
        let error = trusted.trust(key(1), None, true).expect_err("its name has passed on");
        assert!(matches!(error, KeysError::NameTwice { .. }), "{error}");
    }

    #[test]
    fn a_key_that_was_revoked_is_trusted_again_only_where_that_is_meant() {
        let mut trusted = Trusted::default();
        trusted.trust(key(1), Some("hill"), true).expect("a new key");
        trusted.revoke("hill", &BTreeMap::new()).expect("it is there");
        let before = trusted.text();
        for name in [None, Some("hill"), Some("peak")] {
            let said = trusted.trust(key(1), name, false).expect_err("revoked").to_string();
            let what =
                format!("the key {} of 'hill' was revoked on {}", key(1).fingerprint(), today());
            assert!(said.starts_with(&what) && said.contains("--again"), "{said}");
        }
        assert_eq!(trusted.text(), before);
        let (entry, is_news) = trusted.trust(key(1), None, true).expect("it is meant");
        assert_eq!((entry.name.as_str(), is_news), ("hill", true));
        assert!(!trusted.is_revoked(&key(1)));
        let mut trusted =
            parse(&format!("{} {} revoked", key(2), key(2).fingerprint())).expect("good");
        let said = trusted.trust(key(2), None, false).expect_err("revoked").to_string();
        assert!(
            said.starts_with(&format!("the key {} was revoked: ", key(2).fingerprint())),
            "{said}"
        );
    }

    #[test]
    fn what_only_a_scenario_names_can_be_revoked() {
        let mut trusted = Trusted::default();
        let known = BTreeMap::from([("hill".to_owned(), key(1))]);
        let error = trusted.revoke("peak", &known).expect_err("nobody");
        assert!(error.to_string().contains("'peak'"), "{error}");
        let (entry, is_news) = trusted.revoke("hill", &known).expect("a node of the daemon");
        assert_eq!((entry.key, is_news), (key(1), true));
        assert!(!trusted.revoke(&key(1).to_string(), &known).expect("it is revoked").1);
        let (entry, _) = trusted.revoke(&key(3).to_string(), &known).expect("any key");
        assert_eq!(entry.name, key(3).fingerprint());
        assert_eq!(trusted.added().count(), 0);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let (hill, peak) = (key(1), key(2));
        for (text, line, reason) in [
            ("hello".to_owned(), 1, "not a public key"),
            (format!("# one\n{}", &hill.to_string()[..40]), 2, "cut short"),
            (format!("{hill} hill since 2026-11-21"), 1, "right would be"),
            (format!("{hill} hill/peak"), 1, "not the name of a node"),
            (format!("{hill} hill\n{hill} peak\n"), 2, "two names"),
            (format!("{hill} hill\n\n{peak} hill\n"), 3, "has the key"),
        ] {
            let error = parse(&text).expect_err(&text).to_string();
            assert!(error.starts_with(&format!("trusted, line {line}: ")), "{error}");
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn days_have_their_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_778), "2026-11-21");
        assert_eq!(date(20_818), "2026-12-31");
    }
}
