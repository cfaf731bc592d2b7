//! Finds the key of each node, from the keys in the scenario and the trusted keys.

use std::collections::BTreeMap;

use farhop_proto::base::NodeId;
use farhop_proto::base::PublicKey;
use farhop_proto::stack::{NodePlan, Scenario};
use serde::{Deserialize, Serialize};

use super::{KeysError, Store, Trust};

/// Where a daemon finds the keys of other nodes.
#[derive(Clone, Debug)]
pub struct NodeKeys {
    /// The folder of keys.
    pub store: Store,
    /// Name of this node.
    name: String,
    /// Numbers of all nodes.
    numbers: BTreeMap<String, NodeId>,
    /// Names of the neighbours.
    neighbours: Vec<String>,
    /// Keys in the scenario.
    scenario: BTreeMap<String, PublicKey>,
}

/// The keys that a daemon uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysStatus {
    /// The folder of keys.
    pub folder: String,
    /// This node's own key.
    pub key: PublicKey,
    /// The keys of other nodes, by their names.
    pub nodes: BTreeMap<String, PublicKey>,
    /// The names of all other nodes.
    #[serde(default)]
    pub names: Vec<String>,
    /// Neighbours whose keys are not known.
    pub missing: Vec<String>,
    /// Names of trusted keys that no node has.
    pub unused: Vec<String>,
    /// Nodes whose key in the scenario was revoked here, and those that have no key since theirs
    /// was revoked.
    pub revoked: Vec<String>,
}

impl NodeKeys {
    /// The keys that a scenario has for one of its nodes, and the folder with the trusted keys.
    pub fn build(scenario: &Scenario, plan: &NodePlan, store: Store) -> Self {
        let nodes = scenario.node.iter();
        Self {
            store,
            name: plan.name.clone(),
            numbers: (1..)
                .zip(nodes.clone())
                .map(|(n, node)| (node.name.clone(), NodeId(n)))
                .collect(),
            neighbours: plan.peer_names().into_values().collect(),
            scenario: nodes.filter_map(|node| Some((node.name.clone(), node.key?))).collect(),
        }
    }

    /// Reads the folder, and returns the keys of all other nodes.
    ///
    /// Fails if the folder and the scenario contradict each other, or one of them gives this node a
    /// key that is not its own.
    pub fn read(&self, own: PublicKey) -> Result<KeysStatus, KeysError> {
        self.check_own(own)?;
        let trusted = self.store.trusted()?;
        let mut nodes = BTreeMap::new();
        let mut revoked = Vec::new();
        for (name, key) in self.scenario.iter().filter(|(name, _)| **name != self.name) {
            self.check_other(own, *key)?;
            if trusted.is_revoked(key) {
                revoked.push(name.clone());
            } else {
                nodes.insert(name.clone(), *key);
            }
        }
        let mut unused = Vec::new();
        for entry in trusted.added() {
            self.check_other(own, entry.key)?;
            let fingerprint = || entry.key.fingerprint();
            if entry.name == self.name {
                let (name, fingerprint) = (self.name.clone(), fingerprint());
                return Err(KeysError::OwnName { name, fingerprint, dir: self.store.dir().into() });
            }
            if !self.numbers.contains_key(&entry.name) {
                unused.push(entry.name.clone());
                continue;
            }
            let twice = nodes.iter().find(|(name, key)| **key == entry.key && **name != entry.name);
            if let Some((name, _)) = twice {
                let (name, other) = (name.clone(), entry.name.clone());
                return Err(KeysError::KeyTwice { fingerprint: fingerprint(), name, other });
            }
            match nodes.insert(entry.name.clone(), entry.key) {
                Some(scenario) if scenario != entry.key => {
                    return Err(KeysError::Contradiction {
                        name: entry.name.clone(),
                        scenario: scenario.fingerprint(),
                        trusted: fingerprint(),
                        path: self.store.trusted_file(),
                    });
                }
                _ => {}
            }
        }
        for entry in trusted.entries().filter(|entry| entry.state == Trust::Revoked) {
            let name = &entry.name;
            let is_without = *name != self.name && !nodes.contains_key(name);
            if is_without && self.numbers.contains_key(name) && !revoked.contains(name) {
                revoked.push(name.clone());
            }
        }
        let is_missing = |name: &&String| !nodes.contains_key(*name);
        Ok(KeysStatus {
            folder: self.store.dir().display().to_string(),
            key: own,
            names: self.numbers.keys().filter(|name| **name != self.name).cloned().collect(),
            missing: self.neighbours.iter().filter(is_missing).cloned().collect(),
            nodes,
            unused,
            revoked,
        })
    }

    fn check_own(&self, own: PublicKey) -> Result<(), KeysError> {
        match self.scenario.get(&self.name) {
            Some(key) if *key != own => Err(KeysError::OwnDiffers {
                name: self.name.clone(),
                scenario: key.fingerprint(),
                own: own.fingerprint(),
                dir: self.store.dir().into(),
            }),
            _ => Ok(()),
        }
    }

    fn check_other(&self, own: PublicKey, key: PublicKey) -> Result<(), KeysError> {
        if key != own {
            return Ok(());
        }
        let (fingerprint, dir) = (key.fingerprint(), self.store.dir().into());
        Err(KeysError::Own { fingerprint, dir })
    }

    /// The keys by the numbers of their nodes.
    pub fn numbered(&self, status: &KeysStatus) -> BTreeMap<NodeId, PublicKey> {
        let number = |(name, key): (&String, &PublicKey)| Some((*self.numbers.get(name)?, *key));
        status.nodes.iter().filter_map(number).collect()
    }
}
