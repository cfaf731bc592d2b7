//! One channel access function (EDCAF): a queue with its own contention window, backoff and retry
//! counters (IEEE 802.11-2007 9.9.1, `radio.md` 2 and 3).
//!
//! A radio has four of them, one for each access category, or a single one that follows DCF. They
//! differ in the interframe space, the window, and the slots counted when the medium becomes busy:
//! EDCA counts a slot at its start, the first included, DCF at its end.

use std::collections::{BTreeMap, VecDeque};

use farhop_proto::base::{AckPolicy, Bitrate, Duration, Frame, Gap, Instant, NodeId, Rng};

use super::config::{AcParams, ChipConfig};

/// State of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It has nothing to send.
    Idle,
    /// The `not_before` time of its first frame has not come yet.
    Deferred,
    /// It waits for an idle medium, its interframe space and its backoff.
    Contending,
    /// It has the air.
    Serving,
}

/// A frame to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) frame: Frame,
    /// Sequence number, valid from the first transmission on.
    pub(super) sequence: u16,
    /// Attempts that began on the air, with an RTS or with the frame itself.
    pub(super) attempts: u8,
    /// Transmissions of the frame itself.
    pub(super) sent: u8,
    /// Failed attempts by retry limit: of frames up to the RTS threshold, and of longer ones.
    pub(super) failed: [u8; 2],
    /// Air time of all attempts, without their answers.
    pub(super) spent: Duration,
    /// The rate of all attempts, if it is chosen once for each frame.
    pub(super) rate: Option<Bitrate>,
    /// It is part of the A-MPDU that is on the air or awaits its answer.
    pub(super) is_in_flight: bool,
}

impl Outgoing {
    fn new(frame: Frame) -> Self {
        Self {
            frame,
            sequence: 0,
            attempts: 0,
            sent: 0,
            failed: [0; 2],
            spent: Duration::ZERO,
            rate: None,
            is_in_flight: false,
        }
    }

    /// Whether it has no attempts left.
    pub(super) fn is_exhausted(&self, config: &ChipConfig) -> bool {
        let limits = match self.frame.options.attempts {
            Some(most) => [most; 2],
            None => [config.attempts, config.long_attempts],
        };
        self.failed.iter().zip(limits).any(|(failed, most)| *failed >= most.max(1))
    }
}

/// The sending side of the block acknowledgement agreement with one neighbour.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Originator {
    /// The number of the next new frame.
    pub(super) next: u16,
    /// The neighbour may wait for a frame that was given up, and must be sent a request.
    pub(super) owes_request: bool,
    /// The last frame that was given up, until an answered request has moved the neighbour's window
    /// past it. The first request may not get that far, if earlier frames were still pending.
    pub(super) given_up: Option<u16>,
    /// The deadline of the last numbered frame.
    pub(super) deadline: Option<Instant>,
    /// Exchanges in a row in which the neighbour acknowledged nothing.
    pub(super) unanswered: u8,
}

/// A block acknowledgement request to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) to: NodeId,
    pub(super) failed: u8,
}

/// One access function.
#[derive(Debug)]
pub(super) struct Edcaf {
    /// Interframe space after a busy medium.
    pub(super) aifs: Duration,
    pub(super) params: AcParams,
    /// Whether it counts backoff slots as EDCA does.
    is_edca: bool,
    /// Frames to send; the first is in service unless the function is idle.
    pub(super) queue: VecDeque<Outgoing>,
    /// Block acknowledgement requests, which are sent before frames.
    pub(super) requests: VecDeque<Request>,
    pub(super) wait: Wait,
    /// When it acts next; [`Instant::MAX`] if unknown.
    pub(super) at: Instant,
    window: u32,
    /// Backoff slots left, while a backoff is under way.
    pub(super) backoff: Option<u32>,
    /// The last sequence number of frames under no agreement, which share one sequence.
    pub(super) sequence: u16,
    pub(super) originators: BTreeMap<NodeId, Originator>,
}

impl Edcaf {
    pub(super) fn new(params: AcParams, aifs: Duration, is_edca: bool) -> Self {
        Self {
            aifs,
            params,
            is_edca,
            queue: VecDeque::new(),
            requests: VecDeque::new(),
            wait: Wait::Idle,
            at: Instant::MAX,
            window: params.cw_min,
            backoff: None,
            sequence: 0,
            originators: BTreeMap::new(),
        }
    }

    /// Resets it after the radio was switched off and all its frames have ended.
    pub(super) fn reset(&mut self) {
        self.wait = Wait::Idle;
        self.at = Instant::MAX;
        self.backoff = None;
        self.requests.clear();
        self.narrow();
        for peer in self.originators.values_mut() {
            peer.owes_request = true;
        }
    }

    pub(super) fn push(&mut self, frame: Frame) {
        self.queue.push_back(Outgoing::new(frame));
    }

    /// Whether energy on the air can delay nothing of it.
    pub(super) fn is_at_rest(&self) -> bool {
        self.wait == Wait::Idle && self.backoff.is_none()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.requests.is_empty()
    }

    /// The frame in service.
    pub(super) fn head(&self) -> &Outgoing {
        self.queue.front().expect("a frame is in service")
    }

    /// The time before which the next transmission must not start.
    pub(super) fn not_before(&self) -> Option<Instant> {
        let head = self.queue.front().filter(|head| head.attempts == 0)?;
        head.frame.options.not_before.filter(|_| self.requests.is_empty())
    }

    /// Whether the next transmission follows the rules of contention: interframe space, backoff,
    /// post-backoff.
    pub(super) fn is_drawing(&self, gap: Gap) -> bool {
        gap == Gap::Backoff
            || !self.requests.is_empty()
            || self.head().frame.options.ack == AckPolicy::Normal
    }

    /// The medium becomes busy: takes off the slots that have elapsed since the end of the
    /// interframe space.
    pub(super) fn freeze(&mut self, now: Instant, gap_end: Instant, slot: Duration) {
        let Some(slots) = self.backoff.filter(|_| now >= gap_end) else { return };
        let passed = now.since(gap_end).div_duration(slot);
        let counted = passed + u64::from(self.is_edca);
        let is_over = passed >= u64::from(slots);
        let left = u64::from(slots).saturating_sub(counted) as u32;
        self.backoff = if is_over { None } else { Some(left) };
    }

    /// Draws a backoff from the contention window; it counts from the end of the interframe space.
    pub(super) fn draw(&mut self, rng: &mut Rng) -> u32 {
        let slots = rng.below(u64::from(self.window) + 1) as u32;
        self.backoff = Some(slots);
        slots
    }

    /// Doubles the contention window after a failed attempt.
    pub(super) fn widen(&mut self) {
        self.window = (2 * self.window + 1).min(self.params.cw_max);
    }

    /// Resets the contention window after a frame has ended.
    pub(super) fn narrow(&mut self) {
        self.window = self.params.cw_min;
    }

    /// Start of the window of the agreement with a neighbour: the oldest frame that may still be
    /// repeated.
    pub(super) fn window_start(&self, to: NodeId) -> u16 {
        let is_open = |out: &&Outgoing| out.sent > 0 && out.frame.to == Some(to);
        let next = || self.originators.get(&to).map_or(0, |peer| peer.next);
        self.queue.iter().find(is_open).map_or_else(next, |out| out.sequence)
    }
}
