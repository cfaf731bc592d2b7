//! Transports: what carries messages of applications over datagrams.

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

    /// The flow of all packets that it accepts, as [`crate::wire::ip::flow`] computes it; nothing
    /// if it accepts none. Packets of others may have the same.
    fn accepted_flow(&self) -> Option<FlowId>;

    /// Payload bytes that were given to the application so far; cheap, for sampling.
    fn delivered_bytes(&self) -> u64 {
        self.status().delivered_bytes
    }

    /// What it did, for reports.
    fn status(&self) -> TransportStatus;
}

/// What one end of a flow did.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TransportStatus {
    /// Protocol.
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
