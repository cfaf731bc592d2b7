//! A link for a node that has both radios under another link and wires.
//!
//! A wire is full duplex: slots would waste half of it. Wires therefore have a `plain` link of
//! their own. Packets, frames and their outcomes go to the one of the two links that owns the radio
//! or wire.

use std::fmt;

use super::plain::Plain;
use super::{Link, LinkStatus, NeighbourStatus, SlotStatus};
use crate::base::{
    Cx, FrameDone, FrameDown, FrameUp, Frames, Instant, Lane, Layer, NodeId, Packet, PacketUp,
    Packets, RadioId, Room, RoomBelow, UnitId, sooner,
};

/// Set in the ids of frames on wires, because both links number their frames from 0.
const ON_WIRE: u64 = 1 << 61;

/// The two links of a node with radios and wires.
pub struct Wired {
    radios: Box<dyn Link + Send>,
    wires: Plain,
    on_wires: Vec<RadioId>,
}

impl fmt::Debug for Wired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wired").field("on_wires", &self.on_wires).finish_non_exhaustive()
    }
}

impl Wired {
    /// Combines a link for the radios and one for the wires, whose ids are `on_wires`.
    pub fn build(radios: Box<dyn Link + Send>, wires: Plain, on_wires: Vec<RadioId>) -> Self {
        Self { radios, wires, on_wires }
    }

    fn is_wire(&self, radio: RadioId) -> bool {
        self.on_wires.contains(&radio)
    }

    /// The link that owns a radio.
    fn of(&mut self, radio: RadioId) -> &mut dyn Link {
        if self.is_wire(radio) { &mut self.wires } else { &mut *self.radios }
    }
}

/// A unit for a wire, with an id that the link for the radios does not use.
fn as_of_wire(unit: FrameDown) -> FrameDown {
    match unit {
        FrameDown::Frame(mut frame) => {
            frame.id.0 |= ON_WIRE;
            FrameDown::Frame(frame)
        }
        FrameDown::Cancel(id) => FrameDown::Cancel(UnitId(id.0 | ON_WIRE)),
        FrameDown::ReplyState { .. } => unit,
    }
}

impl Layer for Wired {
    type Above = Packets;
    type Below = Frames;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: FrameUp) {
        match event {
            FrameUp::Done(done) if done.id.0 & ON_WIRE != 0 => {
                let done = FrameDone { id: UnitId(done.id.0 & !ON_WIRE), ..done };
                self.wires.handle_rx(cx, FrameUp::Done(done));
            }
            FrameUp::Done(_) => self.radios.handle_rx(cx, event),
            FrameUp::Received(ref frame) | FrameUp::Overheard(ref frame) => {
                self.of(frame.radio).handle_rx(cx, event);
            }
            FrameUp::Wanted(wanted) => self.of(wanted.radio).handle_rx(cx, event),
        }
    }

    fn poll_rx(&mut self, cx: &mut Cx<'_>) -> Option<PacketUp> {
        self.radios.poll_rx(cx).or_else(|| self.wires.poll_rx(cx))
    }

    fn room(&self, lane: Lane) -> Room {
        if self.is_wire(lane.radio) { self.wires.room(lane) } else { self.radios.room(lane) }
    }

    fn handle_tx(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        self.of(packet.radio).handle_tx(cx, packet);
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<FrameDown> {
        let of_radio = self.radios.poll_tx(cx, below);
        of_radio.or_else(|| self.wires.poll_tx(cx, below).map(as_of_wire))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        sooner(self.radios.poll_timeout(), self.wires.poll_timeout())
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        self.radios.handle_timeout(cx);
        self.wires.handle_timeout(cx);
    }
}

impl Link for Wired {
    fn status(&self, now: Instant) -> LinkStatus {
        let mut status = self.radios.status(now);
        let wires = self.wires.status(now);
        let kind = Some(wires.kind);
        let beyond = wires.neighbours.into_iter();
        status.neighbours.extend(beyond.map(|it| NeighbourStatus { kind: kind.clone(), ..it }));
        status.air.extend(&wires.air);
        for (name, count) in wires.counters {
            *status.counters.entry(name).or_default() += count;
        }
        for (cause, count) in wires.drops {
            *status.drops.entry(cause).or_default() += count;
        }
        status
    }

    fn slots(&self, now: Instant) -> Vec<(SlotStatus, Vec<NodeId>)> {
        self.radios.slots(now)
    }

    fn heeds_overheard(&self) -> bool {
        self.radios.heeds_overheard() || self.wires.heeds_overheard()
    }

    fn heeded(&self) -> u64 {
        self.radios.heeded() + self.wires.heeded()
    }
}
