//! How much a node sends to a neighbour before it asks what arrived, and when it pauses.
//!
//! Frames of blocks have no MAC acknowledgement, so the radio never notices that a hidden node
//! sends at the same time: both could go on for a second without getting anything through. After a
//! round of which hardly anything arrived, a node therefore pauses for a random time and sends a
//! short round; rounds grow again with success. Random losses change nothing: even if nine of ten
//! frames are lost, those that arrive are spread randomly over the round, while bursts of a hidden
//! sender let frames through only between two of them.

use super::bits::Bits;
use super::block::{Block, Phase};
use super::{Hop, NextHop};
use crate::base::{Duration, Instant, NodeId};
use crate::wire::hop::BlockId;

/// If a smaller share of a round arrived, and not by chance, it met another sender.
const HARDLY: f64 = 0.3;
/// Bursts of a hidden sender do not let this share through: the time between two of them is shorter
/// than a frame.
const LEAST_SHARE: f64 = 0.1;
/// Frames that must have arrived to judge how they are spread.
const LEAST_CAME: u32 = 4;
/// Below this share of frames that arrive, much is lost.
const LOSSY: f64 = 0.7;
/// Runs of frames that must have arrived, as a part of those that random loss would leave.
const SPREAD: f64 = 0.7;
/// A round of fewer frames proves something only if none arrives, in more than `CHANCE` rounds in a
/// row.
const ENOUGH: u32 = 64;
const CHANCE: u32 = 4;
/// Frames of the round after one that met another sender.
const SHORT_ROUND: u32 = 24;
/// Factor by which rounds grow with success.
const GROWTH: u32 = 4;
/// The first pause is up to this long, and each further one up to twice as long, with so many
/// doublings, or fewer after rounds of few frames.
const PAUSE: Duration = Duration::from_millis(10);
const DOUBLINGS: u32 = 7;
const FEW_DOUBLINGS: u32 = 6;
/// How long a transfer waits if a frame is longer than the device takes: the device's MTU may be
/// raised, and the next hop stops waiting for the block meanwhile.
const TOO_LONG_PAUSE: Duration = Duration::from_secs(5);

/// How much a node sends to a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Frames of a round.
    round: u32,
    /// Rounds in a row of which hardly anything arrived.
    failed: u32,
    /// Whether much is lost on the way to it, by chance.
    is_lossy: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { round: u32::MAX, failed: 0, is_lossy: false }
    }
}

/// Result of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) sent: u32,
    pub(super) came: u32,
    /// Runs of frames that arrived.
    stretches: u32,
}

impl Round {
    pub(super) fn of(sent: &Bits, theirs: &Bits) -> Self {
        let (came, stretches) = (sent.count_common(theirs), sent.stretches(theirs));
        Self { sent: sent.count().into(), came, stretches }
    }

    /// Share of the frames that arrived.
    pub(super) fn share(self) -> f64 {
        f64::from(self.came) / f64::from(self.sent)
    }

    /// Whether the frames that arrived are spread as if each had been lost independently.
    pub(super) fn is_by_chance(self) -> bool {
        let share = self.share();
        let expected = f64::from(self.came) * (1.0 - share);
        self.came >= LEAST_CAME
            && share >= LEAST_SHARE
            && f64::from(self.stretches) >= SPREAD * expected
    }
}

impl Hop {
    /// Frames of a round to a neighbour.
    pub(super) fn round_frames(&self, to: NodeId) -> u32 {
        self.pace.get(&to).map_or(u32::MAX, |pace| pace.round)
    }

    /// Whether much of what is sent to a neighbour is lost by chance.
    pub(super) fn is_lossy(&self, to: NodeId) -> bool {
        self.pace.get(&to).is_some_and(|pace| pace.is_lossy)
    }

    /// Takes the result of a round to a neighbour. Returns how long to pause.
    pub(super) fn on_round_end(&mut self, to: NodeId, round: Round) -> Duration {
        let Round { sent, came, .. } = round;
        let is_open = self.is_open(to);
        let pace = self.pace.entry(to).or_default();
        if came >= LEAST_CAME {
            pace.is_lossy = round.share() < LOSSY && round.is_by_chance();
        }
        if !self.config.yields || sent == 0 || is_open {
            return Duration::ZERO;
        }
        let is_small = sent < ENOUGH.min(pace.round);
        let met_somebody = match is_small {
            true => came == 0,
            false => round.share() < HARDLY && !round.is_by_chance(),
        };
        if !met_somebody {
            *pace = Pace { round: pace.round.saturating_mul(GROWTH), failed: 0, ..*pace };
            return Duration::ZERO;
        }
        pace.failed += 1;
        if is_small && pace.failed <= CHANCE {
            return Duration::ZERO;
        }
        // A few frames may merely have been overtaken by the request.
        let doublings = match is_small {
            true => (pace.failed - CHANCE - 1).min(FEW_DOUBLINGS),
            false => (pace.failed - 1).min(DOUBLINGS),
        };
        pace.round = if is_small { pace.round } else { SHORT_ROUND };
        let longest = PAUSE * (1 << u64::from(doublings));
        self.counters.pauses += 1;
        Duration::from_secs_f64(longest.as_secs_f64() * self.rng.uniform())
    }

    /// Puts off a transfer of which a frame is longer than the device takes. A request for what
    /// arrived would take the air and a turn from others, for nothing.
    pub(super) fn put_off(&mut self, now: Instant, id: BlockId, to: NodeId) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let Some(transfer) = &mut block.transfer else { return };
        // This may be a frame of before the transfer took its present route.
        if matches!(transfer.phase, Phase::Asked { .. }) || transfer.via != to {
            return;
        }
        let destination = block.shape.destination;
        if self.ways.route(destination).is_some_and(|route| route.via == to) {
            self.ways.settle(now, destination, true);
        }
        let route = self.ways.route(destination);
        let is_elsewhere = route.is_some_and(|route| route.via != to);
        if is_elsewhere && self.config.next_hop == NextHop::Raw {
            return self.ask(now, id);
        }
        transfer.phase = Phase::Paused { until: now + TOO_LONG_PAUSE };
        transfer.sent.clear();
        transfer.cursor = 0;
    }

    /// Continues transfers whose pause is over.
    pub(super) fn end_pauses(&mut self, now: Instant) {
        let is_over = |phase: Phase| matches!(phase, Phase::Paused { until } if until <= now);
        let phase = |block: &Block| block.transfer.as_ref().map(|transfer| transfer.phase);
        let over = self.blocks.iter().filter(|(_, block)| phase(block).is_some_and(is_over));
        let over: Vec<BlockId> = over.map(|(id, _)| *id).collect();
        for id in over {
            self.begin_sending(now, id);
            self.on_round(now, id);
        }
    }
}
