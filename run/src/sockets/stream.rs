//! One stream: the end of a program here.

use std::collections::VecDeque;

use bytes::Bytes;
use farhop_proto::base::{Instant, NodeId};
use farhop_proto::transport::hop::{Delivery, Hop};
use farhop_proto::wire::hop::{BlockId, FlowKey, Refusal};

use super::batch::{Batch, Mark};
use super::channel::{BLOCK_BYTES, Cause, Channel, Kind, RECORDS};

/// State of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A program here connects, and the other end has not answered.
    Opening,
    /// A program elsewhere connects, and no program here has accepted.
    Offered,
    /// Open in both directions.
    Open,
    /// The program here is gone; the other end is still to learn that, or to get the last bytes.
    Leaving,
}

impl Stage {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Opening => "opening",
            Self::Offered => "offered",
            Self::Open => "open",
            Self::Leaving => "leaving",
        }
    }
}

/// One end of a stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// The connection to the program; `None` while no program has the stream.
    pub(super) channel: Option<Channel>,
    pub(super) peer: NodeId,
    pub(super) service: String,
    pub(super) stage: Stage,
    /// The flow to the other end.
    pub(super) ours: Batch,
    /// The flow from the other end.
    pub(super) theirs: Option<FlowKey>,
    /// Blocks of `theirs` that no program was given.
    held: VecDeque<Delivery>,
    /// The last block of `theirs`, once it has arrived.
    last: Option<BlockId>,
    /// Whether the program has been given all of `theirs`, its end included.
    is_ended: bool,
    /// Whether the program broke the stream off, and `Streams` has not handled that yet.
    pub(super) is_broken: bool,
    /// The numbers that tell our flow, and theirs, from others with the same flow number.
    pub(super) nonces: [u64; 2],
    /// The run of the other end's daemon; 0 until its first block, and if it did not say.
    pub(super) life: u64,
    /// Whether a probe is on its way to the other end.
    pub(super) is_probing: bool,
    /// When the other end was last heard.
    pub(super) heard: Instant,
    /// When a block was last on its way that held up all others behind it.
    pub(super) held_up: Instant,
    /// Bytes that the program had not read at the last look, and since when it is this many.
    unread: (usize, Instant),
    pub(super) sent: u64,
    pub(super) received: u64,
}

/// What a block from the other end means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Bytes for the program.
    Bytes,
    /// The other end broke the stream off.
    Reset,
    /// The block is invalid.
    Nonsense,
}

impl Stream {
    pub(super) fn new(
        peer: NodeId,
        service: &str,
        stage: Stage,
        ours: Batch,
        now: Instant,
    ) -> Self {
        Self {
            channel: None,
            peer,
            service: service.into(),
            stage,
            ours,
            theirs: None,
            held: VecDeque::new(),
            last: None,
            is_ended: false,
            is_broken: false,
            nonces: [0; 2],
            life: 0,
            is_probing: false,
            heard: now,
            held_up: now,
            unread: (0, now),
            sent: 0,
            received: 0,
        }
    }

    /// Takes some of what the program wrote, while less than `limit` bytes wait. Returns whether
    /// there may be more that could be taken.
    pub(super) fn take(&mut self, now: Instant, limit: usize) -> bool {
        let Some(channel) = &mut self.channel else { return false };
        let mut count = 0;
        while count < RECORDS
            && self.ours.waiting() < limit
            && let Some((kind, bytes)) = channel.poll_record()
        {
            count += 1;
            match kind {
                Kind::Data => {
                    self.sent += bytes.len() as u64;
                    self.ours.write(now, &bytes);
                }
                Kind::Flush => self.ours.flush(),
                Kind::Finish => self.ours.finish(),
                _ => {}
            }
        }
        if channel.has_ended() {
            self.leave();
        }
        count == RECORDS
    }

    /// Handles a program that hung up while there was no room for more of its bytes. If it did not
    /// finish its stream, these are useless, and nothing has to wait for them.
    pub(super) fn handle_hangup(&mut self) {
        if self.channel.as_mut().is_some_and(|channel| !channel.read_rest(Kind::Finish)) {
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.channel = None;
        self.stage = Stage::Leaving;
        if !self.ours.is_finish_wanted() {
            self.ours.reset();
            self.is_broken = true;
        }
    }

    /// Handles a block of the other end, other than the first.
    pub(super) fn handle_block(&mut self, now: Instant, delivery: Delivery) -> Heard {
        self.heard = now;
        let mark = delivery.frames.first().and_then(|frame| frame.first().copied());
        if mark == Some(Mark::Reset as u8) {
            return Heard::Reset;
        }
        if mark != Some(Mark::Bytes as u8) {
            return Heard::Nonsense;
        }
        if self.channel.is_some() {
            self.give(delivery);
        } else {
            self.held.push_back(delivery);
        }
        Heard::Bytes
    }

    /// Gives a block to the program.
    fn give(&mut self, mut delivery: Delivery) {
        let Some(channel) = &mut self.channel else { return };
        if let Some(first) = delivery.frames.first_mut().filter(|first| !first.is_empty()) {
            drop(first.split_to(1));
        }
        self.received += give(channel, &delivery.frames, &delivery);
        self.last = Some(delivery.id).filter(|_| delivery.shape.finishes);
    }

    /// Gives the program the bytes of the first block, and all blocks that arrived since.
    pub(super) fn give_first(&mut self, first: &Delivery, bytes: Bytes) {
        let Some(channel) = &mut self.channel else { return };
        self.received += give(channel, &[bytes], first);
        self.last = Some(first.id).filter(|_| first.shape.finishes);
        while let Some(delivery) = self.held.pop_front() {
            self.give(delivery);
        }
    }

    /// Notes if a block is on its way that holds up all behind it: because it is slow, or because
    /// the program here does not read. This does not prove that the other end is still there.
    pub(super) fn look(&mut self, now: Instant, hop: &Hop) {
        let unread = self.channel.as_ref().map_or(0, Channel::unwritten);
        if unread != self.unread.0 {
            self.unread = (unread, now);
        }
        let is_coming = || hop.heard_of(self.theirs?);
        let held_up = if unread > 0 { Some(now) } else { is_coming() };
        self.held_up = held_up.map_or(self.held_up, |at| at.max(self.held_up));
    }

    /// Since when the program has read nothing although bytes wait for it, as of the last look.
    pub(super) fn unread_since(&self) -> Option<Instant> {
        (self.unread.0 > 0).then_some(self.unread.1)
    }

    /// Writes waiting bytes to the program, and accepts the blocks that it has now.
    pub(super) fn write(&mut self, now: Instant, hop: &mut Hop) {
        let settled = self.channel.as_mut().map(Channel::write).unwrap_or_default();
        for id in settled {
            hop.accept(now, id);
            self.is_ended |= self.last == Some(id);
        }
    }

    /// Gives the machine the blocks that it has room for. Returns whether a block waits for room.
    pub(super) fn push(
        &mut self,
        now: Instant,
        hop: &mut Hop,
        flow: FlowKey,
        (block_bytes, frame_bytes): (usize, usize),
    ) -> bool {
        while self.stage != Stage::Offered && self.ours.has_block(now, block_bytes) {
            if !hop.has_room(now, flow, self.ours.next_bytes(block_bytes)) {
                return true;
            }
            let (number, block, is_last) = self.ours.take_block(now, block_bytes);
            let frames = farhop_proto::transport::hop::frames_of(&block, frame_bytes);
            hop.push(now, BlockId { flow, number }, self.peer, is_last, frames);
        }
        false
    }

    /// Whether nothing is left to do for either end.
    pub(super) fn is_over(&self) -> bool {
        self.ours.has_finished() && (self.is_ended || self.stage == Stage::Leaving)
    }

    /// Tells the program why its stream has ended, if it still listens.
    pub(super) fn tell(&mut self, cause: Cause, why: &str) {
        if let Some(mut channel) = self.channel.take() {
            channel.say_no(cause, why);
        }
    }

    /// Refuses all blocks of the other end that the program has not been given.
    pub(super) fn refuse(&self, now: Instant, hop: &mut Hop) {
        if let Some(flow) = self.theirs.filter(|_| !self.is_ended) {
            hop.refuse(now, BlockId { flow, number: u32::MAX }, Refusal::Unwanted);
        }
    }
}

/// Gives a program the bytes of a block, and the end of the stream if it is the last; the block is
/// accepted once the kernel has all of it. Returns the number of bytes.
fn give(channel: &mut Channel, frames: &[Bytes], delivery: &Delivery) -> u64 {
    let bytes: usize = frames.iter().map(Bytes::len).sum();
    let is_fit = |frame: &Bytes| frame.len() <= BLOCK_BYTES;
    if bytes <= BLOCK_BYTES && bytes > 0 {
        channel.put(Kind::Data, frames, None);
    } else {
        // The other node may have longer blocks than programs take at once.
        debug_assert!(frames.iter().all(is_fit), "a frame is shorter than a block");
        let all = frames.iter().filter(|frame| !frame.is_empty());
        all.for_each(|frame| channel.put(Kind::Data, std::slice::from_ref(frame), None));
    }
    match delivery.shape.finishes {
        true => channel.put(Kind::Finish, &[], Some(delivery.id)),
        // Nothing is said of a block without bytes: whoever waits for a word would take it for one.
        false => channel.put_mark(delivery.id),
    }
    bytes as u64
}
