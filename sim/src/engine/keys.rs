//! Keys of nodes that exist for one run: they follow from its seed, and are secrets from nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use farhop_proto::base::{Identity, PublicKey};
use farhop_proto::base::{NodeId, Seed};
use farhop_proto::link::secure::SecureSpec;
use farhop_proto::stack::{NodePlan, Plan};

use crate::adversary::OldKey;

/// Nodes of which a stranger has the public keys, at most.
const STRANGERS_KEYS: usize = 32;

fn bytes(seed: Seed, node: NodeId, what: &str) -> [u8; 32] {
    let mut rng = seed.stream(&format!("node/{}/{what}", node.0));
    let mut out = [0; 32];
    for word in out.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    out
}

fn identity(seed: Seed, node: NodeId) -> Identity {
    Identity::from_secret(bytes(seed, node, "key"))
}

/// The keys of all nodes, where they are protected and must know each other's from afar.
pub(super) fn of_all(plan: &Plan, seed: Seed) -> Option<Arc<BTreeMap<NodeId, PublicKey>>> {
    let first = plan.nodes.first()?;
    let is_needed = first.security.is_some() && first.stack.routing.floods();
    let key = |node: &NodePlan| (node.node, identity(seed, node.node).public());
    is_needed.then(|| Arc::new(plan.nodes.iter().map(key).collect()))
}

/// How the frames of a node are protected, if they are. Without the keys of all nodes it has those
/// of its neighbours.
pub(super) fn secure(
    plan: &NodePlan,
    seed: Seed,
    all: Option<&Arc<BTreeMap<NodeId, PublicKey>>>,
) -> Option<SecureSpec> {
    let config = plan.security.as_deref()?.clone();
    let key = |node: NodeId| (node, identity(seed, node).public());
    let of_peers = || Arc::new(plan.peers.iter().map(|peer| key(peer.node)).collect());
    let keys = all.map_or_else(of_peers, Arc::clone);
    Some(SecureSpec {
        node: plan.node,
        identity: identity(seed, plan.node),
        entropy: bytes(seed, plan.node, "entropy"),
        config,
        peers: plan.peers.clone(),
        keys,
    })
}

/// What a stranger has who was once trusted, where frames are protected.
pub(super) fn old_key(plan: &Plan, seed: Seed) -> Option<OldKey> {
    let security = plan.nodes.first()?.security.as_deref()?.clone();
    let key = |node: &NodePlan| (node.node, identity(seed, node.node).public());
    Some(OldKey { security, keys: plan.nodes.iter().take(STRANGERS_KEYS).map(key).collect() })
}
