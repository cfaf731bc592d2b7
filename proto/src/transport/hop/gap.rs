//! Gaps in what a node sends, for those who wait for little: keystrokes, requests, small files.
//!
//! Where a small block is asked for, the bursts of a node two hops on may be heard, and its sender,
//! three hops away, does not hear them: it is not heard until the whole block of the other is over,
//! and then the same happens at the next hop. A node that interactive traffic passes therefore
//! leaves the air alone for a moment after every few bursts, and for no longer than it has used it:
//! bursts are short where the bit-rate is high, and hardly anything would be left between gaps. One
//! whose neighbour asks for it ([`super::listen`]) does so at once.

use super::block::Shape;
use super::{Hop, call};
use crate::base::{Duration, Instant};
use crate::wire::hop::BlockId;

/// How long there is interactive traffic after the last of it.
pub(super) const LASTS: Duration = Duration::from_secs(10);
/// Frames of blocks between two gaps.
const FRAMES: u32 = 48;
/// How long a gap that a neighbour asked for may take to begin.
const SOON: Duration = Duration::from_millis(500);
/// From the end of such a gap to the next one.
const APART: Duration = Duration::from_millis(100);
/// So many hops away somebody sends the same way unheard.
const UNHEARD: u8 = 3;

/// Where a node is between two gaps.
#[derive(Debug, Default)]
pub(super) struct Gap {
    /// When it held the last of interactive traffic.
    interactive: Option<Instant>,
    /// Frames since the last gap.
    frames: u32,
    /// How long the radio has had frames since then, but for those that it has now.
    busy: Duration,
    /// Since when it has frames of blocks, or has none.
    since: Instant,
    /// When a neighbour asked for the gap that has not ended yet.
    asked: Option<Instant>,
    /// When a neighbour may ask for one again.
    next_asked: Instant,
    /// When the gap is over in which the node is.
    until: Option<Instant>,
}

impl Gap {
    /// A block came, or begins here.
    pub(super) fn on_block(&mut self, now: Instant, id: BlockId, shape: &Shape) {
        if shape.is_interactive(id.number) {
            self.interactive = Some(now);
        }
    }

    /// When [`Gap::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.until
    }

    /// Ends the gap.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.until.is_some_and(|until| until <= now) {
            self.until = None;
            (self.frames, self.busy) = (0, Duration::ZERO);
            if self.asked.take().is_some() {
                self.next_asked = now + APART;
            }
        }
    }

    /// Whether a gap was asked for, or as much went out as there is between gaps of this kind.
    fn is_due(&self, now: Instant, kind: Kind, is_busy: bool) -> bool {
        let busy = self.busy + if is_busy { now.since(self.since) } else { Duration::ZERO };
        let is_much = self.frames >= kind.frames && busy >= kind.busy;
        self.until.is_none() && (is_much || self.asked.is_some())
    }
}

/// What gaps are like at present.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// How long they are.
    length: Duration,
    /// How long the radio is busy with blocks between two of them at least.
    busy: Duration,
    /// Frames of blocks between two of them.
    frames: u32,
}

impl Hop {
    /// What gaps are like at present, if there are any.
    fn gap_kind(&self, now: Instant) -> Option<Kind> {
        let is_interactive = self.gap.interactive.is_some_and(|at| now < at + LASTS);
        let is_asked = self.gap.asked.is_some_and(|at| now < at + SOON);
        let has_call = self.has_any_call(now) && !is_asked;
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

    /// A neighbour asks for a gap: it begins once the radio is done.
    pub(super) fn on_asked_for_gap(&mut self, now: Instant) {
        if now < self.gap.next_asked {
            return;
        }
        let has_call = self.has_any_call(now);
        if let Some(until) = &mut self.gap.until {
            if !has_call {
                return;
            }
            // One beside a call is shorter than what was asked for.
            let asked = Duration::from_secs_f64(self.config.interactive_gap_ms / 1e3);
            *until = (*until).max(now + asked);
            return;
        }
        self.gap.asked = Some(now);
        if self.frames_on_air() == 0 {
            self.on_radio_idle(now);
        }
    }

    /// Whether only small blocks have turns.
    pub(super) fn is_gap(&self) -> bool {
        self.gap.until.is_some()
    }

    /// Whether nothing has a turn: a gap begins once the radio is done. Small blocks too wait that
    /// long, or many of them would keep it from beginning, and so from ending.
    pub(super) fn is_before_gap(&self, now: Instant) -> bool {
        let is_due = |kind| self.gap.is_due(now, kind, true);
        self.frames_on_air() > 0 && self.gap_kind(now).is_some_and(is_due)
    }

    /// Whether no more frames may go to the radio beside those that it has: bursts are short beside
    /// a call.
    pub(super) fn is_burst_full(&self, now: Instant) -> bool {
        let is_whole = self.gap.frames > 0 && self.gap.frames.is_multiple_of(call::FRAMES);
        self.frames_on_air() > 0 && is_whole && self.has_any_call(now)
    }

    /// The next frame to the radio is one of this block.
    pub(super) fn before_frame(&mut self, now: Instant, id: BlockId) {
        let is_idle = self.frames_on_air() == 0;
        let has_paused = |kind: Kind| is_idle && self.gap.since + kind.length <= now;
        let is_anew = self.gap_kind(now).is_none_or(has_paused);
        if is_anew {
            (self.gap.frames, self.gap.busy, self.gap.asked) = (0, Duration::ZERO, None);
        }
        if is_anew || is_idle {
            self.gap.since = now;
        }
        let Shape { destination, hops_made, .. } = self.blocks[&id].shape;
        let hops_left = self.routes.get(&destination).map_or(0, |route| route.hops);
        // Beside a call all frames on its air count, and no others.
        let via = self.blocks[&id].transfer.as_ref().map(|transfer| transfer.via);
        let may_drown = match via.filter(|_| self.has_any_call(now)) {
            Some(via) => self.has_call(now, via),
            None => hops_made.max(hops_left) >= UNHEARD,
        };
        self.gap.frames += u32::from(may_drown);
    }

    /// The radio has no frame of a block any more.
    pub(super) fn on_radio_idle(&mut self, now: Instant) {
        self.gap.busy += now.since(self.gap.since);
        self.gap.since = now;
        let kind = self.gap_kind(now).filter(|kind| self.gap.is_due(now, *kind, false));
        if let Some(kind) = kind {
            self.gap.until = Some(now + kind.length);
            self.counters.gaps += 1;
        }
    }

    /// Whether a block is here, and small.
    pub(super) fn is_small(&self, id: &BlockId) -> bool {
        self.blocks.get(id).is_some_and(|block| block.shape.is_small())
    }
}
