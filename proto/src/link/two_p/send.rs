//! What is sent in a phase: data as long as it fits, then a marker to each neighbour.

use bytes::Bytes;

use super::{Outstanding, Peer, Phase, Port, TwoP};
use crate::base::{
    AckPolicy, Duration, EtherType, FlowId, Frame, Instant, Lane, RoomBelow, Seq, TxOptions, UnitId,
};
use crate::link::lacks_keys;
use crate::wire::wild::{FULL_LENGTH, HEADER_BYTES, Header, Kind, encode};

/// Length of a frame with the longest message of a handshake, in bytes.
const CARRIER_BYTES: usize = 170;

impl TwoP {
    /// Air time of the markers that a radio still has to send.
    pub(super) fn marker_time(&self, port: &Port) -> Duration {
        let open = port.peers.iter().filter(|index| !self.peers[**index].is_told).count();
        port.spec.unacknowledged(HEADER_BYTES) * open as u64
    }

    /// The next frame of a radio in its sending phase.
    pub(super) fn next_frame(
        &mut self,
        now: Instant,
        (group, port): (usize, usize),
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        let Phase::Send { from, end } = self.groups[group].phase else { return None };
        if now < from {
            return None;
        }
        let place = &self.groups[group].ports[port];
        let (turn, count) = (place.turn, place.peers.len());
        let markers = self.marker_time(place);
        let free = place.busy_until.max(now);
        for step in 0..count {
            let place = &self.groups[group].ports[port];
            let index = place.peers[(turn + step) % count];
            let (peer, lane) = (&self.peers[index], lane(&self.peers[index]));
            let fits = |bytes| free + place.spec.unacknowledged(bytes) + markers <= end;
            let control = Lane { flow: FlowId::CONTROL, ..lane };
            let is_carrier = peer.wanted && fits(CARRIER_BYTES) && !below(control).is_none();
            let next = peer.queue.front().map(|packet| packet.payload.len());
            if is_carrier || (next.is_some_and(fits) && !below(lane).is_none()) {
                self.groups[group].ports[port].turn = (turn + step + 1) % count;
                let place = (group, port);
                return Some(match is_carrier {
                    true => self.carrier(now, place, index, end),
                    false => self.data(now, place, index, end),
                });
            }
        }
        // Markers come last: when nothing else can fit any more.
        if now + markers < end {
            return None;
        }
        for place in 0..count {
            let index = self.groups[group].ports[port].peers[place];
            let lane = lane(&self.peers[index]);
            if self.peers[index].is_told {
                continue;
            }
            if !below(lane).is_none() {
                return Some(self.marker(now, (group, port), index));
            }
            // A neighbour that shares no keys with us could not read it.
            self.peers[index].is_told = lacks_keys(below, lane);
        }
        None
    }

    /// An empty frame to which the layer below adds its message.
    fn carrier(
        &mut self,
        now: Instant,
        place: (usize, usize),
        index: usize,
        end: Instant,
    ) -> Frame {
        self.peers[index].wanted = false;
        let empty = (EtherType::FARHOP, Bytes::new(), FlowId::CONTROL);
        self.give(now, place, index, empty, None, end)
    }

    fn data(&mut self, now: Instant, place: (usize, usize), index: usize, end: Instant) -> Frame {
        let packet = self.peers[index].queue.pop_front().expect("its length was asked for");
        let what = (packet.protocol, packet.payload, packet.flow);
        self.give(now, place, index, what, Some(packet.id), end)
    }

    fn marker(&mut self, now: Instant, place: (usize, usize), index: usize) -> Frame {
        let header = Header {
            kind: Kind::Marker,
            flags: 0,
            flow: FlowId(0),
            seq: Seq(0),
            flow_seq: 0,
            attempt: 0,
            slot: self.groups[place.0].number,
            delta_us: 0,
            incarnation: 0,
            coded: None,
            base_offset: 0,
            cluster: 0,
            length: FULL_LENGTH,
            demand: 0,
            protocol: EtherType::FARHOP,
        };
        self.counters.markers_sent += 1;
        self.peers[index].is_told = true;
        let what = (EtherType::FARHOP, encode(&header, &[], &[]), FlowId(0));
        let frame = self.give(now, place, index, what, None, Instant::MAX);
        if let Some(last) = self.outstanding.back_mut() {
            last.is_marker = true;
        }
        frame
    }

    fn give(
        &mut self,
        now: Instant,
        place: (usize, usize),
        index: usize,
        (protocol, payload, flow): (EtherType, Bytes, FlowId),
        packet: Option<UnitId>,
        end: Instant,
    ) -> Frame {
        let (group, port) = place;
        let id = self.ids.next_id();
        let packet = packet.map(|packet| (packet, payload.len()));
        self.outstanding.push_back(Outstanding {
            id,
            peer: index,
            packet,
            group,
            is_marker: false,
        });
        let port = &mut self.groups[group].ports[port];
        let planned = port.spec.unacknowledged(payload.len());
        port.busy_until = port.busy_until.max(now) + planned;
        let options = TxOptions {
            ack: AckPolicy::NoAck,
            rate: Some(port.spec.rate),
            attempts: Some(1),
            deadline: (end != Instant::MAX).then_some(end),
            ..TxOptions::default()
        };
        let (radio, to) = (port.spec.id, Some(self.peers[index].spec.node));
        Frame { id, radio, to, flow, protocol, payload, options }
    }
}

fn lane(peer: &Peer) -> Lane {
    Lane { radio: peer.spec.radio, to: Some(peer.spec.node), ..Lane::default() }
}
