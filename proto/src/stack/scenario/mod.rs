//! The scenario file: one description of a network for the simulator, the lab and the daemon.
//!
//! Everything here is data. [`Scenario::problems`] checks it; [`crate::stack::plan`] derives what
//! each node needs from it.

mod adversary;
mod departure;
mod fault;
mod flow;
mod link;
mod loss;
mod mac;
mod mobility;
mod node;
mod propagation;
mod radio;
mod radio_override;
mod random_ends;
mod relay;
mod security;
mod space;
mod sweep;
mod tcp;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::StackConfig;
use crate::base::Subnet;
use crate::link::secure::SecurityConfig;

pub use adversary::{AdversaryConfig, AdversaryKind};
pub use departure::DelayConfig;
pub use fault::FaultConfig;
pub use flow::{Codec, FlowConfig, FlowKind, OnOffConfig, VoipConfig, WebConfig};
pub use link::RadioLinkConfig;
pub use loss::{
    BurstConfig, ByRateConfig, DriftConfig, DriverConfig, ErrorRunsConfig, InterfererConfig,
    LossConfig, ModulatedConfig, ModulationShape, TraceConfig,
};
pub use mac::{AccessConfig, AccessConfigs, FirstAccess, Protection, RateControl};
pub use mobility::{MobilityConfig, MobilityKind};
pub use node::{ClockConfig, DeviceConfig, NodeConfig};
pub use propagation::{
    CurveConfig, InterferenceConfig, PropagationConfig, PropagationKind, SinrSettings,
};
pub(super) use radio::PACKET_BYTES;
pub use radio::{ClocksConfig, EifsConfig, HostConfig, LinkOverhead, RadioConfig};
pub use radio_override::RadioOverride;
pub use random_ends::RandomEnds;
pub use relay::{Onward, RelayConfig, RelayMode};
pub use space::{
    AreaConfig, ChainLayout, CircleLayout, FileLayout, Generator, GridLayout, LayoutConfig,
    Position, RandomLayout,
};
pub use sweep::{Seeds, SweepConfig, SweepValue, VaryConfig};
pub use tcp::{Congestion, TcpPreset, TcpSettings};

/// A network, its traffic and its faults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name in reports.
    pub name: String,
    /// What the scenario shows, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Length of the run, in seconds: in the simulator from when all nodes are switched on, in a
    /// lab from when its links are up.
    #[serde(default = "default_duration")]
    pub duration_s: f64,
    /// Seed of the random draws. Layouts, propagation and random flows have seeds of their own.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Addresses of the nodes' virtual interfaces.
    #[serde(default)]
    pub subnet: Subnet,
    /// Settings of all radios; those of a node or a link may differ.
    #[serde(default)]
    pub radio: RadioConfig,
    /// Protocols of all nodes and their settings.
    #[serde(default)]
    pub stack: StackConfig,
    /// How frames are protected: a table, or a mode alone, such as `"off"`. Default: daemons
    /// encrypt, and the simulator does not protect frames.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "security::table_or_mode"
    )]
    #[schemars(with = "Option<security::Setting>")]
    pub security: Option<SecurityConfig>,
    /// How late the hosts act; simulator only.
    #[serde(default, skip_serializing_if = "HostConfig::is_default")]
    pub host: HostConfig,
    /// The area that the nodes are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area: Option<AreaConfig>,
    /// How signals weaken with distance.
    #[serde(default, skip_serializing_if = "PropagationConfig::is_default")]
    pub propagation: PropagationConfig,
    /// What happens to signals that overlap.
    #[serde(default, skip_serializing_if = "InterferenceConfig::is_default")]
    pub interference: InterferenceConfig,
    /// How nodes move.
    #[serde(default, skip_serializing_if = "MobilityConfig::is_default")]
    pub mobility: MobilityConfig,
    /// When the measurement begins of flows without a `measure_from_s` of their own, in seconds
    /// from the start of the run. Default: at the start of each flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure_from_s: Option<f64>,
    /// Nodes, numbered from 1 in this order.
    #[serde(default)]
    pub node: Vec<NodeConfig>,
    /// Layouts: many nodes at once, numbered after those of `[[node]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layout: Vec<LayoutConfig>,
    /// Links between two nodes.
    #[serde(default)]
    pub link: Vec<RadioLinkConfig>,
    /// Traffic.
    #[serde(default)]
    pub flow: Vec<FlowConfig>,
    /// Faults: nodes and links that go down and come back.
    #[serde(default)]
    pub fault: Vec<FaultConfig>,
    /// Strangers who send attack traffic; simulator and lab only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adversary: Vec<AdversaryConfig>,
    /// Settings that vary from run to run; simulator only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepConfig>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

fn default_duration() -> f64 {
    20.0
}

fn default_seed() -> u64 {
    1
}
