//! Chains of relays under summed interference against ns-3 (chain B of the reference measurements).

use super::*;
use crate::radio::Interference;
use farhop_proto::stack::FirstAccess;
use farhop_proto::stack::{CurveConfig, SinrSettings};

/// Distance between neighbours, in metres.
const SPACING: f64 = 90.0;
/// Range of carrier sense, in metres.
const SENSED: f64 = 220.0;
/// Signal at the end of reception, 100 m.
const RECEIVED: f64 = -60.0;

/// Log-distance with exponent 4: 20 dBm and no loss at 1 m.
fn pl4(metres: f64) -> f64 {
    20.0 - 40.0 * metres.log10()
}

/// The same power up to 100 m, 3 dB less beyond.
fn step(metres: f64) -> f64 {
    if metres <= 100.0 { RECEIVED } else { RECEIVED - 3.0 }
}

fn chain(hops: usize, power: fn(f64) -> f64) -> MediumConfig {
    let radio = |index: usize| ChipConfig {
        ack_rate: Some(Bitrate::from_100kbps(20)),
        ack_timeout: us(30),
        first_access: FirstAccess::WhenIdle,
        receive_threshold: Dbm::from_f64(RECEIVED),
        sense_threshold: Dbm::from_f64(power(SENSED)),
        overhear: false,
        ..ChipConfig::new(NodeId(index as u16 + 1), RadioId(0), Phy::default())
    };
    let pairs = (0..=hops).flat_map(|from| (0..=hops).map(move |to| (from, to)));
    let link = |(from, to): (usize, usize)| {
        let metres = SPACING * from.abs_diff(to) as f64;
        (from != to && metres <= SENSED).then(|| AirLink {
            signal: Dbm::from_f64(power(metres)),
            ..link(from, to, over_km(metres / 1000.0))
        })
    };
    let interference = Interference::Sinr(SinrSettings {
        noise_dbm: Some(-93.6),
        preamble_db: Some(4.0),
        preamble_min_dbm: Some(RECEIVED),
        curve: CurveConfig::Stock,
    });
    let radios = (0..=hops).map(radio).collect();
    let links = pairs.filter_map(link).collect();
    MediumConfig { interference, ..MediumConfig::new(radios, links) }
}

/// Throughput at the end of the chain from `WARM_UP` on, in Mb/s.
fn relayed(hops: usize, power: fn(f64) -> f64, seed: u64) -> f64 {
    const WARM_UP: Duration = Duration::from_secs(10);
    const LENGTH: Duration = Duration::from_secs(40);
    let mut medium = Medium::new(chain(hops, power), Seed(seed));
    let mut next_source = Instant::ZERO;
    let (mut id, mut arrived) = (0, 0);
    let end = Instant::ZERO + LENGTH;
    loop {
        let now = medium.poll_timeout().map_or(next_source, |at| at.min(next_source));
        if now > end {
            return mbps(arrived, 1000, LENGTH - WARM_UP);
        }
        medium.handle_timeout(now);
        while let Some(event) = medium.poll_event() {
            let FrameUp::Received(_) = event.event else { continue };
            if event.radio == hops {
                arrived += u64::from(event.at >= Instant::ZERO + WARM_UP);
            } else if medium.room(event.radio, AccessCategory::default()) > 0 {
                id += 1;
                let to = event.radio as u16 + 2;
                let unit = frame(id, Some(to), 1028, TxOptions::default());
                medium.handle_frame(now, event.radio, unit);
            }
        }
        if now == next_source {
            next_source += us(1200);
            if medium.room(0, AccessCategory::default()) > 0 {
                id += 1;
                medium.handle_frame(now, 0, frame(id, Some(2), 1028, TxOptions::default()));
            }
        }
    }
}

#[test]
fn chains_carry_what_ns3_says() {
    let table = [
        (1, [5.048, 5.048]),
        (2, [2.764, 2.678]),
        (4, [1.452, 1.335]),
        (8, [1.251, 0.919]),
        (16, [1.248, 0.904]),
    ];
    for (hops, expected) in table {
        let ours = [relayed(hops, pl4, 1), relayed(hops, step, 1)];
        println!("{hops}: {ours:.3?} {expected:?}");
        let tolerance = 0.04;
        for (ours, expected) in ours.into_iter().zip(expected) {
            close(ours, expected, tolerance);
        }
    }
}
