//! Faults: nodes and links that go down and come back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node or a link that goes down and comes back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultConfig {
    /// The node whose radios are off. Its programs keep running and its queues stay: what they
    /// hold, and what is added meanwhile, is sent when the radios are back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The ends of the link that is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<[String; 2]>,
    /// When it goes down, in seconds from the start of the run.
    pub from_s: f64,
    /// When it comes back, in seconds from the start of the run.
    pub to_s: f64,
}
