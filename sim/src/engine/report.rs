//! The result of one run, in the same form from the simulator and the lab.
//!
//! Every field has its unit in its name; what was not measured is `null`.

use std::collections::BTreeMap;

use farhop_proto::base::Name;
use serde::{Deserialize, Serialize};

/// Counters by name.
pub type Counters = BTreeMap<Name, u64>;

/// The result of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: String,
    /// Version of farhop.
    pub version: String,
    /// What ran the scenario: `"sim"` or `"lab"`.
    pub driver: String,
    /// Seed of the run.
    pub seed: u64,
    /// Length of the run, in seconds of simulated time.
    pub simulated_s: f64,
    /// Wall-clock time that the run took, in seconds.
    pub wall_s: f64,
    /// Events that the simulator fired; 0 in the lab.
    pub events: u64,
    /// Frames on air, acknowledgements and repetitions included.
    pub frames_on_air: u64,
    /// Hash over everything that was on air, in hexadecimal; none in the lab.
    pub trace_hash: Option<String>,
    /// Flows in the order of the scenario.
    pub flows: Vec<FlowReport>,
    /// Links, one for each direction.
    pub links: Vec<LinkReport>,
    /// Nodes in the order of the scenario.
    pub nodes: Vec<NodeReport>,
    /// How late the processes of a lab were; none in the simulator, which is never late.
    pub lateness: Option<Lateness>,
    /// What strangers did; none if the scenario has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adversary: Option<AdversaryReport>,
}

/// Why a radio drops a frame with the address of its own node as the sender: it would be a copy of
/// what the node sent itself.
pub const OWN_NAME: &str = "own-name";

/// What all strangers of a scenario did together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AdversaryReport {
    /// Frames that strangers sent.
    pub sent: u64,
    /// Those of them that a node accepted: frames that its keys let through or that completed a
    /// handshake; without keys, every frame that was heard.
    pub accepted: u64,
    /// Exact copies of frames that their receiver had missed, accepted now. No key can tell such a
    /// copy from the original; a second copy would count as accepted.
    pub relayed: u64,
    /// Frames that strangers sent, by kind.
    pub by_kind: Counters,
    /// Frames that the nodes refused, by reason, including frames of other nodes. Frames with the
    /// receiver's own address as the sender are dropped by radios before keys see them
    /// ([`OWN_NAME`]).
    pub rejected: Counters,
    /// Goodput of all flows, divided by their goodput in a second run in which strangers'
    /// transmissions are mere noise of the same times and lengths; none if that is zero, or there
    /// was no second run. Two short runs diverge after any difference, so this ratio scatters:
    /// average it over many seeds.
    pub honest_goodput_ratio: Option<f64>,
}

/// The result of one flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowReport {
    /// Name.
    pub name: String,
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// Transport with its congestion control, for example `"tcp/reno"`.
    pub transport: String,
    /// Payload that the source handed to the network, in bytes, each byte counted once. In a lab, a
    /// `udp` flow without a rate includes payload that its own node did not accept.
    pub sent_bytes: u64,
    /// Payload that the receiving application got, in bytes.
    pub delivered_bytes: u64,
    /// Delivered payload over the measured time of the flow, in Mb/s.
    pub goodput_mbps: f64,
    /// Fraction of datagrams that did not arrive (`udp`), 0 to 1. Datagrams of the last moments,
    /// twice the longest delay, may still be on their way: they count only if they or later ones
    /// arrived. None in a lab without a rate.
    pub loss: Option<f64>,
    /// One-way delay, in milliseconds (`udp`).
    pub delay_ms: Option<Distribution>,
    /// Interarrival jitter after RFC 3550, in milliseconds (`udp`).
    pub jitter_ms: Option<Distribution>,
    /// Retransmitted segments (`tcp`).
    pub retransmissions: Option<u64>,
    /// Length of the transfer in bytes, if the flow has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_bytes: Option<u64>,
    /// How long the whole transfer took, in seconds; none if it did not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_s: Option<f64>,
    /// Objects of web pages (`web`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<ObjectsReport>,
    /// Quality of a call (`voip`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voip: Option<VoipReport>,
    /// When the flow started, in seconds.
    pub start_s: f64,
    /// Length of a bin of `over_time_mbps`, in seconds; the last bin ends with the run.
    pub bin_s: f64,
    /// Goodput bin by bin from the start of the run, in Mb/s.
    pub over_time_mbps: Vec<f64>,
}

/// Objects of web pages that were requested while the flow was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ObjectsReport {
    /// Objects received completely.
    pub count: u64,
    /// Objects whose connection failed.
    pub failed: u64,
    /// Time from the first segment of a connection to the last byte of its object, in milliseconds.
    pub completion_ms: Option<Distribution>,
    /// Pages received completely.
    pub pages: u64,
    /// Time from the first request of a page to the last byte of its last object, in milliseconds.
    pub page_ms: Option<Distribution>,
}

/// Quality of a call by the E-model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VoipReport {
    /// Rating factor R, 0 to 94.
    pub r_factor: f64,
    /// Mean opinion score, 1 to 4.5.
    pub mos: f64,
    /// Fraction of the packets that were not played, as they were lost or late, 0 to 1.
    pub loss: f64,
    /// Fraction of the packets that came too late for the playout buffer, 0 to 1.
    pub late: f64,
    /// Mouth-to-ear delay, in milliseconds.
    pub delay_ms: f64,
}

/// A distribution of a measured quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Distribution {
    /// The distribution of `samples`, which it sorts; `None` if there are none.
    pub fn of(samples: &mut [f64]) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let last = samples.len().checked_sub(1)?;
        // Interpolates linearly between two samples.
        let at = |fraction: f64| {
            let place = fraction * last as f64;
            let (below, above) = (samples[place.floor() as usize], samples[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        Some(Self { mean, p50: at(0.50), p95: at(0.95), p99: at(0.99) })
    }
}

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// Link protocol of the sender.
    pub protocol: String,
    /// Loss of frames over the whole run, among those whose outcome the sender's link knows, 0 to
    /// 1.
    pub loss: Option<f64>,
    /// Last correction of the slot start by a stamp of the peer, in microseconds.
    pub sync_error_us: Option<f64>,
    /// Only in the simulator, for links with slots and few nodes: the largest time between the
    /// arrival of the end of the sender's slot and the start of the receiver's own, in microseconds
    /// of true time, once both had been in step for a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot_error_us: Option<f64>,
    /// How the sender's radio spent its time, as shares of the run, 0 to 1.
    pub air: AirReport,
}

/// Shares of the time of a run, 0 to 1; they sum to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AirReport {
    /// First transmissions of data.
    pub data: f64,
    /// Repeated transmissions.
    pub retransmission: f64,
    /// Erasure code.
    pub coding: f64,
    /// Answers of the MAC (acknowledgements and CTS), and acknowledgements of the link.
    pub acknowledgement: f64,
    /// Guards of send slots.
    pub guard: f64,
    /// Own transmissions that collided at the receiver, but for answers of the MAC; their time is
    /// left out of the shares above.
    pub collision: f64,
    /// Transmissions of the same radio to other neighbours or to all.
    #[serde(default)]
    pub others: f64,
    /// The rest: listening, waiting, or nothing to send; also requests for block acknowledgements.
    pub idle: f64,
}

impl AirReport {
    /// The sum of all shares but `idle`.
    pub fn used(&self) -> f64 {
        let Self { data, retransmission, coding, acknowledgement, guard, .. } = *self;
        data + retransmission + coding + acknowledgement + guard + self.collision + self.others
    }
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// Name.
    pub name: String,
    /// Units dropped at the node, by cause.
    pub drops: Counters,
    /// Counters of each layer.
    pub layers: BTreeMap<Name, Counters>,
}

/// How late the processes of a lab were.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// The processes: the air and each daemon.
    pub processes: Vec<ProcessLateness>,
    /// Slots in which a frame left after the slot's end.
    pub slots_overrun: u64,
    /// Send slots.
    pub slots: u64,
    /// Processors that were busy with programs outside of the lab, on average. Such a lab may be on
    /// time, but its hosts react more slowly.
    #[serde(default)]
    pub others_cpu: Option<f64>,
    /// How long hosts took from the end of a received frame to the arrival of their next one at
    /// the card, which had nothing to send: points `[quantile, microseconds]`, without what took
    /// longer than 2 ms. A simulation with the same hosts has them as its radios' `departure`.
    #[serde(default)]
    pub answers_us: Vec<[f64; 2]>,
    /// Whether the run is invalid: over 1% of the wake-ups of a process were later than 1 ms, or
    /// one was later than 1 s, or over 0.1% of the slots were overrun. A process that rarely waits
    /// for a timer, as packets wake it, is judged as if it had woken 50 times a second; otherwise a
    /// single late wake-up could exceed 1%.
    pub late: bool,
}

/// How late one process was.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessLateness {
    /// `"air"` or the node's name.
    pub name: String,
    /// Wake-ups by a timer.
    pub wakeups: u64,
    /// Wake-ups later than 1 ms.
    pub late_1ms: u64,
    /// Wake-ups later than the guard of the slots.
    pub late_guard: u64,
    /// Wake-ups later than 1 s: how often it stood still.
    #[serde(default)]
    pub late_1s: u64,
    /// The latest wake-up, in microseconds.
    pub worst_us: f64,
    /// Processor time used, in seconds.
    pub cpu_s: Option<f64>,
    /// Largest resident memory, in kB.
    pub memory_kb: Option<u64>,
}

/// A process is judged by at least this many wake-ups per second: one for a slot of `wild`.
const LEAST_WAKEUPS: f64 = 50.0;

impl Lateness {
    /// Judges the counters of a run of `seconds` by the rule of [`Lateness::late`].
    pub fn judge(
        processes: Vec<ProcessLateness>,
        slots: u64,
        slots_overrun: u64,
        seconds: f64,
    ) -> Self {
        let least = (LEAST_WAKEUPS * seconds) as u64;
        let is_late = |process: &ProcessLateness| {
            process.late_1s > 0 || process.late_1ms * 100 > process.wakeups.max(least)
        };
        let woken_late = processes.iter().any(is_late);
        let late = woken_late || slots_overrun * 1000 > slots;
        let answers_us = Vec::new();
        Self { processes, slots_overrun, slots, others_cpu: None, answers_us, late }
    }
}

impl Report {
    /// What all flows delivered, over the whole run, in Mb/s: the goodputs of flows that ran at
    /// different times cannot be added.
    pub fn carried_mbps(&self) -> f64 {
        let bytes: u64 = self.flows.iter().map(|flow| flow.delivered_bytes).sum();
        if self.simulated_s > 0.0 { bytes as f64 * 8.0 / self.simulated_s / 1e6 } else { 0.0 }
    }

    /// Sum of the goodputs of all flows, each over its own measured time, in Mb/s. If all flows run
    /// at the same time, this is what the network carries.
    pub fn total_mbps(&self) -> f64 {
        // An empty `sum()` would be -0.
        self.flows.iter().fold(0.0, |sum, flow| sum + flow.goodput_mbps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_late_by_wakeups_or_by_slots() {
        let process =
            |wakeups, late_1ms| ProcessLateness { wakeups, late_1ms, ..Default::default() };
        assert!(!Lateness::judge(vec![process(1000, 10)], 1000, 1, 20.0).late);
        assert!(Lateness::judge(vec![process(1000, 11)], 1000, 0, 20.0).late);
        assert!(Lateness::judge(vec![process(1000, 0)], 1000, 2, 20.0).late);
        assert!(!Lateness::judge(vec![process(60, 10)], 0, 0, 20.0).late, "it seldom wakes");
        assert!(Lateness::judge(vec![process(60, 11)], 0, 0, 20.0).late);
        assert!(!Lateness::judge(vec![process(90_000, 900)], 0, 0, 20.0).late);
        let still = ProcessLateness { late_1s: 1, ..process(90_000, 1) };
        assert!(Lateness::judge(vec![still], 0, 0, 20.0).late, "it stood still");
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_samples() {
        let mut samples: Vec<f64> = (0..=100).rev().map(f64::from).collect();
        let found = Distribution::of(&mut samples).expect("samples");
        assert_eq!((found.mean, found.p50, found.p95, found.p99), (50.0, 50.0, 95.0, 99.0));
        assert_eq!(Distribution::of(&mut []), None);
    }
}
