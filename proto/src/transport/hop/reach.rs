//! Ways, and which neighbours are there: a relay keeps more than one block of a flow only for a
//! next hop that is gone, and what a source waits for is kept for one that comes back. One that is
//! gone is asked the more seldom the longer it is away, and no more often for many blocks.

use std::collections::VecDeque;

use super::Hop;
use super::block::{Block, Phase};
use super::out::Message;
use super::send::QUICK_TRIES;
use crate::base::{Duration, Instant, NodeId, PacketOutcome};
use crate::wire::hop::BlockId;

/// A neighbour counts as gone after this many requests that the radio gave up, or of which it does
/// not say whether they came, without a word from the neighbour in between: that is one or two
/// seconds, or some ten.
const GONE: u32 = 12;
/// How long after one was given up the next goes at the earliest: by then a turn of somebody hidden
/// is over.
const GIVEN_UP_WAIT: Duration = Duration::from_millis(60);
/// How often a neighbour that is gone is tried with what waits for it.
const AGAIN: Duration = Duration::from_secs(1);
/// For a block a neighbour that is gone is asked again after this part of the time for which
/// nothing was heard of it, within these limits: so it grows as its absence does, which costs a
/// sixteenth of it.
const SHARE: u64 = 16;
const LEAST_APART: Duration = Duration::from_millis(1_500);
const MOST_APART: Duration = Duration::from_secs(60);
/// Blocks for which it is asked in this time; if there are more, each waits for longer.
const AT_A_TIME: u64 = 8;
/// How far apart blocks are asked for when their neighbour is back.
const STEP: Duration = Duration::from_millis(1);
/// Acknowledgements of destinations that may wait for neighbours to come back; the oldest go.
const STRANDED: usize = 1_024;

/// Acknowledgements of destinations that no neighbour has taken.
#[derive(Debug, Default)]
pub(super) struct Stranded {
    messages: VecDeque<Message>,
    /// When the first one is tried again.
    due: Option<Instant>,
}

/// The way to a destination.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    /// The next hop.
    pub(super) via: NodeId,
    /// Hops to the destination.
    pub(super) hops: u8,
}

impl Hop {
    /// The last known next hop to a destination.
    pub(super) fn next_hop(&self, to: NodeId) -> Option<NodeId> {
        self.routes.get(&to).map(|route| route.via)
    }

    /// Whether a neighbour has not been there for some time.
    pub(super) fn is_gone(&self, node: NodeId) -> bool {
        self.silence.get(&node).is_some_and(|silence| *silence >= GONE)
    }

    /// What became of a request to a neighbour. One that the radio has given up is not repeated
    /// quickly: the radio has done so.
    pub(super) fn on_request_out(
        &mut self,
        now: Instant,
        id: BlockId,
        to: NodeId,
        outcome: PacketOutcome,
    ) {
        let transfer = self.blocks.get_mut(&id).and_then(|block| block.transfer.as_mut());
        if let (Some(transfer), PacketOutcome::Failed) = (transfer, outcome)
            && let Phase::Asked { due, .. } = &mut transfer.phase
        {
            *due = (*due).max(now + GIVEN_UP_WAIT);
        }
        let silence = self.silence.entry(to).or_default();
        *silence = match outcome {
            PacketOutcome::Delivered => 0,
            PacketOutcome::Sent | PacketOutcome::Failed => *silence + 1,
        };
        *silence = (*silence).min(GONE);
        match *silence {
            0 => self.on_back(now, to),
            GONE => _ = self.gone.entry(to).or_insert(now),
            _ => {}
        }
    }

    /// A neighbour is there, or may be.
    fn on_back(&mut self, now: Instant, node: NodeId) {
        if self.gone.remove(&node).is_some() {
            self.hurry(now, |_, via| via == node);
        }
    }

    /// Has blocks to a destination by a neighbour that would wait for long be asked for now.
    fn hurry(&mut self, now: Instant, is_it: impl Fn(NodeId, NodeId) -> bool) {
        let mut next = now;
        for block in self.blocks.values_mut() {
            let destination = block.shape.destination;
            if let Some(transfer) = &mut block.transfer
                && let Phase::Asked { due, tries, .. } = &mut transfer.phase
                && is_it(destination, transfer.via)
                && *due > next + LEAST_APART
            {
                (*due, *tries) = (next, 0);
                next += STEP;
            }
        }
    }

    /// A neighbour was asked for a block: has it be asked again later, if it is gone.
    pub(super) fn ask_seldom(&mut self, now: Instant, id: BlockId, via: NodeId) {
        let Some(since) = self.gone.get(&via) else { return };
        let waits = |block: &&Block| block.transfer.as_ref().is_some_and(|it| it.via == via);
        let count = self.blocks.values().filter(waits).count() as u64;
        let apart = Duration::from_nanos(now.since(*since).as_nanos() / SHARE);
        let apart = apart.clamp(LEAST_APART, MOST_APART) * (count / AT_A_TIME).max(1);
        // Not all at once, so that it is soon seen that it is back.
        let apart = Duration::from_secs_f64(apart.as_secs_f64() * (0.5 + self.rng.uniform()));
        let transfer = self.blocks.get_mut(&id).and_then(|block| block.transfer.as_mut());
        if let Some(Phase::Asked { due, tries, .. }) = transfer.map(|it| &mut it.phase) {
            // What is seldom asked for is silent at once: its bytes may leave memory.
            (*due, *tries) = ((*due).max(now + apart), (*tries).max(QUICK_TRIES + 1));
        }
    }

    /// Routing has found a way.
    pub(super) fn on_way(&mut self, now: Instant, to: NodeId, route: Route) {
        self.routes.insert(to, route);
        self.hurry(now, |destination, _| destination == to);
        self.forward_all(now);
    }

    /// A neighbour has said something: what waits for it goes out.
    pub(super) fn on_heard(&mut self, now: Instant, node: NodeId) {
        self.on_back(now, node);
        if self.silence.insert(node, 0).is_some_and(|silence| silence > 0) {
            let waiting = std::mem::take(&mut self.stranded.messages);
            for message in waiting {
                match self.target(message) == Some(node) {
                    true => self.queue(message.anew()),
                    false => self.stranded.messages.push_back(message),
                }
            }
        }
    }

    /// Keeps an acknowledgement that the next hop towards the source does not take.
    pub(super) fn strand(&mut self, now: Instant, message: Message) {
        if let Some(to) = self.target(message) {
            self.silence.insert(to, GONE);
            self.gone.entry(to).or_insert(now);
        }
        if self.stranded.messages.len() >= STRANDED {
            self.stranded.messages.pop_front();
            self.counters.messages_dropped += 1;
        }
        self.stranded.messages.push_back(message);
        self.stranded.due.get_or_insert(now + AGAIN);
    }

    /// When one of them is tried again.
    pub(super) fn stranded_due(&self) -> Option<Instant> {
        self.stranded.due
    }

    /// Tries the first of them again.
    pub(super) fn try_stranded(&mut self, now: Instant) {
        if self.stranded.due.is_some_and(|due| due <= now) {
            let first = self.stranded.messages.pop_front();
            self.stranded.due = (!self.stranded.messages.is_empty()).then_some(now + AGAIN);
            if let Some(message) = first {
                self.queue(message);
            }
        }
    }

    fn target(&self, message: Message) -> Option<NodeId> {
        match message {
            Message::Arrived { block, .. } => self.next_hop(block.flow.source),
            Message::Request { .. } | Message::Answer { .. } | Message::Listen { .. } => None,
        }
    }
}
