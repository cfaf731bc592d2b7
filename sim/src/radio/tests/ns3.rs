//! Points that ns-3 3.37 gave with the same settings: long preamble, acknowledgements at 2 Mb/s,
//! 7 attempts (saturation A and long links D of the reference measurements).

use super::*;

/// A radio with ns-3's settings. A long link is tuned by its slot, which determines the time-out.
fn chip_of_ns3(node: u16, slot: Duration) -> ChipConfig {
    let phy = Phy::default();
    ChipConfig {
        slot,
        ack_timeout: phy.sifs() + slot,
        ack_rate: Some(Bitrate::from_100kbps(20)),
        overhear: false,
        ..ChipConfig::new(NodeId(node), RadioId(0), phy)
    }
}

/// UDP payload over a link in Mb/s: one way, or the sum of both.
fn long_link(km: f64, is_tuned: bool, both_ways: bool) -> f64 {
    let delay = over_km(km);
    let slot = us(20) + if is_tuned { delay * 2 } else { Duration::ZERO };
    let length = Duration::from_secs(60);
    let ends = vec![chip_of_ns3(1, slot), chip_of_ns3(2, slot)];
    let mut medium = Medium::new(mesh(ends, delay), Seed(3));
    let sources = [(0, 2), (1, 1)].map(|(radio, to)| Saturated {
        radio,
        to,
        bytes: 1440 + 28,
        options: TxOptions::default(),
    });
    let sources = &sources[..if both_ways { 2 } else { 1 }];
    let tally = saturate(&mut medium, 2, sources, length);
    mbps(tally.iter().map(|tally| tally.delivered).sum(), 1440, length)
}

#[test]
fn long_links_carry_what_ns3_says() {
    // Kilometres; throughput tuned one way and both ways, with the default slot one way and both
    // ways.
    let table = [
        (1.0, [5.685, 6.088, 6.033, 6.328]),
        (20.0, [2.647, 3.447, 0.271, 0.429]),
        (80.0, [0.987, 1.421, 0.268, 0.430]),
        (200.0, [0.435, 0.700, 0.271, 0.438]),
    ];
    for (km, expected) in table {
        let ours = [(true, false), (true, true), (false, false), (false, true)]
            .map(|(is_tuned, both_ways)| long_link(km, is_tuned, both_ways));
        println!("{km} km: {ours:.3?} {expected:?}");
        for (ours, expected) in ours.into_iter().zip(expected) {
            close(ours, expected, 0.03);
        }
    }
}

#[test]
fn saturated_senders_share_what_ns3_says() {
    for (count, expected, expected_failed) in
        [(1, 5.056, 0.0), (5, 5.419, 0.171), (20, 4.897, 0.39)]
    {
        let length = Duration::from_secs(60);
        let radios = (1..=count + 1).map(|node| chip_of_ns3(node, us(20))).collect();
        let mut medium = Medium::new(mesh(radios, Duration::from_nanos(20)), Seed(4));
        let sources: Vec<_> = (0..usize::from(count))
            .map(|radio| Saturated {
                radio,
                to: count + 1,
                bytes: 1028,
                options: TxOptions::default(),
            })
            .collect();
        let tally = saturate(&mut medium, sources.len() + 1, &sources, length);
        let rate = mbps(tally[sources.len()].delivered, 1000, length);
        let stats = (0..sources.len()).map(|radio| medium.stats(radio));
        let (attempts, acked) =
            stats.fold((0, 0), |sum, stats| (sum.0 + stats.attempts, sum.1 + stats.acks_received));
        let failed = 1.0 - acked as f64 / attempts as f64;
        println!("{count}: {rate:.3} ({expected}), failed {failed:.4} ({expected_failed})");
        close(rate, expected, 0.01);
        assert!((failed - expected_failed).abs() < 0.01, "{failed}");
    }
}
