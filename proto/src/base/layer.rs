//! The layer interface, common to all protocols, and how two adjacent layers exchange units.

use bytes::Bytes;

use super::boundary::EtherType;
use super::id::{Lane, NodeId};
use super::time::{Duration, Instant};
use super::trace::Trace;

/// A boundary of the stack: units go down, events come up.
pub trait Boundary {
    /// A unit on its way down.
    type Down;
    /// An event on its way up.
    type Up;
}

/// A unit that goes down through boundary `B`.
pub type Down<B> = <B as Boundary>::Down;
/// An event that comes up through boundary `B`.
pub type Up<B> = <B as Boundary>::Up;

/// How much a layer would accept now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Units. Zero means backpressure.
    pub units: usize,
    /// Air time, if the layer below has slots; else [`Duration::MAX`].
    pub air: Duration,
}

impl Room {
    /// No room.
    pub const NONE: Self = Self { units: 0, air: Duration::ZERO };
    /// Room without a limit.
    pub const UNLIMITED: Self = Self { units: usize::MAX, air: Duration::MAX };

    /// Room for `units` units of any air time.
    pub const fn units(units: usize) -> Self {
        Self { units, air: Duration::MAX }
    }

    /// Whether nothing would be accepted.
    pub const fn is_none(self) -> bool {
        self.units == 0 || self.air.is_zero()
    }
}

/// The room below, queried for each lane.
pub type RoomBelow<'a> = dyn Fn(Lane) -> Room + 'a;

/// Protects whole packets for a link that divides them itself and so cannot leave that to the layer
/// below. The link only sees bytes go in and come out.
pub trait Seal {
    /// Seals a packet for a neighbour; `None` while no keys are shared with it.
    fn seal(&self, to: NodeId, protocol: EtherType, packet: &[u8]) -> Option<Bytes>;

    /// Opens a packet that a neighbour sealed, and says what it is; `None` if the neighbour did not
    /// seal it, or if it is a replay.
    fn open(&self, now: Instant, from: NodeId, sealed: Bytes) -> Option<(EtherType, Bytes)>;
}

/// The context of every call into a layer: the time, a place for trace events and, if packets are
/// protected, their protection.
pub struct Cx<'a> {
    /// The node's own clock.
    pub now: Instant,
    trace: Option<&'a mut dyn Trace>,
    seal: Option<&'a dyn Seal>,
}

impl<'a> Cx<'a> {
    /// A context without a trace.
    pub fn new(now: Instant) -> Self {
        Self { now, trace: None, seal: None }
    }

    /// A context whose trace events go to `trace`.
    pub fn with_trace(now: Instant, trace: Option<&'a mut dyn Trace>) -> Self {
        Self { now, trace, seal: None }
    }

    /// The same context with protection of packets.
    pub fn with_seal<'b>(&'b mut self, seal: &'b dyn Seal) -> Cx<'b> {
        let trace = self.trace.as_mut().map(|trace| &mut **trace as &mut dyn Trace);
        Cx { now: self.now, trace, seal: Some(seal) }
    }

    /// Whether packets are protected, so that forged frames are detected.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// A packet in the form in which it is to be divided for a neighbour; `None` while it cannot be
    /// protected.
    pub fn seal(&self, to: NodeId, protocol: EtherType, packet: &Bytes) -> Option<Bytes> {
        match self.seal {
            Some(seal) => seal.seal(to, protocol, packet),
            None => Some(packet.clone()),
        }
    }

    /// The packet in what was reassembled, which the sender says is of `protocol`; `None` if the
    /// neighbour did not seal it.
    pub fn open(
        &self,
        from: NodeId,
        protocol: EtherType,
        whole: Bytes,
    ) -> Option<(EtherType, Bytes)> {
        match self.seal {
            Some(seal) => seal.open(self.now, from, whole),
            None => Some((protocol, whole)),
        }
    }

    /// Records a decision. The event is only built if there is a trace.
    pub fn emit<E: serde::Serialize>(&mut self, event: impl FnOnce() -> E) {
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.record(self.now, &event());
        }
    }
}

/// A protocol layer: a state machine between two boundaries, driven by its caller.
///
/// Events are pushed up and never refused. Units are pulled down, and only if there is room. The
/// only time is `cx.now`. A layer does no I/O, reads no clock and takes no lock: equal calls give
/// equal results.
pub trait Layer {
    /// The boundary to the layer above.
    type Above: Boundary;
    /// The boundary to the layer below.
    type Below: Boundary;

    /// Takes an event from below. Malformed input is counted and dropped.
    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: Up<Self::Below>);

    /// Gives the next event to the layer above.
    fn poll_rx(&mut self, cx: &mut Cx<'_>) -> Option<Up<Self::Above>>;

    /// How much would be accepted now on a lane. No room means backpressure.
    fn room(&self, lane: Lane) -> Room;

    /// Takes a unit from above, on a lane where `room` was not zero.
    fn handle_tx(&mut self, cx: &mut Cx<'_>, unit: Down<Self::Above>);

    /// Gives the next unit to the layer below, on a lane where `room` below is not zero.
    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Down<Self::Below>>;

    /// When `handle_timeout` is next due; after that call it must be later than `cx.now`.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Fires every timer that is due. Has no effect if none is.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>);
}

/// The directions in which something moved between two adjacent layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Events went up. What they caused between the two layers has moved as well.
    pub up: bool,
    /// Units went down; the lower layer may now have events for them.
    pub down: bool,
}

/// Moves everything that can move between two adjacent layers: events up, then units down.
#[inline]
pub fn settle<B: Boundary>(
    cx: &mut Cx<'_>,
    upper: &mut (impl Layer<Below = B> + ?Sized),
    lower: &mut (impl Layer<Above = B> + ?Sized),
) -> Moved {
    let mut moved = Moved::default();
    while let Some(event) = lower.poll_rx(cx) {
        upper.handle_rx(cx, event);
        moved.up = true;
    }
    while let Some(unit) = upper.poll_tx(cx, &|lane| lower.room(lane)) {
        lower.handle_tx(cx, unit);
        moved.down = true;
    }
    moved
}
