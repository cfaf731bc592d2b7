//! `distance`: stop-and-wait over kilometres with a modern radio, compared with the closed form.
//!
//! Packets of 1500 bytes at MCS 7, 40 MHz, short guard interval, each acknowledged at 24 Mb/s at 5
//! GHz. Either only the time-out is widened, or also the slot (by the propagation delay), which
//! lengthens DIFS and backoff.

use anyhow::{Context as _, Result};
use farhop_proto::base::phy::GuardInterval;
use farhop_proto::base::{Bitrate, Duration, NodeId, Phy, PhyKind, RadioId, Width};
use farhop_sim::radio::ChipConfig;

use super::cell::Cell;
use super::{Row, Tolerance, workers};

const GROUP: &str = "distance";
/// Size of an IP packet, in bytes.
const PACKET: usize = 1500;
/// Distance in km, whether the slot is widened, and expected Mb/s of packets.
const POINTS: [(f64, bool, f64); 6] = [
    (0.0, false, 45.4),
    (10.0, false, 36.3),
    (20.0, false, 30.2),
    (0.0, true, 45.4),
    (10.0, true, 18.5),
    (20.0, true, 11.6),
];

/// The rows of this group.
pub(crate) fn rows(quick: bool) -> Result<Vec<Row>> {
    let length = Duration::from_secs(if quick { 5 } else { 30 });
    let ours = workers::map(GROUP, &POINTS, |&(km, is_wide, _)| stop_and_wait(km, is_wide, length));
    let rows = POINTS.iter().zip(ours).map(|(&(km, is_wide, reference), ours)| {
        let how = if is_wide { "slot and time-out widened" } else { "only the time-out widened" };
        let name = format!("802.11n, MCS 7, 40 MHz, {km} km, {how}");
        Ok(Row::new(GROUP, name, "Mb/s", (ours?, reference), Tolerance::Relative(0.02)))
    });
    rows.collect()
}

fn stop_and_wait(km: f64, is_wide: bool, length: Duration) -> Result<f64> {
    let phy = Phy {
        kind: PhyKind::N,
        width: Width::Mhz40,
        guard_interval: GuardInterval::Short,
        ..Phy::default()
    };
    let delay = Duration::from_secs_f64(km * 1000.0 / 299_792_458.0);
    let slot = phy.slot() + if is_wide { delay } else { Duration::ZERO };
    let rate = phy.rate_of_mcs(7).context("802.11n has MCS 0 to 7")?;
    let chip = |node| {
        let base = ChipConfig::new(NodeId(node), RadioId(0), phy);
        ChipConfig {
            rate,
            slot,
            ack_rate: Some(Bitrate::from_100kbps(240)),
            aggregate: 1,
            ack_timeout: base.ack_timeout + delay * 2,
            ..base
        }
    };
    let cell = Cell::to_the_last(vec![chip(1), chip(2)], (PACKET, PACKET), length);
    Ok(Cell { delay, ..cell }.run().mbps)
}
