//! The recorded state of labs, by which other programs find them, and by which nothing is left
//! over.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use serde::{Deserialize, Serialize};

use super::foreign::but_foreign;
use super::{Doing as _, LabError, labs_dir};
use crate::daemon;
use crate::device::os;

/// File with the state, in the folder of a lab.
const STATE_FILE: &str = "lab.json";
const NEW_STATE_FILE: &str = "lab.json.new";
/// A lab is recorded as soon as it has a folder: a folder without a record is removed after this
/// time.
const UNBORN: StdDuration = StdDuration::from_secs(60);
/// File with the scenario, in the folder of a lab.
pub(super) const SCENARIO_FILE: &str = "scenario.json";

/// A process, identified by its id and its start time, since ids are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Start time, in clock ticks after boot.
    pub started: u64,
}

/// The network namespace of a node.
///
/// Inode numbers are used again once a namespace is gone, cookies never are. A process in a
/// namespace with this inode belongs to the lab only if the cookie is the same too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Inode number of the namespace.
    pub inode: u64,
    /// The kernel's cookie of it; `None` before Linux 5.14.
    pub cookie: Option<u64>,
}

/// The recorded state of a lab.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabState {
    /// Id of the lab.
    pub id: String,
    /// Name of the scenario.
    pub scenario: String,
    /// The process that holds the lab.
    pub holder: Process,
    /// The process of the air.
    pub air: Option<Process>,
    /// Names and processes of the nodes, in the order of the scenario.
    pub nodes: Vec<(String, Process)>,
    /// The network namespaces of the nodes.
    #[serde(default)]
    pub namespaces: Vec<Namespace>,
    /// Whether the lab was built and its links are in step.
    pub ready: bool,
    /// Whether its flows are done, and it stays until it is taken down.
    #[serde(default)]
    pub kept: bool,
}

impl Namespace {
    /// The network namespace of this thread.
    pub(super) fn own() -> io::Result<Self> {
        let inode = fs::metadata("/proc/thread-self/ns/net")?.ino();
        let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
        Ok(Self { inode, cookie: os::namespace_cookie(socket.as_fd()) })
    }
}

impl Process {
    /// The process that has this id now.
    pub fn find(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may have any characters; field 22 is the 20th after it.
        let fields = stat.rsplit_once(") ")?.1;
        let mut fields = fields.split_ascii_whitespace();
        if fields.next()? == "Z" {
            return None;
        }
        Some(Self { pid, started: fields.nth(18)?.parse().ok()? })
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        Self::find(self.pid) == Some(*self)
    }
}

impl LabState {
    /// The folder of the lab.
    pub fn dir(&self) -> PathBuf {
        labs_dir().join(&self.id)
    }

    /// Whether the process that holds the lab still runs.
    pub fn is_alive(&self) -> bool {
        self.holder.is_alive()
    }

    /// The nodes whose processes have ended without being stopped, and the air as `@air`. Empty
    /// while the lab is being built, and if its holder is dead.
    pub fn died(&self) -> Vec<&str> {
        let mut died = self.ended();
        died.retain(|name| !self.is_stopped(name));
        died
    }

    /// The nodes that were stopped.
    pub fn stopped(&self) -> Vec<&str> {
        let mut stopped = self.ended();
        stopped.retain(|name| self.is_stopped(name));
        stopped
    }

    fn ended(&self) -> Vec<&str> {
        if !self.ready || !self.is_alive() {
            return Vec::new();
        }
        let nodes = self.nodes.iter().map(|(name, process)| (name.as_str(), process));
        let all = nodes.chain(self.air.iter().map(|air| (super::children::AIR, air)));
        all.filter(|(_, process)| !process.is_alive()).map(|(name, _)| name).collect()
    }

    /// Whether a node was stopped, and not started since.
    pub(super) fn is_stopped(&self, node: &str) -> bool {
        stop_file(&self.dir(), node).exists()
    }

    /// The message about a node whose process has ended, with how it comes back; `None` if it runs,
    /// or the lab has no such node.
    pub fn gone(&self, node: &str) -> Option<String> {
        self.occupant(node).filter(|process| !process.is_alive())?;
        let (id, is_node) = (&self.id, node != super::children::AIR);
        let what = match (is_node && self.kept, self.is_stopped(node)) {
            (true, true) => {
                format!("is stopped: `farhop lab start --lab {id} {node}` starts it again")
            }
            (true, false) => format!(
                "has died and is started again: try once more in a second, or see {}",
                self.dir().join(format!("{node}.log")).display()
            ),
            _ => format!("has died: only a new lab has it again, after `farhop lab down {id}`"),
        };
        Some(format!("'{node}' of lab '{id}' {what}"))
    }

    /// The mark in the environment of all processes of this lab. The id alone would not do: there
    /// may be a lab with the same id in another runtime folder.
    pub(super) fn mark(&self) -> String {
        format!("{}@{}.{}", self.id, self.holder.pid, self.holder.started)
    }

    /// The error for a node that the lab does not have.
    pub(super) fn no_node(&self, node: &str) -> LabError {
        let names: Vec<&str> = self.nodes.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(", ");
        LabError::Unknown(format!("no node '{node}' in lab '{}'; it has {names}", self.id))
    }

    /// The process of a node, or of the air as `@air`.
    pub fn occupant(&self, name: &str) -> Option<Process> {
        let node = self.nodes.iter().find(|(node, _)| node == name).map(|(_, process)| *process);
        node.or(self.air.filter(|_| name == super::children::AIR))
    }

    /// The network of a node; `None` for the air and while the lab is being built.
    pub(super) fn network_of(&self, node: &str) -> Option<&Namespace> {
        self.namespaces.get(self.nodes.iter().position(|(name, _)| name == node)?)
    }

    /// Writes the record, completely or not at all.
    pub(super) fn save(&self) -> Result<(), LabError> {
        let dir = self.dir();
        let text = serde_json::to_vec_pretty(self).map_err(io::Error::other).doing("lab.json")?;
        let new = dir.join(NEW_STATE_FILE);
        fs::write(&new, text).doing(new.display().to_string())?;
        fs::rename(&new, dir.join(STATE_FILE)).doing(dir.display().to_string())
    }

    /// Reads the record in a folder.
    pub(super) fn load(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(STATE_FILE)).ok()?).ok()
    }
}

/// The file that exists while a node is stopped.
pub(super) fn stop_file(dir: &Path, node: &str) -> PathBuf {
    dir.join(format!("{node}.stopped"))
}

/// All labs that are recorded, running or left over, sorted by id. Records of other users do not
/// count.
pub fn list() -> Vec<LabState> {
    let mut labs = list_in(&labs_dir());
    labs.sort_by(|a, b| a.id.cmp(&b.id));
    labs
}

fn list_in(dir: &Path) -> Vec<LabState> {
    let is_ours = [Some(dir), dir.parent()].into_iter().flatten().all(daemon::is_ours);
    let entries = fs::read_dir(dir).ok().filter(|_| is_ours).into_iter().flatten().flatten();
    // The id must be the name of the folder, not a path elsewhere: `down` deletes what it names.
    let lab = |entry: fs::DirEntry| {
        let lab = LabState::load(&entry.path()).filter(|_| daemon::is_ours(&entry.path()))?;
        (entry.file_name().to_str() == Some(&lab.id)).then_some(lab)
    };
    entries.filter_map(lab).collect()
}

/// Removes folders of labs that ended before they were recorded.
pub(super) fn remove_unborn() {
    remove_unborn_in(&labs_dir(), UNBORN);
}

fn remove_unborn_in(dir: &Path, age: StdDuration) {
    let is_ours = [Some(dir), dir.parent()].into_iter().flatten().all(daemon::is_ours);
    let entries = fs::read_dir(dir).ok().filter(|_| is_ours).into_iter().flatten().flatten();
    for entry in entries {
        let path = entry.path();
        let born = entry.metadata().and_then(|data| data.modified()).ok();
        let is_old = born.and_then(|at| at.elapsed().ok()).is_some_and(|passed| passed >= age);
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !(is_old && is_folder && daemon::is_ours(&path)) {
            continue;
        }
        let mut inside = fs::read_dir(&path).into_iter().flatten().flatten();
        // A folder with other files is not of this kind.
        if inside.all(|file| file.file_name() == NEW_STATE_FILE) {
            let _ = fs::remove_file(path.join(NEW_STATE_FILE));
            let _ = fs::remove_dir(&path);
        }
    }
}

/// The running lab with this id or of this scenario; without a name the only running one.
pub fn find(name: Option<&str>) -> Result<LabState, LabError> {
    choose(list().into_iter().filter(LabState::is_alive).collect(), name, None)
}

/// The running lab that has this id or scenario, and this node. Without a name, the only one that
/// has the node.
pub fn find_with_node(name: Option<&str>, node: &str) -> Result<LabState, LabError> {
    choose(list().into_iter().filter(LabState::is_alive).collect(), name, Some(node))
}

/// The labs with this id, else those of this scenario; all labs without a name.
pub(super) fn named(labs: Vec<LabState>, name: Option<&str>) -> Vec<LabState> {
    let is_id = labs.iter().any(|lab| Some(lab.id.as_str()) == name);
    let is_named =
        |lab: &LabState| name.is_none_or(|name| lab.id == name || !is_id && lab.scenario == name);
    labs.into_iter().filter(is_named).collect()
}

fn choose(
    running: Vec<LabState>,
    name: Option<&str>,
    node: Option<&str>,
) -> Result<LabState, LabError> {
    if running.is_empty() && name.is_none() {
        let why = "no lab of this user is running: start one with `farhop lab FILE --keep`";
        return Err(LabError::NotFound(why.to_owned() + &but_foreign()));
    }
    let known = ids(&running);
    let mut named = named(running, name);
    if let (true, Some(name)) = (named.is_empty(), name) {
        let why = format!("no lab '{name}' is running; running: {known}");
        return Err(LabError::Unknown(why + &but_foreign()));
    }
    // If there is only one lab, it reports itself which nodes it has.
    if let (true, Some(node)) = (named.len() > 1, node) {
        let all = ids(&named);
        named.retain(|lab| lab.occupant(node).is_some());
        if named.is_empty() {
            return Err(LabError::Unknown(format!("no node '{node}' in the labs {all}")));
        }
    }
    refuse_several(&named, "name one with --lab, by its id")?;
    Ok(named.remove(0))
}

/// Fails if there are several labs where only one can be meant; `remedy` says how to name it.
pub(super) fn refuse_several(labs: &[LabState], remedy: &str) -> Result<(), LabError> {
    match labs {
        [] | [_] => Ok(()),
        labs => {
            let known = ids(labs);
            Err(LabError::Unknown(format!("several labs are running: {known}; {remedy}")))
        }
    }
}

/// The ids of labs, for messages.
fn ids(labs: &[LabState]) -> String {
    let ids: Vec<&str> = labs.iter().map(|lab| lab.id.as_str()).collect();
    if ids.is_empty() { "none".into() } else { ids.join(", ") }
}

/// Makes the folder of a new lab, with an id that no other lab has.
pub(super) fn new_dir(scenario: &str) -> Result<(String, PathBuf), LabError> {
    let labs = labs_dir();
    make_private(&labs).doing(labs.display().to_string())?;
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = scenario.chars().take(24).map(plain).collect();
    // An id that begins with a dash would look like an option.
    let name = match name.trim_matches('-') {
        "" => "lab",
        name => name,
    };
    for number in 1..10_000 {
        let id = format!("{name}-{number}");
        let dir = labs.join(&id);
        match fs::create_dir(&dir) {
            Ok(()) => return Ok((id, dir)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).doing(dir.display().to_string()),
        }
    }
    Err(LabError::NotFound(
        "no free name for a lab: remove old ones with `farhop lab down --all`".into(),
    ))
}

/// Makes a folder for this user alone; refuses one that another user may have prepared.
fn make_private(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    for part in [Some(dir), dir.parent()].into_iter().flatten() {
        if !daemon::is_ours(part) {
            let reason = format!("{} belongs to another user", part.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_is_known_by_its_id_its_scenario_or_a_node_that_it_alone_has() {
        let process = Process { pid: 1, started: 1 };
        let lab = |id: &str, scenario: &str, node: &str| LabState {
            id: id.into(),
            scenario: scenario.into(),
            holder: process,
            air: None,
            nodes: vec![(node.into(), process), ("both".into(), process)],
            namespaces: Vec::new(),
            ready: true,
            kept: false,
        };
        let labs = [lab("a-1", "a", "hill"), lab("a-2", "a", "moon"), lab("b-1", "b", "valley")];
        let find = |name, node| choose(labs.to_vec(), name, node).map(|lab| lab.id).ok();
        assert_eq!(find(Some("a-2"), Some("hill")).as_deref(), Some("a-2"));
        assert_eq!(find(Some("b"), None).as_deref(), Some("b-1"));
        assert_eq!(find(Some("a"), Some("moon")).as_deref(), Some("a-2"));
        assert_eq!(find(None, Some("valley")).as_deref(), Some("b-1"));
        let none = [(Some("a"), None), (None, Some("both")), (None, None), (Some("c"), None)];
        assert!(none.into_iter().all(|(name, node)| find(name, node).is_none()));
        assert!(refuse_several(&[], "").is_ok() && refuse_several(&labs[..1], "").is_ok());
        let said = refuse_several(&labs[1..], "say --all").expect_err("two labs").to_string();
        assert_eq!(said, "several labs are running: a-2, b-1; say --all");
        let named = |name| ids(&named(labs.to_vec(), name));
        assert_eq!([Some("a-2"), Some("a"), Some("c")].map(named), ["a-2", "a-1, a-2", "none"]);
    }

    #[test]
    fn a_number_used_again_is_not_the_same_occupant() {
        let own = Process::find(std::process::id()).expect("this process runs");
        assert!(own.is_alive());
        assert!(!Process { started: own.started + 1, ..own }.is_alive());
        assert_eq!(Process::find(u32::MAX), None);
    }

    #[test]
    fn a_lab_that_names_another_folder_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        let own = Process::find(std::process::id()).expect("this process runs");
        for (folder, id) in [("right-1", "right-1"), ("wrong-1", "/home"), ("wrong-2", "../..")] {
            let lab = LabState {
                id: id.into(),
                scenario: "none".into(),
                holder: own,
                air: None,
                nodes: Vec::new(),
                namespaces: Vec::new(),
                ready: true,
                kept: false,
            };
            let folder = dir.path().join("labs").join(folder);
            fs::create_dir_all(&folder).expect("a folder");
            let text = serde_json::to_vec(&lab).expect("plain data");
            fs::write(folder.join(STATE_FILE), text).expect("it is ours");
        }
        let found = list_in(&dir.path().join("labs"));
        assert_eq!(found.iter().map(|lab| &*lab.id).collect::<Vec<_>>(), ["right-1"]);
    }

    #[test]
    fn folders_of_labs_that_never_were_go() {
        let dir = tempfile::tempdir().expect("a folder");
        let labs = dir.path().join("labs");
        for (folder, file) in
            [("a-1", None), ("b-1", Some("lab.json.new")), ("c-1", Some(STATE_FILE))]
        {
            fs::create_dir_all(labs.join(folder)).expect("a folder");
            if let Some(file) = file {
                fs::write(labs.join(folder).join(file), "{").expect("it is ours");
            }
        }
        remove_unborn_in(&labs, UNBORN);
        let left = || fs::read_dir(&labs).expect("a folder").count();
        assert_eq!(left(), 3, "one of them may be about to be written down");
        remove_unborn_in(&labs, StdDuration::ZERO);
        assert!(left() == 1 && labs.join("c-1").exists());
    }

    #[test]
    fn nodes_that_died_are_known_while_the_lab_is_up() {
        let own = Process::find(std::process::id()).expect("this process runs");
        let gone = Process { started: own.started + 1, ..own };
        let mut lab = LabState {
            id: "x-1".into(),
            scenario: "x".into(),
            holder: own,
            air: Some(gone),
            nodes: vec![("a".into(), own), ("b".into(), gone)],
            namespaces: Vec::new(),
            ready: true,
            kept: false,
        };
        assert_eq!(lab.died(), ["b", "@air"]);
        lab.holder = gone;
        assert_eq!(lab.died(), [] as [&str; 0]);
    }
}
