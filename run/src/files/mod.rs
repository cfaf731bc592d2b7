//! Files over block transport, for `farhop send`, `farhop receive` and `farhop push`.
//!
//! A file is a flow of blocks. The first block has a description ([`FileInfo`]) and the first
//! bytes. The destination appends each block to the part that it has, and acknowledges it only
//! then. Its records are in the daemon's store ([`crate::blocks`]), so that a daemon that ends at
//! any moment continues where it was.

mod courier;
mod push;
mod records;
mod status;

use std::env;
use std::path::PathBuf;

pub(crate) use courier::Courier;
pub use push::Push;
pub(crate) use records::Part;
pub use records::{FileInfo, Incoming, NAME_BYTES, Outgoing, State, is_id, is_name, wrong_name};
pub use status::{FilesStatus, IncomingStatus, OutgoingStatus, SendFile};

pub use crate::blocks::{modified_ns, open_file, sum_bytes, sum_file};

/// The folder for the state of daemons: `FARHOP_STATE_DIR`, else `/var/lib/farhop` for root, else
/// `farhop` in `XDG_STATE_HOME` or `~/.local/state`.
pub fn state_dir() -> PathBuf {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(dir) = set("FARHOP_STATE_DIR") {
        return dir;
    }
    if rustix::process::geteuid().is_root() {
        return "/var/lib/farhop".into();
    }
    let home = || set("HOME").unwrap_or_else(|| "/".into()).join(".local/state");
    set("XDG_STATE_HOME").unwrap_or_else(home).join("farhop")
}
