//! The connection between a program and its daemon once it is a socket: records both ways.
//!
//! ```text
//! byte 0      kind
//! bytes 1-4   bytes that follow
//! ```

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

use bytes::{Buf as _, Bytes, BytesMut};
use farhop_proto::wire::hop::BlockId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes before a record.
pub(super) const HEAD_BYTES: usize = 5;
/// Longest record, in bytes: a block and what is said of it.
pub(super) const RECORD_BYTES: usize = (1 << 20) + 1_024;
/// Bytes read of a program at once.
const READ_BYTES: usize = 64 << 10;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Bytes; of blocks, behind their number (4); of datagrams, behind their address.
    Data = 1,
    /// What was written goes out at once.
    Flush = 2,
    /// Nothing more comes.
    Finish = 3,
    /// The program has the block with this number (4).
    Confirm = 4,
    /// A listener does not take the connection of this name.
    Refuse = 5,
    /// The socket is there: JSON.
    Opened = 6,
    /// It is no more: a [`Cause`] (1), and why, as text.
    Reset = 7,
    /// Somebody wants to connect: JSON.
    Incoming = 8,
    /// The daemon has the block with this number (4).
    Taken = 9,
    /// So many blocks (4) have arrived.
    Arrived = 10,
}

impl Kind {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        let all = [
            Self::Data,
            Self::Flush,
            Self::Finish,
            Self::Confirm,
            Self::Refuse,
            Self::Opened,
            Self::Reset,
            Self::Incoming,
            Self::Taken,
            Self::Arrived,
        ];
        all.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// What stands before a record of so many bytes.
    pub(super) fn head(self, bytes: usize) -> [u8; HEAD_BYTES] {
        let [a, b, c, d] = (bytes as u32).to_be_bytes();
        [self as u8, a, b, c, d]
    }
}

/// Why there is no socket, or none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Cause {
    /// The daemon, or the other end, does not want it.
    Refused = 1,
    /// The other end was silent for too long.
    Silent = 2,
    /// It was there, and was broken off.
    Broken = 3,
}

/// What a program is to be given, and the block that it has then.
#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    settles: Option<BlockId>,
}

/// The daemon's end.
#[derive(Debug)]
pub(super) struct Channel {
    socket: UnixStream,
    inbox: BytesMut,
    outbox: VecDeque<Piece>,
    /// Bytes in it.
    unwritten: usize,
    is_ready: bool,
    /// Whether the program sends nothing any more: it closed its end, or broke the rules.
    is_over: bool,
    /// Whether it does not take anything any more; what it said before still counts.
    is_deaf: bool,
}

impl Channel {
    /// `rest` is what the program sent behind its request.
    pub(super) fn new(socket: UnixStream, rest: &[u8]) -> Self {
        let (inbox, outbox) = (BytesMut::from(rest), VecDeque::new());
        let (unwritten, is_ready, is_over, is_deaf) = (0, true, false, false);
        Self { socket, inbox, outbox, unwritten, is_ready, is_over, is_deaf }
    }

    /// What to wait on; `reads` says whether there is place for more of the program's bytes.
    pub(super) fn source(&self, reads: bool) -> (BorrowedFd<'_>, PollFlags) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, reads && !self.is_over);
        flags.set(PollFlags::OUT, !self.outbox.is_empty());
        (self.socket.as_fd(), flags)
    }

    /// Whether the program is gone, or will send nothing more, before that was read.
    pub(super) fn is_hung_up(&self) -> bool {
        let mut one = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let is_ready = poll(&mut one, Some(&Timespec::default())).is_ok_and(|count| count > 0);
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        !self.is_over && is_ready && one[0].revents().intersects(gone)
    }

    /// Reads all that a program which is gone has left, which the kernel bounds. Returns whether
    /// there is a record of this kind in it.
    pub(super) fn read_rest(&mut self, wanted: Kind) -> bool {
        while !self.is_over && self.read() {}
        let mut rest = &self.inbox[..];
        while let Some((head, behind)) = rest.split_at_checked(HEAD_BYTES) {
            if head[0] == wanted as u8 {
                return true;
            }
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            rest = behind.get(length..).unwrap_or_default();
        }
        false
    }

    pub(super) fn set_ready(&mut self, is_ready: bool) {
        self.is_ready |= is_ready;
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether the program closed its end, and all that it said before was taken.
    pub(super) fn has_ended(&self) -> bool {
        self.is_over && self.record_bytes().is_none()
    }

    /// Whether nothing more comes from the program.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Bytes that the program has not read.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// The length of the first record, if all of it is here.
    fn record_bytes(&self) -> Option<usize> {
        let length = self.inbox.get(1..HEAD_BYTES)?;
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
        (self.inbox.len() >= HEAD_BYTES + length).then_some(length)
    }

    /// The next record of the program.
    pub(super) fn poll_record(&mut self) -> Option<(Kind, Bytes)> {
        loop {
            if let Some(length) = self.record_bytes() {
                let Some(kind) = Kind::from_byte(self.inbox[0]) else {
                    self.break_off();
                    return None;
                };
                self.inbox.advance(HEAD_BYTES);
                return Some((kind, self.inbox.split_to(length).freeze()));
            }
            if self.inbox.len() > RECORD_BYTES + HEAD_BYTES {
                self.break_off();
            }
            if !self.is_ready || self.is_over || !self.read() {
                return None;
            }
        }
    }

    /// The program does not speak as it should.
    fn break_off(&mut self) {
        self.inbox.clear();
        self.is_over = true;
    }

    /// Returns whether there was something.
    fn read(&mut self) -> bool {
        let filled = self.inbox.len();
        self.inbox.resize(filled + READ_BYTES, 0);
        let got = self.socket.read(&mut self.inbox[filled..]);
        self.inbox.truncate(filled + got.as_ref().map_or(0, |length| *length));
        match got {
            Ok(0) => self.is_over = true,
            Ok(_) => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_ready = false,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return true,
            Err(_) => self.is_over = true,
        }
        false
    }

    /// Gives the program a record; once it has it, the block `settles` is its own.
    pub(super) fn put(&mut self, kind: Kind, parts: &[Bytes], settles: Option<BlockId>) {
        if self.is_deaf {
            return;
        }
        let length: usize = parts.iter().map(Bytes::len).sum();
        self.unwritten += HEAD_BYTES + length;
        let head = Bytes::copy_from_slice(&kind.head(length));
        self.outbox.push_back(Piece { bytes: head, settles: None });
        let pieces = parts.iter().filter(|part| !part.is_empty());
        self.outbox.extend(pieces.map(|part| Piece { bytes: part.clone(), settles: None }));
        self.outbox.back_mut().expect("a head at least").settles = settles;
    }

    /// The same with text or data that is written as JSON.
    pub(super) fn say(&mut self, kind: Kind, what: impl Into<Vec<u8>>) {
        self.put(kind, &[Bytes::from(what.into())], None);
    }

    /// Tells the program why there is no socket; what does not fit is lost.
    pub(super) fn say_no(&mut self, cause: Cause, why: &str) {
        self.say(Kind::Reset, [&[cause as u8], why.as_bytes()].concat());
        self.write();
    }

    /// Writes as far as that goes without waiting; gives the blocks that the program has now.
    pub(super) fn write(&mut self) -> Vec<BlockId> {
        let mut settled = Vec::new();
        while let Some(first) = self.outbox.front_mut() {
            match self.socket.write(&first.bytes) {
                Ok(length) => {
                    first.bytes.advance(length);
                    self.unwritten -= length;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.is_deaf = true;
                    self.outbox.clear();
                    self.unwritten = 0;
                    break;
                }
            }
            if self.outbox.front().is_some_and(|first| first.bytes.is_empty()) {
                settled.extend(self.outbox.pop_front().and_then(|piece| piece.settles));
            }
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_has_not_read_is_counted() {
        let (socket, mut program) = UnixStream::pair().expect("two sockets");
        socket.set_nonblocking(true).expect("it can be");
        let mut channel = Channel::new(socket, b"");
        let long = Bytes::from(vec![7; 1 << 22]);
        for part in [Bytes::from_static(b"ab"), Bytes::new(), long.clone()] {
            channel.put(Kind::Data, &[part], None);
        }
        let all = 3 * HEAD_BYTES + 2 + long.len();
        assert_eq!(channel.unwritten(), all);
        channel.write();
        assert!(channel.unwritten() > 0, "so much does not fit");
        let mut read = vec![0; all - channel.unwritten()];
        program.read_exact(&mut read).expect("it is there");
        drop(program);
        channel.write();
        assert_eq!(channel.unwritten(), 0, "nobody reads it any more");
    }
}
