//! Keys of nodes for one run. They follow from its seed, so they are no secret.

use std::collections::BTreeMap;
use std::sync::Arc;

use farhop_proto::base::{Identity, PublicKey};
use farhop_proto::base::{NodeId, Seed};
use farhop_proto::link::secure::SecureSpec;
use farhop_proto::stack::{NodePlan, Plan};

use crate::adversary::OldKey;

/// The most nodes whose public keys a stranger with an old key has.
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

/// The public keys of all nodes, if frames are protected and routing floods, so that nodes must
/// know keys from afar.
pub(super) fn of_all(plan: &Plan, seed: Seed) -> Option<Arc<BTreeMap<NodeId, PublicKey>>> {
    let first = plan.nodes.first()?;
    let is_needed = first.security.is_some() && first.stack.routing.floods();
    let key = |node: &NodePlan| (node.node, identity(seed, node.node).public());
    is_needed.then(|| Arc::new(plan.nodes.iter().map(key).collect()))
}

/// The security settings of a node; `None` if its frames are not protected. Without the keys of
/// `all` nodes it knows those of its neighbours.
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

/// Key material of a stranger that was once trusted; `None` if frames are not protected.
pub(super) fn old_key(plan: &Plan, seed: Seed) -> Option<OldKey> {
    let security = plan.nodes.first()?.security.as_deref()?.clone();
    let key = |node: &NodePlan| (node.node, identity(seed, node.node).public());
    Some(OldKey { security, keys: plan.nodes.iter().take(STRANGERS_KEYS).map(key).collect() })
}
