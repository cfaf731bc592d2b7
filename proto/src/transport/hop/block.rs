//! One block at one node: which of its frames are there, and its state on the way to the next hop.

use bytes::{Bytes, BytesMut};

use super::bits::Bits;
use super::config::HOPS;
use super::park::Place;
use crate::base::{Instant, NodeId};
use crate::wire::hop::BlockId;

/// A block of fewer bytes is sent together with its request (`hop.md` 3).
pub const SMALL_BYTES: u32 = 8_192;
/// Bytes of memory that a frame and a block cost beside their payload.
const FRAME_COST: u64 = 64;
const BLOCK_COST: u64 = 512;
/// Bytes that all frames of a block but the last have at least, or memory would go to frames rather
/// than bytes.
const LEAST_FRAME_BYTES: u32 = 64;

/// What a request says about its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its destination.
    pub destination: NodeId,
    /// Number of frames, all of one length but for the last.
    pub frames: u16,
    /// Its length in bytes.
    pub length: u32,
    /// CRC-32 of its bytes.
    pub crc: u32,
    /// Hops that it may still make.
    pub hops_left: u8,
    /// Hops that it has made.
    pub hops_made: u8,
    /// Whether it is the first of its flow.
    pub opens: bool,
    /// Whether it is the last one.
    pub finishes: bool,
    /// Whether the source did not know yet that the destination takes the flow. The block may then
    /// arrive before the first one.
    pub is_early: bool,
}

/// Bytes of memory that a block of so many bytes needs at most, as its frames may be short.
pub(super) fn most_cost(bytes: usize) -> u64 {
    cost(bytes as u64, bytes as u64 / u64::from(LEAST_FRAME_BYTES) + 1)
}

/// Bytes of memory that a block needs with all its payload.
pub(super) fn cost(bytes: u64, frames: u64) -> u64 {
    bytes + frames * FRAME_COST + BLOCK_COST
}

impl Shape {
    /// Whether it is sent together with its request.
    pub(super) fn is_small(&self) -> bool {
        self.length < SMALL_BYTES
    }

    /// Whether somebody probably waits for it, if it has this number in its flow: it is small, and
    /// is all of the flow, or in the midst of it, or next to the first. A small first or last block
    /// alone proves nothing, because transfers too begin and end with one.
    pub(super) fn is_interactive(&self, number: u32) -> bool {
        self.is_small() && (self.opens == self.finishes || number == 1)
    }

    /// Whether it must not be lost in the bursts of a hidden node: somebody waits for it, or it
    /// opens a transfer, which could not begin otherwise.
    pub(super) fn is_urgent(&self, number: u32) -> bool {
        self.is_interactive(number) || (self.is_small() && self.opens)
    }

    /// Whether such a block can exist.
    pub(super) fn is_possible(&self) -> bool {
        let last = u32::from(self.frames).saturating_sub(1);
        self.frames > 0 && (last == 0 || self.length > last * LEAST_FRAME_BYTES)
    }

    /// Bytes of memory that it needs with all its payload.
    pub(super) fn cost(&self) -> u64 {
        cost(self.length.into(), self.frames.into())
    }

    /// The shape in the destination's acknowledgement to the source, whose hops are counted anew.
    pub(super) fn answered(self) -> Self {
        Self { hops_left: HOPS, hops_made: 0, ..self }
    }

    /// Whether both describe the same block, however many hops it made.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let key = |shape: &Self| {
            let Self { destination, frames, length, crc, opens, finishes, .. } = *shape;
            (destination, frames, length, crc, opens, finishes)
        };
        key(self) == key(other)
    }
}

/// A complete block, to be stored where it survives the node.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Its id.
    pub id: BlockId,
    /// Its destination, size and checksum.
    pub shape: Shape,
    /// Its frames in order.
    pub frames: Vec<Bytes>,
}

impl Whole {
    /// A block of a flow that begins here; number 0 opens the flow.
    ///
    /// Panics if there is no frame, or more than 65,535.
    pub fn build(id: BlockId, destination: NodeId, finishes: bool, frames: Vec<Bytes>) -> Self {
        let (bytes, crc) = sum_of(&frames);
        let shape = Shape {
            destination,
            frames: u16::try_from(frames.len()).expect("a block of at most 65,535 frames"),
            length: bytes as u32,
            crc,
            hops_left: HOPS,
            hops_made: 0,
            opens: id.number == 0,
            finishes,
            is_early: false,
        };
        assert!(shape.frames > 0, "a block has a frame");
        Self { id, shape, frames }
    }

    /// Whether all bytes are as the source wrote them.
    pub fn is_right(&self) -> bool {
        sum_of(&self.frames) == (u64::from(self.shape.length), self.shape.crc)
    }
}

/// Number and checksum of the bytes of frames.
fn sum_of(frames: &[Bytes]) -> (u64, u32) {
    let mut hash = crc32fast::Hasher::new();
    frames.iter().for_each(|frame| hash.update(frame));
    (frames.iter().map(|frame| frame.len() as u64).sum(), hash.finalize())
}

/// A block at a node.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) shape: Shape,
    /// The payload of each frame; empty where it is missing. The list is empty while the bytes are
    /// not in memory.
    pub(super) data: Vec<Bytes>,
    pub(super) place: Place,
    pub(super) have: Bits,
    /// Whether a frame of it came through a node between the two hops.
    pub(super) is_forwarded: bool,
    /// Its transfer to the next hop, while there is one.
    pub(super) transfer: Option<Transfer>,
    pub(super) end: End,
    /// Hops after which it came here last; more each time that it comes back in a loop.
    pub(super) hops: u8,
    /// Hops after which it last came here without a loop.
    pub(super) straight_hops: u8,
    /// It came back in a loop during its transfer, and is to go around once more after that.
    pub(super) goes_around: bool,
    /// The neighbour that took it last.
    pub(super) passed_to: Option<NodeId>,
    /// Whether it may be acknowledged as complete.
    pub(super) is_safe: bool,
    /// Who asked last when it was complete, and in which round: the answer goes out once it is
    /// safe.
    pub(super) asked: Option<(NodeId, u16)>,
    /// How often its source has asked for the destination's acknowledgement.
    pub(super) times_asked: u32,
    /// When it last mattered: the oldest is dropped first.
    pub(super) used: Instant,
    /// When it was taken: from a neighbour, from a program, or from storage after a restart.
    pub(super) came: Instant,
}

/// What has become of a block here; with [`Transfer`], the state machine of `hop.md` 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// INCOMPLETE, READY, WAIT_BACK or DATA_SENT: it is not passed on yet. At its destination: the
    /// application was not given it yet.
    Open,
    /// SEND_DONE: the next hop has it.
    PassedOn {
        /// Since when.
        at: Instant,
    },
    /// This is the destination, and the application was given the block; only its shape is left.
    Given,
}

/// The transfer of a block to the next hop.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) via: NodeId,
    pub(super) round: u16,
    /// Frames that the next hop has, by its last answer.
    pub(super) theirs: Bits,
    /// Frames that were sent since that answer.
    pub(super) sent: Bits,
    /// The first frame that may still have to be sent.
    pub(super) cursor: u16,
    /// When the first frame of this round went out.
    pub(super) began: Instant,
    /// Most frames of this round.
    pub(super) most: u32,
    /// Frames that the radio has not sent yet.
    pub(super) in_radio: u32,
    pub(super) phase: Phase,
    /// The next hop has answered for the block.
    pub(super) is_answered: bool,
    /// Only the end-to-end acknowledgement is missing.
    pub(super) is_virtual: bool,
    /// Part of a turn that it has saved up, under proportional fairness.
    pub(super) credit: f64,
}

/// State of a transfer within its round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The next hop was asked (WAIT_BACK).
    Asked {
        /// When it was first asked in this round.
        first: Instant,
        /// When it was asked last.
        since: Instant,
        /// When it is asked again.
        due: Instant,
        /// How often it was asked.
        tries: u32,
    },
    /// Nothing is sent until then: hardly anything of the last round arrived, there is no memory
    /// for the bytes, or a frame is longer than the device takes.
    Paused {
        /// When it goes on.
        until: Instant,
    },
    /// Frames are sent, as far as they are here (DATA_SENT once the last one has left).
    Sending,
}

impl Transfer {
    /// Continues with this next hop. If it is another one than before, nothing is known of what it
    /// has.
    pub(super) fn go_over(&mut self, via: NodeId) {
        if self.via != via {
            (self.via, self.is_answered) = (via, false);
            self.sent.clear();
        }
    }
}

impl Block {
    pub(super) fn empty(shape: Shape, now: Instant) -> Self {
        Self {
            shape,
            data: vec![Bytes::new(); usize::from(shape.frames)],
            place: Place::Memory,
            have: Bits::none(shape.frames),
            is_forwarded: false,
            transfer: None,
            end: End::Open,
            hops: shape.hops_made,
            straight_hops: shape.hops_made,
            goes_around: false,
            passed_to: None,
            is_safe: false,
            asked: None,
            times_asked: 0,
            used: now,
            came: now,
        }
    }

    /// A block that is complete.
    pub(super) fn whole(shape: Shape, data: Vec<Bytes>, now: Instant) -> Self {
        let have = Bits::all(shape.frames);
        Self { data, have, is_safe: true, ..Self::empty(shape, now) }
    }

    /// Whether a frame with so many bytes can belong to this block.
    pub(super) fn can_have(&self, frame: u16, bytes: usize) -> bool {
        let (frames, length) = (u64::from(self.shape.frames), u64::from(self.shape.length));
        let bytes = bytes as u64;
        if u64::from(frame) + 1 == frames {
            return (bytes > 0 || length == 0) && bytes <= length;
        }
        bytes * (frames - 1) < length && length <= bytes * frames
    }

    /// Bytes of memory that are set aside for it now.
    pub(super) fn cost(&self) -> u64 {
        if self.place == Place::Kept { BLOCK_COST } else { self.shape.cost() }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.have.is_full()
    }

    /// Whether it was offered to the next hop, or given to the application.
    pub(super) fn was_sent(&self) -> bool {
        self.transfer.is_some() || self.end != End::Open
    }

    /// Whether it still has to be passed on, or given to the application.
    pub(super) fn is_open(&self) -> bool {
        self.end == End::Open
    }

    /// Whether a neighbour may be told that it is complete here: it is safe, or the next hop has
    /// it.
    pub(super) fn is_sayable(&self) -> bool {
        self.is_safe || matches!(self.end, End::PassedOn { .. })
    }

    /// Whether it may be dropped: nothing is left to do for it here, and the next hop has it.
    pub(super) fn is_spare(&self) -> bool {
        self.transfer.is_none() && matches!(self.end, End::PassedOn { .. })
    }

    /// Takes a frame. Returns whether it was missing.
    pub(super) fn put(&mut self, frame: u16, payload: Bytes) -> bool {
        let is_new = self.have.set(frame);
        if is_new {
            self.data[usize::from(frame)] = payload;
        }
        is_new
    }

    /// Whether all bytes are as the source wrote them. If they are not, all frames are missing
    /// again.
    pub(super) fn verify(&mut self) -> bool {
        let is_right = sum_of(&self.data) == (u64::from(self.shape.length), self.shape.crc);
        if !is_right {
            self.have = Bits::none(self.shape.frames);
            self.data.iter_mut().for_each(|frame| *frame = Bytes::new());
        }
        is_right
    }

    /// Copies the bytes together, so that the packets in which they came are freed.
    pub(super) fn pack(&mut self) {
        let mut all = BytesMut::with_capacity(self.shape.length as usize);
        self.data.iter().for_each(|frame| all.extend_from_slice(frame));
        let all = all.freeze();
        let mut at = 0;
        for frame in &mut self.data {
            let end = at + frame.len();
            *frame = all.slice(at..end);
            at = end;
        }
    }

    /// Frames that could be sent now.
    pub(super) fn ready(&self) -> u32 {
        let beyond =
            |transfer: &Transfer| self.have.count_beyond([&transfer.theirs, &transfer.sent]);
        self.transfer.as_ref().map_or(0, beyond)
    }
}
