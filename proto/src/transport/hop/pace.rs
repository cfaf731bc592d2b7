//! How much a node sends to a neighbour before it asks what came, and when it holds back.
//!
//! Frames of blocks are not acknowledged one by one, so that the radio never finds out that a node
//! which it cannot hear sends at the same time: both could go on for a second, and neither would
//! get anything through. A round of which hardly anything came is therefore followed by a pause of
//! random length and a short round, and rounds grow again with success. Losses by chance, even of
//! half the frames, change nothing. Those of more than two thirds cannot be told from a neighbour
//! that is not heard, and lose most of what is left: without `yields` 75, 80 and 90% of loss leave
//! 2.7, 10 and 140 times as much (one hop, 24 Mb/s).

use super::Hop;
use super::block::{Block, Phase};
use crate::base::{Duration, Instant, NodeId};
use crate::wire::hop::BlockId;

/// A round of which a smaller share came met somebody.
const HARDLY: f64 = 0.3;
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

/// What a node allows itself towards a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Frames of a round.
    round: u32,
    /// Rounds in a row of which hardly anything came.
    failed: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { round: u32::MAX, failed: 0 }
    }
}

impl Hop {
    /// Frames of a round to a neighbour.
    pub(super) fn round_frames(&self, to: NodeId) -> u32 {
        self.pace.get(&to).map_or(u32::MAX, |pace| pace.round)
    }

    /// What came of a round to a neighbour. Returns how long to hold back.
    pub(super) fn on_round_end(&mut self, to: NodeId, sent: u32, came: u32) -> Duration {
        if !self.config.yields || sent == 0 {
            return Duration::ZERO;
        }
        let pace = self.pace.entry(to).or_default();
        let is_small = sent < ENOUGH.min(pace.round);
        let met_somebody = match is_small {
            true => came == 0,
            false => f64::from(came) < HARDLY * f64::from(sent),
        };
        if !met_somebody {
            *pace = Pace { round: pace.round.saturating_mul(GROWTH), failed: 0 };
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
