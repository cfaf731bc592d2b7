//! The daemon that carries the files of a command.

use std::path::PathBuf;

use farhop_run::daemon::ControlError;
use farhop_run::daemon::client::ask;
use farhop_run::daemon::control::Request;
use farhop_run::files::FilesStatus;
use farhop_run::sockets;
use serde::de::DeserializeOwned;

use super::daemons::{Wanted, check_node, only};
use crate::Failure;

/// Selects the daemon to ask.
#[derive(clap::Args)]
pub(crate) struct DaemonOptions {
    /// Node of the daemon to use, if several run here; within `farhop lab exec` by default that
    /// node.
    #[arg(long, value_name = "NODE", global = true)]
    node: Option<String>,
    /// Look for the daemon's control socket in this folder only.
    #[arg(long, value_name = "DIR", global = true)]
    runtime_dir: Option<PathBuf>,
}

/// A daemon, by the path of its control socket; it may restart between two requests.
pub(super) struct Daemon(PathBuf);

impl Daemon {
    pub(super) fn find(options: &DaemonOptions) -> Result<Self, Failure> {
        let (node, runtime_dir) = (options.node.as_deref(), options.runtime_dir.as_deref());
        only(Wanted { node, lab: None, runtime_dir }).map(Self)
    }

    pub(super) fn ask<T: DeserializeOwned>(&self, request: Request) -> Result<T, Failure> {
        let fail = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
        let answer = ask(&self.0, request).map_err(|error| fail(&error))?;
        serde_json::from_value(answer).map_err(|error| fail(&error))
    }

    /// The same daemon, for sockets.
    pub(super) fn for_sockets(self) -> sockets::client::Daemon {
        sockets::client::Daemon::at(self.0)
    }

    /// Refuses a node that is not another node of the daemon's scenario.
    pub(super) fn check_node(&self, node: &str) -> Result<(), Failure> {
        check_node(node, &self.ask(Request::Status {})?)
    }

    /// Makes a request about the file with this id or number. If it fails and no such file is
    /// listed, the input was wrong.
    pub(super) fn ask_of_file<T: DeserializeOwned>(
        &self,
        request: Request,
        id: &str,
    ) -> Result<T, Failure> {
        self.ask(request).map_err(|failure| match (failure, self.files()) {
            (Failure::Failed(why), Ok(Some(files))) if !is_listed(&files, id) => {
                Failure::input(why)
            }
            (failure, _) => failure,
        })
    }

    /// The state of all files, or `None` while the daemon does not answer.
    ///
    /// Fails with its reason if it answers that there is none, as when its store is damaged.
    pub(super) fn files(&self) -> Result<Option<FilesStatus>, String> {
        let files = match ask(&self.0, Request::Files {}) {
            Ok(files) => files,
            Err(ControlError::Refused { reason }) => return Err(reason),
            Err(_) => return Ok(None),
        };
        serde_json::from_value(files).map(Some).map_err(|error| error.to_string())
    }
}

/// Whether a daemon lists a file with this id or number.
pub(super) fn is_listed(files: &FilesStatus, id: &str) -> bool {
    files.outgoing.iter().any(|file| file.id.to_string() == id)
        || files.incoming.iter().any(|file| file.id == id)
}
