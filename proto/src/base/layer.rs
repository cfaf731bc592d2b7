//! The one interface of the house: what a layer is, and how two neighbours are settled.

use bytes::Bytes;

use super::boundary::EtherType;
use super::id::{Lane, NodeId};
use super::time::{Duration, Instant};
use super::trace::Trace;

/// What crosses one boundary of the stack: units go down, events come up.
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

/// How much would be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Units. Zero is backpressure.
    pub units: usize,
    /// Air time, where the layer below has slots; else [`Duration::MAX`].
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

    /// Whether nothing would be taken.
    pub const fn is_none(self) -> bool {
        self.units == 0 || self.air.is_zero()
    }
}

/// The room below, asked lane by lane.
pub type RoomBelow<'a> = dyn Fn(Lane) -> Room + 'a;

/// What protects whole packets where a link cuts them up itself, and so cannot leave it to the
/// layer below. The link sees bytes go in and come out.
pub trait Seal {
    /// A packet, protected for a neighbour; nothing while no keys are shared with it.
    fn seal(&self, to: NodeId, protocol: EtherType, packet: &[u8]) -> Option<Bytes>;

    /// The packet in what a neighbour protected, and what it is; nothing if it did not, or if the
    /// same came before.
    fn open(&self, now: Instant, from: NodeId, sealed: Bytes) -> Option<(EtherType, Bytes)>;
}

/// What a layer is given with every call: the time, a place for trace events, and where packets are
/// protected, what does it.
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

    /// The same with something that protects packets.
    pub fn with_seal<'b>(&'b mut self, seal: &'b dyn Seal) -> Cx<'b> {
        let trace = self.trace.as_mut().map(|trace| &mut **trace as &mut dyn Trace);
        Cx { now: self.now, trace, seal: Some(seal) }
    }

    /// Whether packets are protected, so that who forges frames is found out.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// A packet as it is to be cut up for a neighbour; nothing while it cannot be protected.
    pub fn seal(&self, to: NodeId, protocol: EtherType, packet: &Bytes) -> Option<Bytes> {
        match self.seal {
            Some(seal) => seal.seal(to, protocol, packet),
            None => Some(packet.clone()),
        }
    }

    /// The packet in what was put together again, which its sender says is of `protocol`; nothing
    /// if it is not what a neighbour protected.
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

    /// Records a decision. The event is only built where somebody listens.
    pub fn emit<E: serde::Serialize>(&mut self, event: impl FnOnce() -> E) {
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.record(self.now, &event());
        }
    }
}

/// One protocol layer: a state machine between two boundaries, driven by its caller.
///
/// Up is pushed and never refused; down is pulled, and only where there is room; time is
/// `cx.now` and nothing else. No I/O, no clock, no lock: equal calls give equal results.
pub trait Layer {
    /// The boundary to the layer above.
    type Above: Boundary;
    /// The boundary to the layer below.
    type Below: Boundary;

    /// Takes an event from below. Malformed input is counted and dropped.
    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: Up<Self::Below>);

    /// Gives the next event to the layer above.
    fn poll_rx(&mut self, cx: &mut Cx<'_>) -> Option<Up<Self::Above>>;

    /// What would be taken now on a lane. Nothing is backpressure.
    fn room(&self, lane: Lane) -> Room;

    /// Takes a unit from above, on a lane where `room` was not zero.
    fn handle_tx(&mut self, cx: &mut Cx<'_>, unit: Down<Self::Above>);

    /// Gives the next unit to the layer below, on a lane where `room` below is not zero.
    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<Down<Self::Below>>;

    /// When `handle_timeout` is next due; after that call it must lie beyond `cx.now`.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Fires every timer that is due. Called too early it does nothing.
    fn handle_timeout(&mut self, cx: &mut Cx<'_>);
}

/// Which ways something moved between two neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Events went up. Whatever followed of them between the two has moved as well.
    pub up: bool,
    /// Units went down, for which the lower layer may have events now.
    pub down: bool,
}

/// Moves all that can move between two neighbours: events up, then units down.
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
