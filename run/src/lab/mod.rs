//! The lab runs the network of a scenario as real daemons in network namespaces, over an emulated
//! air.
//!
//! ```text
//!   lab (own network namespace)
//!    +- air -- air0 === veth === radio0 -- daemon of node 1 (own network namespace) -- farhop0
//!    |       + air1 === veth === radio0 -- daemon of node 2 (own network namespace) -- farhop0
//!    +- traffic: a thread for each end of each flow, in the namespace of its node
//! ```
//!
//! Namespaces are held by processes, not by names, and every process is killed when its parent
//! dies: a lab that dies, however it dies, takes its interfaces with it. Only programs that
//! somebody started inside with `farhop lab exec`, and the folder of its state, may outlive it.
//! `farhop lab down` finds both, since all processes of a lab have its mark in their environment.
//! The process that holds a lab also keeps all namespaces open, so that a daemon that died can be
//! started again in its own (`revive`).

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
mod names;
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

/// Name of the environment variable with a lab's mark, which all its processes have.
pub const LAB_VARIABLE: &str = "FARHOP_LAB";

/// Exit status of `farhop lab` if a run was late: there is a report, but it is not valid.
pub const LATE_STATUS: u8 = 3;

/// Whether `farhop lab` has printed a report, if only of a run that was late.
pub fn has_report(status: ExitStatus) -> bool {
    status.success() || status.code() == Some(LATE_STATUS.into())
}

/// Why a lab could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel refuses something that a lab needs, or the scenario is not for a lab.
    #[error("{0}")]
    Refused(String),
    /// A process of the lab ended early.
    #[error("'{name}' ended: {said}")]
    Ended {
        /// Name of the node or stranger, or `"@air"`.
        name: String,
        /// How it ended, and the last lines that it wrote.
        said: String,
    },
    /// Something took too long.
    #[error("{0}")]
    TooSlow(String),
    /// Something needed is missing, or the lab is not in a state for the request.
    #[error("{0}")]
    NotFound(String),
    /// No running lab or no node has the given name, or several have it.
    #[error("{0}")]
    Unknown(String),
    /// A program could not be started in a node.
    #[error("{said}")]
    NotRun {
        /// Which program it was, and why.
        said: String,
        /// Whether the program exists.
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
    /// The watcher of the progress ended it.
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

/// Adds to an error of the operating system what was being done.
trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, LabError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, LabError> {
        self.map_err(|error| LabError::Io { what: what.into(), error: error.into() })
    }
}

/// The runtime folder from before this process became root of a user namespace, in which an
/// ordinary user looks like root.
static RUNTIME_DIR: OnceLock<PathBuf> = OnceLock::new();

/// The folder with the state of all labs of this user.
pub fn labs_dir() -> PathBuf {
    RUNTIME_DIR.get().cloned().unwrap_or_else(crate::daemon::runtime_dir).join("labs")
}
