//! The paper's networks: scenarios of its set-ups (`wildnet.md` 11), and the calibration.

use std::sync::LazyLock;

use farhop_proto::link::plain::PlainConfig;
use farhop_proto::link::two_p::TwoPConfig;
use farhop_proto::link::wild::{InOrder, WildConfig};
use farhop_proto::stack::{
    Congestion, FlowConfig, FlowKind, LinkConfig, LossConfig, NodeConfig, RadioConfig,
    RadioLinkConfig, RadioOverride, Scenario, TcpSettings,
};
use serde::Deserialize;

use crate::{Case, Effort};

/// Text of the calibration.
pub(super) const CALIBRATION: &str = include_str!("calibration.toml");

/// Speed of light in air, in kilometres per microsecond.
pub(super) const KM_PER_US: f64 = 0.299_792_458;
/// ACK time-out beyond the round-trip propagation delay, in microseconds.
const ACK_MARGIN_US: f64 = 31.0;
/// Payload of a datagram (`wildnet.md` 11).
const DATAGRAM_BYTES: usize = 1440;
/// When measuring begins, in seconds: every flow has started and every node is in step.
const MEASURE_FROM_S: f64 = 1.0;

/// The constants of the paper's boards.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Calibration {
    /// The radios.
    pub(super) radio: RadioConfig,
    /// Limits of CSMA.
    pub(super) limits: Limits,
    /// The slotted link.
    pub(super) wild: WildConfig,
    /// TCP of all hosts.
    pub(super) tcp: TcpSettings,
    /// Settings of the slotted link for UDP.
    pub(super) udp: ForUdp,
}

/// Settings of the slotted link for UDP.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForUdp {
    /// Which packets wait for earlier ones.
    pub(super) in_order: InOrder,
}

/// Limits of CSMA.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Limits {
    /// The longest ACK time-out that a card can be set to, in microseconds.
    pub(super) ack_timeout_us: f64,
    /// Packets in the queue of an interface.
    pub(super) queue_packets: usize,
}

/// The calibration, the same for all rows.
pub(super) static CALIBRATED: LazyLock<Calibration> =
    LazyLock::new(|| toml::from_str(CALIBRATION).expect("a test reads it"));

/// A network under construction.
#[derive(Clone, Debug)]
pub(super) struct Net(Scenario);

impl Net {
    /// Nodes `n1`, `n2` and so on in a chain, with links of these lengths in kilometres.
    pub(super) fn chain(lengths: &[f64]) -> Self {
        let name = |index: usize| format!("n{}", index + 1);
        let node = |index| NodeConfig { name: name(index), ..NodeConfig::default() };
        let link = |(index, km): (usize, &f64)| RadioLinkConfig {
            between: [name(index), name(index + 1)],
            distance_km: Some(*km),
            ..RadioLinkConfig::default()
        };
        let mut scenario = Scenario {
            duration_s: 60.0,
            radio: CALIBRATED.radio.clone(),
            node: (0..=lengths.len()).map(node).collect(),
            link: lengths.iter().enumerate().map(link).collect(),
            measure_from_s: Some(MEASURE_FROM_S),
            ..Scenario::default()
        };
        let longest = lengths.iter().copied().fold(0.0, f64::max);
        let most = CALIBRATED.limits.ack_timeout_us;
        if 2.0 * longest / KM_PER_US + ACK_MARGIN_US > most {
            scenario.radio.ack_timeout_us = Some(most);
        }
        Self(scenario)
    }

    /// Two nodes with a link of this length in kilometres.
    pub(super) fn pair(km: f64) -> Self {
        Self::chain(&[km])
    }

    /// Changes the scenario in ways that the other methods do not offer.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Scenario)) -> Self {
        change(&mut self.0);
        self
    }

    /// Loses this fraction of all frames on every link, acknowledgements too.
    pub(super) fn loss(self, p: f64) -> Self {
        self.with(|scenario| {
            for link in &mut scenario.link {
                link.loss = Some(LossConfig::Bernoulli { p });
            }
        })
    }

    /// Gives each link a radio of its own at both ends, on these channels.
    pub(super) fn channels(self, channels: &[u16]) -> Self {
        self.with(|scenario| {
            for (link, channel) in scenario.link.iter_mut().zip(channels) {
                let own = serde_json::json!({ "channel": channel });
                let own: RadioOverride = serde_json::from_value(own).expect("a setting of radios");
                link.radio = Some(own);
            }
        })
    }

    /// Uses plain 802.11 with this many retries.
    pub(super) fn csma(self, retries: u8) -> Self {
        self.plain(retries, true)
    }

    /// Uses plain 802.11 without acknowledgements, so that nothing is repeated.
    pub(super) fn no_ack(self) -> Self {
        self.plain(0, false)
    }

    fn plain(self, retries: u8, mac_ack: bool) -> Self {
        self.with(|scenario| {
            scenario.radio.attempts = retries + 1;
            let queue_packets = CALIBRATED.limits.queue_packets;
            let config = PlainConfig { queue_packets, mac_ack, ..PlainConfig::default() };
            scenario.stack.link = LinkConfig::Plain(config);
        })
    }

    /// Uses the slotted link as calibrated. Call it after the flows are added.
    pub(super) fn wild(self) -> Self {
        self.wild_with(|_| {})
    }

    /// Uses the slotted link as calibrated, with a change that a row is about. Call it after the
    /// flows are added.
    pub(super) fn wild_with(self, change: impl FnOnce(&mut WildConfig)) -> Self {
        let mut config = CALIBRATED.wild.clone();
        if self.0.flow.iter().all(|flow| flow.kind == FlowKind::Udp) {
            config.in_order = CALIBRATED.udp.in_order;
        }
        change(&mut config);
        self.with(|scenario| scenario.stack.link = LinkConfig::Wild(config))
    }

    /// Uses 2P, with phases and guards as long as those of the calibrated slots.
    pub(super) fn two_p(self) -> Self {
        let wild = &CALIBRATED.wild;
        let config = TwoPConfig {
            phase_ms: wild.slot_ms,
            guard_ms: wild.guard_ms,
            queue_packets: CALIBRATED.limits.queue_packets,
            ..TwoPConfig::default()
        };
        self.with(|scenario| scenario.stack.link = LinkConfig::TwoP(config))
    }

    fn flow(self, from: usize, to: usize, flow: FlowConfig) -> Self {
        let (from, to) = (format!("n{from}"), format!("n{to}"));
        let name = if flow.name.is_empty() { format!("{from} to {to}") } else { flow.name.clone() };
        self.with(|scenario| scenario.flow.push(FlowConfig { name, from, to, ..flow }))
    }

    /// Adds a saturated TCP flow.
    pub(super) fn tcp(self, from: usize, to: usize) -> Self {
        let flow = FlowConfig {
            kind: FlowKind::Tcp,
            congestion: Congestion::RenoRfc6675,
            tcp: CALIBRATED.tcp.clone(),
            size_bytes: DATAGRAM_BYTES,
            ..FlowConfig::default()
        };
        self.flow(from, to, flow)
    }

    /// Adds a TCP flow in each direction between the ends of the chain.
    pub(super) fn tcp_both(self) -> Self {
        let last = self.0.node.len();
        self.tcp(1, last).tcp(last, 1)
    }

    /// Adds a UDP flow of 1440-byte datagrams at this rate in Mb/s, or a saturated one.
    pub(super) fn udp(self, from: usize, to: usize, rate_mbps: Option<f64>) -> Self {
        let flow = FlowConfig {
            kind: FlowKind::Udp,
            rate_mbps,
            size_bytes: DATAGRAM_BYTES,
            ..Default::default()
        };
        self.flow(from, to, flow)
    }

    /// Sets the length of the run in seconds, which is shorter in quick runs.
    pub(super) fn seconds(self, effort: Effort, full: f64) -> Self {
        self.with(|scenario| scenario.duration_s = effort.seconds(full))
    }

    /// Measures from 5 s on, when long slots have been estimated too. The run keeps the paper's
    /// length even in quick runs, as it is cheap.
    pub(super) fn settled(self) -> Self {
        self.with(|scenario| scenario.measure_from_s = Some(5.0))
    }

    /// The network as a case with this name.
    pub(super) fn case(mut self, key: impl Into<String>) -> Case {
        if let LinkConfig::Wild(wild) = &mut self.0.stack.link {
            // The paper left slots of varying length to later work.
            wild.slot_least_ms.get_or_insert(wild.slot_ms);
        }
        Case::new(key, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calibration_is_read_and_no_key_of_it_is_unknown() {
        assert_eq!(CALIBRATED.limits.ack_timeout_us, 746.0);
        assert_eq!(CALIBRATED.radio.ack_rate_mbps, Some(2.0));
    }

    #[test]
    fn the_time_out_of_a_card_ends_at_its_register() {
        let timeout = |km| Net::pair(km).0.radio.ack_timeout_us;
        assert_eq!((timeout(100.0), timeout(115.0)), (None, Some(746.0)));
    }
}
