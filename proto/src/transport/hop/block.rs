//! A block at one node: what of it is there, and where it stands on its way to the next one.

use bytes::Bytes;

use super::bits::Bits;
use crate::base::{Instant, NodeId};

/// What is known of a block from its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) destination: NodeId,
    pub(super) frames: u16,
    pub(super) length: u32,
    pub(super) crc: u32,
    pub(super) hops_left: u8,
    pub(super) hops_made: u8,
}

/// A block at a node.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) shape: Shape,
    /// The bytes of each frame; empty where it is missing or was let go.
    pub(super) data: Vec<Bytes>,
    pub(super) have: Bits,
    /// On its way to the next hop.
    pub(super) transfer: Option<Transfer>,
    pub(super) end: End,
    /// When it last mattered, for letting go the oldest.
    pub(super) used: Instant,
}

/// What has become of a block here. With [`Transfer`] it is the state machine of `hop.md` 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// INCOMPLETE, READY, WAIT_BACK or DATA_SENT: it is not passed on.
    Open,
    /// SEND_DONE: the next hop has it.
    PassedOn {
        /// Since when.
        at: Instant,
    },
    /// This is the destination, and the application has it.
    Delivered,
}

/// A block on its way to the next hop.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) via: NodeId,
    pub(super) round: u16,
    /// What the next hop said it has.
    pub(super) theirs: Bits,
    /// What was sent since it said so.
    pub(super) sent: Bits,
    /// From which frame on there may be something to send.
    pub(super) cursor: u16,
    /// Frames that the radio has.
    pub(super) in_radio: u32,
    pub(super) phase: Phase,
    /// Only the end-to-end acknowledgement is missing.
    pub(super) is_virtual: bool,
}

/// Where a transfer stands in its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The next hop was asked (WAIT_BACK).
    Asked {
        /// When it is asked again.
        due: Instant,
        /// How often it was.
        tries: u32,
    },
    /// Frames go out, as far as they are here (DATA_SENT once the last one has).
    Sending,
}

impl Block {
    pub(super) fn empty(shape: Shape, now: Instant) -> Self {
        Self {
            shape,
            data: vec![Bytes::new(); usize::from(shape.frames)],
            have: Bits::none(shape.frames),
            transfer: None,
            end: End::Open,
            used: now,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.have.is_full()
    }

    /// Whether it still has to be passed on.
    pub(super) fn is_open(&self) -> bool {
        self.end == End::Open
    }

    /// Whether its bytes can be let go: nobody here needs them, and others have them.
    pub(super) fn is_spare(&self) -> bool {
        self.transfer.is_none() && self.end != End::Open
    }

    /// Bytes that it takes in memory.
    pub(super) fn bytes(&self) -> u64 {
        self.data.iter().map(|frame| frame.len() as u64).sum()
    }

    /// Takes a frame. Returns whether it was missing.
    pub(super) fn put(&mut self, frame: u16, payload: Bytes) -> bool {
        let is_new = self.have.set(frame);
        if is_new {
            self.data[usize::from(frame)] = payload;
        }
        is_new
    }

    /// Whether all is there and as the source wrote it. If it is not, all of it is missing again.
    pub(super) fn verify(&mut self) -> bool {
        let mut hash = crc32fast::Hasher::new();
        self.data.iter().for_each(|frame| hash.update(frame));
        let is_right =
            self.bytes() == u64::from(self.shape.length) && hash.finalize() == self.shape.crc;
        if !is_right {
            self.have = Bits::none(self.shape.frames);
            self.data.iter_mut().for_each(|frame| *frame = Bytes::new());
        }
        is_right
    }

    /// Frames that could go out now.
    pub(super) fn ready(&self) -> u32 {
        let beyond =
            |transfer: &Transfer| self.have.count_beyond([&transfer.theirs, &transfer.sent]);
        self.transfer.as_ref().map_or(0, beyond)
    }
}
