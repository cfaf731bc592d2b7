//! Beyond the paper, in its own setting: TCP both ways over 65 and 80 km, compared with the slotted
//! link as calibrated for the paper's boards. [`VARIANTS`] lists the changes.
//!
//! A probe flow of small packets runs beside the TCP flows, in a class of its own, to measure their
//! effect on delay.

use farhop_proto::base::Gap;
use farhop_proto::link::wild::{ClassConfig, Recovery, WildConfig};
use farhop_proto::stack::{FlowConfig, FlowKind, RadioConfig};
use farhop_sim::engine::{Distribution, Report};

use super::network::Net;
use crate::curve::{Curve, curve, highest, in_percent, lowest, ours};
use crate::{At, Case, Effort, Estimate, Figure, Findings, Results, Table, Target};

pub(super) const TARGETS: &[Target] = &[Target {
    id: "W-BEYOND",
    title: "beyond the paper: TCP both ways at 65 and 80 km, against its own link",
    cases,
    judge,
}];

const KM: [f64; 2] = [65.0, 80.0];
const LOSS: [f64; 4] = [0.0, 0.1, 0.2, 0.3];

/// A change of the calibrated link.
struct Variant {
    key: &'static str,
    what: &'static str,
    link: fn(&mut WildConfig),
    radio: fn(&mut RadioConfig),
}

fn as_it_is(_: &mut WildConfig) {}

fn untouched(_: &mut RadioConfig) {}

/// Frames of a burst follow each other after SIFS, as a card does in a TXOP.
fn bursts(radio: &mut RadioConfig) {
    radio.gap = Gap::Sifs;
}

/// Enough for the neighbour's last frame to arrive, and for an idle time longer than DIFS.
fn small_guard(wild: &mut WildConfig) {
    wild.guard_ms = 0.1;
}

/// With shorter slots repeats come sooner, and they cost little with a small guard.
fn short_slot(wild: &mut WildConfig) {
    wild.slot_ms = 15.0;
}

fn short_slot_of_bursts(wild: &mut WildConfig) {
    wild.slot_ms = 12.0;
}

/// A slot may be half as long where the other direction has more to send.
fn demand(wild: &mut WildConfig) {
    wild.slot_least_ms = Some(wild.slot_ms / 2.0);
}

fn coding(wild: &mut WildConfig) {
    wild.recovery = Recovery::BurstFec;
}

fn riding(wild: &mut WildConfig) {
    wild.acks_ride = true;
}

/// Frames of the maximum length of 802.11, filled with parts of packets.
fn filled_frames(wild: &mut WildConfig) {
    wild.frame_bytes = Some(2_304);
}

/// All changes but that of the slot length.
fn best(wild: &mut WildConfig) {
    small_guard(wild);
    riding(wild);
    coding(wild);
    filled_frames(wild);
}

fn best_untouched(wild: &mut WildConfig) {
    best(wild);
    short_slot(wild);
}

/// Less delay, at the cost of bulk throughput.
fn best_shorter(wild: &mut WildConfig) {
    best(wild);
    wild.slot_ms = 8.5;
}

fn best_of_bursts(wild: &mut WildConfig) {
    best(wild);
    short_slot_of_bursts(wild);
}

const fn variant(
    key: &'static str,
    what: &'static str,
    link: fn(&mut WildConfig),
    radio: fn(&mut RadioConfig),
) -> Variant {
    Variant { key, what, link, radio }
}

/// The baseline, each change alone, and all of them, with the radio as calibrated and with bursts.
const VARIANTS: [Variant; 13] = [
    variant("base", "as calibrated", as_it_is, untouched),
    variant("guard", "guard of 0.1 ms", small_guard, untouched),
    variant("slot", "slots of 15 ms", short_slot, untouched),
    variant("demand", "slots that follow demand", demand, untouched),
    variant("coding", "coding in bursts", coding, untouched),
    variant("riding", "ACKs and short packets ride", riding, untouched),
    variant("filled", "filled frames", filled_frames, untouched),
    variant("long", "guard, coding, riding, filled", best, untouched),
    variant("shorter", "the same, slots of 8.5 ms", best_shorter, untouched),
    variant("best", "(i): the same, slots of 15 ms", best_untouched, untouched),
    variant("txop", "TXOP bursts alone", as_it_is, bursts),
    variant("txop-long", "TXOP, guard, coding, riding, filled", best, bursts),
    variant("txop-best", "(ii): the same, slots of 12 ms", best_of_bursts, bursts),
];

fn key(variant: &str, km: f64, loss: f64) -> String {
    format!("beyond/{variant}/{km}/{loss}")
}

/// The class of the probe, with the values of the link: it has a queue of its own, and does not
/// ride in frames of the others. Flows have the ports 5001, 5002 and so on.
fn class_of_probe() -> ClassConfig {
    ClassConfig { name: "probe".into(), port: Some(5_003), ..ClassConfig::default() }
}

/// 50 packets of 100 bytes per second, in the direction of the first flow.
fn probe() -> FlowConfig {
    FlowConfig {
        name: "probe".into(),
        from: "n1".into(),
        to: "n2".into(),
        kind: FlowKind::Udp,
        rate_mbps: Some(0.04),
        size_bytes: 100,
        ..FlowConfig::default()
    }
}

fn cases(effort: Effort) -> Vec<Case> {
    let mut cases = Vec::new();
    for variant in &VARIANTS {
        for (km, loss) in KM.iter().flat_map(|km| LOSS.map(|loss| (*km, loss))) {
            let net = Net::pair(km).loss(loss).tcp_both().wild_with(|wild| {
                (variant.link)(wild);
                wild.class.push(class_of_probe());
            });
            let net = net.with(|scenario| {
                (variant.radio)(&mut scenario.radio);
                scenario.flow.push(probe());
            });
            cases.push(net.seconds(effort, 60.0).case(key(variant.key, km, loss)));
        }
    }
    cases
}

/// Goodput of the two TCP flows, in Mb/s.
fn goodput(report: &Report) -> f64 {
    report.flows[..2].iter().map(|flow| flow.goodput_mbps).sum()
}

fn gain(results: &Results, variant: &str, km: f64, loss: f64) -> Estimate {
    let of = |seed: At<'_>, variant| goodput(seed.report(&key(variant, km, loss)));
    results.ratio(|seed| of(seed, variant), |seed| of(seed, "base"))
}

fn delay(
    results: &Results,
    variant: &str,
    km: f64,
    loss: f64,
    of: fn(&Distribution) -> f64,
) -> f64 {
    let delay = |report: &Report| report.flows[2].delay_ms.as_ref().map_or(f64::NAN, of);
    results.of(&key(variant, km, loss), delay).mean
}

fn judge(_: Effort, results: &Results) -> Findings {
    let mut found = Findings::default();
    for variant in ["best", "txop-best"] {
        let gains = |losses: &[f64]| -> Curve {
            KM.iter()
                .flat_map(|km| curve(losses, |loss| gain(results, variant, *km, loss)))
                .collect()
        };
        found.add(format!("{variant}-clear"), lowest(&gains(&LOSS[..1])));
        found.add(format!("{variant}-lossy"), lowest(&gains(&LOSS[1..])));
        for (name, of) in PERCENTILES {
            let ratio = |km: f64, loss: f64| {
                let of = |variant| delay(results, variant, km, loss, of);
                Estimate::exact(of(variant) / of("base"))
            };
            let ratios: Curve =
                KM.iter().flat_map(|km| curve(&LOSS, |loss| ratio(*km, loss))).collect();
            found.add(format!("{variant}-{name}"), highest(&ratios));
        }
    }
    let line = |variant: &Variant| {
        let points = curve(&LOSS, |loss| results.of(&key(variant.key, 80.0, loss), goodput));
        ours(variant.what, &in_percent(&points))
    };
    let (x, y) = ("loss, %", "TCP both ways, Mb/s");
    let series = VARIANTS.iter().map(line).collect();
    found.figures.push(Figure::new("W-BEYOND", "what bought how much at 80 km", x, y, series));
    found.tables = KM.map(|km| ablation(results, km)).to_vec();
    found
}

type Percentile = (&'static str, fn(&Distribution) -> f64);

const PERCENTILES: [Percentile; 2] = [("p50", |d| d.p50), ("p95", |d| d.p95)];

/// The gain of each change at one distance, and its effect on the probe.
fn ablation(results: &Results, km: f64) -> Table {
    let cells = |variant: &Variant, loss: f64| {
        let gain = gain(results, variant.key, km, loss).mean;
        let total = results.of(&key(variant.key, km, loss), goodput).mean;
        let [p50, p95] = PERCENTILES.map(|(_, of)| delay(results, variant.key, km, loss, of));
        // Adding 0 turns -0 into 0.
        let more = ((gain - 1.0) * 100.0).round() + 0.0;
        format!("{total:.2} ({more:+.0}%), {p50:.0} / {p95:.0}")
    };
    let row = |variant: &Variant| {
        let cells = LOSS.map(|loss| cells(variant, loss));
        [vec![variant.what.to_owned()], cells.to_vec()].concat()
    };
    let names = LOSS.map(|loss| format!("{:.0}% loss", loss * 100.0));
    Table {
        title: format!("What bought how much at {km} km"),
        head: [vec!["change".into()], names.to_vec()].concat(),
        rows: VARIANTS.iter().map(row).collect(),
        note: "TCP both ways in Mb/s, what that is over the first row, and delay of the probe \
               (p50 / p95, ms)."
            .into(),
    }
}
