//! Finds and ends the programs that were started inside a lab.
//!
//! They are known by two signs: the lab's mark in their environment, which their children inherit,
//! and their network namespace, for programs that clear their environment (as the sessions of an
//! SSH server do). A namespace counts only while its node lives, or if its cookie proves that its
//! inode number was not reused. An ordinary user cannot read the cookie from outside, so that for a
//! lab that was killed only the environment counts.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::LAB_VARIABLE;
use super::state::{LabState, Namespace, Process};

/// Most searches: a program may start another while it is searched for.
const ROUNDS: usize = 10;

/// Kills the programs that were started inside a lab, but not the lab's own processes.
pub(super) fn end_programs(lab: &LabState) {
    for _ in 0..ROUNDS {
        let found = programs(lab);
        if found.is_empty() {
            return;
        }
        for process in found {
            signal(&process, Signal::KILL);
        }
    }
}

/// The programs that were started inside a lab.
pub(super) fn programs(lab: &LabState) -> Vec<Process> {
    let own: BTreeSet<u32> = own_processes(lab).chain([std::process::id()]).collect();
    let (mark, known) = (lab.mark(), own_namespaces(lab));
    let of_nodes = lab.nodes.iter().filter(|(_, process)| process.is_alive());
    let mut certain: BTreeSet<u64> = of_nodes
        .filter_map(|(_, process)| namespace_of(&process.pid.to_string()))
        .filter(|inode| known.contains(inode))
        .collect();
    processes()
        .filter(|pid| !own.contains(pid))
        .filter(|pid| {
            has_mark(*pid, &mark) || is_inside(*pid, &lab.namespaces, &known, &mut certain)
        })
        .filter_map(Process::find)
        .collect()
}

/// Inode numbers of the lab's namespaces, without those in which this process, the machine's first
/// process or the holder of the lab lives.
fn own_namespaces(lab: &LabState) -> BTreeSet<u64> {
    let holder = lab.holder.is_alive().then(|| lab.holder.pid.to_string());
    let others = [Some("self".to_owned()), Some("1".to_owned()), holder];
    let shared: BTreeSet<u64> =
        others.into_iter().flatten().filter_map(|pid| namespace_of(&pid)).collect();
    let all = lab.namespaces.iter().map(|namespace| namespace.inode);
    all.filter(|inode| !shared.contains(inode)).collect()
}

/// Sends a signal to a process, unless its id belongs to another one by now.
pub(super) fn signal(process: &Process, signal: Signal) {
    if process.is_alive()
        && let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw)
    {
        // If the process has ended in the meantime there is nothing to do.
        let _ = kill_process(pid, signal);
    }
}

/// Process ids of the lab's nodes, air and holder that are alive.
pub(super) fn own_processes(lab: &LabState) -> impl Iterator<Item = u32> {
    let nodes = lab.nodes.iter().map(|(_, process)| process);
    let all = nodes.chain(lab.air.as_ref()).chain([&lab.holder]);
    all.filter(|process| process.is_alive()).map(|process| process.pid)
}

/// Ids of all processes that can be seen.
pub(super) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn has_mark(pid: u32, mark: &str) -> bool {
    let wanted = format!("{LAB_VARIABLE}={mark}");
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|line| line == wanted.as_bytes())
}

fn namespace_of(pid: &str) -> Option<u64> {
    Some(fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino())
}

/// Whether a process is in a namespace of the lab. Namespaces that were proved to be the lab's are
/// added to `certain`.
fn is_inside(
    pid: u32,
    namespaces: &[Namespace],
    known: &BTreeSet<u64>,
    certain: &mut BTreeSet<u64>,
) -> bool {
    let Some(inode) = namespace_of(&pid.to_string()).filter(|inode| known.contains(inode)) else {
        return false;
    };
    if certain.contains(&inode) {
        return true;
    }
    let file = format!("/proc/{pid}/ns/net");
    let is_ours = look_inside(Path::new(&file))
        .is_some_and(|found| found.cookie.is_some() && namespaces.contains(&found));
    if is_ours {
        certain.insert(inode);
    }
    is_ours
}

/// Enters a namespace with a thread that ends there, and returns which namespace it is.
fn look_inside(file: &Path) -> Option<Namespace> {
    let file = fs::File::open(file).ok()?;
    let look = move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
        Namespace::own().ok()
    };
    std::thread::spawn(look).join().ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lab(holder: Process, namespaces: Vec<Namespace>) -> LabState {
        LabState {
            id: "no-such-lab".into(),
            scenario: "none".into(),
            holder,
            air: None,
            nodes: Vec::new(),
            namespaces,
            ready: true,
            kept: false,
        }
    }

    #[test]
    fn a_namespace_that_others_live_in_is_nobodys_lab() {
        let own = Process::find(std::process::id()).expect("this process runs");
        let here = Namespace::own().expect("a namespace and a socket");
        let killed = Process { started: own.started + 1, ..own };
        assert_eq!(own_namespaces(&lab(killed, vec![here])), BTreeSet::new());
        assert_eq!(programs(&lab(killed, vec![here])), []);
    }

    #[test]
    fn a_program_is_known_by_the_mark_in_its_environment() {
        let gone = Process { pid: u32::MAX, started: 0 };
        let id = format!("test-{}", std::process::id());
        let lab = LabState { id, ..lab(gone, Vec::new()) };
        let mut sleep = std::process::Command::new("sleep");
        let mut inside = sleep.arg("60").env(LAB_VARIABLE, lab.mark()).spawn().expect("sleep");
        let expected = Process::find(inside.id());
        // A process that was just started does not show its environment at once.
        let look = || Some(programs(&lab)).filter(|found| !found.is_empty());
        let found = (0..1_000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            look()
        });
        inside.kill().expect("our child");
        inside.wait().expect("our child");
        assert_eq!(found.unwrap_or_default(), Vec::from_iter(expected));
    }

    #[test]
    fn another_namespace_with_a_number_of_the_lab_is_not_the_labs() {
        let here = Namespace::own().expect("a namespace and a socket");
        let known = BTreeSet::from([here.inode]);
        let other = Namespace { cookie: here.cookie.map(|cookie| cookie + 1), ..here };
        let own = std::process::id();
        assert!(!is_inside(own, &[other], &known, &mut BTreeSet::new()));
        assert!(!is_inside(own, &[here], &BTreeSet::new(), &mut BTreeSet::new()));
    }
}
