//! One hop: TCP with three MAC settings, file sizes, and losses after the MAC acknowledgement.

use farhop_proto::base::PhyKind;
use farhop_proto::stack::{DriverConfig, LossConfig};

use super::network::{self, Carrier, FILE, Mac, Net, mean_kbps, names};
use super::testbed::links;
use crate::curve::{curve, in_percent, lowest, ours};
use crate::{At, Case, Effort, Estimate, Figure, Findings, Places, Results, Series, Target};

pub(super) const TARGETS: &[Target] = &[
    Target { id: "H-F7a", title: "one hop: blocks and TCP", cases: f7a_cases, judge: f7a },
    Target { id: "H-N1", title: "one hop of 802.11g", cases: n1_cases, judge: n1 },
    Target { id: "H-F7c", title: "one hop: sizes of files", cases: f7c_cases, judge: f7c },
    Target {
        id: "H-F8",
        title: "one hop: losses behind the MAC acknowledgement",
        cases: f8_cases,
        judge: f8,
    },
];

const MACS: [(Mac, &str); 3] =
    [(Mac::Default, "default"), (Mac::Txop, "txop"), (Mac::Persistent, "persistent")];

/// Five links of the testbed, from the worst to the best.
fn sample() -> Vec<[u16; 2]> {
    let all = links();
    (0..5).map(|part| all[part * (all.len() - 1) / 4].0).collect()
}

fn f7a_cases(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for pair in sample() {
        let [a, b] = names(pair);
        let net = |carrier, mac| {
            let net = Net::testbed().mac(mac).file(carrier, [&a, &b], FILE);
            net.seconds(effort, 240.0)
        };
        cases.push(net(Carrier::Hop, Mac::Persistent).case(format!("f7a/hop/{a}-{b}")));
        for (mac, name) in MACS {
            cases.push(net(Carrier::Tcp, mac).case(format!("f7a/{name}/{a}-{b}")));
        }
    }
    cases
}

/// Mean goodput over these links.
fn f7a_mean(at: At<'_>, what: &str) -> f64 {
    let pairs = sample();
    let of =
        |pair: &[u16; 2]| mean_kbps(at.report(&format!("f7a/{what}/{}", names(*pair).join("-"))));
    pairs.iter().map(of).sum::<f64>() / pairs.len() as f64
}

fn f7a(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let ratio =
        |over: &str, under: &str| results.ratio(|at| f7a_mean(at, over), |at| f7a_mean(at, under));
    found.add("gain", ratio("hop", "persistent"));
    let step = |from: &str, to: &str| ratio(to, from);
    found.add("txop", step("default", "txop"));
    found.add("persistent", step("txop", "persistent"));
    let keys = ["default", "txop", "persistent", "hop"];
    let names = ["TCP", "TCP, TXOP", "TCP, TXOP, 100 retries", "Hop"];
    let means = keys.map(|key| results.over_seeds(|at| f7a_mean(at, key)));
    let title = "one hop, mean of five links";
    found.figures.push(network::goodputs("H-F7a", title, &names, means));
    let gains = keys[..3].iter().map(|key| ratio("hop", key));
    // The paper prints only the gain over the best setting of TCP.
    found.figures.push(network::gains("H-F7a", title, &names[..3], gains, [(2.0, 1.4)]));
    found
}

const G_LOSS: [(&str, f64); 2] = [("good", 0.0), ("lossy", 0.35)];

fn n1_cases(effort: Effort) -> Vec<Case> {
    let case = |carrier: Carrier, (name, loss): (&str, f64)| {
        let net = Net::pair(loss).file(carrier, ["n1", "n2"], FILE).seconds(effort, 120.0);
        let net = net.with(|scenario| {
            scenario.radio.phy = PhyKind::G;
            (scenario.radio.rate_mbps, scenario.radio.ack_rate_mbps) = (Some(54.0), Some(24.0));
        });
        net.case(format!("n1/{}/{name}", carrier.name()))
    };
    G_LOSS.iter().flat_map(|link| [Carrier::Hop, Carrier::Tcp].map(|c| case(c, *link))).collect()
}

fn n1(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    for (name, _) in G_LOSS {
        let of = |carrier: &str| {
            let key = format!("n1/{carrier}/{name}");
            move |at: At<'_>| at.total(&key)
        };
        found.add(name, results.ratio(of("hop"), of("tcp")));
    }
    found
}

/// File sizes, in bytes.
const SIZES: [u64; 7] = [1_000, 4_000, 8_000, 30_000, 100_000, 1_000_000, FILE];

fn f7c_cases(_: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for pair in sample() {
        let [a, b] = names(pair);
        for (carrier, bytes) in
            [Carrier::Hop, Carrier::Tcp].iter().flat_map(|c| SIZES.map(|size| (*c, size)))
        {
            let net = Net::testbed().file(carrier, [&a, &b], bytes).for_s(240.0);
            cases.push(net.case(format!("f7c/{}/{bytes}/{a}-{b}", carrier.name())));
        }
    }
    cases
}

/// Goodput of Hop over that of TCP for files of this size, each summed over all links.
fn f7c_gain(results: &Results, bytes: u64) -> Estimate {
    let sum = |at: At<'_>, carrier: Carrier| {
        let key =
            |pair: [u16; 2]| format!("f7c/{}/{bytes}/{}", carrier.name(), names(pair).join("-"));
        sample().into_iter().map(|pair| mean_kbps(at.report(&key(pair)))).sum::<f64>()
    };
    results.ratio(|at| sum(at, Carrier::Hop), |at| sum(at, Carrier::Tcp))
}

fn f7c(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let sizes = SIZES.map(|bytes| bytes as f64);
    let gains = curve(&sizes, |bytes| f7c_gain(results, bytes as u64));
    found.add("small", lowest(&gains[..3]));
    found.add("megabyte", gains[5].1);
    found.add("falls", Estimate::exact(gains[6].1.mean / lowest(&gains[..3]).mean));
    let printed = Series::published("Hop over TCP", [(1e5, 5.0), (1e6, 1.5), (1e7, 1.5)]);
    let series = vec![ours("Hop over TCP", &gains), printed];
    let title = "one hop, gain by the size of the file";
    let figure = Figure::new("H-F7c", title, "size of the file", "gain", series);
    found.figures.push(figure.over(Places::Sizes));
    found
}

/// Length of a block, in bytes.
const BLOCK: u64 = 1 << 20;

/// Share of the frames that the driver drops after the card has acknowledged them.
const DROPS: [f64; 7] = [0.0, 0.05, 0.1, 0.2, 0.4, 0.5, 0.8];

fn f8_cases(effort: Effort) -> Vec<Case> {
    let case = |carrier: Carrier, drops: f64| {
        let net = Net::pair(0.0).stream(carrier, ["n1", "n2"]).seconds(effort, 300.0);
        let net = net.with(|scenario| {
            let driver = DriverConfig { q: drops, ack: true, loss: Box::default() };
            scenario.link[0].loss = Some(LossConfig::Driver(driver));
        });
        net.case(format!("f8/{}/{drops}", carrier.name()))
    };
    DROPS.iter().flat_map(|drops| [Carrier::Hop, Carrier::Tcp].map(|c| case(c, *drops))).collect()
}

fn f8(effort: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    let of = |at: At<'_>, carrier: Carrier, drops: f64| {
        let report = at.report(&format!("f8/{}/{drops}", carrier.name()));
        // If nearly everything is dropped, a block takes longer than a quick run, so that no
        // complete block means nothing.
        let is_whole = report.flows[0].delivered_bytes >= BLOCK;
        let is_too_short = effort.quick && carrier == Carrier::Hop && drops > 0.5 && !is_whole;
        if is_too_short { f64::NAN } else { mean_kbps(report) }
    };
    let share =
        |carrier, drops: f64| results.ratio(|at| of(at, carrier, drops), |at| of(at, carrier, 0.0));
    found.add("tcp-20", share(Carrier::Tcp, 0.2));
    found.add("hop-50", share(Carrier::Hop, 0.5));
    found.add("hop-80", share(Carrier::Hop, 0.8));
    let least = |at: At<'_>| {
        let gain = |drops: &f64| of(at, Carrier::Hop, *drops) - of(at, Carrier::Tcp, *drops);
        DROPS.iter().map(gain).fold(f64::INFINITY, f64::min)
    };
    found.add("above", results.over_seeds(least));
    let lines = [Carrier::Hop, Carrier::Tcp].map(|carrier| {
        let points = curve(&DROPS, |drops| results.over_seeds(|at| of(at, carrier, drops)));
        ours(carrier.title(), &in_percent(&points))
    });
    let title = "one hop, frames dropped behind the MAC acknowledgement";
    let (x, y) = ("dropped by the driver, %", "goodput, kb/s");
    found.figures.push(Figure::new("H-F8", title, x, y, lines.to_vec()));
    found
}
