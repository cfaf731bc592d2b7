//! A block at one node: what of it is there, and where it stands on its way to the next one.

use bytes::{Bytes, BytesMut};

use super::bits::Bits;
use super::config::HOPS;
use super::park::Place;
use crate::base::{Instant, NodeId};
use crate::wire::hop::BlockId;

/// A block of fewer bytes goes together with its request (`hop.md` 3).
pub const SMALL_BYTES: u32 = 8_192;
/// Bytes that a frame and a block cost beside their payload.
const FRAME_COST: u64 = 64;
const BLOCK_COST: u64 = 512;
/// Fewer bytes has only the last frame of a block: else the frames would cost more than the bytes.
const LEAST_FRAME_BYTES: u32 = 64;

/// What is known of a block from its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Where it goes.
    pub destination: NodeId,
    /// Its frames, all of one length but for the last.
    pub frames: u16,
    /// Its bytes.
    pub length: u32,
    /// CRC-32 over them.
    pub crc: u32,
    /// Hops that it may still make.
    pub hops_left: u8,
    /// Hops that it has made.
    pub hops_made: u8,
    /// Whether it is the first of its flow.
    pub opens: bool,
    /// Whether it is the last one.
    pub finishes: bool,
    /// Whether the source does not know yet that the destination takes the flow. It may come there
    /// before the first block.
    pub is_early: bool,
}

/// Memory that a block of so many bytes needs at most: its frames may be short.
pub(super) fn most_cost(bytes: usize) -> u64 {
    cost(bytes as u64, bytes as u64 / u64::from(LEAST_FRAME_BYTES) + 1)
}

/// Memory that a block needs with all its bytes.
pub(super) fn cost(bytes: u64, frames: u64) -> u64 {
    bytes + frames * FRAME_COST + BLOCK_COST
}

impl Shape {
    /// Whether it goes together with its request.
    pub(super) fn is_small(&self) -> bool {
        self.length < SMALL_BYTES
    }

    /// Whether somebody waits for little, if it has this number in its flow: it is all of it, in
    /// the midst of it, or next to the first. Transfers too begin and end with what is small.
    pub(super) fn is_interactive(&self, number: u32) -> bool {
        self.is_small() && (self.opens == self.finishes || number == 1)
    }

    /// Whether it must not be drowned by somebody hidden: what somebody waits for, and what opens a
    /// transfer, which else would not begin.
    pub(super) fn is_urgent(&self, number: u32) -> bool {
        self.is_interactive(number) || (self.is_small() && self.opens)
    }

    /// Whether there can be such a block.
    pub(super) fn is_possible(&self) -> bool {
        let last = u32::from(self.frames).saturating_sub(1);
        self.frames > 0 && (last == 0 || self.length > last * LEAST_FRAME_BYTES)
    }

    /// Memory that it needs with all its bytes.
    pub(super) fn cost(&self) -> u64 {
        cost(self.length.into(), self.frames.into())
    }

    /// What the destination answers to its source: that has hops of its own.
    pub(super) fn answered(self) -> Self {
        Self { hops_left: HOPS, hops_made: 0, ..self }
    }

    /// Whether both are of the same block, however many hops it made.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let key = |shape: &Self| {
            let Self { destination, frames, length, crc, opens, finishes, .. } = *shape;
            (destination, frames, length, crc, opens, finishes)
        };
        key(self) == key(other)
    }
}

/// A whole block, to be kept where it survives its node.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Which.
    pub id: BlockId,
    /// What it is.
    pub shape: Shape,
    /// Its bytes, frame by frame.
    pub frames: Vec<Bytes>,
}

impl Whole {
    /// A block that begins here; number 0 opens its flow.
    ///
    /// Panics if it is empty, or has more than 65,535 frames.
    pub fn build(id: BlockId, destination: NodeId, finishes: bool, frames: Vec<Bytes>) -> Self {
        let mut hash = crc32fast::Hasher::new();
        frames.iter().for_each(|frame| hash.update(frame));
        let shape = Shape {
            destination,
            frames: u16::try_from(frames.len()).expect("a block of at most 65,535 frames"),
            length: frames.iter().map(|frame| frame.len() as u32).sum(),
            crc: hash.finalize(),
            hops_left: HOPS,
            hops_made: 0,
            opens: id.number == 0,
            finishes,
            is_early: false,
        };
        assert!(shape.frames > 0, "a block has a frame");
        Self { id, shape, frames }
    }
}

/// A block at a node.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) shape: Shape,
    /// The bytes of each frame; empty where it is missing, and nothing at all where the bytes are
    /// not in memory.
    pub(super) data: Vec<Bytes>,
    pub(super) place: Place,
    pub(super) have: Bits,
    /// Whether a frame of it came over a node between the two hops.
    pub(super) is_forwarded: bool,
    /// On its way to the next hop.
    pub(super) transfer: Option<Transfer>,
    pub(super) end: End,
    /// Hops after which it came here last: more each time that it comes around in a circle.
    pub(super) hops: u8,
    /// The same of the last time that it did not come around.
    pub(super) straight_hops: u8,
    /// It came around while it was on its way to the next hop, and is to go around once more.
    pub(super) goes_around: bool,
    /// Which neighbour took it last.
    pub(super) passed_to: Option<NodeId>,
    /// Whether it may be acknowledged as complete.
    pub(super) is_safe: bool,
    /// Who asked while it was whole and not safe, and in which round.
    pub(super) asked: Option<(NodeId, u16)>,
    /// How often its source has asked whether it has arrived.
    pub(super) times_asked: u32,
    /// When it last mattered, for letting go the oldest.
    pub(super) used: Instant,
    /// When its first frame or request came, or this node began anew.
    pub(super) came: Instant,
}

/// What has become of a block here. With [`Transfer`] it is the state machine of `hop.md` 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// INCOMPLETE, READY, WAIT_BACK or DATA_SENT: it is not passed on. At its destination: it is
    /// not with the application.
    Open,
    /// SEND_DONE: the next hop has it.
    PassedOn {
        /// Since when.
        at: Instant,
    },
    /// This is the destination, and the application was given it; only its shape is left.
    Given,
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
    /// When the first frame of this round went out.
    pub(super) began: Instant,
    /// Frames of this round at most.
    pub(super) most: u32,
    /// Frames that the radio has.
    pub(super) in_radio: u32,
    pub(super) phase: Phase,
    /// The next hop has answered for the block.
    pub(super) is_answered: bool,
    /// Only the end-to-end acknowledgement is missing.
    pub(super) is_virtual: bool,
    /// Part of a turn that it may have, under proportional fairness.
    pub(super) credit: f64,
}

/// Where a transfer stands in its round.
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
        /// How often it was.
        tries: u32,
    },
    /// Nothing goes out until then: hardly anything came of the last round, there is no memory for
    /// it, or the device does not take its frames.
    Paused {
        /// When it goes on.
        until: Instant,
    },
    /// Frames go out, as far as they are here (DATA_SENT once the last one has).
    Sending,
}

impl Transfer {
    /// Asks over a next hop from now on. Of one that was not asked before nothing is known.
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

    /// A block of which all is there.
    pub(super) fn whole(shape: Shape, data: Vec<Bytes>, now: Instant) -> Self {
        let have = Bits::all(shape.frames);
        Self { data, have, is_safe: true, ..Self::empty(shape, now) }
    }

    /// Whether a frame of so many bytes can be of this block.
    pub(super) fn can_have(&self, frame: u16, bytes: usize) -> bool {
        let (frames, length) = (u64::from(self.shape.frames), u64::from(self.shape.length));
        let bytes = bytes as u64;
        if u64::from(frame) + 1 == frames {
            return (bytes > 0 || length == 0) && bytes <= length;
        }
        bytes * (frames - 1) < length && length <= bytes * frames
    }

    /// Memory that is set aside for it now.
    pub(super) fn cost(&self) -> u64 {
        if self.place == Place::Kept { BLOCK_COST } else { self.shape.cost() }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.have.is_full()
    }

    /// Whether the next hop was given any of it.
    pub(super) fn was_sent(&self) -> bool {
        self.transfer.is_some() || self.end != End::Open
    }

    /// Whether it still has to be passed on.
    pub(super) fn is_open(&self) -> bool {
        self.end == End::Open
    }

    /// Whether a neighbour may be told that all of it is here: it is kept, or the next hop has it.
    pub(super) fn is_sayable(&self) -> bool {
        self.is_safe || matches!(self.end, End::PassedOn { .. })
    }

    /// Whether its bytes can be let go: nobody here needs them, and others have them.
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

    /// Whether all is there and as the source wrote it. If it is not, all of it is missing again.
    pub(super) fn verify(&mut self) -> bool {
        let mut hash = crc32fast::Hasher::new();
        self.data.iter().for_each(|frame| hash.update(frame));
        let bytes: u64 = self.data.iter().map(|frame| frame.len() as u64).sum();
        let is_right = bytes == u64::from(self.shape.length) && hash.finalize() == self.shape.crc;
        if !is_right {
            self.have = Bits::none(self.shape.frames);
            self.data.iter_mut().for_each(|frame| *frame = Bytes::new());
        }
        is_right
    }

    /// Puts the bytes together: what frames came with is let go.
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

    /// Frames that could go out now.
    pub(super) fn ready(&self) -> u32 {
        let beyond =
            |transfer: &Transfer| self.have.count_beyond([&transfer.theirs, &transfer.sent]);
        self.transfer.as_ref().map_or(0, beyond)
    }
}
