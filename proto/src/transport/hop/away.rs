//! Neighbours that are away. A link with slots keeps its frames for a neighbour that is gone until
//! that one is back, and every link keeps those for a neighbour with which it has no keys yet. They
//! must not take the places of frames for others.

use std::collections::BTreeMap;

use super::Hop;
use super::block::Phase;
use crate::base::{Duration, Instant, NodeId, PacketOutcome, RadioId};
use crate::wire::hop::BlockId;

/// A neighbour is away if none of its frames was delivered for this long, because in a large star
/// its turn may take a second, and for so many cycles.
const PATIENCE: Duration = Duration::from_secs(3);
const CYCLES: u64 = 10;

/// Frames that the link has, by radio and neighbour.
#[derive(Debug, Default)]
pub(super) struct Away(BTreeMap<(RadioId, NodeId), Frames>);

#[derive(Clone, Copy, Debug)]
struct Frames {
    count: u32,
    /// When the last one ended well, or the first was given to the link.
    since: Instant,
    patience: Duration,
    is_away: bool,
}

impl Away {
    /// The link, whose cycles take this long if it has any, has one more frame.
    pub(super) fn on_frame(&mut self, now: Instant, to: (RadioId, NodeId), cycle: Duration) {
        let patience = PATIENCE.max(cycle * CYCLES);
        let new = Frames { count: 0, since: now, patience, is_away: false };
        self.0.entry(to).or_insert(new).count += 1;
    }

    /// A frame has ended.
    pub(super) fn on_end(&mut self, now: Instant, to: (RadioId, NodeId), outcome: PacketOutcome) {
        let Some(frames) = self.0.get_mut(&to) else { return };
        frames.count -= 1;
        if outcome != PacketOutcome::Failed {
            (frames.since, frames.is_away) = (now, false);
        }
        if frames.count == 0 {
            self.0.remove(&to);
        }
    }

    /// Frames that a radio has for neighbours that are away.
    pub(super) fn frames(&self, radio: RadioId) -> u32 {
        let away = self.0.iter().filter(|((over, _), frames)| *over == radio && frames.is_away);
        away.map(|(_, frames)| frames.count).sum()
    }

    /// When the next neighbour will count as away.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let here = self.0.values().filter(|frames| !frames.is_away);
        here.map(|frames| frames.since + frames.patience).min()
    }

    /// Neighbours that count as away from now on.
    fn leave(&mut self, now: Instant) -> Vec<NodeId> {
        let is_due = |frames: &Frames| !frames.is_away && frames.since + frames.patience <= now;
        let due = self.0.iter_mut().filter(|(_, frames)| is_due(frames));
        due.map(|((_, to), frames)| {
            frames.is_away = true;
            *to
        })
        .collect()
    }
}

impl Hop {
    /// Sends nothing more to neighbours that are away until they answer.
    pub(super) fn ask_who_is_away(&mut self, now: Instant) {
        for to in self.away.leave(now) {
            let is_under_way = |id: &BlockId| {
                let transfer = self.blocks[id].transfer.as_ref();
                transfer.is_some_and(|it| it.via == to && it.phase == Phase::Sending)
            };
            let all = self.blocks.keys();
            let ids: Vec<BlockId> = all.filter(|id| is_under_way(id)).copied().collect();
            // The link may drop the frames that it has.
            ids.into_iter().for_each(|id| self.end_round(now, id));
        }
    }
}
