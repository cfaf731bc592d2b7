//! Cuts the bytes of a program into blocks.
//!
//! A block is closed when it is full, half a second after its first byte, when the program flushes,
//! and at once while nothing of the flow is on its way. So a keystroke goes out immediately, and
//! one that follows before the first has arrived waits for those after it, as with Nagle's
//! algorithm in TCP. A bulk transfer fills its blocks while earlier ones travel.

use bytes::{BufMut as _, Bytes, BytesMut};
use farhop_proto::base::Instant;
use farhop_proto::transport::hop::BATCH;

use crate::blocks::FIRST_BYTES;

/// Meaning of a block, in its first byte; the first block of a flow has no such byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mark {
    /// Bytes of the program; without any, a probe whether the other end is there.
    Bytes = 0,
    /// The flow ends here, and not as its program wanted.
    Reset = 1,
}

/// How a flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    No,
    Wanted,
    Sent,
}

/// The sending side of a flow.
#[derive(Debug)]
pub(super) struct Batch {
    /// The header of the first block, before the first bytes.
    front: Vec<u8>,
    filling: BytesMut,
    /// When the first byte of the block that is being filled was written.
    since: Option<Instant>,
    is_urgent: bool,
    is_probing: bool,
    is_reset: bool,
    finish: Finish,
    next: u32,
    /// Blocks that have not arrived yet.
    flying: u32,
}

impl Batch {
    pub(super) fn new(front: Vec<u8>) -> Self {
        assert!(front.len() < FIRST_BYTES, "what a flow says of itself fits into a block");
        Self {
            front,
            filling: BytesMut::new(),
            since: None,
            is_urgent: false,
            is_probing: false,
            is_reset: false,
            finish: Finish::No,
            next: 0,
            flying: 0,
        }
    }

    /// Bytes that wait to be put into a block.
    pub(super) fn waiting(&self) -> usize {
        self.filling.len()
    }

    pub(super) fn write(&mut self, now: Instant, bytes: &[u8]) {
        if !bytes.is_empty() && self.finish == Finish::No {
            self.since.get_or_insert(now);
            self.filling.extend_from_slice(bytes);
        }
    }

    /// Closes the current block at once.
    pub(super) fn flush(&mut self) {
        self.is_urgent = !self.filling.is_empty();
    }

    /// Nothing more will be written: the block with the last bytes ends the flow.
    pub(super) fn finish(&mut self) {
        if self.finish == Finish::No {
            self.finish = Finish::Wanted;
        }
    }

    /// Discards the bytes that wait; the last block tells the other end.
    pub(super) fn reset(&mut self) {
        self.filling.clear();
        (self.since, self.is_urgent, self.is_reset) = (None, false, true);
        self.finish();
    }

    /// Sends a probe, as soon as a block can be taken.
    pub(super) fn probe(&mut self) {
        self.is_probing = true;
    }

    /// Whether a probe is useful: no block is on its way, which would serve as one.
    pub(super) fn can_probe(&self) -> bool {
        self.flying == 0 && self.finish == Finish::No && self.next > 0
    }

    /// Whether a block has not arrived yet.
    pub(super) fn is_flying(&self) -> bool {
        self.flying > 0
    }

    pub(super) fn is_finish_wanted(&self) -> bool {
        self.finish != Finish::No
    }

    /// Whether the last block was sent, and all blocks have arrived.
    pub(super) fn has_finished(&self) -> bool {
        self.finish == Finish::Sent && self.flying == 0
    }

    /// One more block has arrived.
    pub(super) fn handle_arrived(&mut self) {
        self.flying = self.flying.saturating_sub(1);
    }

    /// When the block that is being filled must be closed.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.since.map(|since| since + BATCH)
    }

    /// Whether a block, of at most `block_bytes`, is ready for the machine.
    pub(super) fn has_block(&self, now: Instant, block_bytes: usize) -> bool {
        let is_due = self.poll_timeout().is_some_and(|due| due <= now);
        let is_next = self.flying == 0 && !self.filling.is_empty();
        let is_full = self.filling.len() + 1 >= block_bytes;
        let is_asked = self.is_urgent || self.is_probing || self.finish == Finish::Wanted;
        self.next == 0 || is_due || is_next || is_full || is_asked
    }

    /// Length of the next block in bytes.
    pub(super) fn next_bytes(&self, block_bytes: usize) -> usize {
        let is_first = self.next == 0;
        let front = if is_first { self.front.len() } else { size_of::<Mark>() };
        let limit = if is_first { FIRST_BYTES.min(block_bytes) } else { block_bytes };
        front + self.filling.len().min(limit.saturating_sub(front))
    }

    /// The next block: its number, its bytes, and whether it is the last.
    pub(super) fn take_block(&mut self, now: Instant, block_bytes: usize) -> (u32, Bytes, bool) {
        let (is_first, bytes) = (self.next == 0, self.next_bytes(block_bytes));
        let mark = if self.is_reset { Mark::Reset } else { Mark::Bytes };
        let front = if is_first { std::mem::take(&mut self.front) } else { vec![mark as u8] };
        let mut block = BytesMut::with_capacity(bytes);
        block.put_slice(&front);
        block.put_slice(&self.filling.split_to(bytes - front.len()));
        if self.filling.is_empty() {
            (self.since, self.is_urgent) = (None, false);
        } else {
            self.since = Some(now);
        }
        self.is_probing = false;
        let is_last = !is_first && self.finish == Finish::Wanted && self.filling.is_empty();
        if is_last {
            self.finish = Finish::Sent;
        }
        let number = self.next;
        (self.next, self.flying) = (number + 1, self.flying + 1);
        (number, block.freeze(), is_last)
    }
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::Duration;

    use super::*;

    const BLOCK: usize = 1_000;

    fn opened() -> Batch {
        let mut batch = Batch::new(vec![9; 10]);
        batch.take_block(Instant::ZERO, BLOCK);
        batch.handle_arrived();
        batch
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_byte_goes_out_at_once_while_nothing_is_on_its_way_and_the_next_waits_for_it() {
        let mut batch = opened();
        batch.write(at(0), b"a");
        assert!(batch.has_block(at(0), BLOCK));
        assert_eq!(batch.take_block(at(0), BLOCK), (1, Bytes::from_static(b"\0a"), false));
        batch.write(at(1), b"b");
        batch.write(at(2), b"c");
        assert!(!batch.has_block(at(2), BLOCK));
        batch.handle_arrived();
        assert_eq!(batch.take_block(at(3), BLOCK), (2, Bytes::from_static(b"\0bc"), false));
    }

    #[test]
    fn a_block_is_closed_after_half_a_second_when_full_and_when_asked_for() {
        let mut batch = opened();
        batch.write(at(0), b"first");
        batch.take_block(at(0), BLOCK);
        batch.write(at(10), b"later");
        assert!(!batch.has_block(at(509), BLOCK) && batch.has_block(at(510), BLOCK));
        batch.flush();
        assert!(batch.has_block(at(11), BLOCK));
        batch.take_block(at(11), BLOCK);
        batch.write(at(12), &[1; BLOCK]);
        assert_eq!(batch.take_block(at(12), BLOCK).1.len(), BLOCK);
        assert_eq!(batch.waiting(), 1);
    }

    #[test]
    fn the_last_block_says_so_and_comes_behind_all_bytes() {
        let mut batch = opened();
        batch.write(at(0), &[1; BLOCK]);
        batch.finish();
        assert!(!batch.take_block(at(0), BLOCK).2);
        assert_eq!(batch.take_block(at(0), BLOCK), (2, Bytes::from_static(&[0, 1]), true));
        assert!(!batch.has_finished());
        batch.handle_arrived();
        batch.handle_arrived();
        assert!(batch.has_finished() && !batch.has_block(at(9_000), BLOCK));
    }

    #[test]
    fn a_reset_goes_out_in_the_place_of_what_waits() {
        let mut batch = opened();
        batch.write(at(0), b"bytes");
        batch.reset();
        assert_eq!(batch.take_block(at(0), BLOCK), (1, Bytes::from_static(&[1]), true));
    }
}
