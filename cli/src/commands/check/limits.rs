//! Estimates of what the links of a scenario can carry, with mean values for random gaps.

use farhop_proto::base::phy::{
    ACK_BYTES, BLOCK_ACK_BYTES, LLC_SNAP_BYTES, Mode, RTS_BYTES, mpdu_bytes,
};
use farhop_proto::base::{
    AccessCategory, Bitrate, Duration, Gap, NodeId, PhyKind, RadioId, RadioSpec, counted,
};
use farhop_proto::link::plain::PlainConfig;
use farhop_proto::link::wild::{InOrder, WildConfig};
use farhop_proto::stack::{Hop, LinkConfig, Plan, Protection, RadioLinkConfig, RadioPlan};
use farhop_proto::wire::harq::{FEEDBACK_HEADER_BYTES, REPORT_BYTES, UNIT_HEADER_BYTES};
use farhop_proto::wire::wild::{HEADER_BYTES, UNIT_HEAD_BYTES};
use farhop_proto::wire::{blindfec, bundle};

use super::PACKET_BYTES;

/// What a frame of `blindfec` contains besides its packet, in bytes.
const BLIND_BYTES: usize = blindfec::HEADER_BYTES + UNIT_HEAD_BYTES;

/// An estimate of what a link carries, in packets and with the acknowledgements of its protocol,
/// when nothing is lost and nobody else is on the air; for each direction if its ends differ. Empty
/// if radios choose their rates. It is not a limit: gaps are random, and blocks have fewer
/// acknowledgements.
pub(super) fn describe_limits(plan: &Plan, link: &RadioLinkConfig, hops: &[Hop]) -> String {
    let radios = || hops.iter().map(|hop| &*radio_at(plan, hop.from).config);
    let stack = &plan.nodes[usize::from(hops[0].from.0.0) - 1].stack.link;
    if radios().any(|radio| stack.chooses_rates(radio)) {
        return String::new();
    }
    if let Some(said) = describe_deaf(plan, stack, hops) {
        return said;
    }
    let neighbours = hops.iter().map(|hop| neighbours(plan, hop.from)).max().unwrap_or_default();
    let limit = |hop: &Hop| {
        let Limit { mbps, when, one_way } =
            limit(hop.delay, (&sender(plan, hop), neighbours), stack);
        let usable = |mbps| if hop.usable { mbps } else { 0.0 };
        Limit { mbps: usable(mbps), when, one_way: one_way.map(usable) }
    };
    let ([a, b], there, back) = (&link.between, limit(&hops[0]), limit(&hops[1]));
    let both = |there: f64, back: f64| {
        let [there, back] = [there, back].map(|mbps| format!("{mbps:.2} Mb/s"));
        match there == back {
            true => there,
            false => format!("{there} from {a} to {b}, {back} from {b} to {a},"),
        }
    };
    let most = both(there.mbps, back.mbps);
    let way = match (there.one_way, back.one_way) {
        (Some(there), Some(back)) => format!("each way, or {} one way", both(there, back)),
        _ => there.when.to_owned(),
    };
    let shared = match stack {
        LinkConfig::Wild(_) => describe_shared(plan, hops),
        _ => String::new(),
    };
    format!("  about {most} {way}, in packets of {PACKET_BYTES} B and without loss{shared}\n")
}

/// A remark if a radio has other neighbours too: they have turns even if nothing is sent to them.
fn describe_shared(plan: &Plan, hops: &[Hop]) -> String {
    let count = |hop: &&Hop| neighbours(plan, hop.from);
    let Some(hop) = hops.iter().max_by_key(count).filter(|hop| count(hop) > 1) else {
        return String::new();
    };
    let name = &plan.nodes[usize::from(hop.from.0.0) - 1].name;
    format!(
        ", were it the only link of {name}'s radio, which {} share",
        counted(count(&hop) as usize, "neighbour")
    )
}

/// The consequence of an ACK time-out that is shorter than the round trip of the acknowledgement.
fn describe_deaf(plan: &Plan, link: &LinkConfig, hops: &[Hop]) -> Option<String> {
    let LinkConfig::Plain(plain) = link else { return None };
    let least = |hop: &Hop| hop.delay * 2 + radio_at(plan, hop.from).spec.phy.sifs();
    let is_deaf = |hop: &&Hop| {
        let radio = radio_at(plan, hop.from);
        radio.has_air && hop.usable && radio.ack_timeout < least(hop)
    };
    let hop = hops.iter().find(is_deaf).filter(|_| plain.mac_ack)?;
    let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
    Some(format!(
        "  no acknowledgement comes in time: {:.0} us are waited for it, and the way there and \
         back and SIFS take {:.0} us: every packet goes as often as it may\n",
        micros(radio_at(plan, hop.from).ack_timeout),
        micros(least(hop))
    ))
}

/// The number of neighbours of a radio.
fn neighbours(plan: &Plan, (node, radio): (NodeId, RadioId)) -> u64 {
    let peers = &plan.nodes[usize::from(node.0) - 1].peers;
    peers.iter().filter(|peer| peer.radio == radio).count() as u64
}

pub(super) fn radio_at(plan: &Plan, (node, radio): (NodeId, RadioId)) -> &RadioPlan {
    &plan.nodes[usize::from(node.0) - 1].radios[usize::from(radio.0)]
}

/// The transmitting radio of a hop, with the rates of its frames and of their answers on this hop.
pub(super) fn sender(plan: &Plan, hop: &Hop) -> RadioPlan {
    let (source, sink) = (radio_at(plan, hop.from), radio_at(plan, hop.to));
    let (phy, theirs) = (&source.spec.phy, &sink.spec.phy);
    let ways = &plan.nodes[usize::from(hop.from.0.0) - 1].ways;
    let way = ways.iter().find(|way| (way.peer.radio, way.peer.node) == (hop.from.1, hop.to.0));
    let spec = match way {
        Some(way) => Some(way.there),
        None => {
            phy.rate_for(theirs, source.spec.rate).map(|rate| RadioSpec { rate, ..source.spec })
        }
    };
    let spec = spec.unwrap_or(source.spec);
    let rate = spec.rate;
    let given = sink.config.ack_rate_mbps.map(Bitrate::from_mbps);
    RadioPlan {
        spec,
        ack_rate: theirs.ack_rate(given, theirs.received(phy, rate)),
        ..source.clone()
    }
}

/// One packet, as this many units, and the air time of the units and of the report on them, which
/// the receiver sends as a frame that is acknowledged.
fn of_units(
    RadioPlan { spec, ack_rate, .. }: &RadioPlan,
    units: u8,
    there_and_back: Duration,
) -> (f64, Duration, &'static str) {
    let unit = PACKET_BYTES.div_ceil(units.into()) + UNIT_HEADER_BYTES;
    let phy = &spec.phy;
    let report = mpdu_bytes(false, FEEDBACK_HEADER_BYTES + REPORT_BYTES + spec.seal_bytes);
    let report = phy.air_time(phy.psdu_bytes(report, spec.rate), spec.rate);
    let gap = RadioSpec { gap: Gap::Backoff, ..*spec }.mean_gap();
    let answer = phy.sifs() + phy.air_time(ACK_BYTES, *ack_rate);
    let time = spec.unacknowledged(unit) * units.into() + gap + report + answer + there_and_back;
    (1.0, time, "one way at a time")
}

/// An estimate of what a radio can send.
struct Limit {
    mbps: f64,
    /// The direction that it is for: each way, or one way at a time.
    when: &'static str,
    /// The estimate if nothing is sent the other way, for slots that follow the demand.
    one_way: Option<f64>,
}

/// The estimate for a radio; of the link's ends, the one with the most neighbours has `neighbours`.
fn limit(one_way: Duration, (radio, neighbours): (&RadioPlan, u64), config: &LinkConfig) -> Limit {
    let there_and_back = one_way * 2;
    let mut alone = None;
    let (packets, time, when) = match config {
        LinkConfig::Wild(wild) => {
            let packets = |slot| packets_a_slot(wild, &radio.spec, slot);
            let (slot, most, least) = (wild.slot(), wild.slot_most(), wild.slot_least());
            // With demand one way only, the longest slot alternates with the shortest.
            let one_way = || mbps(packets(most), most + least + there_and_back);
            alone = (least < slot).then(one_way);
            (packets(slot), slot * 2 + there_and_back, "each way")
        }
        LinkConfig::BlindFec(blind) => {
            let frame = radio.spec.unacknowledged(PACKET_BYTES + BLIND_BYTES);
            (blind.data_packets.into(), frame * blind.all_packets.into(), "one way at a time")
        }
        LinkConfig::Harq(harq) => of_units(radio, harq.units_over(&radio.spec), there_and_back),
        LinkConfig::Arq(arq) => of_units(radio, arq.units_over(&radio.spec), there_and_back),
        LinkConfig::TwoP(two_p) => {
            let frame = radio.spec.unacknowledged(PACKET_BYTES);
            let markers = radio.spec.unacknowledged(HEADER_BYTES) * neighbours;
            let unused = two_p.guard() + markers;
            let packets = two_p.phase().saturating_sub(unused).div_duration(frame);
            (packets as f64, two_p.phase() * 2 + there_and_back, "each way")
        }
        LinkConfig::Plain(plain) => {
            let (packets, time) = packets_an_access(radio, plain, there_and_back);
            (packets as f64, time, "one way at a time")
        }
    };
    Limit { mbps: mbps(packets, time), when, one_way: alone }
}

/// A number of packets in a time, in Mb/s.
fn mbps(packets: f64, time: Duration) -> f64 {
    packets * PACKET_BYTES as f64 * 8.0 / (time.as_nanos() as f64 / 1e3)
}

/// Packets that a radio sends in a slot of `wild`. With `frame_bytes`, where frames are filled with
/// parts of packets, fractions count.
fn packets_a_slot(wild: &WildConfig, radio: &RadioSpec, slot: Duration) -> f64 {
    // Acknowledgements come only in the other end's slot, so the window limits a slot.
    let window = wild.window(radio) as f64;
    let is_cut = !radio.aggregates() && wild.in_order != InOrder::Link;
    let Some(filled) = wild.frame_bytes.filter(|_| is_cut) else {
        return (wild.packets_a_slot(radio, slot, PACKET_BYTES) as f64).min(window);
    };
    let frame = usize::from(filled).saturating_sub(LLC_SNAP_BYTES + radio.seal_bytes);
    // A filled frame holds the end of one packet and the beginning of another.
    let body = frame.saturating_sub(HEADER_BYTES + 2 * bundle::HEAD_BYTES);
    let frames = wild.room(slot).as_nanos() as f64 / radio.unacknowledged(frame).as_nanos() as f64;
    frames.min(window) * body as f64 / PACKET_BYTES as f64
}

/// Length of a frame with a packet of this many bytes, in bytes. It is a QoS frame where the PHY or
/// EDCA wants one, and where no acknowledgement is asked for.
pub(super) fn packet_mpdu(radio: &RadioPlan, mac_ack: bool, bytes: usize) -> usize {
    let is_of_qos = radio.config.edca || matches!(radio.spec.phy.kind, PhyKind::N | PhyKind::Ac);
    mpdu_bytes(!mac_ack || is_of_qos, bytes)
}

/// Packets that a radio sends each time that it wins access to the air, and how long that takes
/// with the mean random gap.
fn packets_an_access(
    radio: &RadioPlan,
    &PlainConfig { mac_ack, queue_packets, .. }: &PlainConfig,
    there_and_back: Duration,
) -> (u64, Duration) {
    let (phy, rate, config) = (&radio.spec.phy, radio.spec.rate, &radio.config);
    let txop = config.access.of(AccessCategory::default()).txop_us.filter(|_| config.edca);
    let txop = txop.map_or(Duration::ZERO, |micros| Duration::from_micros(micros.into()));
    let answered = |answer| phy.sifs() + phy.air_time(answer, radio.ack_rate);
    let mpdu = packet_mpdu(radio, mac_ack, PACKET_BYTES + radio.spec.seal_bytes);
    let mut ampdu = phy.ampdu(rate);
    ampdu.push(mpdu);
    let most = if mac_ack && phy.mcs(rate).is_some() { usize::from(config.aggregate) } else { 1 };
    let most = most.min(queue_packets);
    while ampdu.mpdus() < most && phy.has_room(ampdu, mpdu, rate) {
        let mut longer = ampdu;
        longer.push(mpdu);
        let bytes = longer.bytes();
        // A TXOP limits air time, without propagation delays.
        let announced = request(radio, bytes) + protection(radio, bytes);
        let time = announced + phy.air_time(bytes, rate) + answered(BLOCK_ACK_BYTES);
        if !txop.is_zero() && time > txop {
            break;
        }
        ampdu = longer;
    }
    let (psdu, answer) = match ampdu.mpdus() {
        1 => (phy.psdu_bytes(mpdu, rate), ACK_BYTES),
        _ => (ampdu.bytes(), BLOCK_ACK_BYTES),
    };
    let answered = if mac_ack { answered(answer) + there_and_back } else { Duration::ZERO };
    // RTS and CTS cover a whole TXOP, unless its frames are unknown to 802.11b stations: then they
    // precede each of them.
    let way = if is_asked_for(radio, psdu) { there_and_back } else { Duration::ZERO };
    let request = request(radio, psdu) + way;
    let (once, each) = match is_protected(radio) {
        true => (Duration::ZERO, request + protection(radio, psdu)),
        false => (request, Duration::ZERO),
    };
    let exchange = each + phy.air_time(psdu, rate) + answered;
    // A TXOP continues after SIFS as long as the next exchange fits completely.
    let more = txop.saturating_sub(once + exchange).div_duration(phy.sifs() + exchange);
    // Acknowledged frames contend, whatever the gap before other frames.
    let gap = if mac_ack { Gap::Backoff } else { radio.spec.gap };
    let gap = RadioSpec { gap, ..radio.spec }.mean_gap();
    let time = gap + once + exchange + (phy.sifs() + exchange) * more;
    (ampdu.mpdus() as u64 * (1 + more), time)
}

/// Whether RTS and CTS precede a frame of this many bytes.
fn is_asked_for(radio: &RadioPlan, psdu: usize) -> bool {
    radio.config.rts_threshold.is_some_and(|most| psdu > most)
}

/// The time of RTS and CTS before a frame of this many bytes, with the SIFS after each and without
/// propagation delays; zero if they are not used.
fn request(radio: &RadioPlan, psdu: usize) -> Duration {
    if !is_asked_for(radio, psdu) {
        return Duration::ZERO;
    }
    let phy = &radio.spec.phy;
    let air_time = |bytes| phy.air_time(bytes, radio.ack_rate);
    air_time(RTS_BYTES) + air_time(ACK_BYTES) + phy.sifs() * 2
}

/// Whether CTS to oneself keeps 802.11b stations, which do not understand the frames, off the air.
fn is_protected(radio: &RadioPlan) -> bool {
    let is_unknown = matches!(radio.spec.phy.mode(radio.spec.rate), Mode::Ofdm(_));
    radio.config.protection == Protection::CtsToSelf && is_unknown
}

/// The time of CTS to oneself before a frame of this many bytes, with the SIFS after it; zero if it
/// is not used.
fn protection(radio: &RadioPlan, psdu: usize) -> Duration {
    let phy = &radio.spec.phy;
    if is_asked_for(radio, psdu) || !is_protected(radio) {
        return Duration::ZERO;
    }
    let all_know = phy.control_rate(Bitrate::from_100kbps(110));
    phy.air_time(ACK_BYTES, all_know) + phy.sifs()
}
