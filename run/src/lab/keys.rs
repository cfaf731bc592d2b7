//! Keys that a lab makes for its nodes and throws away with its folder.

use std::path::{Path, PathBuf};

use farhop_proto::stack::Scenario;

use super::LabError;
use crate::keys::{KeysError, Store};

/// The keys of a node, in the folder of its lab.
pub(super) fn store(dir: &Path, node: &str) -> Result<Store, KeysError> {
    Store::open(Some(&folder(dir, node)))
}

/// Where they are.
pub(super) fn folder(dir: &Path, node: &str) -> PathBuf {
    dir.join("keys").join(node)
}

/// Protects the frames of a scenario that says nothing else, and gives each node a new key, also
/// where the scenario names one: the private halves of those are not here.
pub(super) fn make(scenario: &mut Scenario, dir: &Path) -> Result<(), LabError> {
    if !scenario.security.get_or_insert_default().is_on() {
        return Ok(());
    }
    for node in &mut scenario.node {
        let key = store(dir, &node.name).and_then(|store| store.own_or_new());
        let (identity, _) = key.map_err(|error| LabError::Refused(error.to_string()))?;
        node.key = Some(identity.public());
    }
    Ok(())
}
