use super::*;

fn micros(phy: Phy, bytes: usize, rate: u64) -> u64 {
    phy.air_time(bytes, Bitrate::from_100kbps(rate)).as_micros()
}

#[test]
fn air_time_is_that_of_the_reference_table() {
    let long = Phy::default();
    let dsss = [10, 20, 55, 110].map(|rate| micros(long, 1536, rate));
    assert_eq!(dsss, [12480, 6336, 2427, 1310]);
    let a = Phy { kind: PhyKind::A, ..long };
    let ofdm = [60, 90, 120, 180, 240, 360, 480, 540].map(|rate| micros(a, 1536, rate));
    assert_eq!(ofdm, [2072, 1388, 1048, 704, 536, 364, 280, 248]);
}

#[test]
fn the_short_preamble_saves_96_us_but_not_at_1_mbps() {
    let short = Phy { preamble: Preamble::Short, ..Phy::default() };
    let dsss = [10, 20, 55, 110].map(|rate| micros(short, 1536, rate));
    assert_eq!(dsss, [12480, 6240, 2331, 1214]);
}

#[test]
fn acknowledgements_take_what_the_standard_says() {
    let long = Phy::default();
    let short = Phy { preamble: Preamble::Short, ..long };
    let a = Phy { kind: PhyKind::A, ..long };
    assert_eq!(micros(long, ACK_BYTES, 10), 304);
    assert_eq!(micros(long, ACK_BYTES, 20), 248);
    assert_eq!(micros(short, ACK_BYTES, 20), 152);
    assert_eq!([60, 120, 240].map(|rate| micros(a, ACK_BYTES, rate)), [44, 32, 28]);
    assert_eq!(long.eifs().as_micros(), 364);
}

#[test]
fn interframe_spaces_follow_from_slot_and_sifs() {
    let difs = [PhyKind::B, PhyKind::A, PhyKind::G]
        .map(|kind| Phy { kind, ..Phy::default() }.difs().as_micros());
    assert_eq!(difs, [50, 34, 28]);
}

#[test]
fn control_frames_use_the_highest_basic_rate_not_above_the_data() {
    let b = Phy::default();
    let a = Phy { kind: PhyKind::A, ..b };
    let control = |phy: Phy, rate| phy.control_rate(Bitrate::from_100kbps(rate)).mbps();
    assert_eq!([10, 20, 55, 110].map(|rate| control(b, rate)), [1.0, 2.0, 2.0, 2.0]);
    assert_eq!([60, 90, 180, 540].map(|rate| control(a, rate)), [6.0, 6.0, 12.0, 24.0]);
}

#[test]
fn acknowledgements_at_half_the_rate_give_the_published_goodput_of_tcp() {
    let phy = Phy { kind: PhyKind::A, ack_rule: AckRate::Half, ..Phy::default() };
    let rates = [60, 90, 120, 180, 240, 360, 480, 540];
    let answers = rates.map(|rate| phy.control_rate(Bitrate::from_100kbps(rate)).mbps());
    assert_eq!(answers, [6.0, 6.0, 6.0, 9.0, 12.0, 18.0, 24.0, 24.0]);
    // A segment of 1,448 bytes and its acknowledgement, both with time stamps and without backoff
    // (loss-tolerant.md 8).
    let goodput = rates.map(|rate| {
        let frame = |bytes| {
            let ack = phy.control_rate(Bitrate::from_100kbps(rate)).mbps();
            let answer = micros(phy, 14, (ack * 10.0) as u64);
            phy.difs().as_micros() + micros(phy, bytes, rate) + phy.sifs().as_micros() + answer
        };
        let mbps = 1448.0 * 8.0 / (frame(1536) + frame(88)) as f64;
        (mbps * 100.0).round() / 100.0
    });
    assert_eq!(goodput, [4.82, 6.90, 8.78, 12.32, 15.40, 20.54, 24.54, 26.33]);
    let b = Phy { ack_rule: AckRate::Half, ..Phy::default() };
    let answers = [10, 20, 55, 110].map(|rate| b.control_rate(Bitrate::from_100kbps(rate)).mbps());
    assert_eq!(answers, [1.0, 1.0, 2.0, 5.5]);
}

fn n(width: Width, guard_interval: GuardInterval, streams: u8) -> Phy {
    Phy { kind: PhyKind::N, width, guard_interval, streams, ..Phy::default() }
}

#[test]
fn mixed_g_has_the_rates_of_both_and_answers_in_kind() {
    let mixed = Phy { kind: PhyKind::G, mixed: true, ..Phy::default() };
    assert_eq!((mixed.slot().as_micros(), mixed.difs().as_micros()), (20, 50));
    assert_eq!(mixed.rates().len(), 12);
    assert!(mixed.rates().is_sorted());
    let answers = [10, 20, 55, 110, 60, 90, 120, 180, 240, 540]
        .map(|rate| mixed.control_rate(Bitrate::from_100kbps(rate)).mbps());
    assert_eq!(answers, [1.0, 2.0, 2.0, 2.0, 6.0, 6.0, 12.0, 12.0, 24.0, 24.0]);
    assert_eq!(micros(mixed, 1536, 110), 1310);
    assert_eq!(micros(mixed, 1536, 540), 248 + 6);
    assert_eq!(mixed.eifs().as_micros(), 364);
}

#[test]
fn narrow_channels_stretch_all_times() {
    let at = |width| Phy { kind: PhyKind::A, width, ..Phy::default() };
    let (half, quarter) = (at(Width::Mhz10), at(Width::Mhz5));
    for (phy, sifs, slot) in [(half, 32, 13), (quarter, 64, 21)] {
        assert_eq!((phy.sifs().as_micros(), phy.slot().as_micros()), (sifs, slot));
    }
    let (full, rate) = (at(Width::Mhz20), Bitrate::from_100kbps(540));
    let air = full.air_time(1536, rate);
    assert_eq!(half.air_time(1536, Bitrate::from_100kbps(270)), air * 2);
    assert_eq!(quarter.air_time(1536, Bitrate::from_100kbps(135)), air * 4);
    assert_eq!(quarter.basic_rates().iter().map(|rate| rate.mbps()).sum::<f64>(), 1.5 + 3.0 + 6.0);
    let g = Phy { kind: PhyKind::G, ..half };
    assert_eq!(g.air_time(1536, Bitrate::from_100kbps(270)), air * 2);
}

#[test]
fn what_practitioners_know_of_n_comes_out() {
    let phy = n(Width::Mhz20, GuardInterval::Long, 1);
    // 1,500 bytes with a QoS header, LLC/SNAP and check sequence.
    let mpdu = mpdu_bytes(true, 1500);
    let known = [(1, 988, 12.15, 11.0), (7, 228, 52.6, 36.4)];
    for (mcs, expected_us, alone, in_turn) in known {
        let air = phy.air_time(mpdu, phy.rate_of_mcs(mcs).expect("an MCS"));
        assert_eq!(air.as_micros(), expected_us);
        let mbps = |air: Duration| 12e-3 / air.as_secs_f64();
        assert!((mbps(air) - alone).abs() < 0.05, "{}", mbps(air));
        assert_eq!(phy.difs().as_micros(), 34);
        let backoff = phy.slot() * u64::from(phy.contention_window().0) / 2;
        assert_eq!(backoff.as_nanos(), 67_500);
        let cycle = phy.difs() + backoff + air;
        assert!((mbps(cycle) - in_turn).abs() < 0.05, "{}", mbps(cycle));
    }
}

#[test]
fn nominal_rates_are_those_of_the_standard_and_unique() {
    let mbps = |phy: Phy| phy.rates().iter().map(|rate| rate.mbps()).collect::<Vec<_>>();
    let short = n(Width::Mhz20, GuardInterval::Short, 1);
    assert_eq!(mbps(short), [7.2, 14.4, 21.7, 28.9, 43.3, 57.8, 65.0, 72.2]);
    let wide = n(Width::Mhz40, GuardInterval::Short, 2);
    assert_eq!(mbps(wide), [30.0, 60.0, 90.0, 120.0, 180.0, 240.0, 270.0, 300.0]);
    assert_eq!(wide.mcs(Bitrate::from_100kbps(3000)), Some(15));
    let ac = Phy { kind: PhyKind::Ac, ..n(Width::Mhz80, GuardInterval::Short, 1) };
    let vht = [32.5, 65.0, 97.5, 130.0, 195.0, 260.0, 292.5, 325.0, 390.0, 433.3];
    assert_eq!(mbps(ac), vht);
    let narrow = Phy { width: Width::Mhz20, ..ac };
    assert_eq!((narrow.rates().len(), narrow.rate_of_mcs(9)), (9, None));
    for phy in [short, wide, ac, narrow] {
        assert!(phy.rates().windows(2).all(|pair| pair[0] < pair[1]), "{phy:?}");
        for rate in phy.rates() {
            assert_eq!(phy.mcs(*rate).and_then(|mcs| phy.rate_of_mcs(mcs)), Some(*rate));
        }
    }
}

#[test]
fn an_mcs_is_answered_below_the_older_rate_of_its_modulation() {
    let phy = n(Width::Mhz40, GuardInterval::Long, 1);
    let answers: Vec<f64> = phy.rates().iter().map(|rate| phy.control_rate(*rate).mbps()).collect();
    assert_eq!(answers, [6.0, 12.0, 12.0, 24.0, 24.0, 24.0, 24.0, 24.0]);
    assert_eq!(micros(phy, ACK_BYTES, 240), 28);
    assert_eq!(micros(phy, BLOCK_ACK_BYTES, 240), 32);
    // At 40 MHz 54 Mb/s are MCS 3, with the preamble of HT.
    assert_eq!(phy.plcp(Bitrate::from_100kbps(540)).as_micros(), 36);
    let low = Phy { band: Band::Ghz2, ..phy };
    assert_eq!((low.sifs().as_micros(), low.difs().as_micros()), (10, 28));
    assert_eq!(micros(low, ACK_BYTES, 240), 28 + 6);
}

#[test]
fn an_ampdu_grows_by_delimiters_and_padding_up_to_its_limits() {
    let phy = n(Width::Mhz20, GuardInterval::Long, 1);
    let fastest = phy.rates()[7];
    let mut ampdu = phy.ampdu(fastest);
    assert_eq!([ampdu.push(1538), ampdu.push(1538), ampdu.push(60)], [4, 1548, 3092]);
    assert_eq!((ampdu.bytes(), ampdu.mpdus()), (3152, 3));
    let fill = |phy: Phy, rate: Bitrate, mpdu: usize| {
        let mut ampdu = phy.ampdu(rate);
        while phy.has_room(ampdu, mpdu, rate) {
            ampdu.push(mpdu);
        }
        ampdu
    };
    // 42 MPDUs would need 64,846 bytes and 8 ms: here the time is the limit.
    assert_eq!(fill(phy, fastest, 1538).mpdus(), 28);
    for (phy, mpdu, most) in [(phy, 1538, 64), (phy, 101, 64), (phy, 1538, 5), (phy, 1538, 1)] {
        let longest = phy.longest_ampdu(mpdu, fastest, most);
        let full = fill(phy, fastest, mpdu).mpdus();
        assert_eq!(longest.mpdus(), full.min(most), "{mpdu} bytes, {most} at most");
        let mut one_by_one = phy.ampdu(fastest);
        (0..longest.mpdus()).for_each(|_| _ = one_by_one.push(mpdu));
        assert_eq!(longest, one_by_one);
    }
    let fast = n(Width::Mhz40, GuardInterval::Short, 2);
    let full = fill(fast, fast.rates()[7], 1538);
    assert_eq!((full.mpdus(), full.bytes()), (42, 64_846));
    assert_eq!(fill(fast, fast.rates()[7], 100).mpdus(), 64);
    assert!(fast.air_time(full.bytes(), fast.rates()[7]).as_micros() < 5_484);
    let ac = Phy { kind: PhyKind::Ac, width: Width::Mhz80, ..fast };
    assert_eq!(fill(ac, ac.rates()[9], 1538).mpdus(), 64);
    assert_eq!(ac.psdu_bytes(1538, ac.rates()[0]), 1544);
    assert_eq!(ac.psdu_bytes(14, ac.legacy_rates()[0]), 14);
    assert_eq!(phy.psdu_bytes(1538, fastest), 1538);
}

#[test]
fn a_frame_among_many_has_its_share_of_what_they_cost_together() {
    let phy = n(Width::Mhz20, GuardInterval::Long, 1);
    let spec = |aggregate| RadioSpec { aggregate, ..RadioSpec::of(phy) };
    // DIFS, and 1,538 bytes at 65 Mb/s.
    assert_eq!(spec(1).share(1500).as_micros(), 34 + 228);
    // DIFS and a mean draw, 28 of them with delimiters, SIFS and the block acknowledgement.
    let together = 34.0 + 67.5 + f64::from(36 + 4 * 1331) + 16.0 + 32.0;
    let share = spec(64).share(1500).as_nanos() as f64 / 1e3;
    assert!((share - together / 28.0).abs() < 0.01, "{share}");
    let two = (34.0 + 67.5 + f64::from(36 + 4 * 96) + 16.0 + 32.0) / 2.0;
    let share = spec(2).share(1500).as_nanos() as f64 / 1e3;
    assert!((share - two).abs() < 0.01, "{share}");
    // A request of 24 bytes at 24 Mb/s, and its answer of 32.
    assert_eq!(spec(64).block_ack_request().as_micros(), 34 + 135 + 32 + 16 + 32);
}

#[test]
fn gaps_are_made_of_what_the_radio_is_set_to() {
    let phy = n(Width::Mhz20, GuardInterval::Long, 1);
    let of = |contention, gap| RadioSpec { contention, gap, ..RadioSpec::of(phy) };
    let long = Contention { slot: Duration::from_micros(50), aifsn: 4, cw_min: 7 };
    assert_eq!(of(long, Gap::Difs).mean_gap().as_micros(), 16 + 200);
    assert_eq!(of(long, Gap::Backoff).mean_gap().as_micros(), 16 + 200 + 175);
    assert_eq!(of(long, Gap::Backoff).gap_spread().as_micros(), 175);
    assert_eq!(of(long, Gap::Sifs).mean_gap().as_micros(), 16);
    let edca = Contention::of(&phy, true);
    assert_eq!(of(edca, Gap::Difs).drawn_gap(), Duration::from_nanos(43_000 + 67_500));
}

#[test]
fn the_bytes_of_a_frame_follow_each_other_on_the_air() {
    let phy = n(Width::Mhz20, GuardInterval::Short, 1);
    let rate = phy.rates()[7];
    let whole = phy.air_time(3000, rate);
    let times: Vec<Duration> = (0..=3000).map(|byte| phy.byte_time(byte, rate)).collect();
    assert_eq!(times[0], phy.plcp(rate));
    assert!(times.is_sorted() && times[3000] <= whole);
    assert!(whole - times[3000] < Duration::from_micros(8));
}

#[test]
fn a_wire_takes_the_time_of_its_bytes_alone() {
    let wire = Phy { kind: PhyKind::Wire, ..Phy::default() };
    assert_eq!(micros(wire, 1250, 100), 1000);
    assert!(wire.difs().is_zero() && wire.contention_window() == (0, 0));
    assert!(wire.has_rate(Bitrate::from_bps(1)) && !wire.has_rate(Bitrate::from_bps(0)));
    assert_eq!(wire.control_rate(Bitrate::from_100kbps(100)).mbps(), 10.0);
}

#[test]
fn a_radio_decodes_its_own_format_and_the_older_ones_of_its_band() {
    let phy = |kind| Phy { kind, ..Phy::default() };
    let mixed = Phy { mixed: true, ..phy(PhyKind::G) };
    let at_2_ghz = Phy { band: Band::Ghz2, ..phy(PhyKind::N) };
    let decodes = |receiver: Phy, sender: Phy| {
        let rates = [sender.basic_rates()[0], *sender.rates().last().expect("rates")];
        rates.map(|rate| receiver.decodes(&sender, rate))
    };
    let [b, a, n, ac] = [PhyKind::B, PhyKind::A, PhyKind::N, PhyKind::Ac].map(phy);
    for own in [b, a, mixed, at_2_ghz, n, ac, phy(PhyKind::Wire)] {
        assert_eq!(decodes(own, own), [true; 2], "{own:?}");
    }
    // DSSS of 802.11g, and its OFDM.
    assert_eq!(decodes(b, mixed), [true, false]);
    assert_eq!(decodes(mixed, b), [true; 2]);
    assert_eq!([decodes(phy(PhyKind::G), b), decodes(at_2_ghz, b)], [[false; 2]; 2]);
    // The older OFDM of 802.11n and ac, and their own.
    assert_eq!([decodes(a, n), decodes(a, ac), decodes(n, ac)], [[true, false]; 3]);
    assert_eq!([decodes(n, a), decodes(ac, n)], [[true; 2]; 2]);
    // Wider channels, more streams, another clock, another band.
    let wide = Phy { width: Width::Mhz40, ..n };
    assert_eq!([decodes(n, wide), decodes(n, Phy { streams: 2, ..n })], [[true, false]; 2]);
    assert_eq!(decodes(wide, n), [true; 2]);
    // To the older ones the highest of theirs, but for 54 Mb/s where that is an MCS of 40 MHz.
    let fastest = |sender: Phy| sender.rate_for(&a, *sender.rates().last().expect("rates"));
    assert_eq!(
        [n, ac, wide].map(|sender| fastest(sender).map(|rate| sender.sent(rate).1)),
        [540, 540, 480].map(|rate| Some(Bitrate::from_100kbps(rate)))
    );
    let narrow = Phy { width: Width::Mhz5, ..a };
    assert_eq!([decodes(a, narrow), decodes(narrow, a)], [[false; 2]; 2]);
    assert_eq!([decodes(n, at_2_ghz), decodes(b, a), decodes(a, b)], [[false; 2]; 3]);
}

#[test]
fn a_radio_sends_to_a_lesser_one_as_that_would() {
    let n = n(Width::Mhz40, GuardInterval::Short, 2);
    let ac = Phy { kind: PhyKind::Ac, width: Width::Mhz80, ..n };
    let lesser = |phy: Phy| Phy { streams: 1, ..phy };
    let narrow = |phy: Phy| Phy { width: Width::Mhz20, ..phy };
    for (sender, receiver, expected) in [
        (n, lesser(n), lesser(n)),
        (n, narrow(n), narrow(n)),
        (ac, lesser(narrow(ac)), lesser(narrow(ac))),
        (ac, n, n),
        (ac, lesser(n), lesser(n)),
        (lesser(ac), narrow(n), lesser(narrow(n))),
        (n, narrow(ac), narrow(n)),
        (narrow(ac), lesser(n), lesser(narrow(n))),
    ] {
        let rates = sender.rates_for(&receiver);
        assert_eq!(rates.len(), expected.rates().len());
        for (rate, own) in rates.into_iter().zip(expected.rates()) {
            assert_eq!(sender.sent(rate), (expected, *own));
            assert_eq!((rate.bps(), sender.mcs(rate)), (own.bps(), expected.mcs(*own)));
            assert_eq!(sender.mode(rate), expected.mode(*own));
            assert_eq!(sender.control_rate(rate), expected.control_rate(*own));
            assert_eq!(sender.sensitivity_dbm(rate), expected.sensitivity_dbm(*own));
            let size = |phy: &Phy, rate| phy.longest_ampdu(1_536, rate, 64);
            assert_eq!(size(&sender, rate), size(&expected, *own));
            for bytes in [14, 100, 1_536, 30_000] {
                assert_eq!(sender.psdu_bytes(bytes, rate), expected.psdu_bytes(bytes, *own));
                assert_eq!(sender.air_time(bytes, rate), expected.air_time(bytes, *own));
                assert_eq!(sender.byte_time(bytes, rate), expected.byte_time(bytes, *own));
            }
            assert!(receiver.decodes(&sender, rate) && sender.is_newer(rate));
            assert!(!lesser(narrow(n)).decodes(&sender, rate) || expected == lesser(narrow(n)));
        }
    }
}

#[test]
fn a_rate_is_given_to_a_lesser_radio_as_that_of_its_modulation() {
    let sender = n(Width::Mhz20, GuardInterval::Long, 2);
    let receiver = Phy { streams: 1, ..sender };
    for (own, expected) in [(1300, 650), (780, 390), (520, 260), (130, 65)] {
        let rate = sender.rate_for(&receiver, Bitrate::from_100kbps(own)).expect("a rate");
        assert_eq!(rate.bps(), expected * 100_000);
        assert_eq!(sender.sent(rate), (receiver, Bitrate::from_100kbps(expected)));
    }
    // 13 Mb/s are MCS 8 of its own, and MCS 1 of a lesser one.
    assert_eq!(sender.mcs(sender.rates()[0]), Some(8));
    assert_eq!(sender.mcs(sender.rates_for(&receiver)[1]), Some(1));
}
