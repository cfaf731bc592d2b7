//! Runs programs inside a lab, and takes labs down from outside.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration as StdDuration, Instant as WallClock};

use rustix::process::Signal;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::foreign::but_foreign;
use super::programs::{end_programs, signal};
use super::state::{LabState, Process, named, refuse_several, remove_unborn};
use super::{Doing as _, LAB_VARIABLE, LabError, keys, labs_dir, list, names};

/// How long the holder of a lab may take to end by itself.
const PATIENCE: StdDuration = StdDuration::from_secs(3);
/// How long processes may take to end that were killed.
const KILLED: StdDuration = StdDuration::from_secs(1);

/// Name of the environment variable with the node in whose network a program was started.
const NODE_VARIABLE: &str = "FARHOP_LAB_NODE";

/// Replaces this process by a program in the network of a node; `@air` is the air's. Returns only
/// if that fails.
///
/// Must be called before the process has other threads.
pub fn exec(lab: &LabState, node: &str, command: &[impl AsRef<OsStr>]) -> LabError {
    // Inside, an ordinary user looks like root, who has another runtime folder.
    let (runtime, dir) = (labs_dir(), lab.dir());
    match enter(lab, node) {
        Err(error) => error,
        Ok(()) => {
            let Some((program, words)) = command.split_first() else {
                return LabError::NotFound("no program to run".into());
            };
            // Without names, programs still have addresses.
            let _ = names::show(&dir);
            let mut command = Command::new(program);
            command.args(words).env(LAB_VARIABLE, lab.mark()).env(NODE_VARIABLE, node);
            command.envs(runtime.parent().map(|dir| ("FARHOP_RUNTIME_DIR", dir)));
            let error = command.exec();
            not_run(&program.as_ref().to_string_lossy(), node, &error)
        }
    }
}

/// The error for a program that could not be run. Nodes have the files and users of this host.
fn not_run(program: &str, node: &str, error: &io::Error) -> LabError {
    let is_there = error.kind() != io::ErrorKind::NotFound;
    let why = match error.kind() {
        io::ErrorKind::NotFound if program.contains('/') => "there is no such file".into(),
        io::ErrorKind::NotFound => "no folder of PATH has a program of this name".into(),
        io::ErrorKind::PermissionDenied => "it is not a program, or not one for this user".into(),
        _ => error.to_string(),
    };
    let said = format!(
        "cannot run '{program}' in '{node}': {why}; right would be a program of this host, by its \
         name or its path"
    );
    LabError::NotRun { said, is_there }
}

/// The lab and the node in whose network [`exec`] started this program; `None` if it did not.
pub fn own() -> Option<(LabState, String)> {
    let (mark, node) = (env::var(LAB_VARIABLE).ok()?, env::var(NODE_VARIABLE).ok()?);
    let lab = list().into_iter().find(|lab| lab.mark() == mark)?;
    Some((lab, node))
}

/// The folder of keys of the node in whose network [`exec`] started this program; `None` if it did
/// not. The folder exists only if the frames of the lab are protected.
pub fn own_keys() -> Option<PathBuf> {
    let (lab, node) = own()?;
    Some(keys::folder(&lab.dir(), &node))
}

/// Whether [`exec`] started this program.
pub fn is_inside() -> bool {
    env::var_os(LAB_VARIABLE).is_some() && env::var_os(NODE_VARIABLE).is_some()
}

fn enter(lab: &LabState, node: &str) -> Result<(), LabError> {
    let process = lab.occupant(node).ok_or_else(|| lab.no_node(node))?;
    if let Some(said) = lab.gone(node) {
        return Err(LabError::NotFound(said));
    }
    let open = |kind: &str| {
        let path = format!("/proc/{}/ns/{kind}", process.pid);
        fs::File::open(&path).doing(path)
    };
    let network = open("net")?;
    // A daemon that is started again is in the network of the air until it enters its own.
    let inode = network.metadata().doing("the network of the node")?.ino();
    if lab.network_of(node).is_some_and(|own| own.inode != inode) {
        let said = format!("'{node}' is just started again: try once more in a second");
        return Err(LabError::NotFound(said));
    }
    let user = open("user")?;
    let own = fs::metadata("/proc/self/ns/user").doing("/proc/self/ns/user")?;
    let theirs = user.metadata().doing("the user namespace of the lab")?;
    if (own.dev(), own.ino()) != (theirs.dev(), theirs.ino()) {
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))
            .doing("enter the user namespace of the lab")?;
    }
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
        .doing("enter the network of the node")
}

/// Takes a lab down: the one with this id or of this scenario, or without a name the only one that
/// is kept; or all. Also removes what killed labs among these have left. Returns the ids.
///
/// Fails if there is no such lab, if several are running and not all are meant, or if flows still
/// run and the lab is not named.
pub fn down(name: Option<&str>, are_all_meant: bool) -> Result<Vec<String>, LabError> {
    let all = list();
    let known = all.iter().map(|lab| lab.id.as_str()).collect::<Vec<_>>().join(", ");
    let mut labs = named(all, name);
    if let (true, Some(name)) = (labs.is_empty(), name) {
        let others = if known.is_empty() { "" } else { "; there are " };
        let why = format!("there is no lab '{name}'{others}{known}");
        return Err(LabError::Unknown(why + &but_foreign()));
    }
    if name.is_none() && !are_all_meant {
        // Somebody waits for the result of its flows.
        let busy = labs.iter().find(|lab| lab.is_alive() && !lab.kept).map(|lab| lab.id.clone());
        labs.retain(|lab| lab.kept || !lab.is_alive());
        if let (true, Some(id)) = (labs.is_empty(), busy) {
            let why = format!(
                "'{id}' is being built or has flows that run: `farhop lab down {id}` ends it all \
                 the same"
            );
            return Err(LabError::NotFound(why));
        }
    }
    if !are_all_meant {
        let running: Vec<_> = labs.iter().filter(|lab| lab.is_alive()).cloned().collect();
        refuse_several(
            &running,
            "`farhop lab down ID` takes one down, `farhop lab down --all` all of them",
        )?;
    }
    // One that cannot be taken down is no reason to leave the others.
    let ended: Vec<Result<(), LabError>> = labs.iter().map(end).collect();
    remove_unborn();
    ended.into_iter().collect::<Result<(), _>>()?;
    Ok(labs.into_iter().map(|lab| lab.id).collect())
}

/// Ends all processes of a lab, and removes its folder.
fn end(lab: &LabState) -> Result<(), LabError> {
    end_holder(lab);
    end_programs(lab);
    let dir = lab.dir();
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).doing(dir.display().to_string())
        }
        _ => Ok(()),
    }
}

fn end_holder(lab: &LabState) {
    let nodes = lab.nodes.iter().map(|(_, process)| *process);
    let everybody: Vec<Process> = [lab.holder].into_iter().chain(lab.air).chain(nodes).collect();
    signal(&lab.holder, Signal::TERM);
    wait_for_the_end(&[lab.holder], PATIENCE);
    for process in &everybody {
        signal(process, Signal::KILL);
    }
    // Until they are gone they may still write into the folder of the lab.
    wait_for_the_end(&everybody, KILLED);
}

fn wait_for_the_end(processes: &[Process], patience: StdDuration) {
    let limit = WallClock::now() + patience;
    while processes.iter().any(Process::is_alive) && WallClock::now() < limit {
        std::thread::sleep(StdDuration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_told_from_one_that_is_none() {
        let said = |program: &str| {
            let error = Command::new(program).spawn().expect_err("no program");
            not_run(program, "hill", &error)
        };
        let begin = |program: &str| format!("cannot run '{program}' in 'hill': ");
        for (program, why, there) in [
            ("no-such-program", "no folder of PATH has a program of this name", false),
            ("/no/such/program", "there is no such file", false),
            ("/etc/passwd", "it is not a program", true),
        ] {
            let LabError::NotRun { said, is_there } = said(program) else { panic!("{program}") };
            assert!(said.starts_with(&(begin(program) + why)), "{said}");
            assert_eq!(is_there, there, "{program}");
        }
    }
}
