//! The lab: the network of a scenario as real daemons in network namespaces, over an emulated air.
//!
//! ```text
//!   lab (own network namespace)
//!    ├─ air ── air0 ═══ veth ═══ radio0 ── daemon of node 1 (own network namespace) ── farhop0
//!    │       └ air1 ═══ veth ═══ radio0 ── daemon of node 2 (own network namespace) ── farhop0
//!    └─ traffic: a thread for each end of each flow, in the namespace of its node
//! ```
//!
//! Namespaces are held by processes, not by names, and every process is killed with its parent: a
//! lab that dies, however it dies, takes its interfaces with it. What may outlive it are programs
//! that somebody started inside with `farhop lab exec` and the folder of its state; `farhop lab
//! down` knows both, since everything of a lab has its mark in the environment. The holder of a lab
//! has all namespaces open too, so that a daemon that died begins anew in its own (`revive`).

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::OnceLock;

mod awake;
mod blocks;
mod children;
mod control;
mod foreign;
mod hosts;
mod isolate;
mod keys;
mod network;
mod others;
mod programs;
mod recordings;
mod report;
mod revive;
mod room;
mod start;
mod state;
mod stranger;
mod traffic;

pub use children::{run_air, run_node};
pub use control::{down, exec, is_inside, own, own_keys};
pub use foreign::{Foreign, but_foreign, foreign};
pub use hosts::refusal;
pub use isolate::isolate;
pub use revive::{start, stop};
pub use start::{Lab, LabOptions, Progress, Scripts};
pub use state::{LabState, Namespace, Process, find, find_with_node, list};
pub use stranger::run_stranger;

/// Name of the environment variable that everything of a lab has.
pub const LAB_VARIABLE: &str = "FARHOP_LAB";

/// Exit status of `farhop lab` for a run that was late: there is a report, but it is not valid.
pub const LATE_STATUS: u8 = 3;

/// Whether `farhop lab` has printed a report, as also of a run that was late.
pub fn has_report(status: ExitStatus) -> bool {
    status.success() || status.code() == Some(LATE_STATUS.into())
}

/// Why a lab could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel refuses what a lab is made of.
    #[error("{0}")]
    Refused(String),
    /// A process of the lab ended before its time.
    #[error("'{name}' ended: {said}")]
    Ended {
        /// `"air"` or the name of a node.
        name: String,
        /// How it ended, and the last lines that it wrote.
        said: String,
    },
    /// Something took too long.
    #[error("{0}")]
    TooSlow(String),
    /// Something that was asked for does not exist.
    #[error("{0}")]
    NotFound(String),
    /// There is no lab or no node of the name that was given.
    #[error("{0}")]
    Unknown(String),
    /// A program could not be started in a node.
    #[error("{said}")]
    NotRun {
        /// Which one, and why.
        said: String,
        /// Whether there is such a program.
        is_there: bool,
    },
    /// A flow could not run.
    #[error("flow '{name}': {error}")]
    Flow {
        /// Its name.
        name: String,
        /// What went wrong.
        error: io::Error,
    },
    /// Whoever was told the progress ended it.
    #[error("interrupted")]
    Interrupted,
    /// A file or a system call failed.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What went wrong.
        error: io::Error,
    },
}

/// Adds what was being done to an error of the system.
trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, LabError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, LabError> {
        self.map_err(|error| LabError::Io { what: what.into(), error: error.into() })
    }
}

/// The runtime folder as it was before this process became root of a user namespace, where an
/// ordinary user looks like root.
static RUNTIME_DIR: OnceLock<PathBuf> = OnceLock::new();

/// Folder with the state of all labs of this user.
pub fn labs_dir() -> PathBuf {
    RUNTIME_DIR.get().cloned().unwrap_or_else(crate::daemon::runtime_dir).join("labs")
}
