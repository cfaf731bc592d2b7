//! The keys of a running daemon: read when it starts, and again when they have changed.

use std::path::Path;
use std::sync::Arc;

use farhop_proto::base::{Identity, PublicKey};
use farhop_proto::link::secure::{SecureSpec, SecurityConfig};
use farhop_proto::stack::NodePlan;

use super::driver::Driver;
use crate::keys::{Held, KeysError, KeysStatus, NodeKeys, random};

/// How a daemon protects its frames.
#[derive(Debug)]
pub struct Security {
    /// Mode and cipher.
    pub config: SecurityConfig,
    /// The node's own key pair.
    pub identity: Identity,
    /// Where the keys of the other nodes are stored.
    pub keys: NodeKeys,
}

/// The keys of a running daemon.
#[derive(Debug)]
pub(super) struct Keyring {
    keys: NodeKeys,
    own: PublicKey,
    status: KeysStatus,
    _held: Held,
}

impl Keyring {
    /// Claims the node's own key, reads the keys of others, and gives both to the driver's stack.
    ///
    /// Fails if another daemon runs with this key, or the keys of others cannot be read.
    pub(super) fn open(
        security: Security,
        plan: &NodePlan,
        socket: &Path,
        driver: &mut Driver,
    ) -> Result<Self, KeysError> {
        let Security { config, identity, keys } = security;
        // First: from here on this daemon is told of changes.
        let held = keys.store.hold(&plan.name, socket)?;
        let own = identity.public();
        let status = keys.read(own)?;
        driver.set_security(SecureSpec {
            node: plan.node,
            identity,
            entropy: random(),
            config,
            peers: plan.peers.clone(),
            keys: Arc::new(keys.numbered(&status)),
        });
        Ok(Self { keys, own, status, _held: held })
    }

    /// Reads the keys of others again; they take effect at once.
    ///
    /// Fails if they cannot be read: then the previous keys stay in effect.
    pub(super) fn refresh(&mut self, driver: &mut Driver) -> Result<&KeysStatus, KeysError> {
        let status = self.keys.read(self.own)?;
        for (name, key) in &status.nodes {
            if self.status.nodes.get(name) != Some(key) {
                tracing::info!("{name} is trusted with the key {key}");
            }
        }
        for name in self.status.nodes.keys().filter(|name| !status.nodes.contains_key(*name)) {
            tracing::warn!("{name} is trusted no more");
        }
        self.status = status;
        driver.set_keys(&self.keys.numbered(&self.status));
        Ok(&self.status)
    }

    /// The keys that are in effect.
    pub(super) fn status(&self) -> &KeysStatus {
        &self.status
    }
}
