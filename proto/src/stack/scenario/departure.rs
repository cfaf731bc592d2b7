//! Delays of a host, as distributions.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A delay of the host. In a file it is the name of a preset or a list of points of the
/// distribution, `[fraction, microseconds]`, rising and linear in between.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum DelayConfig {
    /// No delay.
    #[default]
    None,
    /// That of frames injected through a monitor interface of a real card (`users.md` 3.1).
    Injected,
    /// Points of the distribution.
    Points(Vec<[f64; 2]>),
}

/// 90% within 64 us, 99.9% within 1.6 ms. For the latter, cards lie between 0.8 and 3.2 ms, so the
/// distribution ends at 3.2.
const INJECTED: [[f64; 2]; 4] = [[0.0, 0.0], [0.9, 64.0], [0.999, 1600.0], [1.0, 3200.0]];

impl DelayConfig {
    /// Whether there is no delay.
    pub fn is_none(&self) -> bool {
        self.points().is_empty()
    }

    /// Points of the distribution; empty if there is no delay.
    pub fn points(&self) -> &[[f64; 2]] {
        match self {
            Self::None => &[],
            Self::Injected => &INJECTED,
            Self::Points(points) => points,
        }
    }
}

impl Serialize for DelayConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Injected => serializer.serialize_str("injected"),
            Self::Points(points) => points.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for DelayConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = DelayConfig;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("\"none\", \"injected\" or points such as [[0.9, 64], [1, 3200]]")
            }
            fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<DelayConfig, E> {
                match word {
                    "none" => Ok(DelayConfig::None),
                    "injected" => Ok(DelayConfig::Injected),
                    other => Err(E::unknown_variant(other, &["none", "injected"])),
                }
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(
                self,
                list: A,
            ) -> Result<DelayConfig, A::Error> {
                let points = serde::de::value::SeqAccessDeserializer::new(list);
                Vec::deserialize(points).map(DelayConfig::Points)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for DelayConfig {
    fn schema_name() -> Cow<'static, str> {
        "Delay".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        DelayForm::json_schema(generator)
    }
}

/// A delay of the host.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it stands for the forms in the schema")]
enum DelayForm {
    /// The name of a preset.
    Preset(DelayPreset),
    /// Points of the distribution, `[fraction, microseconds]`, rising and linear in between.
    Points(Vec<[f64; 2]>),
}

/// A delay by its name.
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[allow(dead_code, reason = "it stands for the forms in the schema")]
enum DelayPreset {
    /// No delay.
    None,
    /// That of frames injected through a monitor interface of a real card.
    Injected,
}
