//! Stars under `wild`: equal parts of the air for stations and flows, turns that are filled,
//! stations with rates of their own.

use farhop_sim::engine::{FlowReport, Report};

use super::report;

/// A mast and so many stations, the first `km` away and each other one as much farther, with the
/// flows `of` each of them.
fn star(settings: &str, stations: usize, km: usize, of: impl Fn(usize) -> String) -> Report {
    let mut text = format!(
        "name = \"star\"\nduration_s = 12\nmeasure_from_s = 2\n{settings}\n\
         [[node]]\nname = \"mast\"\n"
    );
    for at in 0..stations {
        text += &format!("[[node]]\nname = \"n{at}\"\n");
    }
    for at in 0..stations {
        text += &format!(
            "[[link]]\nbetween = [\"mast\", \"n{at}\"]\ndistance_km = {}\n{}",
            km * (at + 1),
            of(at)
        );
    }
    report(&text)
}

/// What came in each flow, in Mb/s.
fn rates(report: &Report) -> Vec<f64> {
    report.flows.iter().map(|flow| flow.goodput_mbps).collect()
}

fn flow(from: &str, to: &str, what: &str) -> String {
    format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\n{what}\n")
}

fn down(at: usize, what: &str) -> String {
    flow("mast", &format!("n{at}"), what)
}

fn up(at: usize, what: &str) -> String {
    flow(&format!("n{at}"), "mast", what)
}

const CARD: &str = "radio = { preamble = \"short\", ack_rate_mbps = 2, gap = \"difs\" }\n\
                    stack.link = { kind = \"wild\" }";
const UDP: &str = "kind = \"udp\"";

#[test]
fn stations_have_as_much_air_however_long_their_packets_are() {
    let size = |at| if at == 0 { "kind = \"udp\"\nsize_bytes = 200" } else { UDP };
    let mbps = rates(&star(CARD, 4, 5, |at| down(at, size(at))));
    println!("{mbps:.2?} Mb/s");
    assert!(mbps[0] > 0.75, "frame by frame it has 0.35: {mbps:?}");
    assert!(mbps[1..].iter().all(|mbps| (1.7..2.2).contains(mbps)), "{mbps:?}");
}

#[test]
fn a_call_does_not_wait_for_downloads_of_its_class() {
    let call = "kind = \"voip\"\nvoip = { codec = \"g711\", playout_ms = 120 }";
    let of = |at| {
        let call = if at < 3 { down(at, call) + &up(at, call) } else { String::new() };
        format!("loss = 0.02\n{}{call}", down(at, "kind = \"tcp\""))
    };
    let report = star(CARD, 10, 3, of);
    let calls = report.flows.iter().filter_map(|flow| flow.delay_ms.as_ref());
    let slowest = calls.map(|delay| delay.p95).fold(0.0, f64::max);
    let tcp: f64 = rates(&report).iter().sum();
    println!("{slowest:.0} ms, {tcp:.2} Mb/s");
    // 3 s where flows and stations take turns frame by frame.
    assert!(slowest < 120.0 && tcp > 5.5, "{slowest} ms, {tcp} Mb/s");
}

#[test]
fn turns_of_many_stations_hold_whole_packets_and_are_filled() {
    let settings = CARD.replace("\"wild\"", "\"wild\", guard_ms = 0.5");
    for stations in [5, 8, 12] {
        let both = |at| down(at, UDP) + &up(at, UDP);
        let mbps = rates(&star(&settings, stations, 3, both));
        let [to, from] = [0, 1].map(|way| mbps.iter().skip(way).step_by(2).sum::<f64>());
        println!("{stations}: {to:.2} Mb/s down, {from:.2} up");
        // Eight with parts of the slot that are all equal send a packet each: 2.45 Mb/s.
        assert!(to > 3.9 && from > 3.8, "{stations}: {to} and {from} Mb/s");
    }
}

#[test]
fn all_stations_are_heard_though_the_nearest_is_very_near() {
    let settings = CARD.replace("\"wild\"", "\"wild\", frame_bytes = 2200");
    for seed in [1, 2, 4] {
        let settings = format!("seed = {seed}\n{settings}");
        let both = |at| up(at, UDP) + &down(at, UDP);
        let mbps = rates(&star(&settings, 8, 2, both));
        println!("{mbps:.2?} Mb/s");
        // One met the end of the turn before its own in all of its own, by 13 us.
        assert!(mbps.iter().step_by(2).all(|up| *up > 0.4), "seed {seed}: {mbps:?}");
    }
}

#[test]
fn a_station_that_is_sent_to_more_slowly_does_not_slow_down_the_others() {
    let slow = |at, key: &str| if at == 3 { format!("{key}\n") } else { String::new() };
    let air = |settings: &str, key: &str, least: [f64; 2]| {
        let both = |at| slow(at, key) + &down(at, UDP) + &up(at, UDP);
        let settings = format!("radio = {{ {settings} }}\nstack.link = {{ kind = \"wild\" }}");
        let mbps = rates(&star(&settings, 4, 5, both));
        println!("{settings}: {mbps:.2?} Mb/s");
        let (others, own) = mbps.split_at(6);
        assert!(others.iter().all(|mbps| *mbps > least[0]), "{mbps:?}");
        assert!(own.iter().all(|mbps| *mbps > least[1] && *mbps < least[0]), "{mbps:?}");
    };
    // With that rate for all, all have 0.6, 0.14 and 0.6 Mb/s.
    air("phy = \"802.11a\"", "rate_mbps = 6", [2.8, 0.45]);
    air("phy = \"802.11b\"", "rate_mbps = 2", [0.5, 0.12]);
    air("phy = \"802.11n\"", "rate_mbps = 6.5", [4.5, 0.5]);
}

#[test]
fn a_mast_of_two_streams_has_stations_of_one_and_of_an_older_radio() {
    for radio in ["streams = 1", "phy = \"802.11a\"\nstreams = 1"] {
        let mut text = format!(
            "name = \"star\"\nduration_s = 8\nmeasure_from_s = 2\n\
             radio = {{ phy = \"802.11n\", streams = 2 }}\nstack.link = {{ kind = \"wild\" }}\n\
             [[node]]\nname = \"mast\"\n[[node]]\nname = \"n0\"\n[[node]]\nname = \"n1\"\n\
             radio = {{ {} }}\n",
            radio.replace('\n', ", ")
        );
        for at in 0..2 {
            text += &format!("[[link]]\nbetween = [\"mast\", \"n{at}\"]\ndistance_km = 10\n");
            text += &(down(at, UDP) + &up(at, UDP));
        }
        let mbps = rates(&report(&text));
        println!("{radio}: {mbps:.2?} Mb/s");
        assert!(mbps[..2].iter().all(|mbps| *mbps > 18.0), "{mbps:?}");
        assert!(mbps[2..].iter().all(|mbps| *mbps > 6.0), "{mbps:?}");
    }
}

#[test]
fn stations_that_come_while_others_are_busy_are_let_in_together() {
    // One after the other they took 6 and 13 s.
    for (slot_ms, most_s) in [(20, 3.5), (60, 6.0)] {
        let settings = format!(
            "radio = {{ preamble = \"short\", ack_rate_mbps = 2, gap = \"difs\" }}\n\
             stack.link = {{ kind = \"wild\", slot_ms = {slot_ms} }}"
        );
        let report = star(&settings, 24, 1, |at| down(at, UDP));
        let first = |flow: &FlowReport| {
            let bin = flow.over_time_mbps.iter().position(|mbps| *mbps > 0.0);
            bin.map_or(f64::INFINITY, |bin| bin as f64 * flow.bin_s)
        };
        let last_s = report.flows.iter().map(first).fold(0.0, f64::max);
        println!("{slot_ms} ms: {last_s:.1} s");
        assert!(last_s < most_s, "{slot_ms} ms: {last_s} s until all are here");
    }
}

#[test]
fn the_longest_slot_of_a_star_may_be_no_whole_number_of_units() {
    let card = CARD.replace("\"wild\"", "\"wild\", slot_ms = 12.5, slot_most_ms = 12.5");
    let found = rates(&star(&card, 3, 5, |at| up(at, UDP)));
    assert!(found.iter().all(|rate| *rate > 0.5), "{found:.2?}");
}

#[test]
fn a_station_that_is_off_does_not_stop_snoop_for_the_others() {
    let off = "[[fault]]\nnode = \"n1\"\nfrom_s = 0\nto_s = 30\n";
    let found = |link: &str, flow: &str| {
        let text = format!("[stack]\nsnoop = {{}}\nlink = {{ kind = \"{link}\" }}\n{off}");
        rates(&star(&text, 2, 1, |at| down(at, flow)))
    };
    let [harq, wild] = ["harq", "wild"].map(|link| found(link, "kind = \"tcp\""));
    assert!(harq[0] > 1.0 && harq[1] == 0.0, "{harq:.2?}");
    assert!(wild[0] > 1.0 && wild[1] == 0.0, "{wild:.2?}");
    // Sources that do not wait fill what they may.
    let paced = found("wild", "kind = \"udp\"\nrate_mbps = 1.5");
    assert!(paced[0] > 1.4 && paced[1] == 0.0, "{paced:.2?}");
}
