//! A radio of the loop, with frames that must wait.

use std::collections::VecDeque;
use std::io;

use farhop_proto::base::{
    AccessCategory, Duration, Frame, FrameDone, FrameOutcome, FrameUp, Instant, RadioId, Room,
    UnitId,
};

use super::Source;
use crate::device::{Device, unsent};

/// Most frames of one radio that wait for their `not_before`, or for room in the device.
const HELD: usize = 8;

/// A device, and what waits for it.
pub(super) struct Radio {
    pub(super) id: RadioId,
    pub(super) device: Box<dyn Device>,
    pub(super) source: Source,
    /// Frames that must not be sent yet, or that the device did not accept when they were offered,
    /// in the order in which they came.
    held: VecDeque<Frame>,
}

impl Radio {
    pub(super) fn build(id: RadioId, device: Box<dyn Device>) -> Self {
        let source = Source { is_ready: true, ..Source::default() };
        Self { id, device, source, held: VecDeque::new() }
    }

    /// What it would accept now, less what is held.
    pub(super) fn room(&self, now: Instant, access: AccessCategory) -> Room {
        let room = self.device.room(now, access);
        Room { units: room.units.min(HELD).saturating_sub(self.held.len()), ..room }
    }

    /// The first held frame, if the device has room for it.
    fn first_held(&self, now: Instant) -> Option<&Frame> {
        self.held.front().filter(|frame| !self.device.room(now, frame.options.access).is_none())
    }

    /// When the first held frame may be sent; `None` if it waits for room, of which the device
    /// tells.
    pub(super) fn next_release(&self, now: Instant) -> Option<Instant> {
        self.first_held(now).map(|frame| frame.options.not_before.unwrap_or(now))
    }

    /// Hands a frame to the device, after all that are held. It waits if it must not be sent yet.
    pub(super) fn offer(
        &mut self,
        now: Instant,
        frame: Frame,
        out: &mut Vec<FrameUp>,
    ) -> io::Result<()> {
        let must_wait = frame.options.not_before.is_some_and(|time| time > now);
        if must_wait || !self.held.is_empty() {
            self.held.push_back(frame);
            return Ok(());
        }
        self.hand_over(frame, out)
    }

    /// Hands over the held frames whose time has come. If the interface is gone they end as late.
    pub(super) fn release(&mut self, now: Instant, out: &mut Vec<FrameUp>) -> io::Result<()> {
        if !self.held.is_empty() && self.device.is_gone() {
            let late = |frame: Frame| unsent(&frame, FrameOutcome::Late);
            out.extend(self.held.drain(..).map(late));
            return Ok(());
        }
        let is_due = |frame: &mut Frame| frame.options.not_before.is_none_or(|at| at <= now);
        while self.first_held(now).is_some()
            && let Some(frame) = self.held.pop_front_if(is_due)
        {
            self.hand_over(frame, out)?;
        }
        Ok(())
    }

    /// Hands a frame to the device; holds it, before all others, if that does not accept it now.
    fn hand_over(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<()> {
        let refused = self.device.send(frame, out)?;
        refused.into_iter().for_each(|frame| self.held.push_front(frame));
        Ok(())
    }

    /// Takes back a frame that is held.
    pub(super) fn cancel(&mut self, id: UnitId) -> Option<FrameUp> {
        let index = self.held.iter().position(|frame| frame.id == id)?;
        self.held.remove(index)?;
        let outcome = FrameOutcome::Cancelled;
        Some(FrameUp::Done(FrameDone { id, outcome, attempts: 0, air_time: Duration::ZERO }))
    }
}
