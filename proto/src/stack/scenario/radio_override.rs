//! Settings of one radio that override those of `[radio]`.
//!
//! They are read as a whole [`RadioConfig`], which checks names and types where they are written.
//! Which keys were given is kept beside it, and only these keys count.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::radio::RadioConfig;
use crate::base::PhyKind;

/// Keys that mean something else, or nothing, for another PHY.
const OF_THE_PHY: [&str; 12] = [
    "preamble",
    "band",
    "width_mhz",
    "streams",
    "guard_interval",
    "mixed",
    "protection",
    "rate_mbps",
    "mcs",
    "ack_rate_mbps",
    "broadcast_rate_mbps",
    "slot_us",
];
/// The keys of the link budget, on which the strength of a signal depends beside the distance.
const BUDGET: [&str; 3] = ["tx_power_dbm", "antenna_gain_dbi", "cable_loss_db"];

/// Settings of one radio that override those of all radios.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RadioOverride {
    given: Vec<String>,
    config: Box<RadioConfig>,
}

impl RadioOverride {
    /// The given settings over the defaults, but with EDCA and the PHY of `base` where they are not
    /// given: the meaning of other settings depends on these.
    pub fn with_phy_of(&self, base: &RadioConfig) -> RadioConfig {
        let mut config = (*self.config).clone();
        // Nothing contends on a wire.
        config.edca |= !self.has("edca") && base.edca && self.config.phy != PhyKind::Wire;
        if self.has("phy") && self.config.phy != base.phy {
            return config;
        }
        let given = |key| self.has(key);
        config.phy = base.phy;
        config.preamble = if given("preamble") { config.preamble } else { base.preamble };
        config.band = if given("band") { config.band } else { base.band };
        config.width_mhz = if given("width_mhz") { config.width_mhz } else { base.width_mhz };
        config.streams = if given("streams") { config.streams } else { base.streams };
        config.mixed = if given("mixed") { config.mixed } else { base.mixed };
        config.guard_interval =
            if given("guard_interval") { config.guard_interval } else { base.guard_interval };
        config
    }

    /// Whether a key of the link budget is given.
    pub fn has_budget(&self) -> bool {
        BUDGET.iter().any(|key| self.has(key))
    }

    /// These settings over those of `base`. If the PHY differs, the keys of `base` that depend on
    /// its PHY, such as rates, no longer apply.
    ///
    /// Panics if a number of either is infinite or NaN.
    pub fn over(&self, base: &RadioConfig) -> RadioConfig {
        let (mut merged, own) = (fields(base), fields(&self.config));
        if self.has("phy") && self.config.phy != base.phy {
            merged.retain(|key, _| !OF_THE_PHY.contains(&key.as_str()));
        }
        if self.config.phy == PhyKind::Wire {
            // Nothing contends on a wire.
            merged.retain(|key, _| !["edca", "access"].contains(&key.as_str()));
        }
        let given = |key: &String| Some((key.clone(), own.get(key)?.clone()));
        merged.extend(self.given.iter().filter_map(given));
        serde_json::from_value(Value::Object(merged)).expect("numbers are numbers")
    }

    /// The same settings on another channel.
    pub(in crate::stack) fn on_channel(mut self, channel: u16) -> Self {
        self.config.channel = channel;
        if !self.has("channel") {
            self.given.push("channel".into());
        }
        self
    }

    /// Whether a setting is given.
    pub fn has(&self, key: &str) -> bool {
        self.given.iter().any(|given| given == key)
    }
}

fn fields(config: &RadioConfig) -> Map<String, Value> {
    match serde_json::to_value(config) {
        Ok(Value::Object(fields)) => fields,
        other => unreachable!("a struct is an object: {other:?}"),
    }
}

impl Serialize for RadioOverride {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = fields(&self.config);
        fields.retain(|key, _| self.has(key));
        fields.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RadioOverride {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = RadioOverride;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table with settings of a radio, such as { channel = 6 }")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RadioOverride, A::Error> {
                let mut given = Vec::new();
                let noted = Noted { map, given: &mut given };
                let table = serde::de::value::MapAccessDeserializer::new(noted);
                let config = Box::new(RadioConfig::deserialize(table)?);
                Ok(RadioOverride { given, config })
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// A map whose keys are noted as they are read.
struct Noted<'a, A> {
    map: A,
    given: &'a mut Vec<String>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Noted<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.map.next_key::<String>()? else { return Ok(None) };
        self.given.push(key.clone());
        seed.deserialize(key.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

impl JsonSchema for RadioOverride {
    fn schema_name() -> Cow<'static, str> {
        RadioConfig::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        RadioConfig::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Protection;
    use super::*;

    fn read(text: &str) -> RadioOverride {
        serde_json::from_str(text).expect("settings of a radio")
    }

    #[test]
    fn only_what_is_given_differs() {
        let base = RadioConfig { attempts: 3, rate_mbps: Some(5.5), ..RadioConfig::default() };
        let own = read(r#"{ "channel": 6, "attempts": 7 }"#).over(&base);
        assert_eq!(own, RadioConfig { channel: 6, attempts: 7, ..base });
    }

    #[test]
    fn access_categories_are_checked_with_edca_where_all_have_it() {
        let base = RadioConfig { edca: true, ..RadioConfig::default() };
        for (own, has_edca) in [
            (r#"{ "access": { "best_effort": { "aifsn": 2 } } }"#, true),
            (r#"{ "phy": "802.11a" }"#, true),
            (r#"{ "edca": false }"#, false),
            (r#"{ "phy": "wire" }"#, false),
        ] {
            assert_eq!(read(own).with_phy_of(&base).edca, has_edca, "{own}");
        }
    }

    #[test]
    fn another_phy_does_not_take_the_rate_along() {
        let base = RadioConfig { rate_mbps: Some(5.5), ..RadioConfig::default() };
        let own = read(r#"{ "phy": "802.11a" }"#).over(&base);
        assert_eq!((own.phy, own.rate_mbps), (PhyKind::A, None));
        assert_eq!(read(r#"{ "phy": "802.11b" }"#).over(&base), base);
    }

    #[test]
    fn a_radio_without_ofdm_has_nothing_to_protect() {
        let protection = Protection::CtsToSelf;
        let base = RadioConfig { phy: PhyKind::G, mixed: true, protection, ..Default::default() };
        let older = read(r#"{ "phy": "802.11b" }"#).over(&base);
        assert_eq!((older.mixed, older.protection), (false, Protection::None));
    }

    #[test]
    fn a_wire_has_no_access_categories() {
        let base = RadioConfig { edca: true, ..RadioConfig::default() };
        assert!(!read(r#"{ "phy": "wire" }"#).over(&base).edca);
    }

    #[test]
    fn it_is_written_as_it_was_read() {
        let text = r#"{"rate_mbps":2.0,"channel":6}"#;
        assert_eq!(serde_json::to_string(&read(text)).expect("plain data"), text);
    }

    #[test]
    fn unknown_keys_are_refused() {
        let error = serde_json::from_str::<RadioOverride>(r#"{ "chanel": 6 }"#).expect_err("no");
        assert!(error.to_string().contains("unknown field `chanel`"), "{error}");
    }
}
