//! Keys that a lab makes for its nodes, and that are deleted with its folder.

use std::path::{Path, PathBuf};

use farhop_proto::stack::Scenario;

use super::LabError;
use crate::keys::{KeysError, Store};

/// The folder of keys of a node in a lab.
pub(super) fn store(dir: &Path, node: &str) -> Result<Store, KeysError> {
    Store::open(Some(&folder(dir, node)))
}

/// Path of the folder of keys of a node.
pub(super) fn folder(dir: &Path, node: &str) -> PathBuf {
    dir.join("keys").join(node)
}

/// Turns on security, unless the scenario says otherwise, and makes a key for each node, even if
/// the scenario names one, since the lab does not have its private half.
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
