//! Files over block transport: what `farhop send` and `farhop receive` ask of a daemon.
//!
//! A file is a flow of blocks. Its first block says what it is ([`FileInfo`]), and holds its first
//! bytes. A block that came to its destination is written behind the others before it is
//! acknowledged; what is written down of it is in the store of the daemon ([`crate::blocks`]), so
//! that one which ends at any moment goes on where it was.

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

/// The folder of what daemons keep: `FARHOP_STATE_DIR`, else `/var/lib/farhop` for root, else
/// `farhop` in `XDG_STATE_HOME` or in `~/.local/state`.
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
