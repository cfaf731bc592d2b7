//! Selects the running daemons that a command asks.

use std::path::{Path, PathBuf};

use farhop_run::daemon::{self, runtime_dirs};
use farhop_run::lab::{self, LabState};
use serde_json::Value;

use crate::Failure;
use crate::progress::tell;

/// Which daemons to ask. By default all on this host, or within `farhop lab exec` only that of the
/// lab's node; there a name alone selects a node of the same lab.
#[derive(Clone, Copy, Default)]
pub(super) struct Wanted<'a> {
    /// Only the daemon of this node.
    pub(super) node: Option<&'a str>,
    /// Only daemons of the lab with this id or scenario name.
    pub(super) lab: Option<&'a str>,
    /// Only daemons with control sockets in this folder; by default in the usual folders and in
    /// labs.
    pub(super) runtime_dir: Option<&'a Path>,
}

impl<'a> Wanted<'a> {
    /// The same selection, narrowed to the lab and node in which this runs, if it runs in one.
    fn within(self, inside: Option<&'a (LabState, String)>) -> Self {
        let Some((lab, _)) = inside else { return self };
        Self { lab: Some(&lab.id), node: self.node.or(own_node(inside)), ..self }
    }
}

/// Whether a single node's daemon is asked.
pub(super) fn is_of_one(wanted: Wanted<'_>) -> bool {
    wanted.node.is_some() || own_node(inside(wanted).as_ref()).is_some()
}

/// The control socket of the only selected daemon; fails if there is none, or several.
pub(super) fn only(wanted: Wanted<'_>) -> Result<PathBuf, Failure> {
    let mut running = running(wanted)?;
    if running.len() > 1 {
        let mut names: Vec<&str> = running.iter().map(|daemon| daemon.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() == 1 {
            let dirs = running.iter().filter_map(|daemon| daemon.path.parent());
            let dirs: Vec<String> = dirs.map(|dir| dir.display().to_string()).collect();
            let (name, dirs) = (names[0], dirs.join(", "));
            return Err(Failure::input(format!(
                "several daemons are called '{name}': choose by --runtime-dir: {dirs}"
            )));
        }
        let names = names.join(", ");
        return Err(Failure::input(format!("several daemons run here: choose by --node: {names}")));
    }
    Ok(running.remove(0).path)
}

/// The status of each selected daemon that answers; reports the others. Fails if none answers.
pub(super) fn statuses(wanted: Wanted<'_>) -> Result<Vec<Value>, Failure> {
    let (statuses, silent) = statuses_and_silent(wanted)?;
    silent.iter().for_each(|silent| tell(&format!("farhop: {silent}")));
    Ok(statuses)
}

/// The same, with the messages about the others, for those who draw a screen.
pub(super) fn statuses_and_silent(
    wanted: Wanted<'_>,
) -> Result<(Vec<Value>, Vec<String>), Failure> {
    let (mut statuses, mut failed) = (Vec::new(), Vec::new());
    for daemon in running(wanted)? {
        match daemon::query(&daemon.path) {
            Ok(mut status) => {
                if let (Some(lab), Some(status)) = (lab_of(&daemon.path), status.as_object_mut()) {
                    status.insert("lab".into(), lab.into());
                }
                statuses.push(status);
            }
            Err(error) => failed.push(format!("{} does not answer: {error}", daemon.name)),
        }
    }
    if statuses.is_empty() {
        return Err(Failure::Failed(failed.join("; ")));
    }
    // A daemon that hangs does not hide the others.
    Ok((statuses, failed))
}

/// Reports daemons that ended without removing their socket, for example because they were killed.
pub(super) fn tell_of_dead(wanted: Wanted<'_>) {
    let inside = inside(wanted);
    let wanted = wanted.within(inside.as_ref());
    let left = dirs(wanted).into_iter().flat_map(|dir| daemon::left(&dir));
    for daemon in left.filter(|daemon| wanted.node.is_none_or(|node| daemon.name == node)) {
        let (name, path) = (&daemon.name, daemon.path.display());
        tell(&format!(
            "farhop: the daemon of '{name}' was killed, or crashed; its socket is {path}"
        ));
    }
}

/// The lab of the daemon behind a control socket, or `None` if it is in no lab.
fn lab_of(socket: &Path) -> Option<&str> {
    let dir = socket.parent()?;
    dir.file_name()?.to_str().filter(|_| dir.parent() == Some(&*lab::labs_dir()))
}

/// The lab, and the name in it, of the `farhop lab exec` in which this runs; `None` outside, or if
/// the selection names another place.
fn inside(wanted: Wanted<'_>) -> Option<(LabState, String)> {
    let has_place = wanted.lab.is_some() || wanted.runtime_dir.is_some();
    lab::own().filter(|_| !has_place)
}

/// The lab node in which this runs. `@air` is none: what runs there sees all nodes.
fn own_node(inside: Option<&(LabState, String)>) -> Option<&str> {
    let name = inside.map(|(_, name)| name.as_str());
    name.filter(|name| !name.starts_with('@'))
}

/// The selected daemons that are running; fails if there is none.
fn running(wanted: Wanted<'_>) -> Result<Vec<daemon::Running>, Failure> {
    let (inside, is_named) = (inside(wanted), wanted.node.is_some());
    let wanted = wanted.within(inside.as_ref());
    let dirs = dirs(wanted);
    let mut running: Vec<_> = dirs.iter().flat_map(|dir| daemon::list(dir)).collect();
    // The air of a lab has a control socket too, but is no node.
    running.retain(|daemon| !daemon.name.starts_with('@'));
    let mut names: Vec<String> = running.iter().map(|daemon| daemon.name.clone()).collect();
    names.sort_unstable();
    names.dedup();
    if let Some(node) = wanted.node {
        running.retain(|daemon| daemon.name == node);
    }
    if running.is_empty() {
        if let (Some(name), None) = (wanted.lab, &inside) {
            lab::find(Some(name))?;
        }
        let gone = |node| labs(wanted).find_map(|lab| lab.gone(node));
        if let Some(gone) = wanted.node.and_then(gone) {
            return Err(Failure::Failed(gone));
        }
        let who = wanted.node.map_or("no daemon".into(), |node| format!("no daemon for '{node}'"));
        let place = wanted.lab.map_or(String::new(), |lab| format!(" in the lab '{lab}'"));
        let mut barred = dirs.iter().flat_map(|dir| daemon::barred(dir));
        if let Some(path) = barred.next() {
            return Err(Failure::Failed(format!(
                "{who}{place} is running that you may ask; what is in {} is another user's, and a \
                 daemon answers its own user and root: take that user, or `sudo farhop ...`",
                path.display()
            )));
        }
        if !names.is_empty() {
            let what = format!("{who}{place} is running; there are {}", names.join(", "));
            return Err(if is_named { Failure::input(what) } else { Failure::Failed(what) });
        }
        if let (Some(dir), None) = (wanted.runtime_dir, wanted.lab) {
            let dir = dir.display();
            return Err(Failure::Failed(format!("{who} is running that has its socket in {dir}")));
        }
        return Err(Failure::Failed(format!(
            "{who}{place} is running: start one with `farhop up FILE --node NAME` or \
             `farhop lab FILE --keep`{}",
            lab::but_foreign()
        )));
    }
    Ok(running)
}

/// The selected labs that are up.
fn labs(wanted: Wanted<'_>) -> impl Iterator<Item = LabState> {
    let is_wanted =
        move |lab: &LabState| wanted.lab.is_none_or(|name| lab.id == name || lab.scenario == name);
    let is_elsewhere = wanted.runtime_dir.is_some() && wanted.lab.is_none();
    let labs = if is_elsewhere { Vec::new() } else { lab::list() };
    labs.into_iter().filter(LabState::is_alive).filter(is_wanted)
}

/// The folders with the control sockets of the selected daemons.
fn dirs(wanted: Wanted<'_>) -> Vec<PathBuf> {
    let labs = labs(wanted);
    let own = wanted.runtime_dir.map_or_else(runtime_dirs, |dir| vec![dir.to_owned()]);
    let own = if wanted.lab.is_none() { own } else { Vec::new() };
    own.into_iter().chain(labs.map(|lab| lab.dir())).collect()
}

/// Fails unless this is another node in the scenario of the daemon with this status. The status of
/// an older daemon names no nodes; that daemon refuses wrong ones itself.
pub(super) fn check_node(node: &str, status: &Value) -> Result<(), Failure> {
    let names = status["names"].as_object().into_iter().flatten();
    let mut names: Vec<(u64, &str)> =
        names.filter_map(|(number, name)| Some((number.parse().ok()?, name.as_str()?))).collect();
    names.sort_unstable();
    let names: Vec<&str> = names.into_iter().map(|(_, name)| name).collect();
    if !names.is_empty() && !names.contains(&node) {
        let known = names.join(", ");
        return Err(Failure::input(format!("no node '{node}' in the scenario; it has {known}")));
    }
    if status["name"] == node {
        return Err(Failure::input(format!("'{node}' is this node")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_sent_goes_to_another_node_of_the_scenario() {
        let status = json!({ "name": "a", "names": { "1": "a", "2": "b", "10": "c" } });
        let said = |node: &str| match check_node(node, &status) {
            Err(Failure::Input(why)) => why.to_string(),
            Err(_) => "another failure".into(),
            Ok(()) => String::new(),
        };
        assert_eq!(said("b"), "");
        assert_eq!(said("d"), "no node 'd' in the scenario; it has a, b, c");
        assert_eq!(said("a"), "'a' is this node");
        assert!(check_node("d", &json!({})).is_ok());
    }
}
