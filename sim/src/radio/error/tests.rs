//! Compares curves with those of ns-3 (`bench/ns3/errors.cc` made the table), and tables with
//! curves.

use farhop_proto::base::{GuardInterval, PhyKind, Preamble, Width};

use super::*;

const NS3: &str = include_str!("ns3.csv");

fn phy(kind: PhyKind) -> Phy {
    Phy { kind, ..Phy::default() }
}

/// The modes of all curves.
fn modes() -> Vec<(Phy, Bitrate)> {
    let ac = Phy { width: Width::Mhz80, ..phy(PhyKind::Ac) };
    let all = |phy: Phy| phy.rates().iter().map(move |rate| (phy, *rate));
    all(phy(PhyKind::B)).chain(all(phy(PhyKind::A))).chain(all(ac)).collect()
}

fn named(name: &str) -> (Phy, Bitrate) {
    let mbps = |text: &str| Bitrate::from_mbps(text.parse().expect("a rate"));
    if let Some(mcs) = name.strip_prefix("ac") {
        let ac = Phy { width: Width::Mhz80, ..phy(PhyKind::Ac) };
        return (ac, ac.rate_of_mcs(mcs.parse().expect("an MCS")).expect("its rate"));
    }
    match name.split_at(1) {
        ("a", rate) => (phy(PhyKind::A), mbps(rate)),
        (_, rate) => (phy(PhyKind::B), mbps(rate)),
    }
}

fn success(curve: &ErrorCurve, db: f64, bytes: f64) -> f64 {
    let ratio = libm::pow(10.0, db / 10.0);
    libm::exp(8.0 * bytes * curve.ln_success_per_bit(ratio))
}

#[test]
fn frames_succeed_as_in_another_simulator() {
    let mut rows = 0;
    for line in NS3.lines().skip(2) {
        let fields: Vec<&str> = line.split(',').collect();
        let (phy, rate) = named(fields[0]);
        let [db, bytes, theirs] = [1, 2, 3].map(|at| fields[at].parse::<f64>().expect("a number"));
        let ours = success(for_mode(phy, rate, CurveConfig::Stock), db, bytes);
        assert!((ours - theirs).abs() < 0.01, "{line}: ours {ours:.5}");
        rows += 1;
    }
    assert!(rows > 300, "{rows} rows");
}

#[test]
fn cck_is_that_of_the_reference_points() {
    let curve = for_mode(phy(PhyKind::B), Bitrate::from_100kbps(110), CurveConfig::Stock);
    let known = [(5.0, 0.0075), (6.0, 0.403), (7.0, 0.897), (8.0, 0.993), (9.0, 0.9997)];
    for (db, expected) in known {
        let ours = success(curve, db, 1064.0);
        assert!((ours - expected).abs() < 0.01, "{db} dB: {ours}");
    }
}

#[test]
fn tables_are_close_to_their_curves_between_the_points() {
    for (phy, rate) in modes() {
        for kind in [CurveConfig::Stock, CurveConfig::Logistic] {
            let curve = for_mode(phy, rate, kind);
            for step in -600..1500 {
                let ratio = libm::pow(10.0, f64::from(step) / 313.0);
                let exact = match kind {
                    CurveConfig::Stock => stock::ln_success(phy.mode(rate), ratio),
                    CurveConfig::Logistic => logistic::ln_success(phy.mode(rate), ratio),
                };
                let of_frame = |ln: f64| libm::exp(12_000.0 * ln);
                let off = of_frame(curve.ln_success_per_bit(ratio)) - of_frame(exact);
                assert!(off.abs() < 0.005, "{rate} at {ratio}: off by {off}");
            }
        }
    }
}

#[test]
fn a_better_ratio_is_never_worse_and_the_ends_hold() {
    for (phy, rate) in modes() {
        let curve = for_mode(phy, rate, CurveConfig::Stock);
        let ratios: Vec<f64> =
            (-4000..6000).map(|step| libm::pow(10.0, f64::from(step) / 1000.0)).collect();
        let lns: Vec<f64> = ratios.iter().map(|ratio| curve.ln_success_per_bit(*ratio)).collect();
        assert!(lns.is_sorted(), "{rate}");
        assert!(lns.iter().all(|ln| (-0.7..=0.0).contains(ln)), "{rate}");
        assert_eq!(curve.ln_success_per_bit(0.0), curve.pair(0)[0]);
        assert!(curve.ln_success_per_bit(f64::INFINITY) > -1e-12, "{rate}");
    }
}

#[test]
fn a_tenth_of_frames_is_lost_at_the_sensitivity() {
    let sheet = [(10, 1.0), (20, 4.0), (55, 6.0), (110, 10.0)];
    for (rate, db) in sheet {
        let rate = Bitrate::from_100kbps(rate);
        let curve = for_mode(phy(PhyKind::B), rate, CurveConfig::Logistic);
        assert!((success(curve, db, 1024.0) - 0.9).abs() < 0.005);
        assert!(success(curve, db - 4.0, 1024.0) < 0.03);
        assert!(success(curve, db + 3.0, 1024.0) > 0.99);
    }
}

#[test]
fn headers_are_sent_in_the_slowest_mode_of_their_kind() {
    let kind = CurveConfig::Stock;
    let same = |a: &ErrorCurve, b: &ErrorCurve| std::ptr::eq(a, b);
    let (one, two) = (Bitrate::from_100kbps(10), Bitrate::from_100kbps(20));
    let long = phy(PhyKind::B);
    let short = Phy { preamble: Preamble::Short, ..long };
    let fast = Bitrate::from_100kbps(110);
    let (curve, bits) = for_header(long, fast, kind);
    assert!(same(curve, for_mode(long, one, kind)) && bits == 48.0);
    assert!(same(for_header(short, fast, kind).0, for_mode(long, two, kind)));
    assert!(same(for_header(short, one, kind).0, for_mode(long, one, kind)));
    let mixed = Phy { mixed: true, ..phy(PhyKind::G) };
    let (curve, bits) = for_header(mixed, Bitrate::from_100kbps(540), kind);
    let six = for_mode(phy(PhyKind::A), Bitrate::from_100kbps(60), kind);
    assert!(same(curve, six) && bits == 24.0);
    let n = Phy { guard_interval: GuardInterval::Short, ..phy(PhyKind::N) };
    let (curve, bits) = for_header(n, n.rates()[7], kind);
    assert!(same(curve, six) && bits == 72.0);
}

#[test]
fn the_ratio_from_which_on_a_bit_succeeds_so_often_is_the_least_of_the_table() {
    for (phy, rate) in modes() {
        let curve = for_mode(phy, rate, CurveConfig::Stock);
        for ln in [-1e-3, -1e-9, -1e-18] {
            let ratio = curve.reaches(ln);
            let step = 1.0 + 1.0 / FINE as f64;
            assert!(curve.ln_success_per_bit(ratio) >= ln, "{rate} at {ratio}");
            assert!(curve.ln_success_per_bit(ratio / step) < ln, "{rate} below {ratio}");
        }
    }
}
