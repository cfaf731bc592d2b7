//! Writes what is on the air: all of it as JSON lines, or what one node hears as pcapng.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration as StdDuration;

use farhop_proto::base::{AccessCategory, AckPolicy, Instant, NodeId, RadioId};
use farhop_proto::stack::{NodePlan, Plan, Scenario};
use farhop_proto::wire::ieee80211::{self, Control, DataHeader, Station};
use farhop_proto::wire::radiotap;
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use serde::Serialize;
use serde_json::Value;

use super::decisions::Decision;
use crate::radio::{Answer, Arrival, Medium, Mpdu, Transmission, TransmissionKind};

/// Writes every transmission and every decision of a layer as a JSON line.
pub(super) struct TraceWriter<'a> {
    out: Box<dyn Write + 'a>,
    /// Index of the radio of the first stranger; those of the others follow.
    first_stranger: usize,
    /// The names of the strangers.
    strangers: Vec<String>,
}

#[derive(Serialize)]
struct TraceLine<'a> {
    start_us: f64,
    end_us: f64,
    /// The sending node; for a frame of a stranger, the node that it claims to be from.
    from: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    stranger: Option<&'a str>,
    to: Option<NodeId>,
    kind: &'static str,
    rate_mbps: f64,
    attempt: u8,
    payload_bytes: usize,
}

#[derive(Serialize)]
struct DecisionLine {
    at_us: f64,
    node: NodeId,
    #[serde(flatten)]
    event: Value,
}

impl<'a> TraceWriter<'a> {
    pub(super) fn build(out: Box<dyn Write + 'a>, scenario: &Scenario, plan: &Plan) -> Self {
        Self {
            out: Box::new(io::BufWriter::new(out)),
            first_stranger: plan.nodes.iter().map(|node| node.radios.len()).sum(),
            strangers: scenario.adversary.iter().map(|one| one.name.clone()).collect(),
        }
    }

    pub(super) fn add(&mut self, transmission: &Transmission) -> io::Result<()> {
        let (to, attempt, payload_bytes) = match &transmission.kind {
            TransmissionKind::Data { to, attempt, payload, .. } => (*to, *attempt, payload.len()),
            TransmissionKind::Ampdu { to, mpdus, .. } => {
                let attempt = mpdus.iter().map(|mpdu| mpdu.attempt).max().unwrap_or(1);
                (Some(*to), attempt, mpdus.iter().map(|mpdu| mpdu.payload.len()).sum())
            }
            TransmissionKind::Rts { to } => (Some(*to), 1, 0),
            _ => (None, 1, 0),
        };
        let kind = transmission.name();
        let stranger = transmission.radio.checked_sub(self.first_stranger);
        let line = TraceLine {
            start_us: transmission.start.as_nanos() as f64 / 1e3,
            end_us: transmission.end.as_nanos() as f64 / 1e3,
            from: transmission.from,
            stranger: stranger.map(|index| &*self.strangers[index]),
            to,
            kind,
            rate_mbps: transmission.rate.mbps(),
            attempt,
            payload_bytes,
        };
        line_to(&mut self.out, &line)
    }

    pub(super) fn add_decision(&mut self, decision: Decision) -> io::Result<()> {
        let Decision { at, node, event } = decision;
        let at_us = at.as_nanos() as f64 / 1e3;
        line_to(&mut self.out, &DecisionLine { at_us, node, event })
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn line_to(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Writes what one node hears and sends as pcapng. Frames of others are included if a radio of the
/// node locked on to them, and marked if they failed their check.
pub(super) struct Capture<'a> {
    out: PcapNgWriter<io::BufWriter<Box<dyn Write + 'a>>>,
    node: NodeId,
    /// Every radio of the network, by its index on the medium.
    stations: Vec<Station>,
    /// A-MPDUs captured so far.
    ampdus: u32,
    /// Transmissions on their way, by the time at which they begin at the node and their number:
    /// those from far away begin later.
    waiting: BTreeMap<(Instant, u64), Waiting>,
    transmissions: u64,
}

/// A transmission that has not been written yet.
struct Waiting {
    /// The sender's radio, and when it began to send.
    from: (usize, Instant),
    until: Instant,
    /// A packet for each MPDU.
    packets: Vec<Vec<u8>>,
    /// A bit for each packet that passed its check; `None` until a radio of the node reports it.
    decoded: Option<u64>,
}

impl<'a> Capture<'a> {
    pub(super) fn build(
        out: Box<dyn Write + 'a>,
        node: &NodePlan,
        plan: &Plan,
    ) -> io::Result<Self> {
        let mut out = PcapNgWriter::new(io::BufWriter::new(out)).map_err(io::Error::other)?;
        let interface = InterfaceDescriptionBlock {
            linktype: DataLink::IEEE802_11_RADIOTAP,
            snaplen: 0,
            options: vec![
                InterfaceDescriptionOption::IfName(Cow::Owned(node.name.clone())),
                // Time stamps in nanoseconds.
                InterfaceDescriptionOption::IfTsResol(9),
            ],
        };
        out.write_pcapng_block(interface).map_err(io::Error::other)?;
        let radios = plan
            .nodes
            .iter()
            .flat_map(|node| node.radios.iter().map(|radio| (node.node, radio.spec.id)));
        let (stations, waiting) = (radios.collect(), BTreeMap::new());
        Ok(Self { out, node: node.node, stations, ampdus: 0, waiting, transmissions: 0 })
    }

    /// The node that captures.
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    /// Adds a transmission, if the node may hear it.
    pub(super) fn add(&mut self, transmission: &Transmission, medium: &Medium) {
        let sender = (transmission.radio, transmission.rate);
        let Some((delay, signal)) = medium.heard_at(self.node, sender) else { return };
        let (phy, channel) = medium.tuned(transmission.radio);
        let at = transmission.start + delay;
        let tsft_us = (at + phy.plcp(transmission.rate)).as_nanos() / 1_000;
        let captured = radiotap::Reception {
            tsft_us,
            phy,
            rate: transmission.rate,
            channel,
            signal,
            antenna: None,
            ampdu: None,
        };
        // The radio of its receiver; the first one where no frame of the sender can be decoded.
        let to = transmission
            .to()
            .map(|to| (to, medium.addressed(transmission.radio, to).unwrap_or(RadioId(0))));
        let count = transmission.mpdus().len();
        self.ampdus = self.ampdus.wrapping_add(u32::from(count > 0));
        let packet = |place: usize| {
            let ampdu = (count > 0).then_some((self.ampdus, place + 1 == count));
            let mut packet = Vec::new();
            let captured = radiotap::Reception { ampdu, ..captured };
            radiotap::put_reception(&mut packet, &captured);
            put_mpdu(&mut packet, transmission, place, (to, &self.stations));
            packet
        };
        let waiting = Waiting {
            from: (transmission.radio, transmission.start),
            until: transmission.end + delay,
            packets: (0..count.max(1)).map(packet).collect(),
            // The node's own transmissions need no reception.
            decoded: signal.is_none().then_some(u64::MAX),
        };
        self.waiting.insert((at, self.transmissions), waiting);
        self.transmissions += 1;
    }

    /// Takes how a radio of the node received a transmission that was added before.
    pub(super) fn on_arrival(&mut self, arrival: Arrival) {
        let Arrival { from, start, decoded } = arrival;
        let mut all = self.waiting.values_mut();
        if let Some(waiting) = all.find(|waiting| waiting.from == (from, start)) {
            *waiting.decoded.get_or_insert(0) |= decoded;
        }
    }

    /// Writes transmissions in the order of their starts, up to the first that ends at `limit` or
    /// later: all arrivals before that are known.
    pub(super) fn write_until(&mut self, limit: Instant) -> io::Result<()> {
        while let Some(first) = self.waiting.first_entry()
            && first.get().until < limit
        {
            let ((at, _), waiting) = first.remove_entry();
            let Some(decoded) = waiting.decoded else { continue };
            for (place, mut packet) in waiting.packets.into_iter().enumerate() {
                if decoded & 1 << place == 0 {
                    radiotap::mark_failed(&mut packet);
                }
                self.write(at, &packet)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, at: Instant, packet: &[u8]) -> io::Result<()> {
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: StdDuration::from_nanos(at.as_nanos()),
            original_len: packet.len() as u32,
            data: Cow::Borrowed(packet),
            options: Vec::new(),
        };
        self.out.write_pcapng_block(block).map_err(io::Error::other)?;
        Ok(())
    }

    /// Ends the capture. Transmissions that last beyond `end` are left out.
    pub(super) fn finish(mut self, end: Instant) -> io::Result<()> {
        self.waiting.retain(|_, waiting| waiting.until <= end);
        self.write_until(Instant::MAX)?;
        self.out.into_inner().flush()
    }
}

/// Appends the bytes of a transmission to `to`, or of one of its MPDUs, from the MAC header on,
/// without check sequence.
fn put_mpdu(
    out: &mut Vec<u8>,
    transmission: &Transmission,
    place: usize,
    (to, stations): (Option<Station>, &[Station]),
) {
    // Radios of strangers are not among the stations; their frames name the sender that they claim.
    let from = stations.get(transmission.radio).copied().unwrap_or((transmission.from, RadioId(0)));
    let duration_us = transmission.nav.as_nanos().div_ceil(1_000).min(32_767) as u16;
    let data = |ack, access: Option<AccessCategory>, sequence, attempt: u8, protocol| DataHeader {
        from,
        to,
        ack,
        access: access.unwrap_or_default(),
        sequence,
        retry: attempt > 1,
        duration_us,
        protocol,
    };
    let control = |out: &mut Vec<u8>, control: Control, to: Option<Station>| {
        let to = to.expect("control frames are for a node");
        ieee80211::put_control(out, &control, from, to, duration_us);
    };
    let asker = |answer: &Answer| Some(stations[answer.to_radio]);
    match &transmission.kind {
        TransmissionKind::Data {
            protocol, payload, wants_ack, sequence, attempt, access, ..
        } => {
            // Only a QoS frame can ask for no acknowledgement, and a frame without an access
            // category is none.
            let is_silent = !*wants_ack && access.is_some();
            let ack = if is_silent { AckPolicy::NoAck } else { AckPolicy::Normal };
            let header = data(ack, *access, *sequence, *attempt, *protocol);
            match access {
                Some(_) => ieee80211::put_qos_data(out, &header, payload),
                None => ieee80211::put_data(out, &header, payload),
            }
        }
        TransmissionKind::Ampdu { access, mpdus, .. } => {
            let Mpdu { sequence, attempt, protocol, payload, .. } = &mpdus[place];
            let header = data(AckPolicy::Normal, Some(*access), *sequence, *attempt, *protocol);
            ieee80211::put_qos_data(out, &header, payload);
        }
        TransmissionKind::Ack(answer) => control(out, Control::Ack, asker(answer)),
        TransmissionKind::Cts(answer) => control(out, Control::Cts, asker(answer)),
        TransmissionKind::BlockAck { answer, access, start, map } => {
            let kind = Control::BlockAck { access: *access, start: *start, map: *map };
            control(out, kind, asker(answer));
        }
        TransmissionKind::Rts { .. } => control(out, Control::Rts, to),
        TransmissionKind::BlockAckRequest { access, start, .. } => {
            let kind = Control::BlockAckRequest { access: *access, start: *start };
            control(out, kind, to);
        }
    }
}
