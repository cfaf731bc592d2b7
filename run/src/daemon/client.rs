//! The client's end of the control socket: finds daemons that run, and asks them.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration as StdDuration;

use socket2::{Domain, SockAddr, Socket, Type};

use super::control::Request;

/// How long a daemon may take to answer.
pub(crate) const PATIENCE: StdDuration = StdDuration::from_secs(2);
/// Extension of a control socket's file.
const SUFFIX: &str = ".sock";
/// Longest path of a socket, in bytes (`sun_path` has 108 with the terminating zero).
pub(crate) const PATH_BYTES: usize = 107;
/// Directory of the sockets of root's daemons.
const ROOTS: &str = "/run/farhop";

/// Why there is no control socket, or no answer on it.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No daemon listens.
    #[error("no daemon runs behind {}", path.display())]
    NotRunning {
        /// The socket.
        path: PathBuf,
    },
    /// A daemon of that name runs already.
    #[error("a daemon for '{name}' runs already, behind {}", path.display())]
    Running {
        /// The node.
        name: String,
        /// The socket.
        path: PathBuf,
    },
    /// The path of the socket would be too long.
    #[error(
        "{}: the path of a socket has at most {PATH_BYTES} bytes, and this has {length}: choose a \
         folder with a shorter one", path.display()
    )]
    TooLong {
        /// Path of the socket.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// A daemon listens, but did not answer in time.
    #[error("{}: no answer came within {} s", path.display(), PATIENCE.as_secs())]
    Silent {
        /// The socket.
        path: PathBuf,
    },
    /// The daemon ended before it answered, so the request may have been carried out or not.
    #[error(
        "{}: the daemon ended before it answered; `farhop cache` and `farhop status` tell what it \
         took", path.display()
    )]
    Ended {
        /// The socket.
        path: PathBuf,
    },
    /// The operating system reported an error.
    #[error("{}: {error}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The daemon refused the request.
    #[error("{reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// The answer cannot be parsed.
    #[error("{}: the daemon's answer is not understood: {reason}", path.display())]
    Answer {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// A daemon that runs here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Name of the node.
    pub name: String,
    /// Its control socket.
    pub path: PathBuf,
}

/// The directory of control sockets: `FARHOP_RUNTIME_DIR`, else `/run/farhop` for root, else
/// `farhop` in `XDG_RUNTIME_DIR`, else `/tmp/farhop-UID`.
pub fn runtime_dir() -> PathBuf {
    if let Some(dir) = path_in("FARHOP_RUNTIME_DIR") {
        return dir;
    }
    let user = rustix::process::geteuid();
    if user.is_root() {
        return ROOTS.into();
    }
    match path_in("XDG_RUNTIME_DIR") {
        Some(dir) => dir.join("farhop"),
        None => format!("/tmp/farhop-{}", user.as_raw()).into(),
    }
}

/// The directories in which daemons may be found: this user's and root's, or only the one that the
/// environment names.
pub fn runtime_dirs() -> Vec<PathBuf> {
    let mut dirs = vec![runtime_dir()];
    if path_in("FARHOP_RUNTIME_DIR").is_none() {
        // Any user may have made one in /tmp.
        dirs.retain(|dir| is_ours(dir));
        if !dirs.contains(&ROOTS.into()) {
            dirs.push(ROOTS.into());
        }
    }
    dirs
}

/// Whether a folder, or the symbolic link to it, belongs to this user or to root.
pub(crate) fn is_ours(dir: &Path) -> bool {
    let us = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(dir).is_ok_and(|data| data.uid() == us || data.uid() == 0)
}

fn path_in(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Path of the control socket of a node.
pub fn socket_path(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}{SUFFIX}"))
}

/// Connects to a control socket, waiting for at most `patience`, or not at all if that is zero. A
/// plain connect would block for as long as a daemon hangs with a full queue.
///
/// Fails with `WouldBlock` if the connection is not accepted in time.
pub(crate) fn connect(path: &Path, patience: StdDuration) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    if patience.is_zero() {
        socket.set_nonblocking(true)?;
    }
    // It also limits how long connecting takes (socket(7), SO_SNDTIMEO).
    socket.set_write_timeout(Some(patience).filter(|patience| !patience.is_zero()))?;
    socket.connect(&SockAddr::unix(path)?)?;
    socket.set_nonblocking(false)?;
    socket.set_write_timeout(None)?;
    Ok(socket.into())
}

/// Whether a daemon listens, even if it is too busy to accept now.
pub(crate) fn is_listening(path: &Path) -> io::Result<()> {
    match connect(path, StdDuration::ZERO) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

/// The running daemons whose sockets are in `dir`, by name; empty if there is no such directory.
pub fn list(dir: &Path) -> Vec<Running> {
    sockets(dir, |path| is_listening(path).is_ok())
}

/// The control sockets in a directory that satisfy `is_so`, by name.
fn sockets(dir: &Path, is_so: impl Fn(&Path) -> bool) -> Vec<Running> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let socket = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?.strip_suffix(SUFFIX)?.to_owned();
        let path = entry.path();
        is_so(&path).then_some(Running { name, path })
    };
    let mut found: Vec<_> = entries.filter_map(socket).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The sockets in `dir` that daemons left behind when they were killed, by name.
pub fn left(dir: &Path) -> Vec<Running> {
    let is_left = |path: &Path| {
        is_listening(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    sockets(dir, is_left)
}

/// What this user may not access in `dir`: the sockets of others' daemons, or `dir` itself.
pub fn barred(dir: &Path) -> Vec<PathBuf> {
    let is_barred = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    let entries = match fs::read_dir(dir) {
        Err(error) if is_barred(&error) => return vec![dir.to_owned()],
        entries => entries.into_iter().flatten().flatten(),
    };
    let sockets = entries.map(|entry| entry.path()).filter(|path| {
        let is_socket = path.to_str().is_some_and(|path| path.ends_with(SUFFIX));
        is_socket && is_listening(path).is_err_and(|error| is_barred(&error))
    });
    let mut barred: Vec<_> = sockets.collect();
    barred.sort();
    barred
}

/// Asks the daemon behind `path` for its state.
///
/// Fails if none runs, or does not answer within 2 s.
pub fn query(path: &Path) -> Result<serde_json::Value, ControlError> {
    ask(path, Request::Status {})
}

/// Sends a request to a control socket and returns the answer.
///
/// Fails if nobody listens there, no answer comes within 2 s, or the answer is a refusal.
pub fn ask(path: &Path, request: Request) -> Result<serde_json::Value, ControlError> {
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            ControlError::NotRunning { path: path.into() }
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            ControlError::Silent { path: path.into() }
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            ControlError::Ended { path: path.into() }
        }
        _ => ControlError::Io { path: path.into(), error },
    };
    let unclear = |error: serde_json::Error| ControlError::Answer {
        path: path.into(),
        reason: error.to_string(),
    };
    let mut stream = connect(path, PATIENCE).map_err(fail)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(fail)?;
    let mut request = serde_json::to_string(&request).map_err(unclear)?;
    request.push('\n');
    stream.write_all(request.as_bytes()).map_err(fail)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(fail)?;
    if !line.ends_with('\n') {
        return Err(ControlError::Ended { path: path.into() });
    }
    let answer: serde_json::Value = serde_json::from_str(&line).map_err(unclear)?;
    match answer.get("error").and_then(serde_json::Value::as_str) {
        Some(reason) => Err(ControlError::Refused { reason: reason.into() }),
        None => Ok(answer),
    }
}
