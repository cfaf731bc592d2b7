//! Restarts the daemons of a kept lab: a daemon that ended is started again in its network, as an
//! init system would do, and one that was stopped is started when that is asked for.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::time::{Duration as StdDuration, Instant as WallClock};

use rustix::process::Signal;

use super::children::ready_file;
use super::programs::signal;
use super::state::{LabState, Process, stop_file};
use super::{Doing as _, Lab, LabError, network};
use crate::daemon::{query, socket_path};

/// How long a daemon stays away at least, so that its neighbours notice.
const AWAY: StdDuration = StdDuration::from_secs(1);
/// How long a daemon may take to come up, and to go down.
const PATIENCE: StdDuration = StdDuration::from_secs(10);
/// How often to check that.
const TICK: StdDuration = StdDuration::from_millis(20);

/// Why a daemon is away, and since when.
#[derive(Clone, Copy, Debug)]
pub(super) enum Absence {
    /// It ended.
    Gone(WallClock),
    /// It was started again, and has not entered its network namespace yet.
    Starts(WallClock),
}

impl Lab {
    /// Keeps the lab after its flows are done: from now on [`Lab::revive`] must be called often.
    pub fn keep(&mut self) -> Result<(), LabError> {
        self.state.kept = true;
        self.state.save()
    }

    /// Handles daemons that have ended: removes their radios, and starts them again a second later,
    /// unless they were [stopped](stop). Ends the daemons that are to be stopped. Errors go to
    /// their logs, and are followed by another attempt. This never waits, so that no daemon holds
    /// up the others.
    pub fn revive(&mut self) {
        // Processes that are not started again, such as the air, must not stay as zombies either.
        self.children.iter_mut().for_each(|(_, child)| _ = child.try_wait());
        for index in 0..self.state.nodes.len() {
            let name = self.state.nodes[index].0.clone();
            let is_stopped = self.state.is_stopped(&name);
            match (self.how_ended(&name), self.away.get(&name).copied()) {
                (None, _) if is_stopped => signal(&self.state.nodes[index].1, Signal::KILL),
                (None, Some(Absence::Starts(since))) => self.on_start(index, &name, since),
                (None, _) => {}
                (Some(_), Some(Absence::Gone(since))) => {
                    if since.elapsed() >= AWAY && !is_stopped {
                        let begun = self.start_again(index, &name);
                        self.away.insert(name.clone(), Absence::Starts(WallClock::now()));
                        begun.unwrap_or_else(|error| self.give_up(index, &name, &error));
                    }
                }
                (Some(how), _) => {
                    self.note(&name, &format!("its daemon ended: {how}"));
                    self.clear_away(&name);
                    self.away.insert(name, Absence::Gone(WallClock::now()));
                }
            }
        }
    }

    /// Gives a daemon that was started again its radios, once it has entered its network namespace.
    fn on_start(&mut self, index: usize, name: &str, since: WallClock) {
        let is_there = ready_file(&self.dir, name).exists();
        let given = match is_there {
            true => self.hand_over_radios(name, self.state.nodes[index].1.pid),
            false if since.elapsed() < PATIENCE => return,
            false => {
                let said = "it did not enter its network".into();
                Err(LabError::Ended { name: name.into(), said })
            }
        };
        match given {
            Ok(()) => _ = self.away.remove(name),
            Err(error) => self.give_up(index, name, &error),
        }
    }

    /// A daemon could not be started: it is tried again in a second.
    fn give_up(&mut self, index: usize, name: &str, error: &LabError) {
        self.note(name, &format!("it cannot be started again: {error}"));
        // The process may be waiting for its radios, which do not come.
        signal(&self.state.nodes[index].1, Signal::KILL);
        self.away.insert(name.into(), Absence::Gone(WallClock::now()));
    }

    /// How the daemon of a node ended; `None` if it runs.
    fn how_ended(&mut self, name: &str) -> Option<String> {
        let Some((_, child)) = self.children.iter_mut().find(|(child, _)| child == name) else {
            return Some("it did not start".into());
        };
        child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Removes the radios and the socket of a daemon that ended: clients would take the socket for
    /// one in use.
    fn clear_away(&self, name: &str) {
        for (_, near) in self.radios_of(name) {
            let _ = network::remove_veth(&near);
        }
        let _ = fs::remove_file(socket_path(&self.dir, name));
    }

    fn note(&self, name: &str, what: &str) {
        // A log that cannot be written is no reason to end.
        let _ = self.log(name).map(|mut log| writeln!(log, "lab: {what}"));
    }

    fn start_again(&mut self, index: usize, name: &str) -> Result<(), LabError> {
        let namespace = self.namespaces[index].try_clone().doing("its namespace")?;
        let ready = ready_file(&self.dir, name);
        // These are left if it was killed during the last attempt to start it.
        self.clear_away(name);
        let _ = fs::remove_file(&ready);
        self.again += 1;
        self.children.retain(|(child, _)| child != name);
        let words = ["lab-node", "--again", "--node", name];
        let process = self.spawn(name, &words, Stdio::from(namespace))?;
        self.state.nodes[index].1 = process;
        self.state.save()
    }
}

fn wait_for(mut is_done: impl FnMut() -> bool) -> bool {
    let limit = WallClock::now() + PATIENCE;
    while !is_done() {
        if WallClock::now() > limit {
            return false;
        }
        std::thread::sleep(TICK);
    }
    true
}

/// Kills the daemon of a node, as a power cut does. It stays away until it is [started](start).
/// Programs in its network continue.
///
/// Fails if the lab has no such node, if its flows are still running, or if the daemon does not
/// end.
pub fn stop(lab: &LabState, node: &str) -> Result<(), LabError> {
    check(lab, node)?;
    let file = stop_file(&lab.dir(), node);
    fs::write(&file, "").doing(file.display().to_string())?;
    // The socket is removed together with the radios; from then on no client takes it for one in
    // use.
    let socket = socket_path(&lab.dir(), node);
    let is_gone = wait_for(|| {
        !socket.exists() && !occupant(lab, node).is_some_and(|process| process.is_alive())
    });
    if !is_gone {
        // If this failed, the node must not be stopped later.
        let _ = fs::remove_file(&file);
    }
    too_slow_unless(is_gone, node, "still there")
}

/// Starts the daemon of a node that was [stopped](stop), and waits until it answers.
///
/// Fails as [`stop`] does, and if the daemon does not answer.
pub fn start(lab: &LabState, node: &str) -> Result<(), LabError> {
    check(lab, node)?;
    let file = stop_file(&lab.dir(), node);
    if file.exists() {
        fs::remove_file(&file).doing(file.display().to_string())?;
    }
    let socket = socket_path(&lab.dir(), node);
    let is_there = wait_for(|| {
        let is_alive = occupant(lab, node).is_some_and(|process| process.is_alive());
        is_alive && query(&socket).is_ok()
    });
    let log = lab.dir().join(format!("{node}.log"));
    too_slow_unless(is_there, node, &format!("not there; its log is {}", log.display()))
}

/// The present process of a node.
fn occupant(lab: &LabState, node: &str) -> Option<Process> {
    LabState::load(&lab.dir())?.occupant(node)
}

fn too_slow_unless(is_done: bool, node: &str, what: &str) -> Result<(), LabError> {
    let seconds = PATIENCE.as_secs();
    let said = || LabError::TooSlow(format!("the daemon of '{node}' is after {seconds} s {what}"));
    if is_done { Ok(()) } else { Err(said()) }
}

/// Fails unless the lab has this node and is kept.
fn check(lab: &LabState, node: &str) -> Result<(), LabError> {
    if lab.nodes.iter().all(|(name, _)| name != node) {
        return Err(lab.no_node(node));
    }
    if lab.kept {
        return Ok(());
    }
    Err(LabError::NotFound(format!(
        "lab '{}' is being built or runs its flows; daemons of one that was begun with --keep can \
         be stopped once its flows are done",
        lab.id
    )))
}
