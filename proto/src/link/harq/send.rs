//! Chooses what is sent next, in the order of urgency.

use bytes::Bytes;

use super::receiver::Receiver;
use super::sender::Outgoing;
use super::{Given, Harq, Key, Peer, UseOfAir, lane};
use crate::base::{
    AccessCategory, AckPolicy, Cover, Cx, DropCause, Duration, EtherType, FlowId, Frame, Lane,
    Packet, PacketDone, PacketOutcome, PacketUp, RoomBelow, TxOptions,
};
use crate::link::lacks_keys;
use crate::wire::harq::{UNIT_HEADER_BYTES, encode_feedback, encode_probe, encode_unit};

impl Harq {
    fn give(&mut self, key: Key, given: Given, payload: Bytes, options: TxOptions) -> Frame {
        let (radio, to) = (key.0, Some(key.1));
        let id = self.ids.next_id();
        self.outstanding.push_back((id, (radio, to), given));
        let (flow, protocol) = (FlowId(0), EtherType::FARHOP);
        Frame { id, radio, to, flow, protocol, payload, options }
    }

    /// A frame to which the layer below adds its message, or feedback.
    pub(super) fn urgent(&mut self, below: &RoomBelow<'_>) -> Option<Frame> {
        let keys: Vec<Key> = self.busy.iter().copied().collect();
        for key in keys {
            let Some(peer) = self.peers.get_mut(&key) else { continue };
            let control = Lane { flow: FlowId::CONTROL, ..lane(key) };
            if peer.wants_carrier && !below(control).is_none() {
                peer.wants_carrier = false;
                let mut frame = self.give(key, Given::Control, Bytes::new(), TxOptions::default());
                frame.flow = FlowId::CONTROL;
                return Some(frame);
            }
            let may_report = !peer.is_reporting && !below(lane(key)).is_none();
            let receiver = peer.receiver.as_mut().filter(|r| may_report && r.owes_feedback());
            if let Some(receiver) = receiver {
                let (incarnation, reports) = (receiver.incarnation, receiver.feedback());
                if !reports.is_empty() {
                    self.counters.feedback_sent += 1;
                    peer.is_reporting = true;
                    let payload = encode_feedback(incarnation, &reports);
                    return Some(self.control(key, Given::Feedback, payload));
                }
            }
            let sender = &peer.sender;
            let owes = peer.receiver.as_ref().is_some_and(Receiver::owes_feedback);
            if !owes && !peer.wants_carrier && !sender.owes_probe() && !sender.may_repair() {
                self.busy.remove(&key);
            }
        }
        None
    }

    /// A frame with feedback or a probe. The card repeats it if it can.
    fn control(&mut self, key: Key, given: Given, payload: Bytes) -> Frame {
        let overhead = payload.len() as u16;
        let options = TxOptions { cover: Cover::Tagged, overhead, ..TxOptions::default() };
        self.give(key, given, payload, options)
    }

    /// The next frame of a radio: a unit of the burst that is being sent; otherwise a burst that
    /// repairs, a probe, or a new packet.
    pub(super) fn next_frame(
        &mut self,
        cx: &Cx<'_>,
        radio: usize,
        incarnation: u16,
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        if let Some((to, burst)) = self.radios[radio].burst {
            let key = (self.radios[radio].radio, to);
            if self.peers.get(&key).is_some_and(|peer| peer.sender.is_going(burst)) {
                if !below(lane(key)).is_none() {
                    return self.unit(key, burst, incarnation);
                }
                if !lacks_keys(below, lane(key)) {
                    return None;
                }
                self.fail(key);
            }
            self.radios[radio].burst = None;
        }
        let id = self.radios[radio].radio;
        let here: Vec<Key> = self.busy.iter().copied().filter(|key| key.0 == id).collect();
        for key in here {
            let Some(peer) = self.peers.get_mut(&key) else { continue };
            if below(lane(key)).is_none() {
                if lacks_keys(below, lane(key)) {
                    self.fail(key);
                }
                continue;
            }
            if peer.sender.may_repair() {
                let burst = peer.sender.repair()?;
                self.radios[radio].burst = Some((key.1, burst));
                return self.unit(key, burst, incarnation);
            }
            if peer.sender.owes_probe() {
                let probe = encode_probe(incarnation, &peer.sender.probe(cx.now));
                self.counters.probes_sent += 1;
                return Some(self.control(key, Given::Control, probe));
            }
        }
        self.next_packet(cx, radio, incarnation, below)
    }

    /// Begins to send the first packet that may be sent.
    fn next_packet(
        &mut self,
        cx: &Cx<'_>,
        radio: usize,
        incarnation: u16,
        below: &RoomBelow<'_>,
    ) -> Option<Frame> {
        let may_go = |packet: &Packet| {
            let key = packet.to.map(|to| (packet.radio, to));
            let peer = key.and_then(|key| self.peers.get(&key));
            let lane = key.map_or(Lane { flow: FlowId(0), ..packet.lane() }, lane);
            !below(lane).is_none() && peer.is_none_or(|peer| peer.sender.may_start())
        };
        let Some(at) = self.radios[radio].waiting.iter().position(may_go) else {
            self.drop_without_keys(radio, below);
            return None;
        };
        let queue = &mut self.radios[radio];
        let packet = queue.waiting.remove(at)?;
        let length = queue.waiting.len();
        if let Some(red) = &mut queue.red {
            red.on_left(cx.now, length);
        }
        let Some(to) = packet.to else { return Some(self.whole(packet)) };
        let key = (packet.radio, to);
        let sealed = cx.seal(to, packet.protocol, &packet.payload);
        let (Some(data), Some(peer)) = (sealed, self.peer(key)) else {
            self.counters.not_sealed += 1;
            let (id, outcome) = (packet.id, PacketOutcome::Failed);
            let air_time = Duration::ZERO;
            let done = PacketDone { id, outcome, attempts: 0, air_time };
            self.up.push_back(PacketUp::Done(done));
            return self.next_packet(cx, radio, incarnation, below);
        };
        let burst = peer.sender.start(&packet, data);
        self.radios[radio].burst = Some((to, burst));
        self.unit(key, burst, incarnation)
    }

    /// Gives up the unfinished packets to a neighbour with which no keys are shared any more:
    /// nothing can be sent to it, and its reports cannot be opened.
    fn fail(&mut self, key: Key) {
        let Some(peer) = self.peers.get_mut(&key) else { return };
        let mut done = Vec::new();
        peer.sender.fail_all(&mut done);
        self.finish(key, done);
    }

    /// Packets for such a neighbour may take half of a queue, so that others have room. To be
    /// called if no packet may be sent.
    fn drop_without_keys(&mut self, radio: usize, below: &RoomBelow<'_>) {
        let waiting = &self.radios[radio].waiting;
        let front = waiting.front().filter(|_| 2 * waiting.len() > self.limit);
        let is_stuck = |packet: &Packet| packet.to.is_some() && lacks_keys(below, packet.lane());
        if front.is_some_and(is_stuck) {
            let packet = self.radios[radio].waiting.pop_front().expect("it is in front");
            self.count_drop(packet.id, DropCause::QueueFull);
        }
    }

    /// Packets for a neighbour that has been silent for long may take half of a queue as well.
    pub(super) fn drop_silent(&mut self, key: Key) {
        let is_silent = self.peers.get(&key).is_some_and(Peer::is_in_the_way);
        while is_silent && self.waiting_for(key) > self.limit / 2 {
            let queue = self.radios.iter_mut().find(|queue| queue.radio == key.0);
            let waiting = &mut queue.expect("packets wait in it").waiting;
            let at = waiting.iter().position(|packet| packet.to == Some(key.1));
            let packet = at.and_then(|at| waiting.remove(at)).expect("one of those that wait");
            self.count_drop(packet.id, DropCause::NoRoute);
        }
    }

    pub(super) fn waiting_for(&self, (radio, to): Key) -> usize {
        let queues = self.radios.iter().filter(|queue| queue.radio == radio);
        let waiting = queues.flat_map(|queue| &queue.waiting);
        waiting.filter(|packet| packet.to == Some(to)).count()
    }

    /// A broadcast is sent as one frame: nobody could report missing units.
    fn whole(&mut self, packet: Packet) -> Frame {
        let id = self.ids.next_id();
        self.outstanding.push_back((id, (packet.radio, None), Given::Packet(packet.id)));
        Frame {
            id,
            radio: packet.radio,
            to: None,
            flow: FlowId(0),
            protocol: packet.protocol,
            payload: packet.payload,
            options: packet.options,
        }
    }

    fn unit(&mut self, key: Key, burst: u64, incarnation: u16) -> Option<Frame> {
        let Outgoing { header, body, options } =
            self.peers.get_mut(&key)?.sender.next_unit(burst)?;
        let bytes = body.len() as u64;
        let (sum, use_of_air) = match header.is_first {
            true if header.index < header.k => (&mut self.counters.data_bytes, UseOfAir::Data),
            true => (&mut self.counters.pfec_bytes, UseOfAir::Parity),
            false => (&mut self.counters.rfec_bytes, UseOfAir::Repair),
        };
        *sum += bytes;
        self.counters.units_sent += 1;
        let options = TxOptions {
            // All in one category: units of a later burst must not overtake those of an earlier
            // one.
            access: AccessCategory::default(),
            ack: AckPolicy::NoAck,
            attempts: Some(1),
            cover: Cover::Tagged,
            overhead: UNIT_HEADER_BYTES as u16,
            ..options
        };
        let given = Given::Unit { burst, use_of_air };
        Some(self.give(key, given, encode_unit(incarnation, &header, &body), options))
    }
}
