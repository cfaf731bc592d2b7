//! Radios of different PHYs on one channel, and signals that are too weak to matter.

use super::*;
use crate::radio::{AcParams, EifsRule, Interference};
use farhop_proto::base::PhyKind;
use farhop_proto::stack::{CurveConfig, SinrSettings};

#[test]
fn an_802_11b_radio_senses_ofdm_and_understands_dsss() {
    let mixed = Phy { kind: PhyKind::G, mixed: true, ..Phy::default() };
    let chip = |node, phy| ChipConfig::new(NodeId(node), RadioId(0), phy);
    let radios = vec![chip(1, mixed), chip(2, mixed), chip(3, Phy::default())];
    let mut medium = medium(mesh(radios, Duration::ZERO));
    // 1500 bytes and their acknowledgements at 24 Mb/s and at 2 Mb/s.
    for (id, rate, start, ack_end, is_understood) in
        [(1, 540, 1000, 1000 + 254 + 10 + 34, false), (2, 110, 50_000, 50_000 + 1310 + 258, true)]
    {
        let rate = Some(Bitrate::from_100kbps(rate));
        let options = TxOptions { rate, ..TxOptions::default() };
        medium.handle_frame(at(start), 0, frame(id, Some(2), 1500, options));
        // Radio 2 finds the air busy, whether or not it can decode the frame.
        medium.handle_frame(at(start + 50), 2, frame(id + 10, None, 100, no_ack()));
        let reports = run_out(&mut medium);
        let is_overheard = |report: &&(usize, Instant, FrameUp)| {
            report.0 == 2 && matches!(report.2, FrameUp::Overheard(_))
        };
        let overheard = reports.iter().filter(is_overheard).count();
        assert_eq!(overheard, usize::from(is_understood), "{id}");
        let own = on_air(&mut medium).into_iter().find(|air| air.0 == 2).expect("it was sent");
        assert!(own.1 >= ack_end + 50, "{own:?} during an exchange up to {ack_end}");
    }
}

#[test]
fn a_radio_of_802_11g_answers_802_11b() {
    let mixed = Phy { kind: PhyKind::G, mixed: true, ..Phy::default() };
    let b = ChipConfig::new(NodeId(1), RadioId(0), Phy::default());
    // A fixed rate of acknowledgements that 802.11b cannot decode.
    let fast = Some(Bitrate::from_100kbps(240));
    let g = ChipConfig { ack_rate: fast, ..ChipConfig::new(NodeId(2), RadioId(0), mixed) };
    let mut medium = medium(mesh(vec![b, g], us(1)));
    medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, TxOptions::default()));
    let done = dones(&run_out(&mut medium))[0].2;
    assert_eq!((done.outcome, done.attempts), (FrameOutcome::Acked(0), 1));
}

#[test]
fn after_what_it_cannot_sense_a_radio_waits_for_nothing() {
    let heeding =
        |node| ChipConfig { eifs: EifsRule::Always, sense_threshold: Dbm::new(-90), ..chip(node) };
    let start_behind = |signal: i32| {
        let mut config = mesh(vec![heeding(1), heeding(2), heeding(3)], Duration::ZERO);
        config.interference = Interference::Sinr(SinrSettings {
            noise_dbm: Some(-80.0),
            preamble_db: Some(4.0),
            preamble_min_dbm: Some(-120.0),
            curve: CurveConfig::default(),
        });
        for link in config.links.iter_mut().filter(|link| link.from == 2) {
            link.signal = Dbm::new(signal);
        }
        let mut medium = medium(config);
        medium.handle_frame(at(1000), 2, frame(1, None, 1500, no_ack()));
        medium.handle_frame(at(2300), 0, frame(2, None, 100, no_ack()));
        run_out(&mut medium);
        on_air(&mut medium)[1].1
    };
    // The first frame ends at 2214 us, lost in the noise in either case.
    assert_eq!(start_behind(-95), 2300);
    // SIFS, an acknowledgement of 304 us and DIFS.
    assert!(start_behind(-85) >= 2214 + 10 + 304 + 50);
}

#[test]
fn a_station_that_knows_no_aggregates_has_no_agreement() {
    let radio =
        |node, kind| ChipConfig::new(NodeId(node), RadioId(0), Phy { kind, ..Phy::default() });
    let mut config = mesh(vec![radio(1, PhyKind::N), radio(2, PhyKind::A)], us(1));
    config.links.iter_mut().for_each(|link| link.loss = LossModel::Bernoulli { p: 0.5 });
    let mut medium = medium(config);
    let twice = TxOptions { attempts: Some(2), ..TxOptions::default() };
    for id in 0..40 {
        medium.handle_frame(at(1_000 + id), 0, frame(id, Some(2), 500, twice));
    }
    run_out(&mut medium);
    let sent: Vec<_> = std::iter::from_fn(|| medium.poll_transmission()).collect();
    assert!(sent.iter().all(|sent| ["data", "ack"].contains(&sent.name())), "{sent:?}");
    assert!(sent.iter().filter(|sent| sent.name() == "data").count() > 50);
}

#[test]
fn within_a_txop_each_frame_is_told_of_at_the_rate_of_its_receiver() {
    let mixed = Phy { kind: PhyKind::G, mixed: true, ..Phy::default() };
    let mut categories = AcParams::all(&mixed);
    categories[AccessCategory::BestEffort as usize].txop = AcParams::MOST_TXOP;
    let radio = |node, phy| ChipConfig::new(NodeId(node), RadioId(0), phy);
    let access_point = ChipConfig { edca: Some(categories), ..radio(1, mixed) };
    let radios = vec![access_point, radio(2, Phy::default()), radio(3, mixed)];
    let mut medium = medium(mesh(radios, Duration::ZERO));
    let together = TxOptions { not_before: Some(at(1_000)), ..TxOptions::default() };
    for (id, to) in [(1, 2), (2, 3)] {
        medium.handle_frame(at(500), 0, frame(id, Some(to), 1500, together));
    }
    run_out(&mut medium);
    let sent: Vec<_> = std::iter::from_fn(|| medium.poll_transmission()).collect();
    assert_eq!(
        sent.iter().map(|sent| sent.rate.mbps()).collect::<Vec<_>>(),
        [11.0, 2.0, 54.0, 24.0]
    );
    // Its NAV covers the answer to the first frame, and the second frame with its own answer.
    assert_eq!(sent[0].nav, sent[3].end - sent[0].end);
}

#[test]
fn of_two_radios_of_a_neighbour_that_counts_which_frames_are_for() {
    let mixed = Phy { kind: PhyKind::G, mixed: true, ..Phy::default() };
    let second = |phy| ChipConfig::new(NodeId(2), RadioId(1), phy);
    let radio = |node, phy| ChipConfig::new(NodeId(node), RadioId(0), phy);
    for (first, other, expected) in [(mixed, Phy::default(), 54.0), (Phy::default(), mixed, 11.0)] {
        let radios = vec![radio(1, mixed), radio(2, first), second(other)];
        let links = [(0, 1), (0, 2), (1, 0), (2, 0)];
        let links = links.map(|(from, to)| link(from, to, us(1))).to_vec();
        let mut medium = medium(MediumConfig::new(radios, links));
        medium.handle_frame(at(1000), 0, frame(1, Some(2), 500, TxOptions::default()));
        run_out(&mut medium);
        let sent = medium.poll_transmission().expect("it was sent");
        assert_eq!(sent.rate.mbps(), expected);
    }
}
