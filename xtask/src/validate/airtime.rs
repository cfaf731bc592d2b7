//! `airtime`: how long frames take, compared with figures that practitioners know and the table of
//! the sheet.

use anyhow::{Context as _, Result};
use farhop_proto::base::phy::{ACK_BYTES, mpdu_bytes};
use farhop_proto::base::{
    AckPolicy, Bitrate, Duration, NodeId, Phy, PhyKind, Preamble, RadioId, TxOptions,
};
use farhop_sim::radio::ChipConfig;

use super::cell::Cell;
use super::{Row, Tolerance};

const GROUP: &str = "airtime";
/// Size of an IP packet, in bytes.
const PACKET: usize = 1500;

/// The rows of this group.
pub(crate) fn rows(quick: bool) -> Result<Vec<Row>> {
    let mut rows = tables();
    let length = Duration::from_secs(if quick { 5 } else { 20 });
    // MCS, microseconds, Mb/s of a packet over its PPDU, the same with DIFS and mean backoff.
    for (mcs, us, over_ppdu, with_gaps) in [(1, 988.0, 12.15, 11.0), (7, 228.0, 52.6, 36.4)] {
        let phy = Phy { kind: PhyKind::N, ..Phy::default() };
        let rate = phy.rate_of_mcs(mcs).context("802.11n has MCS 0 to 7")?;
        let ours = micros(phy.air_time(mpdu_bytes(true, PACKET), rate));
        let name = |what: &str| format!("802.11n, MCS {mcs}, 20 MHz, 1500 bytes: {what}");
        let bits = PACKET as f64 * 8.0;
        rows.push(Row::new(GROUP, name("PPDU"), "us", (ours, us), Tolerance::Absolute(0.5)));
        let pair = (bits / ours, over_ppdu);
        rows.push(Row::new(GROUP, name("over PPDU"), "Mb/s", pair, Tolerance::Relative(0.005)));
        let pair = (unacknowledged(phy, rate, length), with_gaps);
        let name = name("simulated, with DIFS and backoff");
        rows.push(Row::new(GROUP, name, "Mb/s", pair, Tolerance::Relative(0.01)));
    }
    Ok(rows)
}

/// Goodput of frames without acknowledgement.
fn unacknowledged(phy: Phy, rate: Bitrate, length: Duration) -> f64 {
    let chip = |node| ChipConfig { rate, ..ChipConfig::new(NodeId(node), RadioId(0), phy) };
    let base = Cell::to_the_last(vec![chip(1), chip(2)], (PACKET, PACKET), length);
    let options = TxOptions { ack: AckPolicy::NoAck, ..TxOptions::default() };
    Cell { options, ..base }.run().mbps
}

/// The table of `radio.md` 1.2: a frame of 1536 bytes at every rate, and acknowledgements.
fn tables() -> Vec<Row> {
    let b = Phy::default();
    let short = Phy { preamble: Preamble::Short, ..b };
    let a = Phy { kind: PhyKind::A, ..b };
    type Known<'a> = (&'a str, Phy, &'a [(u64, f64)]);
    let data: [Known<'_>; 2] = [
        ("802.11b", b, &[(10, 12_480.0), (20, 6_336.0), (55, 2_427.0), (110, 1_310.0)]),
        (
            "802.11a",
            a,
            &[
                (60, 2_072.0),
                (90, 1_388.0),
                (120, 1_048.0),
                (180, 704.0),
                (240, 536.0),
                (360, 364.0),
                (480, 280.0),
                (540, 248.0),
            ],
        ),
    ];
    let mut rows = Vec::new();
    for (name, phy, times) in data {
        for &(rate, us) in times {
            rows.push(exact(name, "1536 bytes", phy, (1536, rate), us));
        }
    }
    let acks = [("802.11b", b, 10, 304.0), ("802.11b", b, 20, 248.0), ("802.11a", a, 60, 44.0)];
    for (name, phy, rate, us) in acks {
        rows.push(exact(name, "ACK", phy, (ACK_BYTES, rate), us));
    }
    rows.push(exact("802.11b, short preamble", "ACK", short, (ACK_BYTES, 20), 152.0));
    rows.push(exact("802.11a", "ACK", a, (ACK_BYTES, 120), 32.0));
    rows.push(exact("802.11a", "ACK", a, (ACK_BYTES, 240), 28.0));
    rows
}

fn exact(phy_name: &str, frame: &str, phy: Phy, (bytes, rate): (usize, u64), us: f64) -> Row {
    let rate = Bitrate::from_100kbps(rate);
    let name = format!("{phy_name}, {} Mb/s: {frame}", rate.mbps());
    let ours = micros(phy.air_time(bytes, rate));
    Row::new(GROUP, name, "us", (ours, us), Tolerance::Absolute(0.0))
}

fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}
