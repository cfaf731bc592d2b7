//! The connection between a program and its daemon once it is a socket: records in both directions.
//!
//! ```text
//! byte 0      kind
//! bytes 1-4   length of the payload
//! ```

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

use bytes::{Buf as _, Bytes, BytesMut};
use farhop_proto::wire::hop::BlockId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Bytes of a record's header.
pub(super) const HEAD_BYTES: usize = 5;
/// Most bytes of a block of a program, even if blocks of files may be longer.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// Longest record, in bytes: a block and its header.
pub(super) const RECORD_BYTES: usize = BLOCK_BYTES + 1_024;
/// Most bytes that a program writes to a stream at once.
pub(super) const STREAM_BYTES: usize = 64 << 10;
/// Longest record of a program that only listens or confirms.
const WORD_BYTES: usize = 1_024;
/// Most records of a program that are handled in one turn: it may send without end.
pub(super) const RECORDS: usize = 64;
/// Bytes that are read from a program at once.
const READ_BYTES: usize = 64 << 10;

/// Kind of a record; its payload is described with it, with its length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Data: of a stream, the bytes; of blocks, a number (4) and the block; of datagrams, an
    /// address and the datagram.
    Data = 1,
    /// Send what was written at once.
    Flush = 2,
    /// The end: no more data follows.
    Finish = 3,
    /// The program has stored the block with this number (4).
    Confirm = 4,
    /// A listener refuses the stream or flow with this id.
    Refuse = 5,
    /// The socket is open: JSON.
    Opened = 6,
    /// The socket is closed, or was refused: a [`Cause`] (1), and the reason as text.
    Reset = 7,
    /// A new stream or flow for a listener: JSON.
    Incoming = 8,
    /// The daemon has stored the block with this number (4).
    Taken = 9,
    /// This many blocks (4) have arrived.
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

    /// The header of a record with a payload of this length.
    pub(super) fn head(self, bytes: usize) -> [u8; HEAD_BYTES] {
        let [a, b, c, d] = (bytes as u32).to_be_bytes();
        [self as u8, a, b, c, d]
    }
}

/// Why a socket was refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Cause {
    /// The daemon or the other end refused it.
    Refused = 1,
    /// The other end was silent for too long.
    Silent = 2,
    /// It was open, and was broken off.
    Broken = 3,
}

/// A part of a record for the program, and the block that the program has once this is written.
#[derive(Debug)]
struct Piece {
    bytes: Bytes,
    settles: Option<BlockId>,
}

/// The daemon's end of the connection.
#[derive(Debug)]
pub(super) struct Channel {
    socket: UnixStream,
    inbox: BytesMut,
    outbox: VecDeque<Piece>,
    /// Bytes in the outbox.
    unwritten: usize,
    /// Longest record that the program may send.
    most: usize,
    is_ready: bool,
    /// Whether the program sends no more: it closed its end, or sent an invalid record.
    is_over: bool,
    /// Whether the program takes no more. Records that it sent before still count.
    is_deaf: bool,
}

impl Channel {
    /// `rest` is what the program sent after its request. Its records are short.
    pub(super) fn new(socket: UnixStream, rest: &[u8]) -> Self {
        let (inbox, outbox) = (BytesMut::from(rest), VecDeque::new());
        let (unwritten, is_ready, is_over, is_deaf) = (0, true, false, false);
        Self { socket, inbox, outbox, unwritten, most: WORD_BYTES, is_ready, is_over, is_deaf }
    }

    /// The same with records of up to `most` bytes.
    pub(super) fn with_records_of(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// What to wait on; `reads` tells whether there is room for more from the program.
    pub(super) fn source(&self, reads: bool) -> (BorrowedFd<'_>, PollFlags) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, reads && !self.is_over);
        flags.set(PollFlags::OUT, !self.outbox.is_empty());
        (self.socket.as_fd(), flags)
    }

    /// Whether the program hung up, or shut down its sending side, and this was not read yet.
    pub(super) fn is_hung_up(&self) -> bool {
        let mut one = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let is_ready = poll(&mut one, Some(&Timespec::default())).is_ok_and(|count| count > 0);
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        !self.is_over && is_ready && one[0].revents().intersects(gone)
    }

    /// Reads everything that a program which is gone has left; the kernel's buffer bounds that.
    /// Returns whether a record of this kind is among it.
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

    /// Whether the program closed its end and all its records were taken.
    pub(super) fn has_ended(&self) -> bool {
        self.is_over && self.record_bytes().is_none()
    }

    /// Whether nothing more can be read from the program.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Bytes of the program that belong to no record yet.
    pub(super) fn unread(&self) -> usize {
        self.inbox.len()
    }

    /// Bytes that were not written to the program yet.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten
    }

    /// Length of the first record's payload, as its header says.
    fn announced_bytes(&self) -> Option<usize> {
        let length = self.inbox.get(1..HEAD_BYTES)?;
        Some(u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize)
    }

    /// Length of the first record's payload, if the record is complete.
    fn record_bytes(&self) -> Option<usize> {
        self.announced_bytes().filter(|length| self.inbox.len() >= HEAD_BYTES + length)
    }

    /// The next record of the program, if it is complete.
    pub(super) fn poll_record(&mut self) -> Option<(Kind, Bytes)> {
        loop {
            if self.announced_bytes().is_some_and(|length| length > self.most) {
                self.break_off();
                return None;
            }
            if let Some(length) = self.record_bytes() {
                let Some(kind) = Kind::from_byte(self.inbox[0]) else {
                    self.break_off();
                    return None;
                };
                self.inbox.advance(HEAD_BYTES);
                return Some((kind, self.inbox.split_to(length).freeze()));
            }
            if !self.is_ready || self.is_over || !self.read() {
                return None;
            }
        }
    }

    /// The program sent an invalid record.
    fn break_off(&mut self) {
        self.inbox.clear();
        self.is_over = true;
    }

    /// Reads more from the program. Returns whether to try again.
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

    /// Queues a record for the program; once it is written the program has the block `settles`.
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

    /// Marks that the program has the block `settles` once it has all that was queued before.
    pub(super) fn put_mark(&mut self, settles: BlockId) {
        if !self.is_deaf {
            self.outbox.push_back(Piece { bytes: Bytes::new(), settles: Some(settles) });
        }
    }

    /// Queues a record with text or JSON.
    pub(super) fn say(&mut self, kind: Kind, what: impl Into<Vec<u8>>) {
        self.put(kind, &[Bytes::from(what.into())], None);
    }

    /// Tells the program why it has no socket. What the kernel does not take at once is lost.
    pub(super) fn say_no(&mut self, cause: Cause, why: &str) {
        self.say(Kind::Reset, [&[cause as u8], why.as_bytes()].concat());
        self.write();
    }

    /// Writes as much as possible without blocking; returns the blocks that the program has now.
    pub(super) fn write(&mut self) -> Vec<BlockId> {
        let mut settled = Vec::new();
        while let Some(first) = self.outbox.front_mut() {
            let written = match first.bytes.is_empty() {
                true => Ok(0),
                false => self.socket.write(&first.bytes),
            };
            match written {
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
    use farhop_proto::base::NodeId;
    use farhop_proto::wire::hop::FlowKey;

    use super::*;

    #[test]
    fn a_record_longer_than_its_socket_may_send_ends_it_before_it_is_there() {
        let (socket, mut program) = UnixStream::pair().expect("two sockets");
        socket.set_nonblocking(true).expect("it can be");
        let mut channel = Channel::new(socket, b"").with_records_of(2_000);
        program.write_all(&[&Kind::Data.head(2_000)[..], &[7; 2_000]].concat()).expect("room");
        assert_eq!(channel.poll_record().map(|(_, bytes)| bytes.len()), Some(2_000));
        program.write_all(&Kind::Data.head(2_001)).expect("room");
        assert!(channel.poll_record().is_none() && channel.has_ended());
    }

    #[test]
    fn a_mark_is_passed_once_all_before_it_is_written() {
        let (socket, mut program) = UnixStream::pair().expect("two sockets");
        socket.set_nonblocking(true).expect("it can be");
        let mut channel = Channel::new(socket, b"");
        let flow = FlowKey { source: NodeId(1), local: 7 };
        let id = |number| BlockId { flow, number };
        channel.put_mark(id(0));
        assert_eq!(channel.write(), [id(0)]);
        channel.put(Kind::Data, &[Bytes::from(vec![7; 1 << 22])], Some(id(1)));
        channel.put_mark(id(2));
        assert!(channel.write().is_empty(), "so much does not fit");
        let mut settled = Vec::new();
        while channel.unwritten() > 0 {
            assert!(program.read(&mut [0; 1 << 16]).is_ok_and(|length| length > 0));
            settled.extend(channel.write());
        }
        assert_eq!(settled, [id(1), id(2)]);
    }

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
