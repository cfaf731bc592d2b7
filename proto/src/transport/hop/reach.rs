//! Which neighbours are there. A relay keeps more than one block of a flow only for a next hop that
//! is gone, and acknowledgements that a source waits for are kept for a neighbour that comes back.

use std::collections::VecDeque;

use super::Hop;
use super::answers::FIRST_WAIT;
use super::block::{Phase, Shape, Transfer};
use super::out::Message;
use super::send::{FIRST_TRIES, LEAST_WAIT, LONGEST_WAIT};
use super::ways::Route;
use crate::base::{Duration, Instant, NodeId, PacketOutcome, RadioId};
use crate::wire::hop::BlockId;

/// A neighbour counts as gone once this much speaks for it, without a word from it in between:
/// twelve requests that the radio gave up, or of which it does not report whether they arrived,
/// which takes one or two seconds, or about ten. Where much is lost by chance, a request that the
/// radio did not repeat says less.
const GONE: u32 = 60;
const UNANSWERED: u32 = GONE / 12;
const UNANSWERED_LOSSY: u32 = 1;
/// A neighbour takes nothing if the radio gave up all requests to it for this long, none more than
/// `REFUSED_APART` after the one before.
const REFUSES: Duration = Duration::from_secs(5);
const REFUSED_APART: Duration = Duration::from_secs(2);
/// Least time from a request that was given up to the next one: by then, a turn of a hidden node is
/// over.
const GIVEN_UP_WAIT: Duration = Duration::from_millis(60);
/// Longest wait for an answer, or three times as long as answers take, where the radio has not
/// given the request up, and the neighbour has answered for the block before, or much is lost on
/// the way to it. Then the request or the answer was lost behind the card's acknowledgement, or
/// there is none.
const DELIVERED_WAIT: Duration = Duration::from_millis(100);
/// Up to this many tries, the answer may merely be late.
const LATE_TRIES: u32 = 2;
/// Below this share of frames that arrive without repetition, a neighbour receives little.
const SELDOM: f64 = 0.4;
/// How often it is asked again so soon; after that it may be receiving from another node.
const DELIVERED_TRIES: u32 = 200;
/// Time between two requests to a neighbour that is gone, however many blocks wait for it: those of
/// a thousand files would otherwise take most of the air.
const BETWEEN: Duration = Duration::from_millis(50);
/// The same once it is there again, or another route is known: answers need room too.
const BETWEEN_THEN: Duration = Duration::from_millis(10);
/// Time between two acknowledgements that are tried again while neighbours are gone.
const AGAIN: Duration = Duration::from_secs(1);
/// Most acknowledgements of destinations that wait for neighbours to come back; the oldest are
/// dropped.
const STRANDED: usize = 1_024;

/// Whether a neighbour is there, and gets our requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    /// How much speaks for its being gone.
    silence: u32,
    /// When the radio first and last gave up a request, without one in between that it did not.
    pub(super) refusing: Option<[Instant; 2]>,
}

impl Reach {
    fn is_gone(&self) -> bool {
        self.silence >= GONE
    }

    /// The radio gave up a request. Returns whether the neighbour has got none for long although it
    /// may be heard: its radio hears less than ours, or other senders.
    fn takes_nothing(&mut self, now: Instant) -> bool {
        let recent = self.refusing.filter(|[_, last]| now < *last + REFUSED_APART);
        let since = recent.map_or(now, |[since, _]| since);
        self.refusing = Some([since, now]);
        since + REFUSES <= now
    }
}

/// Acknowledgements of destinations that no neighbour has taken.
#[derive(Debug, Default)]
pub(super) struct Stranded {
    messages: VecDeque<Message>,
    /// When the first one is tried again.
    due: Option<Instant>,
}

impl Hop {
    /// Whether a neighbour counts as gone.
    pub(super) fn is_gone(&self, node: NodeId) -> bool {
        self.reach.get(&node).is_some_and(Reach::is_gone)
    }

    /// Takes the outcome of a request to a neighbour. One that the radio gave up is not repeated
    /// quickly: the radio has already done so.
    pub(super) fn on_request_out(
        &mut self,
        now: Instant,
        id: BlockId,
        to: NodeId,
        outcome: PacketOutcome,
    ) {
        let (is_gone, is_lossy) = (self.is_gone(to), self.is_lossy(to));
        let usual = DELIVERED_WAIT.max(self.answers.wait(to));
        let mean = self.answers.mean(to);
        let comes_seldom = is_lossy && self.delivery.get(&to).is_some_and(|share| *share < SELDOM);
        let transfer = self.blocks.get_mut(&id).and_then(|block| block.transfer.as_mut());
        if let Some(transfer) = transfer
            && let Phase::Asked { due, tries, .. } = &mut transfer.phase
        {
            // A request costs little beside the frames of a round. Where nobody repeats a lost one,
            // the next is sent early, over a long wire before there can be an answer. Otherwise one
            // answer may be late because others use the air; if more are missing, they were lost
            // behind the cards' acknowledgements.
            let is_behind_card = comes_seldom && transfer.is_answered && *tries > LATE_TRIES;
            let is_lost = outcome == PacketOutcome::Sent || is_behind_card;
            let early = |mean: Duration| (mean * 3 / 2).min(FIRST_WAIT.max(mean / 2));
            let soon = mean.filter(|_| is_lost).map_or(usual, early).max(LEAST_WAIT);
            let may_be_withheld = !transfer.is_answered && !is_lossy;
            match outcome {
                PacketOutcome::Failed => *due = (*due).max(now + GIVEN_UP_WAIT),
                PacketOutcome::Sent if is_gone => {}
                PacketOutcome::Sent if may_be_withheld && *tries > FIRST_TRIES => {}
                PacketOutcome::Delivered if may_be_withheld => {}
                PacketOutcome::Delivered | PacketOutcome::Sent if *tries <= DELIVERED_TRIES => {
                    *due = (*due).min(now + soon);
                }
                PacketOutcome::Delivered | PacketOutcome::Sent => {}
            }
        }
        if outcome == PacketOutcome::Delivered {
            self.on_there(now, to);
            return;
        }
        let is_by_chance = is_lossy && outcome == PacketOutcome::Sent;
        let reach = self.reach.entry(to).or_default();
        reach.silence += if is_by_chance { UNANSWERED_LOSSY } else { UNANSWERED };
        reach.silence = reach.silence.min(GONE);
        let takes_nothing = outcome == PacketOutcome::Failed && reach.takes_nothing(now);
        if takes_nothing || reach.is_gone() && !is_gone {
            self.on_lost(now, to);
        }
    }

    /// A neighbour is there. If it was gone, blocks that would wait long for it are asked for soon.
    /// Returns whether anything spoke for its being gone.
    fn on_there(&mut self, now: Instant, node: NodeId) -> bool {
        let silence = std::mem::take(&mut self.reach.entry(node).or_default().silence);
        if silence < GONE {
            return silence > 0;
        }
        let spread = LONGEST_WAIT.max(BETWEEN_THEN * self.asked_of(node));
        for transfer in self.blocks.values_mut().filter_map(|block| block.transfer.as_mut()) {
            if let Phase::Asked { due, .. } = &mut transfer.phase
                && transfer.via == node
                && *due > now + spread
            {
                *due = now + LEAST_WAIT + part_of(spread, self.rng.uniform());
            }
        }
        true
    }

    /// Routing has a route to a destination. What waits for a neighbour that is gone is soon asked
    /// for over the new route.
    pub(super) fn on_route(&mut self, now: Instant, to: NodeId, route: Route, radio: RadioId) {
        self.learn_way(now, to, route);
        if self.radios.insert(route.via, radio) != Some(radio) {
            self.give_turns_again(route.via);
        }
        self.ask_elsewhere(now, |shape, _, is_gone| shape.destination == to && is_gone);
    }

    /// Asks soon for blocks that wait for an answer and whose route has another next hop by now, if
    /// `is_one` says so, given their shape, their old next hop, and whether that is gone.
    pub(super) fn ask_elsewhere(
        &mut self,
        now: Instant,
        is_one: impl Fn(&Shape, NodeId, bool) -> bool,
    ) {
        let spread = LONGEST_WAIT.max(BETWEEN_THEN * self.blocks.len() as u64);
        for block in self.blocks.values_mut() {
            let Some(transfer) = &mut block.transfer else { continue };
            let Some(route) = self.ways.route(block.shape.destination) else { continue };
            let is_gone = self.reach.get(&transfer.via).is_some_and(Reach::is_gone);
            if transfer.via == route.via || !is_one(&block.shape, transfer.via, is_gone) {
                continue;
            }
            if let Phase::Asked { due, .. } = &mut transfer.phase {
                *due = (*due).min(now + LEAST_WAIT + part_of(spread, self.rng.uniform()));
                transfer.go_over(route.via);
            }
        }
    }

    /// Makes a request wait for its turn if its next hop is gone and many blocks wait for it.
    pub(super) fn ask_by_turns(&mut self, now: Instant, id: BlockId, via: NodeId) {
        if !self.is_gone(via) {
            return;
        }
        let round = BETWEEN * self.asked_of(via);
        if round <= LONGEST_WAIT {
            return;
        }
        let wait = round / 2 + part_of(round, self.rng.uniform());
        let transfer = self.blocks.get_mut(&id).and_then(|block| block.transfer.as_mut());
        if let Some(Phase::Asked { due, .. }) = transfer.map(|transfer| &mut transfer.phase) {
            *due = (*due).max(now + wait);
        }
    }

    /// Number of blocks that a neighbour is being asked for.
    fn asked_of(&self, node: NodeId) -> u64 {
        let transfers = self.blocks.values().filter_map(|block| block.transfer.as_ref());
        let is_asked = |transfer: &&Transfer| {
            transfer.via == node && matches!(transfer.phase, Phase::Asked { .. })
        };
        transfers.filter(is_asked).count() as u64
    }

    /// A neighbour has sent something: acknowledgements that wait for it are sent.
    pub(super) fn on_heard(&mut self, now: Instant, node: NodeId) {
        if self.on_there(now, node) {
            let waiting = std::mem::take(&mut self.stranded.messages);
            for message in waiting {
                match self.addressee(message) == Some(node) {
                    true => self.queue(message.anew()),
                    false => self.stranded.messages.push_back(message),
                }
            }
        }
    }

    /// Keeps an acknowledgement that the next hop towards the source does not take.
    pub(super) fn strand(&mut self, now: Instant, message: Message, to: NodeId) {
        self.reach.entry(to).or_default().silence = GONE;
        self.on_lost(now, to);
        if self.stranded.messages.iter().any(|other| other.says(message)) {
            return;
        }
        if self.stranded.messages.len() >= STRANDED {
            self.stranded.messages.pop_front();
            self.counters.messages_dropped += 1;
        }
        self.stranded.messages.push_back(message);
        self.stranded.due.get_or_insert(now + AGAIN);
    }

    /// When a stranded acknowledgement is tried again.
    pub(super) fn stranded_due(&self) -> Option<Instant> {
        self.stranded.due
    }

    /// Tries the first stranded acknowledgement again.
    pub(super) fn try_stranded(&mut self, now: Instant) {
        if self.stranded.due.is_some_and(|due| due <= now) {
            let first = self.stranded.messages.pop_front();
            self.stranded.due = (!self.stranded.messages.is_empty()).then_some(now + AGAIN);
            if let Some(message) = first {
                self.queue(message);
            }
        }
    }
}

fn part_of(whole: Duration, part: f64) -> Duration {
    Duration::from_secs_f64(whole.as_secs_f64() * part)
}
