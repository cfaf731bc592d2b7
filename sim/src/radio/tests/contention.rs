//! Saturated stations against the closed form and Bianchi's model (`radio.md` 12).

use super::*;
use crate::radio::EifsRule;

/// IP payload in Mb/s, and the share of failed attempts, of `count` stations that send to one more.
fn saturated_stations(count: usize, eifs: EifsRule, seed: u64, length: Duration) -> (f64, f64) {
    let radios: Vec<_> = (0..=count)
        .map(|index| ChipConfig { attempts: 255, eifs, overhear: false, ..chip(index as u16 + 1) })
        .collect();
    let mut medium = Medium::new(mesh(radios, us(1)), Seed(seed));
    let sink = count as u16 + 1;
    let sources: Vec<_> = (0..count)
        .map(|radio| Saturated { radio, to: sink, bytes: 1500, options: TxOptions::default() })
        .collect();
    let tally = saturate(&mut medium, count + 1, &sources, length);
    let stats = (0..count).map(|radio| medium.stats(radio));
    let (attempts, acked) = stats.fold((0, 0), |(attempts, acked), stats| {
        (attempts + stats.attempts, acked + stats.acks_received)
    });
    let rate = mbps(tally[count].delivered, 1500, length);
    (rate, 1.0 - acked as f64 / attempts as f64)
}

#[test]
fn one_station_alone_reaches_the_closed_form() {
    let (rate, failed) = saturated_stations(1, EifsRule::AfterLock, 1, Duration::from_secs(60));
    // T_data + SIFS + T_ack + DIFS + 2p + 15.5 slots.
    let cycle = 1214.0 + 10.0 + 152.0 + 50.0 + 2.0 + 310.0;
    close(rate, 12_000.0 / cycle, 0.005);
    assert!(failed < 1e-3, "{failed}");
}

#[test]
fn saturated_stations_follow_bianchi() {
    let oracle = [(5, 7.32, 0.178), (10, 6.96, 0.290), (20, 6.49, 0.399)];
    for (count, rate, failed) in oracle {
        let (our_rate, our_failed) =
            saturated_stations(count, EifsRule::AfterLock, 2, Duration::from_secs(40));
        println!("{count}: {our_rate:.3} Mb/s ({rate}), {our_failed:.4} failed ({failed})");
        close(our_rate, rate, 0.03);
        close(our_failed, failed, 0.07);
    }
}

#[test]
fn eifs_after_every_error_follows_its_own_row() {
    for (count, rate) in [(5, 7.17), (20, 6.17)] {
        let (our_rate, _) = saturated_stations(count, EifsRule::Always, 3, Duration::from_secs(40));
        println!("{count}: {our_rate:.3} Mb/s ({rate})");
        close(our_rate, rate, 0.03);
    }
}

#[test]
fn the_same_seed_gives_the_same_transmissions() {
    let run = |seed| {
        let radios: Vec<_> = (1..=6).map(chip).collect();
        let mut config = mesh(radios, us(7));
        for link in &mut config.links {
            link.loss = LossModel::Bernoulli { p: 0.1 };
        }
        let mut medium = Medium::new(config, Seed(seed));
        let sources: Vec<_> = (0..6)
            .map(|radio| Saturated {
                radio,
                to: (radio as u16 + 1) % 6 + 1,
                bytes: 700,
                options: TxOptions::default(),
            })
            .collect();
        saturate(&mut medium, 6, &sources, Duration::from_secs(2));
        (medium.trace_hash(), medium.events(), medium.frames_on_air())
    };
    assert_eq!(run(5), run(5));
    // The same in debug and release, on every machine.
    assert_eq!(run(5).0, 15_423_056_089_910_849_178);
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn the_window_doubles_after_each_failure_and_starts_again_with_the_next_frame() {
    // Six retries draw half of 63 + 127 + 255 + 511 + 1023 + 1023 on average, and the post-backoff
    // half of 31.
    for (exponential_backoff, expected) in [(true, 1516.5), (false, 7.0 * 15.5)] {
        let radios = vec![ChipConfig { exponential_backoff, ..chip(1) }, chip(2)];
        let mut medium = Medium::new(MediumConfig::new(radios, vec![]), Seed(1));
        let source = Saturated { radio: 0, to: 2, bytes: 100, options: TxOptions::default() };
        saturate(&mut medium, 2, &[source], Duration::from_secs(120));
        let stats = medium.stats(0);
        assert_eq!(stats.attempts / 7, stats.failures);
        close(stats.backoff_slots as f64 / stats.failures as f64, expected, 0.02);
    }
}

#[test]
fn a_quiet_window_stays_as_it_is_while_nobody_is_heard() {
    let backoff = |quiet_backoff: bool| {
        let radios = vec![ChipConfig { quiet_backoff, ..chip(1) }, chip(2)];
        let mut medium = Medium::new(MediumConfig::new(radios, vec![]), Seed(1));
        let source = Saturated { radio: 0, to: 2, bytes: 100, options: TxOptions::default() };
        saturate(&mut medium, 2, &[source], Duration::from_secs(60));
        let stats = medium.stats(0);
        stats.backoff_slots as f64 / stats.failures as f64
    };
    close(backoff(true), 7.0 * 15.5, 0.05);
    assert!(backoff(false) > 10.0 * backoff(true));
}

#[test]
fn a_window_grows_where_frames_for_others_are_heard() {
    let radios = vec![ChipConfig { quiet_backoff: true, ..chip(1) }, chip(2), chip(3)];
    let mut medium = Medium::new(mesh(radios, us(1)), Seed(1));
    let source = |radio, to| Saturated { radio, to, bytes: 100, options: TxOptions::default() };
    // Node 9 does not exist.
    saturate(&mut medium, 3, &[source(0, 9), source(1, 3)], Duration::from_secs(120));
    let stats = medium.stats(0);
    assert!(stats.overheard > 1000 && stats.received == 0);
    close(stats.backoff_slots as f64 / stats.failures as f64, 1516.5, 0.05);
}

#[test]
fn an_answer_that_collides_is_not_charged_to_the_data_of_who_answers() {
    // The third is heard by the first alone, and hears nobody.
    let links = vec![link(0, 1, us(3)), link(1, 0, us(3)), link(2, 0, us(3))];
    let mut medium = medium(MediumConfig::new((1..=3).map(chip).collect(), links));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 1500, TxOptions::default()));
    let air = chip(1).phy.air_time(24 + 8 + 1500 + 4, Bitrate::from_100kbps(110));
    medium.handle_frame(at(1020) + air, 2, frame(2, None, 1500, no_ack()));
    run_out(&mut medium);
    assert_eq!(medium.stats(1).received, 1, "the data arrives each time that it is sent");
    assert!(medium.stats(0).air_collided > Duration::ZERO, "and what answers it is lost once");
    let back = medium.links_air().find(|link| link.from.0 == NodeId(2));
    assert!(back.is_none_or(|link| link.collided.is_zero()), "{back:?}");
}
