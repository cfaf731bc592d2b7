//! Radios of 802.11n and ac beside such as know less.

use farhop_sim::engine::{Report, RunOptions, run};
use farhop_testkit::scenario;

const AC: &str = "phy = \"802.11ac\"\nwidth_mhz = 80\nstreams = 2";
const N: &str = "phy = \"802.11n\"\nwidth_mhz = 20\nstreams = 1";

/// One link between an access point and a station, with a saturated flow one way.
fn pair(ap: &str, station: &str, (top, link): (&str, &str), [from, to]: [&str; 2]) -> Report {
    let text = format!(
        "name = \"pair\"\nduration_s = 2\n{top}\n[radio]\n{ap}\n[[node]]\nname = \"ap\"\n\
         [[node]]\nname = \"station\"\n[node.radio]\n{station}\n\
         [[link]]\nbetween = [\"ap\", \"station\"]\ndistance_km = 0.05\n{link}\n\
         [[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nkind = \"udp\"\nsize_bytes = 1472\n"
    );
    run(&scenario(&text), RunOptions::default()).expect("it runs")
}

const DOWN: [&str; 2] = ["ap", "station"];
const UP: [&str; 2] = ["station", "ap"];

/// That a link to a better access point is as good as one to another of the station's own kind.
fn is_as_alike(ap: &str, station: &str, place: (&str, &str), tolerance: f64) {
    for way in [DOWN, UP] {
        let [mixed, alike] = [ap, station].map(|ap| pair(ap, station, place, way).total_mbps());
        println!("{station:?}, {place:?}, {way:?}: {mixed:.1} and {alike:.1} Mb/s");
        assert!(alike > 1.0, "there is something to compare");
        assert!((mixed / alike - 1.0).abs() < tolerance, "{ap} {station}: {mixed}, {alike}");
    }
}

#[test]
fn a_better_access_point_sends_to_a_station_as_that_would_itself() {
    let n = |streams, width| format!("phy = \"802.11n\"\nstreams = {streams}\nwidth_mhz = {width}");
    let ac = "phy = \"802.11ac\"\nstreams = 1\nwidth_mhz = 20";
    for control in ["fixed", "minstrel"] {
        for (ap, station) in [
            (&*n(2, 20), &*n(1, 20)),
            (&*n(2, 40), &*n(2, 20)),
            (AC, &*n(1, 40)),
            (AC, ac),
            (ac, &*n(2, 40)),
        ] {
            let [ap, station] =
                [ap, station].map(|radio| format!("{radio}\nrate_control = \"{control}\""));
            if ap.contains("width_mhz = 20") && station.contains("width_mhz = 40") {
                // Each knows something that the other lacks.
                assert!(pair(&ap, &station, ("", ""), UP).total_mbps() > 50.0);
            } else {
                is_as_alike(&ap, &station, ("", ""), 0.03);
            }
        }
    }
}

#[test]
fn a_weak_station_is_answered_over_no_more_than_its_channel() {
    let place = ("interference.kind = \"sinr\"", "signal_dbm = -84");
    let control = "\nrate_control = \"minstrel\"";
    is_as_alike(&format!("{AC}{control}"), &format!("{N}{control}"), place, 0.03);
    let older = format!("phy = \"802.11a\"\nwidth_mhz = 20\nstreams = 1{control}");
    // A station of 802.11n or ac sends frames with a QoS header.
    is_as_alike(&format!("{AC}{control}"), &older, place, 0.05);
}

#[test]
fn a_fixed_rate_keeps_its_modulation_towards_a_lesser_station() {
    for mcs in [0, 3, 7] {
        let [ap, station] = [AC, N].map(|radio| format!("{radio}\nmcs = {mcs}"));
        is_as_alike(&ap, &station, ("", ""), 0.03);
    }
}

#[test]
fn losses_by_rate_are_those_of_the_rate_on_the_air() {
    let link = "loss = { kind = \"by-rate\", rates = [[52, 0], [58.5, 0], [65, 0.1], [780, 0.9]] }";
    is_as_alike(AC, N, ("", link), 0.03);
}

#[test]
fn routes_are_judged_by_the_rates_that_they_would_have() {
    let by_rate = |rates: &str| format!("loss = {{ kind = \"by-rate\", rates = [{rates}] }}");
    let text = format!(
        "name = \"routes\"\nduration_s = 2\n[radio]\n{AC}\n[[node]]\nname = \"ap\"\n\
         [[node]]\nname = \"station\"\n[node.radio]\n{N}\n[[node]]\nname = \"relay\"\n\
         [node.radio]\n{N}\n[[link]]\nbetween = [\"ap\", \"relay\"]\n\
         [[link]]\nbetween = [\"relay\", \"station\"]\n\
         [[link]]\nbetween = [\"ap\", \"station\"]\n{}\n\
         [[flow]]\nfrom = \"ap\"\nto = \"station\"\nkind = \"udp\"\nsize_bytes = 1472\n",
        by_rate("[65, 0], [200, 0], [780, 1]")
    );
    let mbps = run(&scenario(&text), RunOptions::default()).expect("it runs").total_mbps();
    assert!(mbps > 55.0, "{mbps} Mb/s, which is that of two hops");
}

#[test]
fn what_is_on_another_channel_does_not_change_what_a_radio_senses() {
    let text = |more: &str| {
        let mut text = "name = \"apart\"\nduration_s = 1\ninterference.kind = \"sinr\"\n\
                        [radio]\nphy = \"802.11a\"\nsense_dbm = -82\n"
            .to_owned();
        for name in ["a", "b", "c", "d", "p", "q"] {
            text += &format!("[[node]]\nname = \"{name}\"\n");
        }
        for [from, to, signal] in [
            ["a", "b", "-50"],
            ["c", "d", "-50"],
            ["a", "c", "-93"],
            ["a", "d", "-93"],
            ["b", "c", "-93"],
            ["b", "d", "-93"],
        ] {
            text += &format!("[[link]]\nbetween = [\"{from}\", \"{to}\"]\nsignal_dbm = {signal}\n");
        }
        for [from, to] in [["a", "b"], ["c", "d"]] {
            text += &format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\nkind = \"udp\"\n");
        }
        text + &format!(
            "[[link]]\nbetween = [\"p\", \"q\"]\nsignal_dbm = -50\nradio = {{ {more} }}\n"
        )
    };
    let of = |more| run(&scenario(&text(more)), RunOptions::default()).expect("it runs");
    let alike = of("channel = 149").total_mbps();
    for more in [
        "phy = \"802.11b\", channel = 11, rate_mbps = 11",
        "channel = 149, width_mhz = 5, rate_mbps = 1.5",
    ] {
        assert_eq!(of(more).total_mbps(), alike, "{more}");
    }
}
