//! `security`: a table, or the name of a mode by itself.

use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use crate::link::secure::{SecurityConfig, SecurityMode};

/// Reads both `security = "off"` and a table `[security]`.
pub(super) fn table_or_mode<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<SecurityConfig>, D::Error> {
    deserializer.deserialize_any(Either).map(Some)
}

/// Both forms, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it is only described")]
pub(super) enum Setting {
    /// The mode alone.
    Mode(SecurityMode),
    /// All settings.
    Table(SecurityConfig),
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = SecurityConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table, or one of `encrypt`, `authenticate-only` and `off`")
    }

    fn visit_str<E: serde::de::Error>(self, mode: &str) -> Result<SecurityConfig, E> {
        let mode = SecurityMode::deserialize(StrDeserializer::new(mode))?;
        Ok(SecurityConfig { mode, ..SecurityConfig::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SecurityConfig, A::Error> {
        SecurityConfig::deserialize(MapAccessDeserializer::new(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::secure::Cipher;
    use crate::stack::Scenario;

    fn read(security: &str) -> serde_json::Result<Option<SecurityConfig>> {
        let file = format!("{{\"name\": \"x\" {security}}}");
        serde_json::from_str::<Scenario>(&file).map(|file| file.security)
    }

    #[test]
    fn security_is_a_mode_or_a_table() {
        assert_eq!(read("").expect("nothing"), None);
        let off = read(", \"security\": \"off\"").expect("a mode").expect("something");
        assert_eq!(off.mode, SecurityMode::Off);
        let table = read(", \"security\": {\"cipher\": \"aes-128-gcm\"}").expect("a table");
        let table = table.expect("something");
        assert_eq!((table.mode, table.cipher), (SecurityMode::Encrypt, Cipher::Aes128Gcm));
        let error = read(", \"security\": \"none\"").expect_err("no such mode").to_string();
        assert!(error.contains("authenticate-only"), "{error}");
    }
}
