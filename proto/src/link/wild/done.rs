//! Frames that come back from the radio: sent, late, or too long for it.

use super::peer::Peer;
use super::send::{Outstanding, What};
use super::{Wild, ack_bytes};
use crate::base::{Cx, DropCause, Duration, FrameDone, FrameOutcome, PacketUp, Seq};
use crate::wire::wild::{HEADER_BYTES, UNIT_HEAD_BYTES};

/// Lower bound of the longest frame that is assembled, so that it has room for a part.
const LEAST_LONGEST: usize = 400;

impl Wild {
    /// One of our frames has come back.
    pub(super) fn on_done(&mut self, cx: &mut Cx<'_>, done: FrameDone) {
        // Frames nearly always come back in the order in which they were given down.
        let found = self.outstanding.binary_search_by_key(&done.id, |frame| frame.id);
        let Some(frame) = found.ok().and_then(|at| self.outstanding.remove(at)) else {
            self.counters.unknown_done += 1;
            return;
        };
        // A radio with random gaps often finishes sooner than planned; that air time is used. If it
        // takes longer, the deadline of the next frame shows it.
        let port = self.port_mut(frame.place);
        port.planned = port.planned.saturating_sub(frame.planned);
        // A radio that reports too early must not fill the slot twice.
        port.busy_until = port.busy_until.min((cx.now + port.planned).max(port.on_air_until));
        // A frame that was not repeated because its slot ended was on air nevertheless.
        let was_on_air = done.attempts > 0 || done.outcome.went_out();
        if let Some(index) = frame.peer.filter(|_| was_on_air) {
            let repeats = u64::from(done.attempts.saturating_sub(1));
            let more = done.air_time * repeats / u64::from(done.attempts.max(1));
            port.on_gone(index, if frame.is_turn { more } else { Duration::ZERO });
        }
        if !done.outcome.went_out() {
            return self.on_not_sent(frame, was_on_air, done.outcome == FrameOutcome::TooLong);
        }
        let port = self.port_mut(frame.place);
        port.longest = port.longest.max(frame.bytes);
        let radio = port.spec.id;
        self.counters.frames_sent += 1;
        let to = frame.peer.map(|index| self.peers[index].spec.node);
        let air = self.air.of(radio, to);
        let share = match frame.what {
            What::First(_) => &mut air.data,
            What::Repeat(_) => &mut air.retransmission,
            What::Parity => &mut air.coding,
            What::Control | What::Carrier(_) => &mut air.acknowledgement,
        };
        *share += done.air_time;
        let Some(index) = frame.peer else { return };
        let sender = &mut self.peers[index].sender;
        let seq = match frame.what {
            What::First(seq) | What::Repeat(seq) => Some(seq),
            What::Parity | What::Control | What::Carrier(_) => None,
        };
        if matches!(done.outcome, FrameOutcome::Acked(_)) {
            sender.on_acked_by_card(frame.slot, seq);
        }
        seq.into_iter().for_each(|seq| sender.on_sent(seq, done.air_time));
    }

    /// Longest bundle for a neighbour that the device accepts even if it is repeated with the
    /// longest acknowledgement.
    pub(super) fn longest_body(&self, index: usize) -> usize {
        let Peer { place, sender, .. } = &self.peers[index];
        let beside = HEADER_BYTES + ack_bytes(sender.limit()) + UNIT_HEAD_BYTES;
        self.port(*place).longest.saturating_sub(beside)
    }

    fn on_not_sent(&mut self, frame: Outstanding, was_on_air: bool, is_too_long: bool) {
        self.counters.frames_too_long += u64::from(is_too_long);
        self.counters.frames_late += u64::from(!is_too_long);
        if is_too_long {
            // How much shorter it should be is unknown: from now on, frames that are assembled are
            // an eighth shorter.
            let port = self.port_mut(frame.place);
            port.longest = port.longest.min(frame.bytes - frame.bytes / 8).max(LEAST_LONGEST);
        }
        let slots = &self.groups[frame.place.0].slots;
        if frame.had_stamp && slots.number() == frame.slot {
            self.port_mut(frame.place).is_stamped = false;
        }
        let Some(index) = frame.peer else { return };
        if !is_too_long {
            let is_served = frame.is_turn && !was_on_air;
            let served = if is_served { frame.planned } else { Duration::ZERO };
            self.port_mut(frame.place).on_late(index, frame.what.is_of_packets(), served);
        }
        let sender = &mut self.peers[index].sender;
        if !matches!(frame.what, What::Carrier(_)) {
            sender.on_frame_late(frame.slot);
        }
        let (What::First(seq) | What::Repeat(seq)) = frame.what else { return };
        if is_too_long {
            self.give_up_too_long(index, seq);
        } else {
            sender.on_late(seq);
        }
    }

    /// Drops the packet of a frame that the radio never accepts: otherwise it would be sent first
    /// again and again.
    fn give_up_too_long(&mut self, index: usize, seq: Seq) {
        let mut done = Vec::new();
        self.peers[index].sender.on_too_long(seq, &mut done);
        for done in self.ended(done) {
            *self.drops.entry(DropCause::TooLong).or_default() += 1;
            self.up.push_back(PacketUp::Dropped { id: done.id, cause: DropCause::TooLong });
        }
    }
}
