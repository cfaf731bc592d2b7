//! Whole scenarios over the newer MACs: what a link of datagrams carries, and what the keys do.

use farhop_sim::engine::{Report, RunOptions, run};

/// Runs a scenario that has no problems.
fn simulate(text: &str) -> Report {
    let scenario = farhop_testkit::scenario(text);
    let problems = scenario.problems();
    assert!(problems.is_empty(), "{problems:?}");
    run(&scenario, RunOptions::default()).expect("it runs")
}

/// Two nodes a metre apart and datagrams of 1472 bytes without end, with these keys of the radio.
fn saturated(radio: &str) -> Report {
    let text = format!(
        r#"
        name = "link"
        duration_s = 3
        [radio]
        {radio}
        [stack.link]
        kind = "plain"
        queue_packets = 200
        [[node]]
        name = "a"
        [[node]]
        name = "b"
        [[link]]
        between = ["a", "b"]
        distance_km = 0.001
        [[flow]]
        name = "flow"
        from = "a"
        to = "b"
        kind = "udp"
        size_bytes = 1472
        "#
    );
    simulate(&text)
}

#[test]
fn a_link_of_802_11n_or_ac_carries_what_its_air_time_allows() {
    let symbols = |bytes: u64, bits: u64| (16 + 8 * bytes + 6).div_ceil(bits);
    // Cycle and frames in it: see the radio's own tests.
    let idle = 34.0 + 67.5;
    let n = idle + (36 + 4 * symbols(27 * 1544 + 1542, 260) + 16 + 32) as f64;
    let ac = idle + (40 + 4 * symbols(64 * 1544, 1560) + 16 + 32) as f64;
    let single = idle + (228 + 16 + 28) as f64;
    for (radio, frames, cycle) in [
        ("phy = \"802.11n\"", 28.0, n),
        ("phy = \"802.11ac\"\nwidth_mhz = 80\nmcs = 9", 64.0, ac),
        ("phy = \"802.11n\"\naggregate = 1", 1.0, single),
    ] {
        let ours = saturated(radio).total_mbps();
        let expected = frames * 1472.0 * 8.0 / cycle;
        println!("{radio}: {ours:.2} Mb/s ({expected:.2})");
        assert!((ours / expected - 1.0).abs() < 0.02, "{radio}: {ours:.2}, not {expected:.2} Mb/s");
    }
}

#[test]
fn bursts_save_backoffs_and_announcements_cost_air() {
    let base = "phy = \"802.11b\"\nedca = true";
    let burst = format!("{base}\n[radio.access.best_effort]\ntxop_us = 8160");
    let announced = format!("{base}\nrts_threshold = 500");
    let [plain, burst, announced] =
        [base, &burst, &announced].map(|radio| saturated(radio).total_mbps());
    // Five frames in a TXOP with one AIFS and one backoff; 1216 us of data with QoS control and
    // the short preamble, SIFS and an acknowledgement of 152 us.
    let exchange = 1216.0 + 10.0 + 152.0;
    let expected = 5.0 * 1472.0 * 8.0 / (70.0 + 310.0 + 5.0 * exchange + 4.0 * 10.0);
    assert!((burst / expected - 1.0).abs() < 0.02, "{burst:.2}, not {expected:.2} Mb/s");
    let expected = 1472.0 * 8.0 / (70.0 + 310.0 + exchange);
    assert!((plain / expected - 1.0).abs() < 0.02, "{plain:.2}, not {expected:.2} Mb/s");
    let expected = 1472.0 * 8.0 / (70.0 + 310.0 + exchange + 176.0 + 152.0 + 20.0);
    assert!((announced / expected - 1.0).abs() < 0.02, "{announced:.2}, not {expected:.2} Mb/s");
}

/// Goodput through a relay and of its own flow, which both offer a packet in this time.
fn relayed_and_own(interval_us: f64) -> [f64; 2] {
    let flow = |name: &str, from: &str| {
        let mbps = 8_000.0 / interval_us;
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"n3\"\nkind = \"udp\"\n\
             size_bytes = 1000\nrate_mbps = {mbps}\nmeasure_from_s = 5\n"
        )
    };
    let [relayed, own] = [flow("relayed", "n1"), flow("own", "n2")];
    let text = format!(
        r#"
        name = "relay"
        duration_s = 25
        [radio]
        phy = "802.11b"
        preamble = "long"
        ack_rate_mbps = 2
        ack_timeout_us = 30
        tx_power_dbm = 20
        receive_dbm = -60.001
        sense_dbm = -73.698
        floor_dbm = -73.698
        cca_us = 4
        first_access = "when-idle"
        [propagation]
        kind = "log-distance"
        exponent = 4
        reference_db = 0
        [interference]
        kind = "sinr"
        noise_dbm = -93.6
        preamble_db = 4
        [stack.link]
        kind = "plain"
        [[layout]]
        kind = "chain"
        name = "n"
        count = 3
        spacing_m = 90
        {relayed}{own}"#
    );
    let report = simulate(&text);
    [report.flows[0].goodput_mbps, report.flows[1].goodput_mbps]
}

#[test]
fn a_relay_has_no_better_place_in_its_queue_for_its_own_packets() {
    // ns-3 3.37 with the same settings.
    for (interval_us, expected) in [(1_700.0, [0.694, 2.276]), (3_000.0, [1.422, 1.556])] {
        let ours = relayed_and_own(interval_us);
        println!("{interval_us}: {ours:.3?} {expected:?}");
        for (ours, expected) in ours.into_iter().zip(expected) {
            assert!((ours / expected - 1.0).abs() < 0.05, "{ours:.3}, not {expected:.3} Mb/s");
        }
    }
}

#[test]
fn what_no_card_takes_is_refused() {
    let refused = |radio: &str| -> Vec<String> {
        let text =
            format!("name = \"x\"\nduration_s = 1\n[radio]\n{radio}\n[[node]]\nname = \"a\"");
        let scenario = farhop_testkit::scenario(&text);
        scenario.problems().into_iter().map(|problem| problem.path).collect()
    };
    for (radio, path) in [
        ("aggregate = 65", "radio.aggregate"),
        ("protection = \"cts-to-self\"", "radio.protection"),
        ("[radio.access.voice]\naifsn = 3", "radio.access"),
        ("edca = true\n[radio.access.voice]\ncw_min = 8", "radio.access.voice.cw_min"),
        ("edca = true\n[radio.access.video]\ntxop_us = 9000", "radio.access.video.txop_us"),
        // Against the other bound of the standard.
        ("edca = true\n[radio.access.voice]\ncw_min = 31", "radio.access.voice.cw_min"),
        ("edca = true\n[radio.access.video]\ncw_max = 3", "radio.access.video.cw_max"),
    ] {
        let found = refused(radio);
        assert!(found.iter().any(|found| found == path), "{radio}: {found:?}");
    }
}

#[test]
fn a_frame_has_the_noise_of_the_channel_that_it_takes() {
    // In 5 MHz there is a quarter of the noise of 20, and 6 dB less signal do.
    let received = |width: u32, signal: f64| {
        let text = format!(
            "name = \"x\"\nduration_s = 1\nradio = {{ phy = \"802.11a\", receive_dbm = -105 }}\n\
             interference = {{ kind = \"sinr\", curve = \"logistic\" }}\n\
             node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
             [[link]]\nbetween = [\"a\", \"b\"]\ndistance_km = 1\nsignal_dbm = {signal}\n\
             radio = {{ width_mhz = {width}, rate_mbps = {} }}\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\nkind = \"udp\"\nrate_mbps = 0.5\n",
            12.0 * f64::from(width) / 20.0
        );
        1.0 - simulate(&text).flows[0].loss.expect("it was sent")
    };
    // 12 Mb/s of 20 MHz lose a tenth of 1,024 bytes at -87 dBm.
    for (width, shift) in [(20, 0.0), (10, -3.0), (5, -6.0)] {
        let [clear, weak] = [-83.0, -92.0].map(|signal| received(width, signal + shift));
        println!("{width} MHz: {clear} and {weak}");
        assert!(clear > 0.99 && weak < 0.01, "{width} MHz: {clear} and {weak}");
    }
}

#[test]
fn blocks_cross_every_kind_of_link_on_a_radio_with_access_categories() {
    for kind in ["plain", "blindfec", "arq", "harq", "two-p", "wild"] {
        let text = format!(
            "name = \"links\"\nduration_s = 5\n\
             radio = {{ edca = true }}\nstack.link = {{ kind = \"{kind}\" }}\n\
             node = [{{ name = \"a\" }}, {{ name = \"b\" }}]\n\
             link = [{{ between = [\"a\", \"b\"] }}]\n\
             flow = [{{ from = \"a\", to = \"b\", kind = \"hop\", bytes = 100000 }}]"
        );
        let scenario = farhop_testkit::scenario(&text);
        assert_eq!(scenario.problems(), [], "{kind}");
        let report = run(&scenario, RunOptions::default()).expect("it runs");
        assert_eq!(report.flows[0].delivered_bytes, 100_000, "{kind}");
    }
}

#[test]
fn each_frame_of_a_txop_is_announced_to_stations_of_802_11b() {
    let burst = "phy = \"802.11g\"\nmixed = true\nrate_mbps = 54\nedca = true\n\
                 access = { best_effort = { txop_us = 8160 } }";
    let per_frame = |radio: &str| 1472.0 * 8.0 / saturated(radio).total_mbps();
    let bare = per_frame(burst);
    let protected = per_frame(&format!("{burst}\nprotection = \"cts-to-self\""));
    println!("{bare:.0} and {protected:.0} us a frame");
    // A CTS at 11 Mb/s behind a short preamble, and SIFS, are 116 us.
    assert!(protected - bare > 115.0, "{bare:.0} and {protected:.0} us");
    // RTS, CTS and two SIFS are 237 us. Stations of 802.11b cannot read the Duration of an answer.
    let asked = per_frame(&format!("{burst}\nprotection = \"cts-to-self\"\nrts_threshold = 500"));
    println!("{asked:.0} us with RTS");
    assert!(asked - bare > 230.0, "{bare:.0} and {asked:.0} us");
}

/// Two stations that are decoded but whose signals lie below `sense_dbm`, and an access point.
#[test]
fn whoever_can_decode_a_frame_waits_for_its_end_however_weak_it_is() {
    let text = "name = \"weak\"\nduration_s = 5\n\
                [radio]\nphy = \"802.11a\"\nrate_mbps = 6\ntx_power_dbm = 20\nsense_dbm = -82\n\
                [propagation]\nkind = \"log-distance\"\nexponent = 3.0\nreference_db = 46.0\n\
                [interference]\nkind = \"sinr\"\n\
                [[node]]\nname = \"ap\"\nposition_m = [0, 0]\n\
                [[node]]\nname = \"x\"\nposition_m = [40, 0]\n\
                [[node]]\nname = \"y\"\nposition_m = [-40, 0]\n\
                [[flow]]\nfrom = \"x\"\nto = \"ap\"\nkind = \"udp\"\nsize_bytes = 1472\n\
                [[flow]]\nfrom = \"y\"\nto = \"ap\"\nkind = \"udp\"\nsize_bytes = 1472\n";
    let scenario = farhop_testkit::scenario(text);
    let report = run(&scenario, RunOptions::default()).expect("it runs");
    let rates: Vec<f64> = report.flows.iter().map(|flow| flow.goodput_mbps).collect();
    println!("{rates:.2?} Mb/s");
    // One of them had nothing when a NAV was set while its backoff ran.
    assert!(rates.iter().all(|rate| (2.2..2.8).contains(rate)), "{rates:?}");
}

/// What an access point with these settings sends to one of its two stations, the `new` one with
/// the same radio or the `old` one with its own.
fn from_access_point(radio: &str, old: &str, to: &str) -> Report {
    let text = format!(
        r#"
        name = "cell"
        duration_s = 3
        [radio]
        {radio}
        [[node]]
        name = "ap"
        [[node]]
        name = "new"
        [[node]]
        name = "old"
        [node.radio]
        {old}
        [[link]]
        between = ["ap", "new"]
        distance_km = 0.05
        [[link]]
        between = ["ap", "old"]
        distance_km = 0.05
        [[link]]
        between = ["new", "old"]
        distance_km = 0.05
        [[flow]]
        from = "ap"
        to = "{to}"
        kind = "udp"
        size_bytes = 1472
        "#
    );
    simulate(&text)
}

#[test]
fn an_access_point_sends_to_each_station_at_a_rate_that_it_knows() {
    for (radio, older, low, high) in [
        ("phy = \"802.11g\"\nmixed = true", "phy = \"802.11b\"\nmixed = false", 6.0, 7.5),
        ("phy = \"802.11n\"\nband = \"2.4GHz\"", "phy = \"802.11g\"", 25.0, 31.0),
        ("phy = \"802.11ac\"\nwidth_mhz = 80", "phy = \"802.11n\"\nwidth_mhz = 20", 55.0, 65.0),
    ] {
        for control in ["fixed", "arf", "minstrel"] {
            let radio = format!("{radio}\nrate_control = \"{control}\"");
            let mbps = |to| from_access_point(&radio, older, to).total_mbps();
            let (new, old) = (mbps("new"), mbps("old"));
            println!("{radio}: {new:.1} and {old:.1} Mb/s");
            assert!((low..high).contains(&old), "{radio}: {old:.1} Mb/s to the older station");
            assert!(new > 2.0 * old, "{radio}: {new:.1} Mb/s to the newer one, {old:.1}");
        }
    }
}
