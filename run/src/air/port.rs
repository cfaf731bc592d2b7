//! One radio's side of the air, without the socket: converts bytes of a monitor interface to frames
//! for the chip, and receptions and ends of frames to bytes.
//!
//! It treats injected frames as mac80211 does (measured on `mac80211_hwsim`). A rate that is
//! missing or not in the band becomes the lowest. The number of attempts is the retries field plus
//! one. The echo of a unicast frame that asked for no acknowledgement says "failed", that of a
//! group address does not.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use farhop_proto::base::phy::FCS_BYTES;
use farhop_proto::base::{
    AckPolicy, Bitrate, FlowId, Frame, FrameDone, FrameOutcome, Instant, Phy, RadioId,
    ReceivedFrame, TxOptions, UnitId,
};
use farhop_proto::wire::ieee80211::{self, DataHeader, Station};
use farhop_proto::wire::radiotap::{self, Echo, Radiotap, Reception};
use farhop_sim::radio::Injected;
use serde::{Deserialize, Serialize};

use super::attach::What;
use crate::device::{FRAME_BYTES, count};

/// Most frames of a radio that wait for their echoes.
const ECHOES: usize = 64;

/// Counters of one radio's veth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachStats {
    /// Frames from the daemon.
    pub frames_in: u64,
    /// Receptions that were sent to the daemon.
    pub receptions_out: u64,
    /// Echoes that were sent to the daemon.
    pub echoes_out: u64,
    /// Frames for which the chip's queue had no room, or whose radio was down.
    pub queue_full: u64,
    /// Receptions and echoes that the interface did not accept.
    pub not_taken: u64,
    /// What was received and is no frame to inject, by reason.
    pub dropped: BTreeMap<String, u64>,
}

/// How to set up an attachment.
#[derive(Clone, Debug)]
pub struct AttachSpec {
    /// Name of the interface at this end.
    pub interface: String,
    /// Number of the node and of the radio.
    pub station: Station,
    /// PHY.
    pub phy: Phy,
    /// Channel number.
    pub channel: u16,
    /// Whether the radio reports what became of its frames.
    pub has_echo: bool,
    /// How far the radio's clock is ahead of the air's at its start, in nanoseconds.
    pub clock_offset: i64,
    /// Rate error of the radio's clock, in billionths.
    pub clock_ppb: i64,
    /// Whether it is a stranger's, who may send under any address.
    pub is_stranger: bool,
}

/// A frame at the chip, with what its echo repeats.
#[derive(Debug)]
struct Waiting {
    id: UnitId,
    rate: Bitrate,
    is_group: bool,
    mpdu: Bytes,
}

/// One radio's side, without the socket.
#[derive(Debug)]
pub(super) struct Port {
    spec: AttachSpec,
    waiting: VecDeque<Waiting>,
    next_id: u64,
    sequence: u16,
    out: Vec<u8>,
    pub(super) stats: AttachStats,
    kinds: BTreeMap<&'static str, u64>,
}

impl Port {
    pub(super) fn build(spec: AttachSpec) -> Self {
        Self {
            spec,
            waiting: VecDeque::with_capacity(ECHOES),
            next_id: 0,
            sequence: 0,
            out: Vec::with_capacity(FRAME_BYTES),
            stats: AttachStats::default(),
            kinds: BTreeMap::new(),
        }
    }

    pub(super) fn spec(&self) -> &AttachSpec {
        &self.spec
    }

    /// Forgets the frames at the chip: nobody waits for their echoes any more.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    /// Handles a packet from the daemon; what is no frame to inject is counted.
    pub(super) fn take(&mut self, packet: &[u8]) -> Option<What> {
        let is_stranger = self.spec.is_stranger;
        let taken = match is_stranger {
            true => self.decode_hostile(packet).map(What::Hostile),
            false => self.decode(packet).map(What::Frame),
        };
        match taken {
            Ok(what) => {
                self.stats.frames_in += 1;
                Some(what)
            }
            Err(kind) => {
                self.count(kind);
                None
            }
        }
    }

    pub(super) fn count(&mut self, kind: &'static str) {
        count(&mut self.kinds, kind);
    }

    fn decode_hostile(&mut self, packet: &[u8]) -> Result<Injected, &'static str> {
        let (tap, mpdu, header, payload) = parts(packet)?;
        let rate = self.rate(&tap);
        Ok(Injected {
            from: header.from.0,
            to: header.to.map(|(node, _)| node),
            protocol: header.protocol,
            payload,
            rate,
            air_time: self.spec.phy.air_time(mpdu.len() + FCS_BYTES, rate),
        })
    }

    /// The rate that a header asks for, or the lowest if the band does not have it.
    fn rate(&self, tap: &Radiotap) -> Bitrate {
        let phy = &self.spec.phy;
        tap.rate_of(phy).unwrap_or(phy.legacy_rates()[0])
    }

    fn decode(&mut self, packet: &[u8]) -> Result<Frame, &'static str> {
        let (tap, mpdu, header, payload) = parts(packet)?;
        if header.from != self.spec.station {
            return Err("foreign-sender");
        }
        self.next_id += 1;
        let id = UnitId(self.next_id);
        let rate = self.rate(&tap);
        let no_ack = header.ack == AckPolicy::NoAck || tap.tx_flags.is_some_and(|tx| tx.no_ack);
        if self.spec.has_echo {
            if self.waiting.len() >= ECHOES {
                self.waiting.pop_front();
            }
            self.waiting.push_back(Waiting { id, rate, is_group: header.to.is_none(), mpdu });
        }
        Ok(Frame {
            id,
            radio: self.spec.station.1,
            to: header.to.map(|(node, _)| node),
            flow: FlowId(0),
            protocol: header.protocol,
            payload,
            options: TxOptions {
                access: header.access,
                ack: if no_ack { AckPolicy::NoAck } else { AckPolicy::Normal },
                rate: Some(rate),
                attempts: Some(tap.data_retries.unwrap_or(0).saturating_add(1)),
                ..TxOptions::default()
            },
        })
    }

    /// Notes a frame for which the chip had no room. mac80211 drops such frames silently.
    pub(super) fn on_refused(&mut self, id: UnitId) {
        self.stats.queue_full += 1;
        self.waiting.retain(|waiting| waiting.id != id);
    }

    /// The packet for a frame that the daemon's radio received. Frames of strangers are marked by
    /// another antenna, which a daemon uses only for a counter.
    pub(super) fn reception(&mut self, frame: &ReceivedFrame, antenna: u8) -> &[u8] {
        let first_bit = frame.started + self.spec.phy.plcp(frame.rate);
        let tsft_us = self.radio_time(first_bit) / 1_000;
        self.sequence = (self.sequence + 1) & 0x0fff;
        self.out.clear();
        let reception = Reception {
            tsft_us,
            phy: self.spec.phy,
            rate: frame.rate,
            channel: self.spec.channel,
            signal: frame.signal,
            antenna: (antenna > 0).then_some(antenna),
            ampdu: None,
        };
        radiotap::put_reception(&mut self.out, &reception);
        let header = DataHeader {
            from: (frame.from, RadioId(0)),
            to: frame.to.map(|to| (to, RadioId(0))),
            ack: AckPolicy::NoAck,
            access: farhop_proto::base::AccessCategory::default(),
            sequence: self.sequence,
            retry: false,
            duration_us: 0,
            protocol: frame.protocol,
        };
        ieee80211::put_data(&mut self.out, &header, &frame.payload);
        &self.out
    }

    /// The packet for the end of a frame; `None` if the radio sends no echoes.
    pub(super) fn echo(&mut self, done: &FrameDone) -> Option<&[u8]> {
        let at = self.waiting.iter().position(|waiting| waiting.id == done.id)?;
        let waiting = self.waiting.remove(at)?;
        let failed = !waiting.is_group && !matches!(done.outcome, FrameOutcome::Acked(_));
        let retries = done.attempts.saturating_sub(1);
        self.out.clear();
        radiotap::put_echo(
            &mut self.out,
            &Echo { phy: self.spec.phy, rate: waiting.rate, failed, retries },
        );
        self.out.extend_from_slice(&waiting.mpdu);
        Some(&self.out)
    }

    /// Converts a time of the air to the radio's own clock, in nanoseconds.
    fn radio_time(&self, at: Instant) -> u64 {
        let nanos = at.as_nanos() as i128;
        let drift = nanos * i128::from(self.spec.clock_ppb) / 1_000_000_000;
        (nanos + drift + i128::from(self.spec.clock_offset)).max(0) as u64
    }

    /// Counters of the veth.
    pub(super) fn stats(&self) -> AttachStats {
        let dropped = self.kinds.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
        AttachStats { dropped, ..self.stats.clone() }
    }
}

/// Headers and payload of a frame, and the whole frame from the MAC header on.
fn parts(packet: &[u8]) -> Result<(Radiotap, Bytes, DataHeader, Bytes), &'static str> {
    let tap = radiotap::parse(packet).map_err(|_| "radiotap")?;
    let mpdu = Bytes::copy_from_slice(packet.get(tap.length..).ok_or("truncated")?);
    let (header, payload) = ieee80211::decode(&mpdu).map_err(|error| match error {
        ieee80211::DecodeError::Truncated => "truncated",
        ieee80211::DecodeError::NotData => "not-data",
        ieee80211::DecodeError::Foreign => "foreign",
        ieee80211::DecodeError::Unsupported => "unsupported",
    })?;
    Ok((tap, mpdu, header, payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_proto::base::{AccessCategory, Dbm, Duration, EtherType, NodeId, Rng, Seed};
    use farhop_proto::wire::radiotap::Injection;

    const MBPS_11: Bitrate = Bitrate::from_100kbps(110);
    const MBPS_2: Bitrate = Bitrate::from_100kbps(20);

    fn port() -> Port {
        Port::build(AttachSpec {
            interface: "air0".into(),
            station: (NodeId(1), RadioId(0)),
            phy: Phy::default(),
            channel: 1,
            has_echo: true,
            clock_offset: 5_000_000_000,
            clock_ppb: 50_000,
            is_stranger: false,
        })
    }

    fn injected(to: Option<u16>, rate: Bitrate, retries: Option<u8>) -> Vec<u8> {
        let mut out = Vec::new();
        let injection = Injection { phy: Phy::default(), rate, retries };
        radiotap::put_injection(&mut out, &injection);
        let header = DataHeader {
            from: (NodeId(1), RadioId(0)),
            to: to.map(|node| (NodeId(node), RadioId(0))),
            ack: if retries.is_some() { AckPolicy::Normal } else { AckPolicy::NoAck },
            access: AccessCategory::default(),
            sequence: 7,
            retry: false,
            duration_us: 0,
            protocol: EtherType::FARHOP,
        };
        ieee80211::put_data(&mut out, &header, &[9; 50]);
        out
    }

    fn taken(port: &mut Port, packet: &[u8]) -> Frame {
        match port.take(packet) {
            Some(What::Frame(frame)) => frame,
            other => panic!("no frame: {other:?}"),
        }
    }

    fn done(id: UnitId, outcome: FrameOutcome, attempts: u8) -> FrameDone {
        FrameDone { id, outcome, attempts, air_time: Duration::ZERO }
    }

    #[test]
    fn rate_retries_and_no_ack_are_taken_from_the_headers() {
        let mut port = port();
        let frame = taken(&mut port, &injected(Some(2), MBPS_2, Some(3)));
        assert_eq!((frame.options.rate, frame.options.attempts), (Some(MBPS_2), Some(4)));
        assert_eq!((frame.options.ack, frame.to), (AckPolicy::Normal, Some(NodeId(2))));
        let frame = taken(&mut port, &injected(Some(2), MBPS_11, None));
        assert_eq!((frame.options.ack, frame.options.attempts), (AckPolicy::NoAck, Some(1)));
    }

    #[test]
    fn a_rate_that_the_band_lacks_becomes_the_lowest() {
        let lacking = Bitrate::from_100kbps(60);
        let frame = taken(&mut port(), &injected(Some(2), lacking, None));
        assert_eq!(frame.options.rate, Some(Bitrate::from_100kbps(10)));
    }

    #[test]
    fn an_echo_repeats_the_frame_with_its_rate_retries_and_fate() {
        let mut port = port();
        let cases = [
            (Some(2), Some(2), FrameOutcome::Acked(0), 2, false),
            (Some(2), Some(2), FrameOutcome::Failed, 3, true),
            (Some(2), None, FrameOutcome::Sent, 1, true),
            (None, None, FrameOutcome::Sent, 1, false),
        ];
        for (to, retries, outcome, attempts, failed) in cases {
            let packet = injected(to, MBPS_2, retries);
            let id = taken(&mut port, &packet).id;
            let echo = port.echo(&done(id, outcome, attempts)).expect("an echo").to_vec();
            let tap = radiotap::parse(&echo).expect("a header");
            assert!(tap.is_echo());
            assert_eq!((tap.rate, tap.data_retries), (Some(MBPS_2), Some(attempts - 1)));
            assert_eq!(tap.tx_flags.expect("flags").failed, failed, "{outcome:?} to {to:?}");
            let sent = radiotap::parse(&packet).expect("a header").length;
            assert_eq!(echo[tap.length..], packet[sent..]);
        }
        assert!(port.waiting.is_empty());
    }

    #[test]
    fn a_stranger_may_use_any_name() {
        let mut port = port();
        port.spec.station = (NodeId(65_535), RadioId(0));
        port.spec.is_stranger = true;
        let Some(What::Hostile(hostile)) = port.take(&injected(Some(2), MBPS_2, None)) else {
            panic!("a hostile frame");
        };
        assert_eq!((hostile.from, hostile.to, hostile.rate), (NodeId(1), Some(NodeId(2)), MBPS_2));
        // MAC header, LLC/SNAP, 50 bytes and the check sequence.
        let bytes = 24 + 2 + 8 + 50 + 4;
        assert_eq!(hostile.air_time, Phy::default().air_time(bytes, MBPS_2));
        assert!(port.waiting.is_empty());
    }

    #[test]
    fn a_radio_without_status_says_nothing() {
        let mut port = port();
        port.spec.has_echo = false;
        let id = taken(&mut port, &injected(Some(2), MBPS_11, None)).id;
        assert!(port.echo(&done(id, FrameOutcome::Sent, 1)).is_none());
        assert!(port.waiting.is_empty());
    }

    #[test]
    fn a_reception_carries_the_radios_own_time_of_the_first_bit() {
        let started = Instant::from_nanos(20_000_000_000);
        let frame = ReceivedFrame {
            radio: RadioId(0),
            from: NodeId(2),
            to: Some(NodeId(1)),
            protocol: EtherType::FARHOP,
            payload: Bytes::from_static(&[3; 20]),
            started,
            rate: MBPS_11,
            signal: Some(Dbm::new(-60)),
            bits: 0,
        };
        let mut port = port();
        let packet = port.reception(&frame, 0).to_vec();
        let tap = radiotap::parse(&packet).expect("a header");
        // 192 us of PLCP, 5 s of offset, and 50 ppm of 20 s.
        assert_eq!(tap.tsft_us, Some(20_000_000 + 192 + 5_000_000 + 1_000));
        assert_eq!((tap.rate, tap.signal), (Some(MBPS_11), Some(Dbm::new(-60))));
        let mpdu = Bytes::copy_from_slice(&packet[tap.length..]);
        let (header, payload) = ieee80211::decode(&mpdu).expect("a data frame");
        assert_eq!((header.from.0, payload.len()), (NodeId(2), 20));
    }

    #[test]
    fn broken_frames_are_counted_by_kind_and_keep_nothing() {
        let mut port = port();
        let good = injected(Some(2), MBPS_11, None);
        let mut rng: Rng = Seed(3).stream("broken");
        let (mut taken, rounds) = (0, 100_000);
        for _ in 0..rounds {
            let mut packet = good.clone();
            packet.truncate(rng.below(good.len() as u64) as usize + 1);
            let bit = rng.below(packet.len() as u64 * 8) as usize;
            packet[bit / 8] ^= 1 << (bit % 8);
            taken += u64::from(port.take(&packet).is_some());
        }
        let stats = port.stats();
        assert_eq!(stats.frames_in, taken);
        assert_eq!(taken + stats.dropped.values().sum::<u64>(), rounds);
        for kind in ["radiotap", "truncated", "not-data", "foreign-sender"] {
            assert!(stats.dropped.contains_key(kind), "{kind}: {:?}", stats.dropped);
        }
        assert!(port.waiting.len() <= ECHOES);
    }
}
