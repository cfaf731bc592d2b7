//! What is done with a frame: stamp, acknowledgement, data, parity.

use super::Wild;
use super::receiver::{Arrival, Verdict, unit_head};
use super::slots::Stamp;
use super::status::WildEvent;
use crate::base::{Cx, Duration, EtherType, PacketUp, ReceivedFrame, ReceivedPacket};
use crate::wire::wild::{Decoded, Header, Kind, decode, flag};

impl Wild {
    /// Takes a frame that was for this node (or all), or that was only overheard.
    pub(super) fn on_frame(&mut self, cx: &mut Cx<'_>, frame: ReceivedFrame, is_ours: bool) {
        if frame.protocol != EtherType::FARHOP {
            self.counters.malformed_protocol += 1;
            return;
        }
        let decoded = match decode(&frame.payload) {
            Ok(decoded) => decoded,
            Err(error) => return self.counters.on_malformed(error),
        };
        let Some(index) = self.peer_index(frame.from) else {
            self.counters.strangers += 1;
            return;
        };
        let header = decoded.header;
        if header.kind == Kind::Marker || !self.has_our_slot_length(&decoded) {
            self.counters.wrong_slot_length += u64::from(header.kind != Kind::Marker);
            return;
        }
        self.on_heard(cx, index, &frame);
        if header.has(flag::FIRST_IN_SLOT) {
            self.on_stamp(cx, index, &frame, &header);
        }
        if !is_ours {
            self.counters.overheard += 1;
            return;
        }
        let mut out = Vec::new();
        let verdict = self.peers[index].receiver.on_header(&header, &mut out);
        self.counters.strange += u64::from(verdict == Verdict::Strange);
        self.counters.restarts += u64::from(verdict == Verdict::Restarted);
        if verdict != Verdict::Strange && header.kind != Kind::Idle {
            self.on_window(cx, index, &frame, decoded, &mut out);
        }
        self.give_up(index, out);
    }

    /// A beacon tells the slot length of its sender; a stamp beyond ours tells that it differs.
    fn has_our_slot_length(&self, decoded: &Decoded) -> bool {
        let ours = self.settings.slot.as_micros();
        let is_within = u64::from(decoded.header.delta_us) <= ours;
        match decoded.header.kind {
            Kind::Idle => is_within && decoded.body[..] == (ours as u32).to_be_bytes(),
            _ => is_within,
        }
    }

    fn on_heard(&mut self, cx: &mut Cx<'_>, index: usize, frame: &ReceivedFrame) {
        let peer = &mut self.peers[index];
        self.groups[peer.place.0].slots.on_heard(cx.now);
        peer.heard = Some(cx.now);
        peer.signal = frame.signal.or(peer.signal);
        if !peer.is_up {
            peer.is_up = true;
            let node = peer.spec.node;
            self.up.push_back(PacketUp::Neighbour { node, up: true });
        }
    }

    fn on_stamp(&mut self, cx: &mut Cx<'_>, index: usize, frame: &ReceivedFrame, header: &Header) {
        let group = self.peers[index].place.0;
        let delta = Duration::from_micros(u64::from(header.delta_us));
        let from = self.peers[index].spec.node;
        match self.groups[group].slots.on_stamp(cx.now, frame.started, delta) {
            Stamp::TooLong => self.counters.wrong_slot_length += 1,
            Stamp::Held(error_ns) => {
                self.counters.stamps += 1;
                self.peers[index].sync_error = Some(error_ns);
                cx.emit(|| WildEvent::Stamp { from, error_ns });
            }
            Stamp::Taken { cut } => {
                self.counters.stamps += 1;
                self.counters.steps_taken += 1;
                self.counters.slots_cut += u64::from(cut);
                self.peers[index].sync_error = None;
                cx.emit(|| WildEvent::InStep { from });
            }
        }
        self.set_timeout();
    }

    /// Takes what concerns the windows of both directions.
    fn on_window(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        frame: &ReceivedFrame,
        decoded: Decoded,
        out: &mut Vec<Arrival>,
    ) {
        let Decoded { header, ack, body } = decoded;
        self.peers[index].receiver.on_frame(cx.now, &header, out);
        if let Some(ack) = ack {
            let delta = if header.has(flag::FIRST_IN_SLOT) { header.delta_us } else { 0 };
            let began = frame.started.saturating_sub(Duration::from_micros(u64::from(delta)));
            // Slots of two nodes in step may overlap by the error of the step. What was sent in
            // the overlap was lost, because the neighbour was sending.
            let horizon = began + self.settings.slot / 4;
            let mut done = Vec::new();
            let sender = &mut self.peers[index].sender;
            let lost = sender.on_ack(cx.now, &ack, header.slot, horizon, &mut done);
            self.up.extend(done.into_iter().map(PacketUp::Done));
            let to = self.peers[index].spec.node;
            if lost > 0 {
                cx.emit(|| WildEvent::Lost { to, packets: lost });
            }
        }
        let receiver = &mut self.peers[index].receiver;
        let is_ordered = header.has(flag::IN_ORDER);
        let units = match header.kind {
            Kind::Data => {
                let head = unit_head(&header);
                let (signal, rate) = (frame.signal, Some(frame.rate));
                let arrival = Arrival { head, is_ordered, payload: body, signal, rate };
                let units = receiver.on_coded(&header, &arrival);
                receiver.on_data(cx.now, arrival, out);
                units
            }
            Kind::Fec => receiver.on_parity(&header, body),
            Kind::Ack | Kind::Idle | Kind::Marker => return,
        };
        receiver.on_units(cx.now, units, is_ordered, out);
    }

    /// Hands packets of a neighbour to the layer above.
    pub(super) fn give_up(&mut self, index: usize, out: Vec<Arrival>) {
        let peer = &mut self.peers[index];
        for arrival in out {
            peer.received_bytes += arrival.payload.len() as u64;
            self.up.push_back(PacketUp::Received(ReceivedPacket {
                radio: peer.spec.radio,
                from: peer.spec.node,
                flow: arrival.head.flow,
                protocol: arrival.head.protocol,
                payload: arrival.payload,
                signal: arrival.signal,
                rate: arrival.rate,
            }));
        }
    }
}
