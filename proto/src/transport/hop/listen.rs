//! Those who have little to send beside a transfer that they do not hear.
//!
//! Of two neighbours of a node that do not hear each other one may send blocks for minutes, and
//! what the other sends is lost in them. The node alone hears both. While it takes large blocks of
//! one neighbour, and others have sent it small ones a short time ago, it therefore asks that one
//! for a gap now and then, and tells the others once the gap has begun: what they have asked for in
//! vain they ask for then.

use std::collections::BTreeMap;

use super::Hop;
use super::admit::Waiting;
use super::block::{Phase, Shape, Transfer};
use super::gap::LASTS;
use super::out::Message;
use crate::base::{Duration, Instant, NodeId};
use crate::wire::hop::BlockId;

/// Between two gaps that a node asks for, which bounds what they cost and how long is waited.
const PERIOD: Duration = Duration::from_millis(250);
/// The neighbour hears of it once its burst is over, and what its radio has goes out before its gap
/// begins.
const LEAD: Duration = Duration::from_millis(30);
/// The same where a node misses answers itself, which may be withheld as well.
const DEAF_PERIOD: Duration = Duration::from_secs(1);
/// How often it looks whether it does: there may be very many blocks.
const DEAF_LOOK: Duration = Duration::from_millis(50);
/// So many requests for a block are in vain.
const IN_VAIN: u32 = 5;
/// What was asked for more recently is not asked for again, however often a neighbour listens.
const JUST_NOW: Duration = Duration::from_millis(10);
/// Neighbours with small blocks that are remembered.
const NEIGHBOURS: usize = 64;

/// What a node knows of those who have little to send to it.
#[derive(Debug, Default)]
pub(super) struct Listen {
    /// The last small block of each neighbour, and when it was asked for.
    small: BTreeMap<NodeId, (Instant, BlockId, Shape)>,
    /// When it may ask for a gap again.
    next: Instant,
    /// When it next looks whether it misses answers.
    next_deaf: Instant,
    /// When those who have little to send are told of the gap.
    due: Option<Instant>,
}

impl Listen {
    /// When [`Hop::tell_that_it_listens`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}

/// Whether a neighbour was asked for long, and nothing came back.
fn is_in_vain(transfer: &Transfer) -> bool {
    matches!(transfer.phase, Phase::Asked { tries, .. } if tries >= IN_VAIN)
}

impl Hop {
    /// A neighbour asks for a small block: it may need a gap.
    pub(super) fn on_small_request(&mut self, now: Instant, asks: &Waiting) {
        if !asks.shape.is_urgent(asks.block.number) {
            return;
        }
        let small = &mut self.listen.small;
        small.retain(|_, (at, ..)| now < *at + LASTS);
        if small.len() < NEIGHBOURS || small.contains_key(&asks.via) {
            small.insert(asks.via, (now, asks.block, asks.shape));
        }
    }

    /// A frame of a large block came from a neighbour.
    pub(super) fn on_large_frame(&mut self, now: Instant, from: NodeId, id: BlockId) {
        let is_wanted = self.config.interactive_gap_ms > 0.0;
        if !is_wanted || self.listen.due.is_some() || now < self.listen.next {
            return;
        }
        let is_beside = |(to, (at, ..)): (&NodeId, &(Instant, BlockId, Shape))| {
            *to != from && now < *at + LASTS && self.air(*to) == self.air(from)
        };
        let has_small = self.listen.small.iter().any(is_beside);
        if !has_small && !self.is_deaf_beside(now, from) {
            return;
        }
        let Some(shape) = self.blocks.get(&id).map(|block| block.shape) else { return };
        self.queue(Message::Listen { block: id, to: from, shape });
        self.counters.gaps_asked += 1;
        self.listen.next = now + PERIOD;
        self.listen.due = Some(now + LEAD);
    }

    /// Whether answers of a neighbour that is there are missed, while one sends large blocks that
    /// may not hear it.
    fn is_deaf_beside(&mut self, now: Instant, from: NodeId) -> bool {
        if now < self.listen.next_deaf {
            return false;
        }
        let mut missed = self.missed().into_keys();
        let is_deaf = missed.any(|via| via != from && self.air(via) == self.air(from));
        self.listen.next_deaf = now + if is_deaf { DEAF_PERIOD } else { DEAF_LOOK };
        is_deaf
    }

    /// A block of which each neighbour that is there was asked in vain, the first of its flow. One
    /// is enough to be heard with.
    fn missed(&self) -> BTreeMap<NodeId, BlockId> {
        let mut missed = BTreeMap::new();
        for (id, block) in &self.blocks {
            let transfer = block.transfer.as_ref().filter(|it| is_in_vain(it));
            if let Some(transfer) = transfer.filter(|it| !self.is_gone(it.via)) {
                missed.entry(transfer.via).or_insert(*id);
            }
        }
        missed
    }

    /// Tells those who have little to send, if it is time to, and asks those anew whose answers are
    /// missed.
    pub(super) fn tell_that_it_listens(&mut self, now: Instant) {
        if self.listen.due.is_none_or(|due| now < due) {
            return;
        }
        self.listen.due = None;
        self.listen.small.retain(|_, (at, ..)| now < *at + LASTS);
        let sends_much = |node| self.receptions.values().any(|reception| reception.via == node);
        let others = self.listen.small.iter().filter(|(node, _)| !sends_much(**node));
        let others: Vec<Message> = others
            .map(|(to, (_, block, shape))| Message::Listen {
                block: *block,
                to: *to,
                shape: *shape,
            })
            .collect();
        others.into_iter().for_each(|message| self.queue(message));
        self.missed().into_values().for_each(|id| self.ask_again(now, id));
    }

    /// A neighbour listens to those who have little to send. One that sends it much leaves a gap.
    pub(super) fn on_listen(&mut self, now: Instant, via: NodeId) {
        let (mut asked, mut is_large) = (Vec::new(), false);
        for (id, block) in &self.blocks {
            let Some(transfer) = block.transfer.as_ref().filter(|it| it.via == via) else {
                continue;
            };
            match transfer.phase {
                Phase::Sending => is_large |= !block.shape.is_small(),
                Phase::Asked { since, .. } if block.shape.is_small() && since + JUST_NOW <= now => {
                    asked.push(*id);
                }
                Phase::Asked { .. } | Phase::Paused { .. } => {}
            }
        }
        asked.extend(self.missed().remove(&via).filter(|id| !asked.contains(id)));
        asked.into_iter().for_each(|id| self.ask_again(now, id));
        if is_large {
            self.on_asked_for_gap(now, via);
        }
    }
}
