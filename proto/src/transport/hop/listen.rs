//! Gaps for neighbours that have little to send beside a transfer whose sender they do not hear.
//!
//! If two neighbours of a node do not hear each other, one may send blocks for minutes, and what
//! the other sends is lost in them. Only the node hears both. While it receives large blocks from
//! one neighbour, and others have recently offered it small ones, it therefore asks the first one
//! for a gap now and then, and tells the others when the gap has begun. They then repeat the
//! requests that were lost.

use std::collections::BTreeMap;

use super::Hop;
use super::admit::Waiting;
use super::block::{Phase, Shape, Transfer};
use super::gap::LASTS;
use super::out::Message;
use crate::base::{Duration, Instant, NodeId};
use crate::wire::hop::BlockId;

/// Time between two gaps that a node asks for: it limits what gaps cost, and how long others wait.
const PERIOD: Duration = Duration::from_millis(250);
/// From the request for a gap to the gap: the neighbour hears the request after its burst, and its
/// radio first sends what it has.
const LEAD: Duration = Duration::from_millis(30);
/// Time between two gaps if the node itself misses answers, which may also be withheld.
const DEAF_PERIOD: Duration = Duration::from_secs(1);
/// How often the node checks whether it misses answers: there may be very many blocks.
const DEAF_LOOK: Duration = Duration::from_millis(50);
/// Requests for a block after which they count as in vain.
const IN_VAIN: u32 = 5;
/// A block that was asked for this recently is not asked for again, however often a neighbour
/// listens.
const JUST_NOW: Duration = Duration::from_millis(10);
/// Most neighbours with small blocks that are remembered.
const NEIGHBOURS: usize = 64;

/// What a node knows of neighbours that have little to send to it.
#[derive(Debug, Default)]
pub(super) struct Listen {
    /// The last small block that each neighbour offered, and when.
    small: BTreeMap<NodeId, (Instant, BlockId, Shape)>,
    /// When the node may ask for a gap again.
    next: Instant,
    /// When the node checks next whether it misses answers.
    next_deaf: Instant,
    /// When these neighbours are told of the gap.
    due: Option<Instant>,
}

impl Listen {
    /// When [`Hop::tell_that_it_listens`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }
}

/// Whether a next hop was asked many times and has not answered.
fn is_in_vain(transfer: &Transfer) -> bool {
    matches!(transfer.phase, Phase::Asked { tries, .. } if tries >= IN_VAIN)
}

impl Hop {
    /// A neighbour offers a small block, and may need a gap for it.
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

    /// A frame of a large block came from a neighbour, which is asked for a gap if others need one.
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

    /// Whether answers of other neighbours are missing while this one, which may not hear them,
    /// sends large blocks.
    fn is_deaf_beside(&mut self, now: Instant, from: NodeId) -> bool {
        if now < self.listen.next_deaf {
            return false;
        }
        let mut missed = self.missed().into_keys();
        let is_deaf = missed.any(|via| via != from && self.air(via) == self.air(from));
        self.listen.next_deaf = now + if is_deaf { DEAF_PERIOD } else { DEAF_LOOK };
        is_deaf
    }

    /// By neighbour that is there and does not answer, the first block that it was asked for in
    /// vain. One is enough to be heard.
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

    /// If it is time to, tells the neighbours with small blocks of the gap, and repeats requests
    /// whose answers are missing.
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

    /// A neighbour listens to nodes that have little to send. Small blocks are offered to it again,
    /// and if large ones are being sent to it, this node leaves a gap.
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
