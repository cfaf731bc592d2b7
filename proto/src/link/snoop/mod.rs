//! Modified Snoop (`wildnet.md` 10): a layer around a link, with packets on both sides, in which
//! each node repairs TCP losses towards each neighbour that it sends to.
//!
//! `flow` keeps the segments of a connection that were sent to a neighbour. This module takes in
//! segments on their way down and acknowledgements on their way up. A duplicate acknowledgement
//! that asks for a cached segment triggers a retransmission of that segment and is suppressed. So
//! does a time-out. This differs from the original in that all holes that a SACK option shows are
//! filled at once: over a link with slots each would otherwise take a separate cycle.
//!
//! Repeated segments are sent before all others. The link below is therefore given only a few
//! packets at a time, unless it is one that sends many together.

mod flow;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::flow::Flow;
use super::queue::free;
use super::{Link, LinkStatus};
use crate::base::{
    Cx, DropCause, Duration, EtherType, FrameDown, FrameUp, Frames, Instant, Lane, Layer, NodeId,
    Packet, PacketUp, Packets, RadioId, Room, RoomBelow, UnitId,
};
use crate::wire::ip;
use crate::wire::tcp::{self, Flags};

/// Ids of repeated segments start here. No layer above knows them; those of routing are below.
const OWN_IDS: u64 = 3 << 62;
/// Most connections that are remembered; the one that has been idle longest is replaced.
const FLOWS: usize = 256;

/// Configuration of Snoop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SnoopConfig {
    /// Least time without an acknowledgement after which a segment is repeated, in milliseconds.
    /// Otherwise the time is twice the smoothed round-trip time.
    pub timeout_ms: f64,
    /// Most segments of one connection that are cached.
    pub cache_packets: usize,
    /// Most packets that wait here for the link.
    pub queue_packets: usize,
    /// Most packets that the link may hold. Default: 4 on links that send a frame as soon as the
    /// medium is free; as many as they have room for on other links, because these send many
    /// together.
    pub depth_packets: Option<usize>,
}

impl Default for SnoopConfig {
    fn default() -> Self {
        Self { timeout_ms: 40.0, cache_packets: 128, queue_packets: 100, depth_packets: None }
    }
}

/// A direction of a connection: addresses and ports of the sender and of the receiver of data.
type Ends = ((IpAddr, u16), (IpAddr, u16));

/// Whom a packet is for, over which radio.
type Target = (RadioId, Option<NodeId>);

fn target(packet: &Packet) -> Target {
    (packet.radio, packet.to)
}

/// A link with Snoop around it.
pub struct Snoop {
    link: Box<dyn Link + Send>,
    config: SnoopConfig,
    depth: usize,
    flows: BTreeMap<Ends, Flow>,
    /// Repeated segments; they are sent before all that waits.
    again: VecDeque<Packet>,
    waiting: VecDeque<Packet>,
    /// Packets that the link holds, and whom they are for: `depth` for each neighbour, so that one
    /// who is gone does not keep those for others here.
    under_way: BTreeMap<UnitId, Target>,
    next_id: u64,
    timeout: Instant,
    counters: Counters,
    queue_full: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    cached: u64,
    suppressed: u64,
    by_duplicate: u64,
    by_timeout: u64,
}

impl fmt::Debug for Snoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snoop").field("counters", &self.counters).finish_non_exhaustive()
    }
}

/// A segment, as far as Snoop uses it.
struct Segment {
    /// The direction in which its sender sends data.
    ends: Ends,
    header: tcp::Header,
    data: usize,
}

fn segment(packet: &Packet) -> Option<Segment> {
    read(packet.protocol, &packet.payload)
}

fn read(protocol: EtherType, payload: &[u8]) -> Option<Segment> {
    let is_ip = protocol == EtherType::IPV4;
    let (header, data) = is_ip.then(|| tcp::decode(payload).ok()).flatten()?;
    let (from, to) = (ip::source(payload)?, ip::destination(payload)?);
    let ends = ((from, header.source), (to, header.destination));
    Some(Segment { ends, header, data: data.len() })
}

/// Whether the previous connection between these ends is over, so that its numbers have no meaning.
fn begins_anew(header: &tcp::Header) -> bool {
    header.flags.has(Flags::RST) || header.flags.has(Flags::SYN)
}

impl Snoop {
    /// Puts Snoop around a link. The link holds up to `depth` packets if the configuration sets no
    /// limit.
    pub fn build(config: &SnoopConfig, depth: usize, link: Box<dyn Link + Send>) -> Self {
        Self {
            link,
            config: config.clone(),
            depth: config.depth_packets.unwrap_or(depth),
            flows: BTreeMap::new(),
            again: VecDeque::new(),
            waiting: VecDeque::new(),
            under_way: BTreeMap::new(),
            next_id: OWN_IDS,
            timeout: Instant::MAX,
            counters: Counters::default(),
            queue_full: 0,
        }
    }

    /// Caches a segment with data on its way down.
    fn on_down(&mut self, now: Instant, packet: &Packet) {
        let Some(segment) = segment(packet) else { return };
        if begins_anew(&segment.header) {
            self.flows.remove(&segment.ends);
        }
        if segment.data == 0 {
            return;
        }
        if !self.flows.contains_key(&segment.ends) && self.flows.len() >= FLOWS {
            let idle = self.flows.iter().min_by_key(|(_, flow)| flow.used).map(|(ends, _)| *ends);
            idle.and_then(|ends| self.flows.remove(&ends));
        }
        let least = Duration::from_secs_f64(self.config.timeout_ms / 1e3);
        let new = || Flow::new(self.config.cache_packets, least);
        let flow = self.flows.entry(segment.ends).or_insert_with(new);
        let end = segment.header.seq.add(segment.data as u32);
        flow.on_data(now, segment.header.seq, end, packet);
        self.counters.cached += 1;
    }

    /// Examines an acknowledgement on its way up. Returns whether it is passed on.
    fn on_up(&mut self, now: Instant, protocol: EtherType, payload: &[u8]) -> bool {
        let Some(segment) = read(protocol, payload) else { return true };
        let (from, to) = segment.ends;
        if begins_anew(&segment.header) {
            self.flows.remove(&(to, from));
            return true;
        }
        let Some(flow) = self.flows.get_mut(&(to, from)) else { return true };
        if !segment.header.flags.has(Flags::ACK) {
            return true;
        }
        let sacks = segment.header.options.sack.as_slice();
        let (ack, window) = (segment.header.ack, segment.header.window);
        let verdict = flow.on_ack(now, ack, sacks, window, segment.data == 0);
        self.counters.suppressed += u64::from(!verdict.goes_on);
        self.counters.by_duplicate += verdict.again.len() as u64;
        verdict.again.into_iter().for_each(|packet| self.repeat(packet));
        verdict.goes_on
    }

    fn repeat(&mut self, packet: Packet) {
        self.next_id += 1;
        self.again.push_back(Packet { id: UnitId(self.next_id), ..packet });
    }

    fn fire(&mut self, now: Instant) {
        let mut due = Vec::new();
        for flow in self.flows.values_mut() {
            due.extend(flow.on_timeout(now));
        }
        self.counters.by_timeout += due.len() as u64;
        due.into_iter().for_each(|packet| self.repeat(packet));
    }

    fn set_timeout(&mut self) {
        self.timeout = self.flows.values().map(Flow::due).min().unwrap_or(Instant::MAX);
    }

    /// Gives the link as many packets as it may hold, repeated segments first.
    fn feed(&mut self, cx: &mut Cx<'_>) {
        loop {
            let may_go = |packet: &Packet| {
                let of_it = self.under_way.values().filter(|to| **to == target(packet)).count();
                of_it < self.depth && !self.link.room(packet.lane()).is_none()
            };
            let again = self.again.iter().position(may_go);
            let waiting = || self.waiting.iter().position(may_go);
            let packet = match (again, again.map_or_else(waiting, |_| None)) {
                (Some(at), _) => self.again.remove(at),
                (None, Some(at)) => self.waiting.remove(at),
                (None, None) => break,
            };
            let packet = packet.expect("it was found");
            self.under_way.insert(packet.id, target(&packet));
            if let Some(segment) = segment(&packet).filter(|segment| segment.data > 0)
                && let Some(flow) = self.flows.get_mut(&segment.ends)
            {
                flow.on_sent(cx.now, segment.header.seq);
            }
            self.link.handle_tx(cx, packet);
        }
        self.set_timeout();
    }
}

impl Layer for Snoop {
    type Above = Packets;
    type Below = Frames;

    fn handle_rx(&mut self, cx: &mut Cx<'_>, event: FrameUp) {
        self.link.handle_rx(cx, event);
    }

    fn poll_rx(&mut self, cx: &mut Cx<'_>) -> Option<PacketUp> {
        while let Some(event) = self.link.poll_rx(cx) {
            let goes_on = match &event {
                PacketUp::Received(packet) => {
                    let goes_on = self.on_up(cx.now, packet.protocol, &packet.payload);
                    self.set_timeout();
                    goes_on
                }
                PacketUp::Done(done) => {
                    self.under_way.remove(&done.id);
                    done.id.0 < OWN_IDS
                }
                PacketUp::Dropped { id, .. } => {
                    self.under_way.remove(id);
                    id.0 < OWN_IDS
                }
                PacketUp::Neighbour { .. } | PacketUp::Drowned(_) | PacketUp::LinkSample(_) => true,
            };
            if goes_on {
                return Some(event);
            }
        }
        None
    }

    /// Free places here; none if the link would not accept the packet at all. A neighbour to which
    /// nothing goes has half of the places at most, and does not keep the others from theirs.
    fn room(&self, lane: Lane) -> Room {
        let free = free(self.config.queue_packets, &self.waiting, lane);
        let is_taken = !self.link.room(lane).is_none();
        let of_it = || self.waiting.iter().filter(|it| target(it) == (lane.radio, lane.to)).count();
        if !is_taken && (self.under_way.is_empty() || of_it() >= self.config.queue_packets / 2) {
            return Room::NONE;
        }
        Room::units(free)
    }

    fn handle_tx(&mut self, cx: &mut Cx<'_>, packet: Packet) {
        if free(self.config.queue_packets, &self.waiting, packet.lane()) == 0 {
            // Only callers that ignore `room` get here. The link reports what becomes of the
            // packet.
            self.queue_full += 1;
            self.under_way.insert(packet.id, target(&packet));
            return self.link.handle_tx(cx, packet);
        }
        self.on_down(cx.now, &packet);
        self.set_timeout();
        self.waiting.push_back(packet);
    }

    fn poll_tx(&mut self, cx: &mut Cx<'_>, below: &RoomBelow<'_>) -> Option<FrameDown> {
        self.feed(cx);
        self.link.poll_tx(cx, below)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let of_link = self.link.poll_timeout().unwrap_or(Instant::MAX);
        Some(of_link.min(self.timeout)).filter(|due| *due < Instant::MAX)
    }

    fn handle_timeout(&mut self, cx: &mut Cx<'_>) {
        self.link.handle_timeout(cx);
        if self.timeout <= cx.now {
            self.fire(cx.now);
            self.set_timeout();
        }
    }
}

impl Link for Snoop {
    fn heeds_overheard(&self) -> bool {
        self.link.heeds_overheard()
    }

    fn heeded(&self) -> u64 {
        self.link.heeded()
    }

    fn status(&self, now: Instant) -> LinkStatus {
        let mut status = self.link.status(now);
        let counters = &self.counters;
        for (name, count) in [
            ("snoop_cached", counters.cached),
            ("snoop_suppressed", counters.suppressed),
            ("snoop_by_duplicate", counters.by_duplicate),
            ("snoop_by_timeout", counters.by_timeout),
        ] {
            status.counters.insert(name.into(), count);
        }
        if self.queue_full > 0 {
            *status.drops.entry(DropCause::QueueFull).or_default() += self.queue_full;
        }
        status
    }
}
