//! How much a node sends to a neighbour before it asks what came, and when it holds back.
//!
//! Frames of blocks are not acknowledged one by one, so that the radio never finds out that a node
//! which it cannot hear sends at the same time: both could go on for a second, and neither would
//! get anything through. A round of which hardly anything came is therefore followed by a pause of
//! random length and a short round, and rounds grow again with success. Losses by chance change
//! nothing: where up to nine of ten frames are lost, what comes is spread over the round as by lot,
//! while bursts of a hidden sender let frames through only between two of them.

use super::bits::Bits;
use super::block::{Block, Phase};
use super::{Hop, NextHop};
use crate::base::{Duration, Instant, NodeId};
use crate::wire::hop::BlockId;

/// A round of which a smaller share came met somebody.
const HARDLY: f64 = 0.3;
/// A share that bursts of a hidden sender do not let through: the time between two of them is
/// shorter than a frame.
const LEAST_SHARE: f64 = 0.1;
/// Frames that must have come to see how they are spread, and the part of the stretches that would
/// be expected by chance.
const LEAST_CAME: u32 = 4;
/// Share of which less is much that is lost.
const LOSSY: f64 = 0.7;
const SPREAD: f64 = 0.7;
/// Fewer frames prove something only if none comes, several rounds in a row.
const ENOUGH: u32 = 64;
const CHANCE: u32 = 4;
/// Frames of the round after one that met somebody.
const SHORT_ROUND: u32 = 24;
/// By how much rounds grow with success.
const GROWTH: u32 = 4;
/// The first pause is up to this long, and each further one up to twice as long.
const PAUSE: Duration = Duration::from_millis(10);
const DOUBLINGS: u32 = 7;
const FEW_DOUBLINGS: u32 = 6;
/// How long a transfer waits of which a frame is longer than the device takes: its MTU may be set,
/// and the next hop gives up waiting for it meanwhile.
const TOO_LONG_PAUSE: Duration = Duration::from_secs(5);

/// What a node allows itself towards a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Frames of a round.
    round: u32,
    /// Rounds in a row of which hardly anything came.
    failed: u32,
    /// Much is lost on the way to it, and by chance.
    is_lossy: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self { round: u32::MAX, failed: 0, is_lossy: false }
    }
}

/// What came of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) sent: u32,
    pub(super) came: u32,
    /// Stretches of frames that came, with others between them.
    stretches: u32,
}

impl Round {
    pub(super) fn of(sent: &Bits, theirs: &Bits) -> Self {
        let (came, stretches) = (sent.count_common(theirs), sent.stretches(theirs));
        Self { sent: sent.count().into(), came, stretches }
    }

    /// Share of the frames that came.
    pub(super) fn share(self) -> f64 {
        f64::from(self.came) / f64::from(self.sent)
    }

    /// Whether what came looks as if each frame had been lost by itself.
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

    /// What came of a round to a neighbour. Returns how long to hold back.
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

    /// Puts off a transfer of which a frame is longer than the device takes. To ask the next hop
    /// what came of it would take the air and a turn from others, for nothing.
    pub(super) fn put_off(&mut self, now: Instant, id: BlockId, to: NodeId) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let Some(transfer) = &mut block.transfer else { return };
        // Frames that were still in the radio say nothing of the way that it takes by now.
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

    /// Goes on with transfers whose pause is over.
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
