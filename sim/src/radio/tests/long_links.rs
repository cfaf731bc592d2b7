//! Long links (`radio.md` 7 and 8, targets W-F2).

use super::*;

/// The payload after LLC/SNAP of a 1440-byte UDP datagram.
const UDP_1440: usize = 1440 + 8 + 20;

/// Two radios `km` apart, with a time-out that fits the distance.
fn long_link(km: f64, attempts: u8) -> MediumConfig {
    let delay = over_km(km);
    let ends = [1, 2].map(|node| {
        let base = chip(node);
        ChipConfig { ack_timeout: base.ack_timeout + delay * 2, attempts, ..base }
    });
    mesh(ends.to_vec(), delay)
}

fn one_way(config: MediumConfig, options: TxOptions) -> (f64, Medium) {
    let length = Duration::from_secs(60);
    let mut medium = Medium::new(config, Seed(4));
    let source = Saturated { radio: 0, to: 2, bytes: UDP_1440, options };
    let tally = saturate(&mut medium, 2, &[source], length);
    (mbps(tally[1].delivered, 1440, length), medium)
}

#[test]
fn throughput_falls_with_distance_as_calculated() {
    let table = [(0.0, 6.73), (30.0, 6.03), (60.0, 5.45), (80.0, 5.13), (110.0, 4.71)];
    for (km, expected) in table {
        let (rate, _) = one_way(long_link(km, 3), TxOptions::default());
        println!("{km} km: {rate:.3} Mb/s ({expected})");
        close(rate, expected, 0.01);
    }
}

#[test]
fn without_acknowledgements_the_distance_does_not_matter() {
    for km in [0.0, 200.0] {
        let (rate, _) = one_way(long_link(km, 3), no_ack());
        close(rate, 7.43, 0.01);
    }
}

#[test]
fn an_acknowledgement_after_the_time_out_is_ignored() {
    let delay = over_km(20.0);
    let mut medium = medium(mesh(vec![chip(1), chip(2)], delay));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    let reports = run_out(&mut medium);
    let done = dones(&reports)[0].2;
    assert_eq!((done.outcome, done.attempts), (FrameOutcome::Failed, 7));
    assert_eq!(receptions(&reports).len(), 1);
    assert_eq!(medium.stats(1).duplicates + medium.stats(1).missed, 6);
    assert_eq!(medium.stats(0).acks_received, 0);
}

#[test]
fn the_last_moment_for_an_acknowledgement_is_in_time() {
    // The acknowledgement begins SIFS and a round trip after the end of the frame.
    for (slack, attempts) in [(0, 1), (1, 7)] {
        let sender = ChipConfig { ack_timeout: us(10 + 2 * 300 - slack), ..chip(1) };
        let mut medium = medium(mesh(vec![sender, chip(2)], us(300)));
        medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
        assert_eq!(dones(&run_out(&mut medium))[0].2.attempts, attempts);
    }
}

#[test]
fn both_ends_of_a_long_link_collide_more_the_longer_it_is() {
    let table = [
        (1.0, 0.0, 7.3),
        (10.0, 0.2, 6.5),
        (30.0, 2.6, 5.2),
        (80.0, 13.0, 3.5),
        (100.0, 16.0, 3.2),
    ];
    let length = Duration::from_secs(120);
    for (km, expected_loss, expected_sum) in table {
        let mut medium = Medium::new(long_link(km, 3), Seed(8));
        let sources = [(0, 2), (1, 1)].map(|(radio, to)| Saturated {
            radio,
            to,
            bytes: UDP_1440,
            options: TxOptions::default(),
        });
        let tally = saturate(&mut medium, 2, &sources, length);
        let delivered = tally[0].delivered + tally[1].delivered;
        let done = tally[0].done + tally[1].done;
        let loss = 100.0 * (1.0 - delivered as f64 / done as f64);
        let sum = mbps(delivered, 1440, length);
        println!("{km} km: loss {loss:.2}% ({expected_loss}), sum {sum:.2} Mb/s ({expected_sum})");
        close(sum, expected_sum, 0.15);
        assert!((loss - expected_loss).abs() <= 5.0, "{km} km: loss {loss:.2}%");
    }
}

#[test]
fn two_ends_without_carrier_sense_talk_over_each_other() {
    let ends = [1, 2].map(|node| ChipConfig { carrier_sense: false, ..chip(node) });
    let mut medium = Medium::new(mesh(ends.to_vec(), us(1)), Seed(4));
    let sources = [(0, 2), (1, 1)].map(|(radio, to)| Saturated {
        radio,
        to,
        bytes: UDP_1440,
        options: no_ack(),
    });
    let tally = saturate(&mut medium, 2, &sources, Duration::from_secs(10));
    let stats = medium.stats(0);
    // Each sends as if it were alone, and hears nothing of what arrives meanwhile.
    close(stats.attempts as f64 / 10.0, 7.43e6 / 8.0 / 1440.0, 0.01);
    assert!(tally[0].delivered < 100, "{} delivered", tally[0].delivered);
    assert!(stats.missed > 5000, "{} missed", stats.missed);
}
