//! Gaps in what a node sends, for small blocks that somebody waits for: keystrokes, requests, small
//! files.
//!
//! The receiver of a request for a small block may hear the bursts of a node two hops further on.
//! The request's sender, three hops from that node, does not hear them. Its requests are lost until
//! the other's whole block is over, and then the same happens at the next hop. A node that
//! interactive traffic passes therefore leaves the air alone for a moment after every few bursts. A
//! gap is no longer than the node used the air before it: bursts are short where the bit-rate is
//! high, and gaps would take most of the time. If a neighbour asks for a gap ([`super::listen`]),
//! it begins at once. Each air has its own gaps: a radio on another channel drowns nobody.

use std::collections::BTreeMap;

use super::block::Shape;
use super::{Hop, call};
use crate::base::{Duration, Instant, NodeId, RadioId};
use crate::wire::hop::BlockId;

/// How long interactive traffic counts as present after its last block.
pub(super) const LASTS: Duration = Duration::from_secs(10);
/// Frames of blocks between two gaps.
const FRAMES: u32 = 48;
/// How long a gap that a neighbour asked for may take to begin.
const SOON: Duration = Duration::from_millis(500);
/// From the end of such a gap to the next one that may be asked for.
const APART: Duration = Duration::from_millis(100);
/// Over so many hops of a route, two senders do not hear each other.
const UNHEARD: u8 = 3;

/// The gaps of a node, by air.
#[derive(Debug, Default)]
pub(super) struct Gaps(BTreeMap<usize, Gap>);

/// State of the gaps on one air.
#[derive(Debug, Default)]
struct Gap {
    /// When the last block of interactive traffic came or began.
    interactive: Option<Instant>,
    /// Frames that counted since the last gap.
    frames: u32,
    /// How long radios have had frames since then, without the time of those that they have now.
    busy: Duration,
    /// Since when they have had frames of blocks, or have had none.
    since: Instant,
    /// When a neighbour asked for a gap that has not ended yet.
    asked: Option<Instant>,
    /// When a neighbour may ask for one again.
    next_asked: Instant,
    /// When the present gap ends, if there is one.
    until: Option<Instant>,
}

impl Gaps {
    /// When [`Gaps::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.0.values().filter_map(|gap| gap.until).min()
    }

    /// Ends gaps that are over.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.0.values_mut().for_each(|gap| gap.handle_timeout(now));
    }
}

impl Gap {
    fn handle_timeout(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            (self.frames, self.busy) = (0, Duration::ZERO);
            if self.asked.take().is_some() {
                self.next_asked = now + APART;
            }
        }
    }

    /// Whether a gap is to begin: it was asked for, or enough has been sent for gaps of this kind.
    fn is_due(&self, now: Instant, kind: Kind, is_busy: bool) -> bool {
        let busy = self.busy + if is_busy { now.since(self.since) } else { Duration::ZERO };
        let is_much = self.frames >= kind.frames && busy >= kind.busy;
        self.until.is_none() && (is_much || self.asked.is_some())
    }
}

/// Properties that gaps have at present.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Their length.
    length: Duration,
    /// How long the radio is at least busy with blocks between two of them.
    busy: Duration,
    /// Least frames of blocks between two of them.
    frames: u32,
}

impl Hop {
    /// A block came, or begins here. If somebody waits for it, the airs that it comes over and goes
    /// over have gaps from now on.
    pub(super) fn mark_interactive(&mut self, now: Instant, id: BlockId, shape: &Shape) {
        if !shape.is_interactive(id.number) {
            return;
        }
        for end in [id.flow.source, shape.destination].into_iter().filter(|end| *end != self.node) {
            let radio = self.next_hop(end).map_or_else(RadioId::default, |via| self.radio_of(via));
            if let Some(air) = self.air_of(radio) {
                self.gaps.0.entry(air).or_default().interactive = Some(now);
            }
        }
    }

    /// The kind of gaps that an air has at present, if any.
    fn gap_kind(&self, now: Instant, air: usize) -> Option<Kind> {
        let gap = self.gaps.0.get(&air);
        let is_lasting = |at: Option<Instant>, long| at.is_some_and(|at| now < at + long);
        let is_interactive = is_lasting(gap.and_then(|gap| gap.interactive), LASTS);
        let is_asked = is_lasting(gap.and_then(|gap| gap.asked), SOON);
        let has_call = self.has_call_on(now, air) && !is_asked;
        let (gap_ms, frames) = match has_call {
            true => (self.config.call_gap_ms, call::FRAMES),
            false => (self.config.interactive_gap_ms, FRAMES),
        };
        let length = Duration::from_secs_f64(gap_ms / 1e3);
        let is_wanted = (has_call || is_interactive || is_asked) && length > Duration::ZERO;
        // Whatever the bit-rate, bursts are not much shorter than gaps.
        let busy = if has_call { length * 2 / 3 } else { length };
        is_wanted.then_some(Kind { length, busy, frames })
    }

    /// A neighbour asks for a gap: it begins once the radios of its air are done.
    pub(super) fn on_asked_for_gap(&mut self, now: Instant, neighbour: NodeId) {
        let Some(air) = self.air_of(self.radio_of(neighbour)) else { return };
        let has_call = self.has_call_on(now, air);
        let gap = self.gaps.0.entry(air).or_default();
        if now < gap.next_asked {
            return;
        }
        if let Some(until) = &mut gap.until {
            if !has_call {
                return;
            }
            // A gap beside a call is shorter than one that is asked for.
            let asked = Duration::from_secs_f64(self.config.interactive_gap_ms / 1e3);
            *until = (*until).max(now + asked);
            return;
        }
        gap.asked = Some(now);
        if self.frames_on(air) == 0 {
            self.on_air_idle(now, air);
        }
    }

    /// Whether an air is in a gap, in which only small blocks have turns.
    pub(super) fn is_gap(&self, air: usize) -> bool {
        self.gaps.0.get(&air).is_some_and(|gap| gap.until.is_some())
    }

    /// Whether an air waits for a gap, so that nothing has a turn: it begins once the radios are
    /// done. Small blocks wait too, because many of them would keep it from beginning, and so from
    /// ending.
    pub(super) fn is_before_gap(&self, now: Instant, air: usize) -> bool {
        let Some(gap) = self.gaps.0.get(&air).filter(|_| self.frames_on(air) > 0) else {
            return false;
        };
        self.gap_kind(now, air).is_some_and(|kind| gap.is_due(now, kind, true))
    }

    /// Whether the radios of an air get no further frames until they have sent those that they
    /// have: beside a call, bursts are short.
    pub(super) fn is_burst_full(&self, now: Instant, air: usize) -> bool {
        let frames = self.gaps.0.get(&air).map_or(0, |gap| gap.frames);
        let is_whole = frames > 0 && frames.is_multiple_of(call::FRAMES);
        self.frames_on(air) > 0 && is_whole && self.has_call_on(now, air)
    }

    /// A frame of this block is about to go to a radio of an air.
    pub(super) fn before_frame(&mut self, now: Instant, air: usize, id: BlockId) {
        let is_idle = self.frames_on(air) == 0;
        let kind = self.gap_kind(now, air);
        let Shape { destination, hops_made, .. } = self.blocks[&id].shape;
        let hops_left = self.hops_to(destination);
        // Beside a call all frames on its air count.
        let may_drown = self.has_call_on(now, air) || hops_made.max(hops_left) >= UNHEARD;
        let gap = self.gaps.0.entry(air).or_default();
        let has_paused = |kind: Kind| is_idle && gap.since + kind.length <= now;
        let is_anew = kind.is_none_or(has_paused);
        if is_anew {
            (gap.frames, gap.busy, gap.asked) = (0, Duration::ZERO, None);
        }
        if is_anew || is_idle {
            gap.since = now;
        }
        gap.frames += u32::from(may_drown);
    }

    /// The radios of an air have no frame of a block left.
    pub(super) fn on_air_idle(&mut self, now: Instant, air: usize) {
        let kind = self.gap_kind(now, air);
        let gap = self.gaps.0.entry(air).or_default();
        gap.busy += now.since(gap.since);
        gap.since = now;
        if let Some(kind) = kind.filter(|kind| gap.is_due(now, *kind, false)) {
            gap.until = Some(now + kind.length);
            self.counters.gaps += 1;
        }
    }

    /// Whether a block is here, and small.
    pub(super) fn is_small(&self, id: &BlockId) -> bool {
        self.blocks.get(id).is_some_and(|block| block.shape.is_small())
    }
}
