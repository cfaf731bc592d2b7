//! A monitor device without its socket: decodes received bytes and encodes frames.
//!
//! Everything received is classified by its headers and counted by kind. No stranger can make the
//! state grow by what it sends.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use farhop_proto::base::phy::mpdu_bytes;
use farhop_proto::base::{AckPolicy, Bitrate, Frame, FrameUp, Instant, Phy, ReceivedFrame};
use farhop_proto::wire::ieee80211::{self, DataHeader, Station};
use farhop_proto::wire::radiotap::{self, Injection, Radiotap};

use super::{DeviceSpec, FRAME_BYTES, StampFilter, TxGate, count, of_own_node};

/// Length of the check sequence after a frame, which some drivers leave there.
const FCS_BYTES: usize = 4;
/// How many stations' last sequence numbers are kept; the station that was added first goes first.
const STATIONS: usize = 64;

/// Length of an injected frame with a payload of `payload` bytes after LLC/SNAP.
pub(crate) fn injected_bytes(phy: &Phy, payload: usize) -> usize {
    radiotap::injection_bytes(phy) + mpdu_bytes(true, payload) - FCS_BYTES
}

/// The part of a monitor device that is independent of sockets.
#[derive(Debug)]
pub struct Card {
    pub(super) spec: DeviceSpec,
    pub(super) gate: TxGate,
    stamps: StampFilter,
    sequence: u16,
    /// The last sequence number of each station, to detect retransmissions of frames whose
    /// acknowledgement was lost.
    last: VecDeque<(Station, u16)>,
    out: Vec<u8>,
    frames_received: u64,
    hardware_stamps: u64,
    dropped: BTreeMap<&'static str, u64>,
    failed: BTreeMap<&'static str, u64>,
    /// Frames of this turn that other antennas than the first received: the address of the payload,
    /// and the antenna.
    by_other_antennas: Vec<(usize, u8)>,
}

impl Card {
    /// A card that has received nothing yet.
    pub fn build(spec: DeviceSpec) -> Self {
        Self {
            gate: TxGate::build(spec.radio, spec.transmit_status),
            spec,
            stamps: StampFilter::default(),
            sequence: 0,
            last: VecDeque::with_capacity(STATIONS),
            out: Vec::with_capacity(FRAME_BYTES),
            frames_received: 0,
            hardware_stamps: 0,
            dropped: BTreeMap::new(),
            failed: BTreeMap::new(),
            by_other_antennas: Vec::new(),
        }
    }

    /// Handles a packet that the interface delivered at `host`; what is no frame for us is counted.
    pub fn take(&mut self, packet: &[u8], host: Instant) -> Option<FrameUp> {
        let event = self.decode(packet, host);
        event.unwrap_or_else(|kind| {
            self.count(kind);
            None
        })
    }

    fn decode(&mut self, packet: &[u8], host: Instant) -> Result<Option<FrameUp>, &'static str> {
        let tap = radiotap::parse(packet).map_err(|error| match error {
            radiotap::DecodeError::Truncated => "radiotap-truncated",
            radiotap::DecodeError::Version => "radiotap-version",
        })?;
        if tap.bad_fcs {
            return Err("check-sequence");
        }
        let end = packet.len().saturating_sub(if tap.has_fcs { FCS_BYTES } else { 0 });
        let mpdu = packet.get(tap.length..end).ok_or("truncated")?;
        let (header, payload) = ieee80211::decode(&Bytes::copy_from_slice(mpdu)).map_err(kind)?;
        if tap.is_echo() {
            if header.from != self.spec.station() {
                return Err("echo-of-another");
            }
            let failed = tap.tx_flags.is_some_and(|flags| flags.failed);
            let retries = tap.data_retries.unwrap_or(0);
            let done = self.gate.on_echo(host, header.sequence, failed, retries);
            return Ok(done.map(FrameUp::Done));
        }
        if header.from.0 == self.spec.node {
            return Err(of_own_node(header.from.1, self.spec.radio.id));
        }
        if self.is_duplicate(&header) {
            return Err("duplicate");
        }
        Ok(Some(self.on_data(&tap, &header, payload, host)))
    }

    fn is_duplicate(&mut self, header: &DataHeader) -> bool {
        let known = self.last.iter_mut().find(|(station, _)| *station == header.from);
        if let Some((_, last)) = known {
            let before = std::mem::replace(last, header.sequence);
            return header.retry && before == header.sequence;
        }
        if self.last.len() >= STATIONS {
            self.last.pop_front();
        }
        self.last.push_back((header.from, header.sequence));
        false
    }

    fn on_data(
        &mut self,
        tap: &Radiotap,
        header: &DataHeader,
        payload: Bytes,
        host: Instant,
    ) -> FrameUp {
        self.frames_received += 1;
        if let Some(antenna) = tap.antenna.filter(|antenna| *antenna > 0) {
            self.by_other_antennas.push((payload.as_ptr() as usize, antenna));
        }
        let radio = &self.spec.radio;
        let rate = tap.rate_of(&radio.phy).or(tap.rate).unwrap_or(radio.rate);
        let frame = ReceivedFrame {
            radio: self.spec.radio.id,
            from: header.from.0,
            to: header.to.map(|(node, _)| node),
            protocol: header.protocol,
            started: self.started(tap, header.ack, payload.len(), rate, host),
            payload,
            rate,
            signal: tap.signal,
            bits: 0,
        };
        // The sender does not know which of our radios faces it.
        let is_ours = header.to.is_none_or(|(node, _)| node == self.spec.node);
        if is_ours { FrameUp::Received(frame) } else { FrameUp::Overheard(frame) }
    }

    /// When the frame's preamble began, by the node's clock.
    fn started(
        &mut self,
        tap: &Radiotap,
        ack: AckPolicy,
        payload: usize,
        rate: Bitrate,
        host: Instant,
    ) -> Instant {
        let phy = &self.spec.radio.phy;
        let whole = phy.air_time(mpdu_bytes(ack == AckPolicy::NoAck, payload), rate);
        let Some(tsft) = tap.tsft_us else {
            return host.saturating_sub(whole);
        };
        self.hardware_stamps += 1;
        let plcp = phy.plcp(rate);
        let body = whole.saturating_sub(plcp);
        let first_bit = tsft.wrapping_mul(1_000);
        let offset = self.stamps.offset(first_bit.wrapping_add(body.as_nanos()), host);
        let first_bit = Instant::from_nanos((first_bit as i64).wrapping_add(offset).max(0) as u64);
        first_bit.saturating_sub(plcp)
    }

    /// Encodes a frame with its headers; returns the bytes and the sequence number.
    pub fn encode(&mut self, frame: &Frame) -> (&[u8], u16) {
        self.sequence = (self.sequence + 1) & 0x0fff;
        let options = &frame.options;
        let attempts = options.attempts.unwrap_or(self.spec.attempts);
        let injection = Injection {
            phy: self.spec.radio.phy,
            rate: options.rate.unwrap_or(self.spec.radio.rate),
            retries: match options.ack {
                AckPolicy::NoAck => None,
                AckPolicy::Normal => Some(attempts.saturating_sub(1)),
            },
        };
        self.out.clear();
        radiotap::put_injection(&mut self.out, &injection);
        let header = DataHeader {
            from: self.spec.station(),
            to: frame.to.map(|to| (to, frame.radio)),
            ack: options.ack,
            access: options.access,
            sequence: self.sequence,
            retry: false,
            duration_us: 0,
            protocol: frame.protocol,
        };
        ieee80211::put_data(&mut self.out, &header, &frame.payload);
        (&self.out, self.sequence)
    }

    /// Forgets which antennas received frames.
    pub(super) fn begin_turn(&mut self) {
        self.by_other_antennas.clear();
    }

    /// The antenna that received a frame of this turn; 0, the first, if unknown.
    pub(super) fn antenna(&self, frame: &ReceivedFrame) -> u8 {
        let place = frame.payload.as_ptr() as usize;
        let known = self.by_other_antennas.iter().find(|(other, _)| *other == place);
        known.map_or(0, |(_, antenna)| *antenna)
    }

    /// Frames received for this node or overheard.
    pub fn frames_received(&self) -> u64 {
        self.frames_received
    }

    /// Frames with the radio's own time stamp.
    pub fn hardware_stamps(&self) -> u64 {
        self.hardware_stamps
    }

    /// How many times the radio's clock jumped.
    pub fn clock_jumps(&self) -> u64 {
        self.stamps.jumps()
    }

    /// Received frames that were dropped, by reason.
    pub fn dropped(&self) -> &BTreeMap<&'static str, u64> {
        &self.dropped
    }

    /// Errors of the operating system, by kind.
    pub(super) fn failed(&self) -> &BTreeMap<&'static str, u64> {
        &self.failed
    }

    pub(super) fn count(&mut self, kind: &'static str) {
        count(&mut self.dropped, kind);
    }

    /// Counts an error of the operating system.
    pub(super) fn count_failed(&mut self, kind: &'static str) {
        count(&mut self.failed, kind);
    }
}

fn kind(error: ieee80211::DecodeError) -> &'static str {
    match error {
        ieee80211::DecodeError::Truncated => "truncated",
        ieee80211::DecodeError::NotData => "not-data",
        ieee80211::DecodeError::Foreign => "foreign",
        ieee80211::DecodeError::Unsupported => "unsupported",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Clock;
    use farhop_proto::base::{
        Dbm, Duration, EtherType, FlowId, FrameOutcome, NodeId, Phy, RadioId, RadioSpec, Rng, Seed,
        TxOptions, UnitId,
    };
    use farhop_proto::wire::radiotap::{Echo, Reception};

    const MBPS_11: Bitrate = Bitrate::from_100kbps(110);

    fn card(node: u16) -> Card {
        let radio = RadioSpec::of(Phy::default());
        Card::build(DeviceSpec {
            node: NodeId(node),
            radio,
            guard: Duration::from_millis(1),
            transmit_status: true,
            attempts: 3,
            longest: 1_500,
            clock: Clock::start(),
        })
    }

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn frame(id: u64, ack: AckPolicy) -> Frame {
        Frame {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(2)),
            flow: FlowId(0),
            protocol: EtherType::FARHOP,
            payload: Bytes::from_static(&[7; 100]),
            options: TxOptions { ack, ..TxOptions::default() },
        }
    }

    /// What node 1 injects, as node 2's card receives it.
    fn reception(tsft_us: u64, injected: &[u8]) -> Vec<u8> {
        let length = radiotap::parse(injected).expect("our own header").length;
        let (rate, signal) = (MBPS_11, Some(Dbm::new(-60)));
        let mut out = Vec::new();
        radiotap::put_reception(
            &mut out,
            &Reception {
                tsft_us,
                phy: Phy::default(),
                rate,
                channel: 1,
                signal,
                antenna: None,
                ampdu: None,
            },
        );
        out.extend_from_slice(&injected[length..]);
        out
    }

    #[test]
    fn a_frame_of_a_neighbour_comes_up_with_the_time_its_preamble_began() {
        let (mut sender, mut receiver) = (card(1), card(2));
        let injected = sender.encode(&frame(1, AckPolicy::NoAck)).0.to_vec();
        let air = Phy::default().air_time(24 + 2 + 8 + 100 + 4, MBPS_11);
        let (preamble, ahead) = (at(20_000_000), 5_000_000);
        let packet = reception(preamble.as_nanos() / 1_000 + 192 + ahead, &injected);
        let up = receiver.take(&packet, preamble + air);
        let Some(FrameUp::Received(frame)) = up else { panic!("{up:?}") };
        assert_eq!((frame.from, frame.to), (NodeId(1), Some(NodeId(2))));
        assert_eq!((frame.started, frame.payload.len()), (preamble, 100));
        assert_eq!(frame.signal, Some(Dbm::new(-60)));
    }

    #[test]
    fn a_frame_is_as_long_as_it_is_taken_to_be() {
        // A frame that is acknowledged is no QoS frame here, but has one more radiotap field.
        for (ack, less) in [(AckPolicy::NoAck, 1), (AckPolicy::Normal, 2)] {
            assert_eq!(
                card(1).encode(&frame(1, ack)).0.len(),
                injected_bytes(&Phy::default(), 100) - less
            );
        }
    }

    #[test]
    fn an_echo_ends_the_frame_that_it_repeats() {
        let mut card = card(1);
        for (id, failed) in [(1, false), (2, true)] {
            let frame = frame(id, AckPolicy::Normal);
            let (injected, sequence) = card.encode(&frame);
            let mut echo = Vec::new();
            radiotap::put_echo(
                &mut echo,
                &Echo { phy: Phy::default(), rate: MBPS_11, failed, retries: 2 },
            );
            echo.extend_from_slice(&injected[13..]);
            card.gate.on_sent(at(0), &frame, sequence, Duration::ZERO);
            let up = card.take(&echo, at(2_000));
            let Some(FrameUp::Done(done)) = up else { panic!("{up:?}") };
            let outcome = if failed { FrameOutcome::Failed } else { FrameOutcome::Acked(0) };
            assert_eq!((done.id, done.outcome, done.attempts), (UnitId(id), outcome, 3));
        }
    }

    #[test]
    fn a_repetition_whose_acknowledgement_was_lost_comes_up_once() {
        let (mut sender, mut receiver) = (card(1), card(2));
        let injected = sender.encode(&frame(1, AckPolicy::Normal)).0.to_vec();
        let mut packet = reception(1_000, &injected);
        assert!(receiver.take(&packet, at(3_000)).is_some());
        let start = radiotap::parse(&packet).expect("a header").length;
        packet[start + 1] |= 0x08;
        assert!(receiver.take(&packet, at(5_000)).is_none());
        assert_eq!(receiver.dropped()["duplicate"], 1);
    }

    #[test]
    fn echoes_and_frames_of_others_are_told_from_ours() {
        let (mut first, mut second) = (card(1), card(3));
        let injected = first.encode(&frame(1, AckPolicy::NoAck)).0.to_vec();
        assert!(second.take(&injected, at(1)).is_none());
        assert_eq!(second.dropped()["echo-of-another"], 1);
        let up = second.take(&reception(5, &injected), at(3_000));
        assert!(matches!(up, Some(FrameUp::Overheard(_))), "{up:?}");
        assert!(first.take(&reception(5, &injected), at(3_000)).is_none());
        assert_eq!(first.dropped()["own-name"], 1);
    }

    fn spoil(packet: &mut Vec<u8>, rng: &mut Rng) {
        match rng.below(4) {
            0 => {
                let length = rng.below(200) as usize;
                packet.clear();
                packet.extend((0..length).map(|_| rng.next_u64() as u8));
            }
            1 => packet.truncate(rng.below(packet.len() as u64) as usize),
            2 => {
                for _ in 0..=rng.below(4) {
                    let bit = rng.below(packet.len() as u64 * 8) as usize;
                    packet[bit / 8] ^= 1 << (bit % 8);
                }
            }
            // A random transmitter: the prefix of the address stays, the station is drawn.
            _ => {
                let at = packet.len() - 100 - 8 - 2 - 2 - 6 - 3;
                packet[at..at + 3].copy_from_slice(&(rng.next_u64() as u32).to_be_bytes()[1..]);
            }
        }
    }

    #[test]
    fn a_million_broken_frames_are_counted_by_kind_and_leave_nothing_behind() {
        let (mut sender, mut card) = (card(1), card(2));
        let injected = sender.encode(&frame(1, AckPolicy::NoAck)).0.to_vec();
        let good = reception(1_000, &injected);
        let mut rng = Seed(5).stream("broken");
        let (mut packet, mut up, mut silent) = (Vec::new(), 0, 0);
        for step in 0..1_000_000 {
            packet.clear();
            packet.extend_from_slice(&good);
            spoil(&mut packet, &mut rng);
            let before = card.dropped().values().sum::<u64>();
            match card.take(&packet, at(20_000_000 + step)) {
                Some(_) => up += 1,
                None if card.dropped().values().sum::<u64>() == before => silent += 1,
                None => {}
            }
        }
        let dropped = card.dropped().clone();
        assert_eq!(up + silent + dropped.values().sum::<u64>(), 1_000_000);
        assert!(silent < 100, "echoes of nothing: {silent}");
        for kind in ["radiotap-truncated", "radiotap-version", "truncated", "foreign", "not-data"] {
            assert!(dropped.get(kind).is_some_and(|count| *count > 1_000), "{kind}: {dropped:?}");
        }
        assert!(card.last.len() <= STATIONS && dropped.len() < 12);
        // The card still works.
        let late = reception(40_000_000, &injected);
        assert!(card.take(&late, at(60_000_000)).is_some());
    }
}
