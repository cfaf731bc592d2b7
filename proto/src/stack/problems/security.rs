//! Checks of keys.

use std::collections::BTreeMap;

use super::Found;
use crate::base::PublicKey;
use crate::stack::Scenario;

pub(super) fn check_security(found: &mut Found, scenario: &Scenario) {
    if let Some(Err(error)) = scenario.security.as_ref().map(|security| security.psk_bytes()) {
        let help = "32 random bytes in base64, for example from `openssl rand -base64 32`";
        found.add("security.psk", format!("no key: {error}"), help);
    }
    let mut owners: BTreeMap<PublicKey, &str> = BTreeMap::new();
    for (index, node) in scenario.node.iter().enumerate() {
        let Some(key) = node.key else { continue };
        if let Some(other) = owners.insert(key, &node.name) {
            let message = format!("'{other}' and '{}' have one key", node.name);
            let help = "the line that `farhop keys` prints on that very node";
            found.add(format!("node[{index}].key"), message, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Identity;
    use crate::link::secure::SecurityConfig;
    use crate::stack::NodeConfig;

    #[test]
    fn a_key_has_one_node_and_a_shared_one_32_bytes() {
        let key = Some(Identity::from_secret([1; 32]).public());
        let node = |name: &str| NodeConfig { name: name.into(), key, ..NodeConfig::default() };
        let security = Some(SecurityConfig { psk: Some("c2hvcnQ=".into()), ..Default::default() });
        let scenario =
            Scenario { node: vec![node("hill"), node("mast")], security, ..Scenario::default() };
        let mut found = Found::default();
        check_security(&mut found, &scenario);
        let said: Vec<_> = found.0.iter().map(|found| (&*found.path, &*found.message)).collect();
        let twins = "'hill' and 'mast' have one key";
        assert_eq!(said, [("security.psk", "no key: 5 bytes, not 32"), ("node[1].key", twins)]);
    }
}
