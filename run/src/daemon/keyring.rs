//! The keys of a running daemon: taken at its start, read anew when somebody has changed them.

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
    /// The own key.
    pub identity: Identity,
    /// Where those of others are.
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
    /// Takes the own key, reads those of others, and gives both to the stack of the driver.
    ///
    /// Fails if another daemon runs with this key, or something is wrong with the others.
    pub(super) fn open(
        security: Security,
        plan: &NodePlan,
        socket: &Path,
        driver: &mut Driver,
    ) -> Result<Self, KeysError> {
        let Security { config, identity, keys } = security;
        // First: what is changed from here on is told to this daemon.
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

    /// Reads the keys of others anew; they hold at once.
    ///
    /// Fails if something is wrong with them: then those of before stay.
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

    /// The keys now.
    pub(super) fn status(&self) -> &KeysStatus {
        &self.status
    }
}
