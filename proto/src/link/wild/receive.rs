//! Evaluates the frames that arrive: stamp, acknowledgement, data, parity.

use super::Wild;
use super::beacon::BEACON_BYTES;
use super::peer::Refusal;
use super::receiver::{Arrival, Verdict, unit_head};
use super::slots::{Delta, SILENT_CYCLES, STALE_CYCLES, Stamp};
use super::status::WildEvent;
use crate::base::{Cx, Duration, EtherType, Instant, PacketUp, ReceivedFrame, ReceivedPacket};
use crate::link::PeerSpec;
use crate::wire::wild::{DecodeError, Decoded, Header, Kind, Turns, UnitHead, decode, flag};

impl Wild {
    /// Handles a frame that was for this node or for all (`is_ours`), or that was only overheard.
    pub(super) fn on_frame(&mut self, cx: &mut Cx<'_>, mut frame: ReceivedFrame, is_ours: bool) {
        let Some((index, decoded)) = self.open(cx, &frame) else { return };
        let header = decoded.header;
        let started = self.started(cx.now, index, &frame);
        frame.started = started.unwrap_or(cx.now);
        // What a restarted neighbour says counts once its restart is confirmed.
        let is_same_life = !self.peers[index].receiver.is_of_another_life(&header);
        if is_same_life && started.is_some_and(|at| self.is_stale(cx.now, index, &header, at)) {
            self.counters.stale += 1;
            return;
        }
        match started {
            Some(_) if is_same_life && self.has_stamp(index, &header) => {
                self.on_stamp(cx, index, &frame, &header);
            }
            Some(_) => {}
            None => self.counters.stamps_impossible += 1,
        }
        self.on_heard(cx, index, &frame, &header);
        if header.kind == Kind::Idle && frame.to.is_none() {
            self.on_turns_of(cx.now, index, &decoded);
        }
        if !is_ours {
            self.counters.overheard += 1;
            return;
        }
        let mut out = Vec::new();
        let verdict = self.peers[index].receiver.on_header(&header, &mut out);
        self.counters.strange += u64::from(verdict == Verdict::Strange);
        if verdict == Verdict::Restarted {
            self.counters.restarts += 1;
            self.peers[index].stamp = None;
            self.peers[index].joiner.clear();
        }
        if verdict != Verdict::Strange && header.kind != Kind::Idle {
            self.on_window(cx, index, &frame, decoded, &mut out);
        }
        self.give_up(index, out);
    }

    /// Decodes a frame and finds its neighbour; none if the frame is of no use.
    fn open(&mut self, cx: &mut Cx<'_>, frame: &ReceivedFrame) -> Option<(usize, Decoded)> {
        if frame.protocol != EtherType::FARHOP {
            self.counters.malformed_protocol += 1;
            // If a neighbour merely protects its frames, the keys (or their absence) tell.
            if frame.protocol != EtherType::SEALED {
                self.on_refused(cx, frame, Refusal::Link);
            }
            return None;
        }
        let decoded = match decode(&frame.payload) {
            Ok(decoded) => decoded,
            Err(error) => {
                self.counters.on_malformed(error);
                if error == DecodeError::Version {
                    self.on_refused(cx, frame, Refusal::Version);
                }
                return None;
            }
        };
        let Some(index) = self.peer_index(frame.radio, frame.from) else {
            self.counters.strangers += 1;
            return None;
        };
        if frame.radio != self.peers[index].spec.radio {
            // Another radio of ours faces this neighbour.
            self.counters.overheard += 1;
            return None;
        }
        let kind = decoded.header.kind;
        if kind == Kind::Marker {
            // This kind is sent by `two-p` only.
            self.on_refused(cx, frame, Refusal::Link);
            return None;
        }
        // Only its beacons prove that the neighbour's slot length has been corrected.
        let was_wrong =
            self.peers[index].refused.is_some_and(|(why, _)| why == Refusal::SlotLength);
        if !self.has_our_slot_length(&decoded) || (was_wrong && kind != Kind::Idle) {
            self.counters.wrong_slot_length += 1;
            self.on_refused(cx, frame, Refusal::SlotLength);
            return None;
        }
        self.peers[index].refused = None;
        Some((index, decoded))
    }

    /// Whether the sender uses our slot length: a beacon tells it; other frames tell only that it
    /// differs, by a stamp or a length out of bounds.
    fn has_our_slot_length(&self, decoded: &Decoded) -> bool {
        let ours = self.settings.slot.as_micros();
        let length = self.length_of(&decoded.header);
        let is_within = u64::from(decoded.header.delta_us) <= length.as_micros()
            && length >= self.settings.least.min(self.settings.slot / 8)
            && length <= self.settings.slot * 2;
        match decoded.header.kind {
            Kind::Idle => is_within && decoded.body.starts_with(&(ours as u32).to_be_bytes()),
            _ => is_within,
        }
    }

    fn on_refused(&mut self, cx: &mut Cx<'_>, frame: &ReceivedFrame, why: Refusal) {
        let from = frame.from;
        let Some(index) = self.peer_index(frame.radio, from) else { return };
        let before = self.peers[index].refused.replace((why, cx.now));
        if before.is_none_or(|(before, _)| before != why) {
            cx.emit(|| WildEvent::Refused { from, why: why.name() });
        }
    }

    /// Applies the turns in a beacon.
    fn on_turns_of(&mut self, now: Instant, index: usize, decoded: &Decoded) {
        let place = self.peers[index].place;
        if !self.is_in_step_with(now, index, decoded.header.cluster) {
            return;
        }
        let rest = decoded.body.slice(BEACON_BYTES.min(decoded.body.len())..);
        match Turns::read(&rest) {
            Some(turns) => self.on_turns(now, place, self.length_of(&decoded.header), &turns),
            None => self.counters.malformed_turns += u64::from(!rest.is_empty()),
        }
    }

    fn is_in_step_with(&self, now: Instant, index: usize, cluster: u8) -> bool {
        let slots = &self.groups[self.peers[index].place.0].slots;
        slots.is_in_step(now) && slots.cluster() == cluster
    }

    fn on_heard(&mut self, cx: &mut Cx<'_>, index: usize, frame: &ReceivedFrame, header: &Header) {
        let length = self.length_of(header);
        let spec = self.radio_of(&self.peers[index]);
        let air = spec.share(frame.payload.len()) + self.settings.overhead;
        let peer = &mut self.peers[index];
        let slots = &mut self.groups[peer.place.0].slots;
        let is_with_us = slots.on_heard(cx.now, header.cluster, length);
        let (is_in_step, group) = (slots.is_in_step(cx.now), peer.place.0);
        // A node that is in step with nobody has only this neighbour to get in step with.
        let is_up = is_with_us || !is_in_step;
        peer.heard = Some(cx.now);
        (peer.served.unheard, peer.served.asked) = (0, 0);
        peer.signal = frame.signal.or(peer.signal);
        peer.takes_parts = header.has(flag::TAKES_PARTS);
        peer.hurries = header.has(flag::HURRIES);
        if frame.to.is_none_or(|to| to == self.node) {
            peer.demand = header.demand;
            if matches!(header.kind, Kind::Data | Kind::Fec) {
                peer.served.on_packet(air);
            }
        }
        if peer.is_up != is_up {
            peer.is_up = is_up;
            let PeerSpec { node, radio } = peer.spec;
            self.up.push_back(PacketUp::Neighbour { node, radio, up: is_up });
            if !is_up {
                self.drop_copies(index);
            }
        }
        self.follow_length(cx.now, group);
        self.set_timeout(cx.now);
    }

    /// When a frame began, on the node's clock.
    fn started(&mut self, now: Instant, index: usize, frame: &ReceivedFrame) -> Option<Instant> {
        let patience = self.settings.slot * 2 * STALE_CYCLES;
        let port = self.port_mut(self.peers[index].place);
        let spec = port.spec;
        let bytes = spec.phy.psdu_bytes(spec.mpdu_bytes(frame.payload.len()), frame.rate);
        let air = spec.phy.air_time(bytes, frame.rate);
        port.clock.started(now, frame.started, air, patience)
    }

    /// Whether a frame is not from the neighbour's newest slot, or implies another start of that
    /// slot than the earlier stamp did. It is then a copy that somebody passed on, or a delayed
    /// frame: what it says about slots and windows is out of date.
    fn is_stale(&self, now: Instant, index: usize, header: &Header, started: Instant) -> bool {
        let memory = self.settings.slot * 2 * SILENT_CYCLES;
        let last = self.peers[index].stamp.filter(|(_, _, at)| now.since(*at) <= memory);
        let Some((slot, start, _)) = last else { return false };
        let newer = header.slot.wrapping_sub(slot) as i16;
        if newer != 0 || !header.has(flag::FIRST_IN_SLOT) {
            return newer < 0;
        }
        let began = started.saturating_sub(Duration::from_micros(u64::from(header.delta_us)));
        began.signed_since(start).unsigned_abs() > self.settings.slot.as_nanos() / 16
    }

    /// Whether a frame tells when the slot of a neighbour began: the first frame of a slot does,
    /// and so does a later one if the first was not received.
    fn has_stamp(&self, index: usize, header: &Header) -> bool {
        let known = self.peers[index].stamp.map(|(slot, ..)| slot);
        header.has(flag::FIRST_IN_SLOT) || (header.delta_us > 0 && known != Some(header.slot))
    }

    fn on_stamp(&mut self, cx: &mut Cx<'_>, index: usize, frame: &ReceivedFrame, header: &Header) {
        let group = self.peers[index].place.0;
        let delta = Duration::from_micros(u64::from(header.delta_us));
        let from = self.peers[index].spec.node;
        let began = frame.started.saturating_sub(delta);
        let length = self.length_of(header);
        let is_exact = header.has(flag::FIRST_IN_SLOT);
        if is_exact {
            self.peers[index].stamp = Some((header.slot, began, cx.now));
        }
        match self.groups[group].slots.on_stamp(
            cx.now,
            (from, frame.started),
            if is_exact { Delta::Exact(delta) } else { Delta::Planned(delta) },
            header.cluster,
            length,
        ) {
            Stamp::Planned => {}
            Stamp::Foreign => self.counters.stamps_foreign += 1,
            Stamp::TooLong => self.counters.wrong_slot_length += 1,
            Stamp::Held(error_ns) => {
                self.counters.stamps += 1;
                self.peers[index].sync_error = Some(error_ns);
                self.on_lag(index, began);
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
    }

    /// Handles what concerns the windows of both directions.
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
            // Slots of two nodes in step may overlap by the synchronisation error. What was sent
            // during the overlap was lost, because the neighbour was sending.
            let horizon = began + self.settings.slot / 4;
            let mut done = Vec::new();
            let sender = &mut self.peers[index].sender;
            let lost = sender.on_ack(cx.now, &ack, header.slot, horizon, &mut done);
            self.end(done);
            let to = self.peers[index].spec.node;
            if lost > 0 {
                cx.emit(|| WildEvent::Lost { to, packets: lost });
            }
        }
        if matches!(header.kind, Kind::Data | Kind::Fec) {
            self.peers[index].used = Some(cx.now);
            self.peers[index].owes_ack();
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

    /// Delivers packets of a neighbour to the layer above.
    pub(super) fn give_up(&mut self, index: usize, out: Vec<Arrival>) {
        let peer = &mut self.peers[index];
        for arrival in out {
            let UnitHead { flow, flow_seq, protocol, .. } = arrival.head;
            // Packets without an order are never cut, and their numbers prove no gap.
            let packets = match arrival.is_ordered || protocol == EtherType::FARHOP {
                true => peer.joiner.take(flow, flow_seq, protocol, arrival.payload),
                false => Some(vec![(protocol, arrival.payload)]),
            };
            self.counters.malformed_protocol += u64::from(packets.is_none());
            for (protocol, payload) in packets.unwrap_or_default() {
                peer.received_bytes += payload.len() as u64;
                self.up.push_back(PacketUp::Received(ReceivedPacket {
                    radio: peer.spec.radio,
                    from: peer.spec.node,
                    flow,
                    protocol,
                    payload,
                    signal: arrival.signal,
                    rate: arrival.rate,
                }));
            }
        }
    }
}
