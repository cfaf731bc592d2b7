//! `bianchi`: saturated stations under DCF, compared with Bianchi's model (`radio.md` 12), for both
//! ways in which a receiver can handle a collision.
//!
//! With `after_lock`, frames that collide at equal power are only energy, and a collision occupies
//! the medium for data and DIFS; with `always` each is a frame in error, and EIFS follows
//! (802.11-2012 9.3.7).

use anyhow::Result;
use farhop_proto::base::phy::mpdu_bytes;
use farhop_proto::base::{Bitrate, Duration, NodeId, Phy, PhyKind, Preamble, RadioId};
use farhop_sim::radio::{ChipConfig, EifsRule};
use farhop_testkit::oracles::{Bianchi, Saturation};

use super::cell::{Cell, Outcome};
use super::{Row, Tolerance, workers};

const GROUP: &str = "bianchi";
/// Size of an IP packet, in bytes.
const PACKET: usize = 1500;
const DELAY: Duration = Duration::from_micros(1);

#[derive(Clone, Copy)]
struct Point {
    kind: PhyKind,
    eifs: EifsRule,
    stations: u16,
}

/// The rows of this group.
pub(crate) fn rows(quick: bool) -> Result<Vec<Row>> {
    let stations: &[u16] = if quick { &[1, 5, 20] } else { &[1, 2, 5, 10, 20, 50] };
    let mut points = Vec::new();
    for kind in [PhyKind::B, PhyKind::A] {
        for eifs in [EifsRule::AfterLock, EifsRule::Always] {
            points.extend(stations.iter().map(|&stations| Point { kind, eifs, stations }));
        }
    }
    let length = Duration::from_secs(if quick { 40 } else { 200 });
    let outcomes = workers::map(GROUP, &points, |point| point.cell(length).run());
    Ok(points.iter().zip(outcomes).flat_map(|(point, outcome)| point.rows(&outcome)).collect())
}

impl Point {
    fn chip(&self, node: u16) -> ChipConfig {
        let phy = Phy { kind: self.kind, preamble: Preamble::Short, ..Phy::default() };
        let ack_rate = match self.kind {
            PhyKind::B => Bitrate::from_100kbps(20),
            _ => Bitrate::from_100kbps(240),
        };
        ChipConfig {
            ack_rate: Some(ack_rate),
            eifs: self.eifs,
            // The model has no limit of retries.
            attempts: u8::MAX,
            overhear: false,
            ..ChipConfig::new(NodeId(node), RadioId(0), phy)
        }
    }

    fn cell(&self, length: Duration) -> Cell {
        let radios = (1..=self.stations + 1).map(|node| self.chip(node)).collect();
        Cell { delay: DELAY, ..Cell::to_the_last(radios, (PACKET, PACKET), length) }
    }

    fn theory(&self) -> Saturation {
        let chip = self.chip(1);
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let data = us(chip.phy.air_time(mpdu_bytes(false, PACKET), chip.rate));
        let after_collision = match self.eifs {
            EifsRule::AfterLock => us(chip.difs()),
            EifsRule::Always => us(chip.eifs()),
        };
        let (cw_min, cw_max) = chip.phy.contention_window();
        let exchange = us(chip.phy.sifs()) + us(chip.ack_air_time(chip.rate));
        let model = Bianchi {
            stations: self.stations.into(),
            cw_min,
            cw_max,
            slot_us: us(chip.slot),
            success_us: data + exchange + us(chip.difs()) + 2.0 * us(DELAY),
            collision_us: data + after_collision + us(DELAY),
            payload_bytes: PACKET as f64,
        };
        model.solve()
    }

    fn rows(&self, outcome: &Outcome) -> [Row; 2] {
        let phy = if self.kind == PhyKind::B { "802.11b" } else { "802.11a" };
        let eifs = match self.eifs {
            EifsRule::AfterLock => "after_lock",
            EifsRule::Always => "always",
        };
        let count = self.stations;
        let name = |what: &str| format!("{phy}, eifs {eifs}, {count} stations: {what}");
        let theory = self.theory();
        let share = Tolerance::Relative(if count >= 50 { 0.05 } else { 0.03 });
        let collision = match count {
            1 => Tolerance::Absolute(0.0),
            _ => Tolerance::Relative(0.07),
        };
        let pair = (outcome.mbps, theory.mbps);
        let collisions = (outcome.failed, theory.collision);
        [
            Row::new(GROUP, name("throughput"), "Mb/s", pair, share),
            Row::new(GROUP, name("collision probability"), "", collisions, collision),
        ]
    }
}
