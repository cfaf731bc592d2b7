//! Random media under random calls, and the invariants that must hold for all of them.

use std::collections::BTreeMap;

use super::*;
use crate::radio::{AcParams, EifsRule, Interference};
use farhop_proto::base::{Gap, PhyKind, Rng};
use farhop_proto::stack::RateControl;
use farhop_proto::stack::{CurveConfig, SinrSettings};

fn random_chip(rng: &mut Rng, node: u16, phy: Option<Phy>) -> ChipConfig {
    let base = phy.map_or_else(|| chip(node), |phy| ChipConfig::new(NodeId(node), RadioId(0), phy));
    ChipConfig {
        ack_timeout: us(30 + rng.below(700)),
        attempts: 1 + rng.below(6) as u8,
        gap: [Gap::Backoff, Gap::Difs, Gap::Sifs][rng.below(3) as usize],
        carrier_sense: rng.chance(0.7),
        exponential_backoff: rng.chance(0.5),
        eifs: if rng.chance(0.5) { EifsRule::Always } else { EifsRule::AfterLock },
        queue_frames: 1 + rng.below(5) as usize,
        rts_threshold: rng.chance(0.3).then(|| rng.below(1500) as usize),
        edca: rng.chance(0.4).then(|| random_categories(rng)),
        aggregate: 1 + rng.below(64) as usize,
        rate_control: [RateControl::Fixed, RateControl::Aarf, RateControl::Minstrel]
            [rng.below(3) as usize],
        ..base
    }
}

fn random_categories(rng: &mut Rng) -> [AcParams; 4] {
    let mut categories = AcParams::all(&Phy::default());
    for params in &mut categories {
        params.txop = us(rng.below(8160) * rng.below(2));
        params.cw_min = (2 << rng.below(5)) - 1;
    }
    categories
}

fn random_config(rng: &mut Rng) -> MediumConfig {
    let count = 2 + rng.below(5) as usize;
    let kinds = [PhyKind::N, PhyKind::Ac];
    let kind = kinds[rng.below(2) as usize];
    let phy = rng.chance(0.4).then(|| Phy { kind, ..Phy::default() });
    let radios: Vec<_> = (1..=count as u16).map(|node| random_chip(rng, node, phy)).collect();
    let mut config = mesh(radios, Duration::ZERO);
    config.links.retain(|_| rng.chance(0.8));
    for link in &mut config.links {
        link.delay = [us(0), us(1), us(20), us(350)][rng.below(4) as usize];
        link.signal = Dbm::new(-50 - rng.below(30) as i32);
        link.loss = LossModel::Bernoulli { p: 0.2 * rng.uniform() };
    }
    config
}

fn random_options(rng: &mut Rng, now: Instant) -> TxOptions {
    let soon = |rng: &mut Rng| rng.chance(0.2).then(|| now + us(rng.below(5000)));
    let categories =
        [AccessCategory::Background, AccessCategory::BestEffort, AccessCategory::Voice];
    TxOptions {
        access: categories[rng.below(3) as usize],
        ack: if rng.chance(0.5) { AckPolicy::NoAck } else { AckPolicy::Normal },
        attempts: rng.chance(0.3).then(|| 1 + rng.below(4) as u8),
        not_before: soon(rng),
        deadline: soon(rng),
        ..TxOptions::default()
    }
}

#[test]
fn every_frame_ends_once_and_no_radio_sends_two_things_at_a_time() {
    let mut total = 0;
    for seed in 0..60 {
        let mut rng = Seed(seed).stream("swarm");
        let config = random_config(&mut rng);
        let (radios, links) = (config.radios.len() as u64, config.links.len() as u64);
        let mut medium = medium(config);
        let mut open: BTreeMap<(usize, u64), Instant> = BTreeMap::new();
        let mut now = Instant::ZERO;
        let [mut is_down, mut was_down] = [(); 2].map(|()| vec![false; radios as usize]);
        for id in 0..1500 {
            now += us(rng.below(1200));
            let radio = rng.below(radios) as usize;
            match rng.below(40) {
                0 => {
                    is_down[radio] = !is_down[radio];
                    was_down[radio] = true;
                    medium.set_radio_up(now, radio, !is_down[radio]);
                }
                1 if links > 0 => {
                    let link = rng.below(links) as usize;
                    medium.set_link_up(now, link, rng.chance(0.5));
                }
                2..5 => {
                    let id = UnitId(id.max(3) - 1 - rng.below(3));
                    medium.handle_frame(now, radio, FrameDown::Cancel(id));
                }
                5..38 => {
                    let to = rng.chance(0.9).then(|| 1 + rng.below(radios) as u16);
                    let options = random_options(&mut rng, now);
                    if medium.room(radio, options.access) == 0 {
                        continue;
                    }
                    let bytes = rng.below(1500) as usize;
                    medium.handle_frame(now, radio, frame(id, to, bytes, options));
                    open.insert((radio, id), now);
                }
                _ => medium.handle_timeout(now),
            }
        }
        let reports = run_out(&mut medium);
        assert!(reports.is_sorted_by_key(|(_, at, _)| *at), "reports are out of order");
        for (radio, end, done) in dones(&reports) {
            let start = open.remove(&(radio, done.id.0)).expect("a frame ends once");
            assert!(end >= start, "a frame ends before it was given");
            total += 1;
        }
        assert!(open.is_empty(), "seed {seed}: frames without an end: {open:?}");
        let mut free_at = vec![Instant::ZERO; radios as usize];
        while let Some(transmission) = medium.poll_transmission() {
            let radio = transmission.radio;
            assert!(
                transmission.start >= free_at[radio] || was_down[radio],
                "seed {seed}: radio {radio} sends two things at once"
            );
            free_at[radio] = transmission.end;
        }
    }
    assert!(total > 20_000, "{total} frames");
}

/// Puts random frames on a random medium, whose radios and links go down and up.
fn disturb(config: MediumConfig, rng: &mut Rng, seed: Seed, watched: Option<NodeId>) -> Medium {
    let (radios, links) = (config.radios.len() as u64, config.links.len() as u64);
    let mut medium = Medium::new(config, seed);
    medium.record_arrivals(watched);
    let mut now = Instant::ZERO;
    for id in 0..1500 {
        // Often at equal times, and often while something is on the air.
        now += us(20 * rng.below(60));
        let radio = rng.below(radios) as usize;
        let options = random_options(rng, now);
        let to = rng.chance(0.9).then(|| 1 + rng.below(radios) as u16);
        match rng.below(50) {
            0 => medium.set_radio_up(now, radio, false),
            1..4 => medium.set_radio_up(now, radio, true),
            4 if links > 0 => {
                medium.set_link_up(now, rng.below(links) as usize, rng.chance(0.7));
            }
            _ if medium.room(radio, options.access) > 0 => {
                medium.handle_frame(now, radio, frame(id, to, rng.below(1500) as usize, options));
            }
            _ => medium.handle_timeout(now),
        }
    }
    run_out(&mut medium);
    medium
}

#[test]
fn random_media_put_the_same_on_the_air_as_ever() {
    let sinr = SinrSettings {
        noise_dbm: Some(-94.0),
        preamble_db: Some(4.0),
        preamble_min_dbm: Some(-75.0),
        curve: CurveConfig::Stock,
    };
    let mut hashes = Vec::new();
    // Recording the arrivals at a node changes nothing.
    let watched = [None, Some(NodeId(1))];
    for (interference, watched) in [Interference::Threshold, Interference::Sinr(sinr)]
        .into_iter()
        .flat_map(|interference| watched.map(|node| (interference, node)))
    {
        let mut arrivals = 0;
        let mut hash = 0_u64;
        for seed in 0..60 {
            let mut rng = Seed(seed).stream("disturbed");
            let mut config = random_config(&mut rng);
            config.interference = interference;
            for radio in &mut config.radios {
                radio.receive_threshold = Dbm::new(-72);
                radio.sense_threshold = Dbm::new(-76);
                // Neighbouring channels of one node, and of different ones.
                radio.channel = 1 + rng.below(8).saturating_sub(5) as u16;
            }
            for pair in config.radios.chunks_exact_mut(2).take(usize::from(rng.chance(0.5))) {
                (pair[1].node, pair[1].radio) = (pair[0].node, RadioId(1));
            }
            let mut medium = disturb(config, &mut rng, Seed(seed), watched);
            hash = hash.rotate_left(5) ^ medium.trace_hash();
            arrivals += std::iter::from_fn(|| medium.poll_arrival()).count();
        }
        assert_eq!(arrivals > 1_000, watched.is_some(), "{arrivals} arrivals");
        hashes.push(hash);
    }
    let [threshold, sinr] = [8_955_539_897_589_768_077, 2_610_755_345_307_687_198];
    assert_eq!(hashes, [threshold, threshold, sinr, sinr]);
}
