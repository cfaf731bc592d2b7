//! Transport protocols, which carry the messages of applications in datagrams.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::base::{Datagrams, FlowId, Layer, Messages, Name};

pub mod hop;
pub mod tcp;
pub mod udp;

/// A transport protocol: one end of one flow.
pub trait Transport: Layer<Above = Messages, Below = Datagrams> {
    /// Whether a received IP packet belongs to this flow end.
    fn accepts(&self, packet: &[u8]) -> bool;

    /// The flow id of all packets that it accepts, as [`crate::wire::ip::flow`] computes it; `None`
    /// if it accepts none. Other packets may have the same id.
    fn accepted_flow(&self) -> Option<FlowId>;

    /// Payload bytes that the application was given so far. It is cheap, for sampling.
    fn delivered_bytes(&self) -> u64 {
        self.status().delivered_bytes
    }

    /// Bytes and counters so far, for reports.
    fn status(&self) -> TransportStatus;
}

/// Bytes and counters of one end of a flow.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TransportStatus {
    /// Name of the protocol.
    pub kind: Name,
    /// Payload bytes that were handed to the network, each counted once.
    pub sent_bytes: u64,
    /// Payload bytes that the peer is known to have.
    pub acked_bytes: u64,
    /// Payload bytes that were given to the application.
    pub delivered_bytes: u64,
    /// Counters by name.
    pub counters: BTreeMap<Name, u64>,
}
