//! The control socket: one JSON request a line, one JSON answer a line.
//!
//! It is served between two turns of the loop and never waited for: what a client does not read
//! stays in a buffer with a limit, and what it asks beyond that waits with it.

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
use crate::files::SendFile;
use crate::sockets::Wish;

/// Looks for a free directory, each 20 ms after the last.
const LOCK_TRIES: u32 = 100;
/// How often it is looked whether a daemon that listens ends, before it counts as one that runs.
const END_TRIES: u32 = 10;
/// Clients at one time; more wait to be accepted.
const CLIENTS: usize = 64;
/// How long one must have been silent to make place for another. Who connects asks at once.
const IDLE: StdDuration = StdDuration::from_millis(100);
/// Longest request, in bytes.
const REQUEST_BYTES: usize = 16 << 10;
/// Longest answer, in bytes.
const ANSWER_BYTES: usize = 4 << 20;
/// Answers that a client has not read yet, in bytes, from which on it gets no others.
const UNREAD_BYTES: usize = 64 << 10;
/// Answers for one client in one turn of the loop, which has packets to carry.
const ANSWERS: usize = 8;
/// How long a client that asks nothing more may leave its answers unread.
const UNREAD: StdDuration = StdDuration::from_secs(10);
/// How often it is looked whether the socket is still there.
const LOOK: StdDuration = StdDuration::from_secs(2);

/// What a client may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "query", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// What the daemon is doing.
    Status {},
    /// Keys were changed: the daemon is to read them anew, and says which it has then.
    Keys {},
    /// Which keys the daemon has.
    KeysInUse {},
    /// Send a file.
    Send(SendFile),
    /// Give up a file that is sent from here.
    Cancel {
        /// Its number.
        id: u32,
    },
    /// Which files are on their way, and which have come.
    Files {},
    /// A file that came was fetched. The answer says whether that is written down (`is_kept`);
    /// until it is, it must be said again.
    Fetched {
        /// Its name among those that came.
        id: String,
    },
    /// Let go of a file that comes or came here, or take one that was sent from here and is over
    /// out of the list.
    Drop {
        /// Its name among those that came, or its number among those that were sent.
        id: String,
    },
    /// What the block cache holds.
    Cache {},
    /// Let go of the blocks that other nodes have.
    ClearCache {
        /// Also of those that wait to be passed on.
        #[serde(default)]
        all: bool,
    },
    /// The connection is to become a socket: what follows is records, no lines.
    Socket(Wish),
    /// Of the air of a lab: the run begins now, and with it the times of the scenario's faults.
    Begin {},
    /// Of a stranger of a lab: what it has sent is to be written down, which is more than an answer
    /// can be.
    Script {},
}

/// The control socket of a daemon; its file goes with it.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    name: String,
    path: PathBuf,
    /// Number of its file.
    file: u64,
    _made: Made,
    clients: Vec<Client>,
    /// When it was last looked whether the file is there.
    looked: StdInstant,
    /// Why it could not be made anew then, if it had to be.
    trouble: Option<String>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    wish: Option<Wish>,
    /// When something last came from it or went to it.
    moved: StdInstant,
    /// It asks nothing more, and may still read.
    has_ended: bool,
    is_over: bool,
}

/// A connection that is to become a socket.
#[derive(Debug)]
pub struct Wished {
    /// The connection.
    pub stream: UnixStream,
    /// What the program sent behind its request.
    pub rest: Vec<u8>,
    /// Which socket it wants.
    pub wish: Wish,
}

impl Control {
    /// Makes the socket `name` in `dir`, for this user alone. One that a dead daemon left is
    /// replaced.
    ///
    /// Fails if a daemon of that name runs already, or the place cannot be written.
    pub fn open(dir: &Path, name: &str) -> Result<Self, ControlError> {
        let path = socket_path(dir, name);
        let fail = |error| ControlError::Io { path: path.clone(), error };
        let length = path.as_os_str().len();
        if length > PATH_BYTES {
            return Err(ControlError::TooLong { path, length });
        }
        wait_for_end(&path);
        // Of two that begin at once over what a dead one left, the second sees the first.
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
        let (name, clients, looked) = (name.into(), Vec::new(), StdInstant::now());
        Ok(Self { listener, name, path, file, _made: made, clients, looked, trouble: None })
    }

    /// Looks now and then whether the file is still there, and renews the socket if not. Tells the
    /// log.
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

    /// Makes the socket anew if its file was taken away, as nobody would find the daemon. Returns
    /// whether it was.
    ///
    /// Fails if that cannot be done.
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

    /// What to wait on.
    pub fn sources(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let clients = self.clients.iter().map(|client| (client.stream.as_fd(), client.wants()));
        clients.chain([(self.listener.as_fd(), PollFlags::IN)])
    }

    /// Takes requests and gives answers, as far as that goes without waiting. Returns the
    /// connections that are to become sockets.
    pub fn serve(&mut self, answer: &mut dyn FnMut(Request) -> serde_json::Value) -> Vec<Wished> {
        while self.clients.len() < CLIENTS || self.let_go_of_idle(IDLE) {
            match self.listener.accept() {
                Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                    self.clients.push(Client::new(stream));
                }
                Ok(_) => {}
                // No more files can be opened: somebody makes place, as where there are too many.
                Err(error) => {
                    if !is_out_of_files(&error) || !self.let_go_of_idle(StdDuration::ZERO) {
                        break;
                    }
                }
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

    /// Lets go of the client that has been silent for longest, if it was for so long: of one for
    /// whom nothing is to be done, if there is any. Returns whether there was one.
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
        // It may be gone with its directory already, or be another daemon's that came after that.
        if fs::metadata(&self.path).is_ok_and(|data| data.ino() == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A folder that was made here, if it was: it goes with this, unless others have something there.
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

/// Makes a directory if it is not there, and takes its lock. Returns it, and whether it was made.
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
            // A daemon that ended has just removed it.
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

/// Gives a daemon that is ending a moment for it, before anything is locked.
fn wait_for_end(path: &Path) {
    for _ in 0..END_TRIES {
        if is_listening(path).is_err() {
            return;
        }
        thread::sleep(StdDuration::from_millis(50));
    }
}

/// Takes the lock of a directory, which others hold for a moment only.
fn lock(place: &fs::File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        match flock(place, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => thread::sleep(StdDuration::from_millis(20)),
            outcome => return Ok(outcome?),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another program holds its folder"))
}

/// Makes a directory for this user alone, and refuses one that somebody else could have laid out.
/// Returns whether it was not there.
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
    // Another daemon may have removed it by now.
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

    /// Whether a request waits for its turn.
    fn has_request(&self) -> bool {
        self.wish.is_none() && self.request.contains(&b'\n')
    }

    /// Whether something is to be done for it.
    fn is_served(&self) -> bool {
        self.has_request() || self.wish.is_some() || !self.answer.is_empty()
    }

    /// What it has to be able to do before there is something to do for it. One that is not read
    /// from would wake the loop for ever.
    fn wants(&self) -> PollFlags {
        let mut wanted = PollFlags::empty();
        wanted.set(PollFlags::IN, self.may_read());
        wanted.set(PollFlags::OUT, self.has_request() || !self.answer.is_empty());
        wanted
    }

    /// Whether more of it is taken in: not before it was answered what it has asked.
    fn may_read(&self) -> bool {
        !self.has_ended && self.wish.is_none() && !self.has_request()
    }

    /// Whether nothing is left to do for it.
    fn is_done(&self) -> bool {
        let is_answered = self.has_ended && self.answer.is_empty() && !self.has_request();
        let asks_nothing = self.has_ended || self.wish.is_some();
        self.is_over || is_answered || (asks_nothing && self.moved.elapsed() > UNREAD)
    }

    fn read(&mut self) {
        let mut buffer = [0; 1024];
        while !self.is_over && self.may_read() && self.request.len() <= REQUEST_BYTES {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    self.has_ended = true;
                    // What it said last ends there, too: one that is whole is a request.
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
                self.is_over |= self.request.len() > REQUEST_BYTES;
                return;
            };
            let line: Vec<u8> = self.request.drain(..=end).collect();
            let value = match serde_json::from_slice(&line) {
                Ok(Request::Socket(wish)) => {
                    self.wish = Some(wish);
                    return;
                }
                Ok(request) => answer(request),
                Err(error) => serde_json::json!({ "error": format!("not a request: {error}") }),
            };
            let value = value.to_string();
            if value.len() > ANSWER_BYTES {
                self.is_over = true;
                return;
            }
            self.answer.extend_from_slice(value.as_bytes());
            self.answer.push(b'\n');
        }
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
