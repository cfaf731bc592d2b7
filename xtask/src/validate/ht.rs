//! `ht`: UDP over a single link of 802.11n or ac with A-MPDU, compared with the air time in closed
//! form.
//!
//! The closed form is derived here from the clauses of the standard and shares nothing with the PHY
//! of `proto`: symbols of 802.11-2012 20.3.11 and 802.11ac-2013 22.3.10, delimiters and padding of
//! 8.6.1, at most 64 MPDUs, 65,535 bytes in n, 5,484 us. When the best radio of ac sends to a
//! station with fewer capabilities, the result must be that of a sender of that station's kind.

use anyhow::{Context as _, Result};
use farhop_proto::base::phy::GuardInterval;
use farhop_proto::base::{Bitrate, Duration, NodeId, Phy, PhyKind, RadioId, Width};
use farhop_sim::radio::ChipConfig;

use super::cell::Cell;
use super::{Row, Tolerance, workers};

const GROUP: &str = "ht";
/// Payload of a datagram; PACKET is the size of its packet, in bytes.
const PAYLOAD: usize = 1472;
const PACKET: usize = PAYLOAD + 28;
/// QoS header, LLC/SNAP, packet, frame check sequence, in bytes.
const MPDU: usize = 26 + 8 + PACKET + 4;

/// How contention between A-MPDUs differs from that of ns-3.
const RETRIES: &str = "ns-3 3.37 agrees within 0.2% on one link where ours has `edca` (a QoS \
    station waits AIFS), and within 2% on up to 20 stations with neither retry limit nor requests \
    behind a missing block acknowledgement. With the limit it carries 2% less on 5 stations and \
    12% less on 20: it drops an A-MPDU and narrows the window after each seventh failure, \
    whatever succeeded between them; by 802.11-2012 9.19.2.6 a success resets the counters";

#[derive(Clone, Copy)]
struct Point {
    kind: PhyKind,
    /// The MCS index of the PHY: in n, 8 to 15 have two streams.
    mcs: u8,
    streams: u8,
    width: Width,
    guard: GuardInterval,
    /// Data bits in a symbol, from the tables of the standard.
    bits_per_symbol: usize,
    /// Convolutional encoders.
    encoders: usize,
}

const fn n(mcs: u8, streams: u8, width: Width, guard: GuardInterval, bits: usize) -> Point {
    Point { kind: PhyKind::N, mcs, streams, width, guard, bits_per_symbol: bits, encoders: 1 }
}

const fn ac(mcs: u8, streams: u8, guard: GuardInterval, bits: usize, encoders: usize) -> Point {
    let (kind, width) = (PhyKind::Ac, Width::Mhz80);
    Point { kind, mcs, streams, width, guard, bits_per_symbol: bits, encoders }
}

const POINTS: [Point; 7] = [
    n(0, 1, Width::Mhz20, GuardInterval::Long, 26),
    n(7, 1, Width::Mhz20, GuardInterval::Long, 260),
    n(7, 1, Width::Mhz40, GuardInterval::Short, 540),
    n(15, 2, Width::Mhz40, GuardInterval::Short, 1080),
    ac(0, 1, GuardInterval::Long, 117, 1),
    ac(9, 1, GuardInterval::Short, 1560, 1),
    ac(9, 2, GuardInterval::Short, 3120, 2),
];

/// The rows of this group.
pub(crate) fn rows(quick: bool) -> Result<Vec<Row>> {
    let length = Duration::from_secs(if quick { 2 } else { 10 });
    let ours = workers::map(GROUP, &POINTS, |point| point.simulated(length));
    let row = |point: &Point, name: String, ours: f64| {
        let pair = (ours, point.closed_form());
        Row::new(GROUP, name, "Mb/s", pair, Tolerance::Relative(0.02)).with_note(RETRIES)
    };
    let mut rows = Vec::new();
    for (point, ours) in POINTS.iter().zip(ours) {
        rows.push(row(point, point.name(), ours?));
    }
    // Each at its highest rate, which the best radio uses towards a station of that kind.
    let lesser = [POINTS[1], POINTS[2], POINTS[3], POINTS[5]];
    let ours = workers::map(GROUP, &lesser, |point| {
        let guard_interval = point.guard;
        let (kind, width) = (PhyKind::Ac, Width::Mhz80);
        let best = Phy { kind, width, guard_interval, streams: 2, ..Phy::default() };
        let fastest = best.rates().last().context("ac has rates")?;
        point.simulated_from(best, *fastest, length)
    });
    for (point, ours) in lesser.iter().zip(ours) {
        let name = format!("{}, from ac of 80 MHz and two streams", point.name());
        rows.push(row(point, name, ours?));
    }
    Ok(rows)
}

impl Point {
    fn name(&self) -> String {
        let kind = if self.kind == PhyKind::N { "802.11n" } else { "802.11ac" };
        let guard = match self.guard {
            GuardInterval::Long => "long guard",
            GuardInterval::Short => "short guard",
        };
        let Self { mcs, streams, width, .. } = self;
        format!("{kind}, MCS {mcs}, streams: {streams}, {} MHz, {guard}", width.mhz())
    }

    fn phy(&self) -> Phy {
        Phy {
            kind: self.kind,
            width: self.width,
            guard_interval: self.guard,
            streams: self.streams,
            ..Phy::default()
        }
    }

    fn simulated(&self, length: Duration) -> Result<f64> {
        let phy = self.phy();
        let rate = phy.rate_of_mcs(self.mcs).with_context(|| self.name())?;
        self.simulated_from(phy, rate, length)
    }

    /// Goodput of a station of this kind that receives from a radio at `rate`.
    fn simulated_from(&self, sender: Phy, rate: Bitrate, length: Duration) -> Result<f64> {
        let chip = |node, phy: Phy, rate| ChipConfig {
            rate,
            ack_rate: Some(Bitrate::from_100kbps(240)),
            queue_frames: 200,
            ..ChipConfig::new(NodeId(node), RadioId(0), phy)
        };
        let own = self.phy();
        let slowest = *own.rates().first().with_context(|| self.name())?;
        let chips = vec![chip(1, sender, rate), chip(2, own, slowest)];
        let base = Cell::to_the_last(chips, (PACKET, PAYLOAD), length);
        Ok(Cell { backlog: 200, ..base }.run().mbps)
    }

    /// Mb/s of payload: the largest aggregate, its block acknowledgement, DIFS and mean backoff.
    fn closed_form(&self) -> f64 {
        let mpdus = (1..=64).rev().find(|&mpdus| self.is_allowed(mpdus)).unwrap_or(1);
        // 32 bytes at 24 Mb/s are (16 + 256 + 6) / 96 symbols of 4 us; DIFS of 34 us, and 7.5
        // slots.
        let block_ack_us = 20.0 + 4.0 * (278.0_f64 / 96.0).ceil();
        let exchange_us = self.ppdu_us(mpdus) + 16.0 + block_ack_us + 34.0 + 67.5;
        (mpdus * PAYLOAD * 8) as f64 / exchange_us
    }

    fn is_allowed(&self, mpdus: usize) -> bool {
        let most = if self.kind == PhyKind::N { 65_535 } else { 1_048_575 };
        self.bytes(mpdus) <= most && self.ppdu_us(mpdus) <= 5_484.0
    }

    /// Size of an aggregate: a delimiter before each MPDU, and padding to four bytes; n does not
    /// pad the last.
    fn bytes(&self, mpdus: usize) -> usize {
        let padded = (4 + MPDU).next_multiple_of(4);
        let last = if self.kind == PhyKind::N { 4 + MPDU } else { padded };
        (mpdus - 1) * padded + last
    }

    fn ppdu_us(&self, mpdus: usize) -> f64 {
        let bits = 16 + 8 * self.bytes(mpdus) + 6 * self.encoders;
        let symbols = bits.div_ceil(self.bits_per_symbol);
        // With the short guard interval a PPDU still ends on a boundary of 4 us (20.4.3).
        let data_us = match self.guard {
            GuardInterval::Long => 4.0 * symbols as f64,
            GuardInterval::Short => 4.0 * (0.9 * symbols as f64).ceil(),
        };
        // n: 20 us as in a, 8 us of HT-SIG, 4 us of HT-STF, 4 us for each stream; ac: 4 us of
        // VHT-SIG-B more.
        let fixed = if self.kind == PhyKind::N { 32.0 } else { 36.0 };
        fixed + 4.0 * f64::from(self.streams) + data_us
    }
}
