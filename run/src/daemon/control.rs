//! The control socket: each request is a line of JSON, and so is each answer.
//!
//! It is served between turns of the loop and never blocks it: answers that a client does not read
//! stay in a buffer of limited size, and while that is full the client's requests wait.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration as StdDuration, Instant as StdInstant};

use rustix::event::PollFlags;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::client::{ControlError, PATH_BYTES, is_listening, is_ours, socket_path};
use super::is_readable;
use crate::files::SendFile;
use crate::sockets::Wish;

/// Attempts to take the lock of the directory; they are 20 ms apart if another process has it.
const LOCK_TRIES: u32 = 100;
/// How often a daemon that still listens is asked whether it ends, before it counts as running.
const END_TRIES: u32 = 10;
/// Most clients at one time; more wait until they are accepted.
const CLIENTS: usize = 64;
/// How long a client must have been silent before a new one may replace it. A client normally asks
/// as soon as it is connected.
const IDLE: StdDuration = StdDuration::from_millis(100);
/// How long no client is accepted after the daemon ran out of file descriptors.
const CLOSED: StdDuration = StdDuration::from_millis(100);
/// Longest request, in bytes.
const REQUEST_BYTES: usize = 16 << 10;
/// Longest answer, in bytes.
const ANSWER_BYTES: usize = 4 << 20;
/// Unread answers, in bytes, from which on a client gets no further ones.
const UNREAD_BYTES: usize = 64 << 10;
/// Most answers to one client in one turn of the loop, which has packets to carry.
const ANSWERS: usize = 8;
/// How long a client that sends no more requests may leave its answers unread.
const UNREAD: StdDuration = StdDuration::from_secs(10);
/// How often to check that the file of the socket still exists.
const LOOK: StdDuration = StdDuration::from_secs(2);

/// What a client may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "query", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// State of the daemon.
    Status {},
    /// Keys were changed: the daemon reads them again, and answers with those that it has then.
    Keys {},
    /// Which keys the daemon uses.
    KeysInUse {},
    /// Send a file.
    Send(SendFile),
    /// Give up a file that is being sent from here.
    Cancel {
        /// Number of the file.
        id: u32,
    },
    /// Which files are on their way, and which have arrived.
    Files {},
    /// A file that arrived was fetched. The answer says whether this is on disk (`is_kept`); if
    /// not, the request must be repeated.
    Fetched {
        /// Name of the file among those that arrived.
        id: String,
    },
    /// Delete a file that is arriving or has arrived, or take one that was sent from here, and is
    /// finished, out of the list.
    Drop {
        /// Its name if it came here, its number if it was sent from here.
        id: String,
    },
    /// Contents of the block cache.
    Cache {},
    /// Delete the cached blocks: those that the next node has.
    ClearCache {
        /// Also delete blocks that wait to be passed on.
        #[serde(default)]
        all: bool,
    },
    /// Turn the connection into a socket: records follow instead of lines.
    Socket(Wish),
    /// Only for the air of a lab: the run begins, and with it the times of the scenario's faults.
    Begin {},
    /// Only for a stranger of a lab: write down what it has sent, which is too much for an answer.
    Script {},
}

/// The control socket of a daemon. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    name: String,
    path: PathBuf,
    /// Inode number of the socket's file.
    file: u64,
    _made: Made,
    clients: Vec<Client>,
    /// Until when no client is accepted, because the daemon is out of file descriptors: the
    /// listener would wake the loop again and again.
    closed_until: Option<StdInstant>,
    /// When it was last checked that the file exists.
    looked: StdInstant,
    /// Why the socket could not be made again at the last check; `None` if it could, or need not
    /// be.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    wish: Option<Wish>,
    /// When the client last sent or read something.
    moved: StdInstant,
    /// The client sends no more requests, but may still read answers.
    has_ended: bool,
    is_over: bool,
}

/// A connection that a client wants to turn into a socket.
#[derive(Debug)]
pub struct Wished {
    /// The connection.
    pub stream: UnixStream,
    /// What the program sent after its request.
    pub rest: Vec<u8>,
    /// Which socket the program wants.
    pub wish: Wish,
}

impl Control {
    /// Makes the control socket `name` in `dir`, for this user alone. A socket that a dead daemon
    /// left is replaced.
    ///
    /// Fails if a daemon of that name runs already, or the directory cannot be written.
    pub fn open(dir: &Path, name: &str) -> Result<Self, ControlError> {
        let path = socket_path(dir, name);
        let fail = |error| ControlError::Io { path: path.clone(), error };
        let length = path.as_os_str().len();
        if length > PATH_BYTES {
            return Err(ControlError::TooLong { path, length });
        }
        wait_for_end(&path);
        // If two daemons start at once over the socket of a dead one, the second sees the first.
        let mut made = Made(None);
        let (_place, is_made) = take_dir(dir).map_err(fail)?;
        made.0 = is_made.then(|| dir.to_owned());
        match is_listening(&path) {
            Ok(_) => return Err(ControlError::Running { name: name.into(), path }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(&path).map_err(fail)?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(&path).map_err(fail)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(fail)?;
        listener.set_nonblocking(true).map_err(fail)?;
        let file = fs::metadata(&path).map_err(fail)?.ino();
        Ok(Self {
            listener,
            name: name.into(),
            path,
            file,
            _made: made,
            clients: Vec::new(),
            closed_until: None,
            looked: StdInstant::now(),
            trouble: None,
        })
    }

    /// Checks from time to time that the file of the socket exists, and makes the socket again if
    /// not. Logs both.
    pub fn keep(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = StdInstant::now();
        let renewed = self.renew().map_err(|error| error.to_string());
        match &renewed {
            Ok(true) => tracing::warn!("the control socket was taken away, and is made anew"),
            Err(why) if self.trouble.as_ref() != Some(why) => {
                tracing::warn!("the control socket was taken away: {why}");
            }
            _ => {}
        }
        self.trouble = renewed.err();
    }

    /// Makes the socket again if its file was removed: no client would find the daemon. Returns
    /// whether it was removed.
    ///
    /// Fails if the socket cannot be made.
    pub fn renew(&mut self) -> Result<bool, ControlError> {
        let found = fs::symlink_metadata(&self.path);
        if !found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(false);
        }
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let mut new = Self::open(dir, &self.name)?;
        new.clients = std::mem::take(&mut self.clients);
        *self = new;
        Ok(true)
    }

    /// Descriptors to wait on.
    pub fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let clients = self.clients.iter().map(|client| (client.stream.as_fd(), client.wants()));
        let is_closed = self.closed_until.is_some_and(|until| StdInstant::now() < until);
        let wanted = if is_closed { PollFlags::empty() } else { PollFlags::IN };
        clients.chain([(self.listener.as_fd(), wanted)])
    }

    /// Reads requests and writes answers as far as possible without blocking. Returns the
    /// connections that are to become sockets.
    pub fn serve(&mut self, answer: &mut dyn FnMut(Request) -> serde_json::Value) -> Vec<Wished> {
        self.closed_until = None;
        while self.clients.len() < CLIENTS
            || (is_readable(&self.listener) && self.let_go_of_idle(IDLE))
        {
            match self.listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    self.clients.push(Client::new(stream));
                }
                Ok(_) => {}
                // No more files can be opened: somebody makes place, as where there are too many.
                Err(error) if is_out_of_files(&error) => {
                    if !self.let_go_of_idle(StdDuration::ZERO) {
                        self.closed_until = Some(StdInstant::now() + CLOSED);
                        break;
                    }
                }
                Err(_) => break,
            }
        }
        for client in &mut self.clients {
            client.read();
            client.respond(answer);
            client.write();
        }
        let is_next = |client: &mut Client| client.wish.is_some() && client.answer.is_empty();
        let wished = self.clients.extract_if(.., is_next);
        let wished = wished.filter_map(|client| {
            let Client { stream, request: rest, wish, .. } = client;
            Some(Wished { stream, rest, wish: wish? })
        });
        let wished = wished.collect();
        self.clients.retain(|client| !client.is_done());
        wished
    }

    /// Drops the client that has been silent for longest, if for at least `least`; one that nothing
    /// is to be done for goes first. Returns whether there was such a client.
    fn let_go_of_idle(&mut self, least: StdDuration) -> bool {
        let clients = self.clients.iter().enumerate();
        let silent = clients.filter(|(_, client)| client.moved.elapsed() >= least);
        let idle = silent.min_by_key(|(_, client)| (client.is_served(), client.moved));
        let idle = idle.map(|(index, _)| index);
        idle.map(|index| self.clients.remove(index)).is_some()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // The file may be gone with its directory, or belong to a daemon that started later.
        if fs::metadata(&self.path).is_ok_and(|data| data.ino() == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A folder, if it was made here. It is removed when dropped, unless it has other files.
#[derive(Debug)]
struct Made(Option<PathBuf>);

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(dir) = &self.0
            && let Ok(place) = fs::File::open(dir)
            && lock(&place).is_ok()
        {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Makes a directory if needed, and locks it. Returns the directory, and whether it was made.
fn take_dir(dir: &Path) -> io::Result<(fs::File, bool)> {
    let take = || -> io::Result<(fs::File, bool)> {
        let is_made = make_dir(dir)?;
        let place = fs::File::open(dir)?;
        lock(&place)?;
        match fs::metadata(dir)?.ino() == place.metadata()?.ino() {
            true => Ok((place, is_made)),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    };
    for _ in 0..LOCK_TRIES {
        match take() {
            // A daemon that ended has just removed the directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            taken => return taken,
        }
    }
    take()
}

fn is_out_of_files(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE]
        .map(|errno| errno.raw_os_error())
        .contains(&error.raw_os_error().unwrap_or(0))
}

/// Gives a daemon that is about to end some time, before anything is locked.
fn wait_for_end(path: &Path) {
    for _ in 0..END_TRIES {
        if is_listening(path).is_err() {
            return;
        }
        thread::sleep(StdDuration::from_millis(50));
    }
}

/// Locks a directory; other daemons hold the lock only for a moment.
fn lock(place: &fs::File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        match flock(place, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => thread::sleep(StdDuration::from_millis(20)),
            outcome => return Ok(outcome?),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another program holds its folder"))
}

/// Makes a directory for this user alone; refuses one that another user may have prepared. Returns
/// whether it was made.
fn make_dir(dir: &Path) -> io::Result<bool> {
    let mut maker = fs::DirBuilder::new();
    let maker = maker.mode(0o700);
    if let Some(above) = dir.parent() {
        maker.recursive(true).create(above)?;
    }
    let is_new = match maker.recursive(false).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        made => made.is_ok(),
    };
    // Another daemon may have removed it in the meantime.
    fs::symlink_metadata(dir)?;
    if is_ours(dir) {
        return Ok(is_new);
    }
    let reason = format!("{} belongs to another user", dir.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

impl Client {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            request: Vec::new(),
            answer: Vec::new(),
            wish: None,
            moved: StdInstant::now(),
            has_ended: false,
            is_over: false,
        }
    }

    /// Whether a request waits to be answered.
    fn has_request(&self) -> bool {
        self.wish.is_none() && self.request.contains(&b'\n')
    }

    /// Whether the client has sent more than a request may have.
    fn is_too_long(&self) -> bool {
        self.request.len() > REQUEST_BYTES && !self.request.contains(&b'\n')
    }

    /// Whether the daemon has something to do for this client.
    fn is_served(&self) -> bool {
        let asks = self.has_request() || self.is_too_long();
        asks || self.wish.is_some() || !self.answer.is_empty()
    }

    /// Poll flags for the events that give the daemon something to do. Input that it would not read
    /// is not among them: it would wake the loop for ever.
    fn wants(&self) -> PollFlags {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, self.may_read());
        let asks = self.has_request() || self.is_too_long();
        wanted.set(PollFlags::OUT, asks || !self.answer.is_empty());
        wanted
    }

    /// Whether to read more: only after all complete requests are answered.
    fn may_read(&self) -> bool {
        let is_full = self.request.len() > REQUEST_BYTES;
        !self.has_ended && self.wish.is_none() && !self.has_request() && !is_full
    }

    /// Whether the client can be dropped.
    fn is_done(&self) -> bool {
        let is_answered = self.has_ended && self.answer.is_empty() && !self.has_request();
        let asks_nothing = self.has_ended || self.wish.is_some();
        self.is_over || is_answered || (asks_nothing && self.moved.elapsed() > UNREAD)
    }

    fn read(&mut self) {
        let mut buffer = [0; 1024];
        while !self.is_over && self.may_read() {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.has_ended = true;
                    // The end of the input also ends the last request, if that is complete.
                    if !self.request.is_empty() {
                        self.request.push(b'\n');
                    }
                }
                Ok(length) => {
                    self.request.extend_from_slice(&buffer[..length]);
                    self.moved = StdInstant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_over = true,
            }
        }
    }

    fn respond(&mut self, answer: &mut dyn FnMut(Request) -> serde_json::Value) {
        for _ in 0..ANSWERS {
            if self.wish.is_some() || self.answer.len() >= UNREAD_BYTES {
                return;
            }
            let Some(end) = self.request.iter().position(|byte| *byte == b'\n') else {
                if self.request.len() > REQUEST_BYTES {
                    self.request.clear();
                    self.has_ended = true;
                    let most = format!("a request has {REQUEST_BYTES} bytes at most");
                    self.say(&serde_json::json!({ "error": most }));
                }
                return;
            };
            let line: Vec<u8> = self.request.drain(..=end).collect();
            let value = match serde_json::from_slice(line.trim_ascii_end()) {
                Ok(Request::Socket(wish)) => {
                    self.wish = Some(wish);
                    return;
                }
                Ok(request) => answer(request),
                Err(error) => serde_json::json!({ "error": format!("not a request: {error}") }),
            };
            self.say(&value);
        }
    }

    fn say(&mut self, value: &serde_json::Value) {
        let mut value = value.to_string();
        if value.len() > ANSWER_BYTES {
            let why = format!("the answer has {} bytes, of at most {ANSWER_BYTES}", value.len());
            value = serde_json::json!({ "error": why }).to_string();
        }
        self.answer.extend_from_slice(value.as_bytes());
        self.answer.push(b'\n');
    }

    fn write(&mut self) {
        while !self.answer.is_empty() {
            match self.stream.write(&self.answer) {
                Ok(length) => {
                    self.answer.drain(..length);
                    self.moved = StdInstant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_over = true;
                    return;
                }
            }
        }
    }
}
