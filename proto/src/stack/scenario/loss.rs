//! Loss processes, as a file writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A loss process. In a file, a number is the loss of each frame by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LossConfig {
    /// Each frame is lost by itself with probability `p`.
    Bernoulli {
        /// Probability, 0 to 1.
        p: f64,
    },
    /// Two states in continuous time, with a loss of their own.
    GilbertElliott {
        /// Mean stay in the good state, in milliseconds.
        good_ms: f64,
        /// Mean stay in the bad state, in milliseconds.
        bad_ms: f64,
        /// Loss in the good state, 0 to 1.
        good_loss: f64,
        /// Loss in the bad state, 0 to 1.
        bad_loss: f64,
    },
}

impl Default for LossConfig {
    fn default() -> Self {
        Self::Bernoulli { p: 0.0 }
    }
}

impl JsonSchema for LossConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Loss".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        LossForm::json_schema(generator)
    }
}

/// Loss of a link: a number from 0 to 1, or a process.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "it stands for the forms in the schema")]
enum LossForm {
    /// Loss of each frame by itself, 0 to 1.
    Each(f64),
    /// A process with its settings.
    Process(LossProcess),
}

/// A loss process with its settings.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum LossProcess {
    /// Each frame is lost by itself with probability `p`.
    Bernoulli {
        /// Probability, 0 to 1.
        p: f64,
    },
    /// Two states in continuous time, with a loss of their own.
    GilbertElliott {
        /// Mean stay in the good state, in milliseconds.
        good_ms: f64,
        /// Mean stay in the bad state, in milliseconds.
        bad_ms: f64,
        /// Loss in the good state, 0 to 1.
        good_loss: f64,
        /// Loss in the bad state, 0 to 1.
        bad_loss: f64,
    },
}

impl<'de> Deserialize<'de> for LossConfig {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = LossConfig;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "a loss between 0 and 1, or a table such as { kind = \"bernoulli\", p = 0.1 }",
                )
            }
            fn visit_f64<E>(self, p: f64) -> Result<LossConfig, E> {
                Ok(LossConfig::Bernoulli { p })
            }
            fn visit_i64<E>(self, p: i64) -> Result<LossConfig, E> {
                Ok(LossConfig::Bernoulli { p: p as f64 })
            }
            fn visit_u64<E>(self, p: u64) -> Result<LossConfig, E> {
                Ok(LossConfig::Bernoulli { p: p as f64 })
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                map: A,
            ) -> Result<LossConfig, A::Error> {
                let table = serde::de::value::MapAccessDeserializer::new(map);
                Ok(match LossProcess::deserialize(table)? {
                    LossProcess::Bernoulli { p } => LossConfig::Bernoulli { p },
                    LossProcess::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
                        LossConfig::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss }
                    }
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
