//! The calibration, and the scenarios built from it.

use std::sync::LazyLock;

use farhop_proto::link::plain::PlainConfig;
use farhop_proto::routing::olsr::OlsrConfig;
use farhop_proto::stack::{
    Congestion, FlowConfig, FlowKind, LinkConfig, LossConfig, NodeConfig, RadioConfig,
    RadioLinkConfig, RelayConfig, RelayMode, Scenario, TcpSettings,
};
use farhop_proto::transport::hop::HopConfig;
use farhop_sim::engine::{FlowReport, Report};
use serde::Deserialize;

use super::testbed::{TESTBED, name};
use crate::{Case, Effort, Estimate, Figure, Series};

/// The constants of the paper's boards.
pub(super) const CALIBRATION: &str = include_str!("calibration.toml");

/// The contents of the calibration file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Calibration {
    pub(super) radio: RadioConfig,
    link: PlainConfig,
    tcp: TcpSettings,
    pub(super) hop: HopConfig,
    pub(super) olsr: OlsrConfig,
    relay: RelayConfig,
}

/// The calibration, the same for all rows.
pub(super) static CALIBRATED: LazyLock<Calibration> =
    LazyLock::new(|| toml::from_str(CALIBRATION).expect("a test reads it"));

/// A file of the paper, in bytes.
pub(super) const FILE: u64 = 10_000_000;

/// MAC settings for TCP (`hop.md` 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mac {
    /// No TXOP, 11 retries.
    Default,
    /// TXOP, 11 retries.
    Txop,
    /// TXOP, 100 retries: the best setting, used everywhere but in Fig. 7a.
    Persistent,
}

/// The transport of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Carrier {
    Hop,
    Tcp,
    Stitched,
    Dtn,
}

impl Carrier {
    pub(super) const ALL: [Self; 4] = [Self::Hop, Self::Tcp, Self::Stitched, Self::Dtn];
    /// The transports that Hop is compared with.
    pub(super) const OTHERS: [Self; 3] = [Self::Tcp, Self::Stitched, Self::Dtn];

    /// Its name in the names of runs and rows.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Hop => "hop",
            Self::Tcp => "tcp",
            Self::Stitched => "stitched",
            Self::Dtn => "dtn",
        }
    }

    /// Its name in figures and tables.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Hop => "Hop",
            Self::Tcp => "TCP",
            Self::Stitched => "stitched TCP",
            Self::Dtn => "DTN",
        }
    }
}

/// A network under construction.
#[derive(Clone, Debug)]
pub(super) struct Net(Scenario);

impl Net {
    fn of(mut scenario: Scenario) -> Self {
        scenario.stack.link = LinkConfig::Plain(CALIBRATED.link.clone());
        scenario.stack.hop = Some(CALIBRATED.hop.clone());
        Self(scenario).mac(Mac::Persistent)
    }

    /// The testbed.
    pub(super) fn testbed() -> Self {
        Self::of(TESTBED.scenario())
    }

    /// Two nodes, `n1` and `n2`, with this loss of all frames.
    pub(super) fn pair(loss: f64) -> Self {
        Self::chain(1, loss)
    }

    /// Nodes `n1`, `n2` and so on in a chain, 90 m apart. A node is received by its neighbours and
    /// sensed up to 220 m, so nodes three hops apart are hidden from each other. Every hop loses
    /// this fraction of all frames.
    pub(super) fn chain(hops: usize, loss: f64) -> Self {
        let text = "name = \"chain\"\nlayout = [{ kind = \"chain\", name = \"n\", count = 2, \
                    spacing_m = 90 }]\n\
                    propagation = { kind = \"range\", receive_m = 100, sense_m = 220 }\n";
        let mut scenario: Scenario = toml::from_str(text).expect("a good scenario");
        scenario.layout.clear();
        scenario.radio = CALIBRATED.radio.clone();
        let node = |index: usize| NodeConfig {
            name: format!("n{}", index + 1),
            position_m: Some(farhop_proto::stack::Position([index as f64 * 90.0, 0.0, 0.0])),
            ..NodeConfig::default()
        };
        scenario.node = (0..=hops).map(node).collect();
        let link = |index: usize| RadioLinkConfig {
            between: [index, index + 1].map(|end| format!("n{}", end + 1)),
            loss: Some(LossConfig::Bernoulli { p: loss }),
            ..RadioLinkConfig::default()
        };
        scenario.link = (0..hops).map(link).collect();
        Self::of(scenario)
    }

    /// Changes the scenario in ways that the other methods do not offer.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Scenario)) -> Self {
        change(&mut self.0);
        self
    }

    /// Changes the calibrated settings of blocks, as a row requires.
    pub(super) fn blocks(self, change: impl FnOnce(&mut HopConfig)) -> Self {
        self.with(|scenario| change(scenario.stack.hop.as_mut().expect("every net has it")))
    }

    /// Uses our default settings of blocks instead of the paper's.
    pub(super) fn product(self) -> Self {
        self.blocks(|hop| *hop = HopConfig::default())
    }

    /// Sets the MAC for TCP.
    pub(super) fn mac(self, mac: Mac) -> Self {
        self.with(|scenario| {
            let attempts = if mac == Mac::Persistent { 101 } else { CALIBRATED.radio.attempts };
            (scenario.radio.attempts, scenario.radio.long_attempts) = (attempts, attempts);
            let txop = CALIBRATED.radio.access.background.txop_us;
            let bursts = mac != Mac::Default;
            scenario.radio.access.best_effort.txop_us = txop.filter(|_| bursts);
        })
    }

    /// Adds a file transfer between two nodes of a chain or of the testbed, by their names.
    pub(super) fn file(self, carrier: Carrier, [from, to]: [&str; 2], bytes: u64) -> Self {
        self.with(|scenario| scenario.flow.push(file(carrier, from, to, Some(bytes))))
    }

    /// Adds a flow that never ends.
    pub(super) fn stream(self, carrier: Carrier, [from, to]: [&str; 2]) -> Self {
        self.with(|scenario| scenario.flow.push(file(carrier, from, to, None)))
    }

    /// Sets the length of the run in seconds, which is shorter in quick runs.
    pub(super) fn seconds(self, effort: Effort, full: f64) -> Self {
        self.with(|scenario| scenario.duration_s = effort.seconds(full))
    }

    /// Sets the length of the run in seconds, also for quick runs: idle time costs nothing.
    pub(super) fn for_s(self, seconds: f64) -> Self {
        self.with(|scenario| scenario.duration_s = seconds)
    }

    /// The network as a case with this name.
    pub(super) fn case(self, key: impl Into<String>) -> Case {
        // The 100 retries are for TCP: control messages of blocks have at most the retries of the
        // card.
        let has_blocks = self.0.flow.iter().any(FlowConfig::has_blocks);
        let most = if has_blocks { CALIBRATED.radio.attempts } else { u8::MAX };
        Case::new(
            key,
            self.with(|scenario| {
                let radio = &mut scenario.radio;
                radio.attempts = radio.attempts.min(most);
                radio.long_attempts = radio.long_attempts.min(most);
            })
            .0,
        )
    }
}

/// A flow with a file, or without an end.
pub(super) fn file(carrier: Carrier, from: &str, to: &str, bytes: Option<u64>) -> FlowConfig {
    let flow = FlowConfig {
        name: format!("{from} to {to}"),
        from: from.to_owned(),
        to: to.to_owned(),
        bytes,
        size_bytes: 1_440,
        ..FlowConfig::default()
    };
    if carrier == Carrier::Hop {
        return FlowConfig { kind: FlowKind::Hop, ..flow };
    }
    let tcp = FlowConfig { congestion: Congestion::Cubic, tcp: CALIBRATED.tcp.clone(), ..flow };
    let relay = |mode| Some(RelayConfig { mode, ..CALIBRATED.relay.clone() });
    match carrier {
        Carrier::Stitched => {
            FlowConfig { kind: FlowKind::Relayed, relay: relay(RelayMode::Stream), ..tcp }
        }
        Carrier::Dtn => {
            FlowConfig { kind: FlowKind::Relayed, relay: relay(RelayMode::Bundle), ..tcp }
        }
        _ => FlowConfig { kind: FlowKind::Tcp, ..tcp },
    }
}

/// The names of two nodes of the testbed.
pub(super) fn names(pair: [u16; 2]) -> [String; 2] {
    pair.map(name)
}

/// Mean goodput of the flows of a run, in kb/s.
pub(super) fn mean_kbps(report: &Report) -> f64 {
    let sum: f64 = report.flows.iter().map(kbps).sum();
    sum / report.flows.len().max(1) as f64
}

/// Goodput of a flow, in kb/s.
pub(super) fn kbps(flow: &FlowReport) -> f64 {
    flow.goodput_mbps * 1e3
}

/// A figure of the goodputs of what is compared, in kb/s.
pub(super) fn goodputs(
    target: &str,
    title: &str,
    names: &[&str],
    means: impl IntoIterator<Item = Estimate>,
) -> Figure {
    let series = vec![Series::named("mean goodput", means)];
    Figure::new(target, title, "", "goodput, kb/s", series).over_names(names)
}

/// A figure of the gains of Hop over the others, with the printed gains: the paper prints no
/// absolute goodputs.
pub(super) fn gains(
    target: &str,
    title: &str,
    names: &[&str],
    gains: impl IntoIterator<Item = Estimate>,
    printed: impl IntoIterator<Item = (f64, f64)>,
) -> Figure {
    let name = "gain of Hop";
    let series = vec![Series::named(name, gains), Series::published(name, printed)];
    let figure = Figure::new(target, &format!("{title}, gain of Hop"), "", "Hop over each", series);
    figure.over_names(names).further("gain")
}

/// Jain's fairness index.
pub(super) fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) =
        shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Places;

    #[test]
    fn the_calibration_is_that_of_the_paper() {
        let hop = &CALIBRATED.hop;
        assert_eq!((hop.high_blocks, hop.low_blocks, hop.in_flight), (1, 0, Some(1)));
        assert_eq!(CALIBRATED.radio.access.background.txop_us, Some(8_160));
    }

    #[test]
    fn what_is_compared_stands_over_its_names_beside_what_was_printed_of_it() {
        let all = [2.0, 3.0].map(Estimate::exact);
        let figure = gains("H-F0", "a test", &["TCP", "DTN"], all, [(1.0, 8.0)]);
        assert_eq!(figure.places, Places::Names(vec!["TCP".into(), "DTN".into()]));
        let [ours, printed] = &figure.series[..] else { panic!("two series") };
        assert_eq!((ours.points[1].x, printed.points[0].x), (1.0, 1.0));
        assert_eq!(printed.curve, ours.name);
    }

    #[test]
    fn equal_shares_have_an_index_of_one() {
        assert!((jain(&[2.0; 5]) - 1.0).abs() < 1e-12);
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]) - 0.25).abs() < 1e-12);
        assert_eq!(jain(&[0.0; 3]), 0.0);
    }
}
