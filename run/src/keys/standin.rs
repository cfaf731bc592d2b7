//! Stand-in until the layer is there.
#![allow(missing_docs)]

use std::collections::BTreeMap;

use farhop_proto::base::NodeId;
use farhop_proto::link::PeerSpec;
use farhop_proto::link::secure::{Identity, PublicKey, SecurityConfig};

#[derive(Debug)]
pub struct SecureSpec {
    pub node: NodeId,
    pub identity: Identity,
    pub entropy: [u8; 32],
    pub config: SecurityConfig,
    pub peers: Vec<PeerSpec>,
    pub keys: BTreeMap<NodeId, PublicKey>,
}
