//! Loss processes as scenario files write them (`radio.md` 5).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Scenario;
use crate::base::Bitrate;
use crate::stack::loss_trace::LossTrace;

/// A loss process. A plain number in a file is the probability of losing each frame independently.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LossConfig {
    /// Each frame is lost independently with probability `p`.
    Bernoulli {
        /// Probability, 0 to 1.
        p: f64,
    },
    /// Each unit of a frame is lost independently with probability `p`, and the frame with any of
    /// them.
    BernoulliUnits {
        /// Probability, 0 to 1.
        p: f64,
        /// Size of a unit, in bytes.
        unit_bytes: u32,
    },
    /// Two states in continuous time, each with a loss of its own.
    GilbertElliott {
        /// Mean time in the good state, in milliseconds.
        good_ms: f64,
        /// Mean time in the bad state, in milliseconds.
        bad_ms: f64,
        /// Loss in the good state, 0 to 1.
        good_loss: f64,
        /// Loss in the bad state, 0 to 1.
        bad_loss: f64,
    },
    /// Two states that may change with each frame, each with a loss of its own.
    GilbertElliottFrames {
        /// Probability that the bad state follows the good one.
        to_bad: f64,
        /// Probability that the good state follows the bad one.
        to_good: f64,
        /// Loss in the good state, 0 to 1.
        good_loss: f64,
        /// Loss in the bad state, 0 to 1.
        bad_loss: f64,
    },
    /// Runs of lost frames of given lengths, between geometric runs of frames that arrive.
    Runs(ErrorRunsConfig),
    /// A transmitter of constant load that the sender does not hear.
    Interferer(InterfererConfig),
    /// A loss that drifts within seconds to minutes, with or without bursts.
    Drift(DriftConfig),
    /// A loss that is drawn anew around its mean at regular intervals.
    Modulated(ModulatedConfig),
    /// Playback of a recording.
    Trace(TraceConfig),
    /// A loss for each bit-rate.
    ByRate(ByRateConfig),
    /// A driver that drops frames which the card has received, after another loss.
    Driver(DriverConfig),
}

/// Runs of lost frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ErrorRunsConfig {
    /// Long-run loss, 0 to 1.
    pub loss: f64,
    /// Distribution of the lengths of runs of lost frames: points `[length, share of runs that are
    /// no longer]`, rising to a share of 1, linear in between.
    pub errors: Vec<(u32, f64)>,
}

/// An 802.11b transmitter that the sender of the link does not hear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InterfererConfig {
    /// Payload rate, in Mb/s.
    pub load_mbps: f64,
    /// Payload of one packet, in bytes.
    pub size_bytes: u32,
    /// Bit-rate of its frames, in Mb/s.
    pub rate_mbps: f64,
}

impl Default for InterfererConfig {
    fn default() -> Self {
        Self { load_mbps: 0.5, size_bytes: 1440, rate_mbps: 11.0 }
    }
}

/// A loss that drifts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriftConfig {
    /// Mean loss of frames of `reference_bytes` outside bursts, 0 to 1.
    pub loss: f64,
    /// Standard deviation of the log-odds of the loss.
    #[serde(default = "one")]
    pub sigma: f64,
    /// Correlation time, in seconds.
    #[serde(default = "twenty")]
    pub correlation_s: f64,
    /// Length of the frames that `loss` holds for, in bytes; longer ones lose more.
    #[serde(default = "whole_packet")]
    pub reference_bytes: u32,
    /// Bursts of loss. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<BurstConfig>,
}

fn one() -> f64 {
    1.0
}

fn twenty() -> f64 {
    20.0
}

fn whole_packet() -> u32 {
    1536
}

/// Bursts of loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BurstConfig {
    /// Mean time from the end of a burst to the start of the next, in seconds.
    pub every_s: f64,
    /// Length of the shortest burst, in milliseconds.
    pub shortest_ms: f64,
    /// Length of the longest burst, in milliseconds; between the two the logarithm is uniform.
    pub longest_ms: f64,
    /// Loss during a burst, 0 to 1.
    pub loss: f64,
}

impl Default for BurstConfig {
    fn default() -> Self {
        Self { every_s: 60.0, shortest_ms: 1.0, longest_ms: 60_000.0, loss: 0.9 }
    }
}

/// A loss that is drawn anew at regular intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModulatedConfig {
    /// Mean loss, 0 to 1.
    pub loss: f64,
    /// Largest deviation from the mean, as a share of the mean, 0 to 1.
    #[serde(default = "half")]
    pub spread: f64,
    /// Time from one draw to the next, in milliseconds.
    #[serde(default = "hundred")]
    pub period_ms: f64,
    /// Distribution of the draws.
    #[serde(default)]
    pub shape: ModulationShape,
}

fn half() -> f64 {
    0.5
}

fn hundred() -> f64 {
    100.0
}

/// Distribution of a modulated loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModulationShape {
    /// Uniform between the lowest and the highest loss.
    #[default]
    Uniform,
    /// The lowest and the highest loss in turn.
    Square,
}

/// A recording of losses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TraceConfig {
    /// Path of the file, relative to the folder of the scenario, or absolute.
    pub file: String,
    /// The link of the file to play back (`a>b`). Default: its only link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Whether the recording starts over at its end; if not, it must last for the whole run.
    #[serde(default)]
    pub repeat: bool,
    /// The recording, filled in by whoever reads files.
    #[serde(skip)]
    pub recording: Option<Arc<LossTrace>>,
}

/// Losses by bit-rate, as measured on a link: the loss of a faster rate does not follow from the
/// signal strength alone (`radio.md` 4.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByRateConfig {
    /// `[bit-rate in Mb/s, loss]`, rising by bit-rate. Any other rate has the loss of the next
    /// faster one listed, and a rate faster than all of them that of the fastest.
    pub rates: Vec<(f64, LossConfig)>,
}

impl ByRateConfig {
    /// The loss of a rate.
    fn of(&self, rate: Bitrate) -> Option<&LossConfig> {
        let known = self.rates.iter().map(|(mbps, _)| Bitrate::from_mbps(*mbps));
        self.rates.get(rate.place_in(known)).map(|(_, loss)| loss)
    }
}

/// A driver that drops frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverConfig {
    /// Share of the received frames that the driver drops, 0 to 1.
    pub q: f64,
    /// Whether the card has acknowledged the frames that the driver drops.
    #[serde(default = "yes")]
    pub ack: bool,
    /// Loss before the driver.
    #[serde(default)]
    pub loss: Box<LossConfig>,
}

fn yes() -> bool {
    true
}

impl Scenario {
    /// All losses of the scenario with their keys.
    pub fn losses_mut(&mut self) -> impl Iterator<Item = (String, &mut LossConfig)> {
        let of_links = self.link.iter_mut().enumerate().flat_map(|(index, link)| {
            let named = |key: &'static str, loss| (format!("link[{index}].{key}"), loss);
            let there = link.loss.as_mut().map(|loss| named("loss", loss));
            let back = link.loss_back.as_mut().map(|loss| named("loss_back", loss));
            there.into_iter().chain(back)
        });
        of_links.chain([("propagation.loss".to_owned(), &mut self.propagation.loss)])
    }
}

impl LossConfig {
    /// Long-run share of frames at a bit-rate that the receiver's card does not acknowledge, as far
    /// as it follows from the settings alone and not from the frame length; 0 for all other
    /// processes.
    pub fn mean(&self, rate: Bitrate) -> f64 {
        let of_two = |bad: f64, good_loss: f64, bad_loss: f64| {
            let bad = if bad.is_finite() { bad } else { 0.0 };
            good_loss + bad * (bad_loss - good_loss)
        };
        match self {
            Self::Bernoulli { p } | Self::BernoulliUnits { p, .. } => *p,
            Self::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
                of_two(bad_ms / (good_ms + bad_ms), *good_loss, *bad_loss)
            }
            Self::GilbertElliottFrames { to_bad, to_good, good_loss, bad_loss } => {
                of_two(to_bad / (to_bad + to_good), *good_loss, *bad_loss)
            }
            Self::Runs(runs) => runs.loss,
            Self::Drift(drift) => drift.loss,
            Self::ByRate(losses) => losses.of(rate).map_or(0.0, |loss| loss.mean(rate)),
            Self::Driver(driver) => {
                let unanswered = if driver.ack { 0.0 } else { driver.q };
                1.0 - (1.0 - driver.loss.mean(rate)) * (1.0 - unanswered)
            }
            Self::Interferer(_) | Self::Modulated(_) | Self::Trace(_) => 0.0,
        }
    }

    /// The recordings that the process plays back, those of nested processes too.
    pub fn recordings_mut(&mut self) -> Vec<&mut TraceConfig> {
        match self {
            Self::Trace(trace) => vec![trace],
            Self::ByRate(losses) => {
                losses.rates.iter_mut().flat_map(|(_, loss)| loss.recordings_mut()).collect()
            }
            Self::Driver(driver) => driver.loss.recordings_mut(),
            _ => Vec::new(),
        }
    }
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
    /// Probability of losing each frame independently, 0 to 1.
    Each(f64),
    /// A process with its settings.
    Process(LossProcess),
}

/// A loss process with its settings.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum LossProcess {
    /// Each frame is lost independently with probability `p`.
    Bernoulli {
        /// Probability, 0 to 1.
        p: f64,
    },
    /// Each unit of a frame is lost independently with probability `p`, and the frame with any of
    /// them.
    BernoulliUnits {
        /// Probability, 0 to 1.
        p: f64,
        /// Size of a unit, in bytes.
        unit_bytes: u32,
    },
    /// Two states in continuous time, each with a loss of its own.
    GilbertElliott {
        /// Mean time in the good state, in milliseconds.
        good_ms: f64,
        /// Mean time in the bad state, in milliseconds.
        bad_ms: f64,
        /// Loss in the good state, 0 to 1.
        good_loss: f64,
        /// Loss in the bad state, 0 to 1.
        bad_loss: f64,
    },
    /// Two states that may change with each frame, each with a loss of its own.
    GilbertElliottFrames {
        /// Probability that the bad state follows the good one.
        to_bad: f64,
        /// Probability that the good state follows the bad one.
        to_good: f64,
        /// Loss in the good state, 0 to 1.
        good_loss: f64,
        /// Loss in the bad state, 0 to 1.
        bad_loss: f64,
    },
    /// Runs of lost frames of given lengths, between geometric runs of frames that arrive.
    Runs(ErrorRunsConfig),
    /// A transmitter of constant load that the sender does not hear.
    Interferer(InterfererConfig),
    /// A loss that drifts within seconds to minutes, with or without bursts.
    Drift(DriftConfig),
    /// A loss that is drawn anew around its mean at regular intervals.
    Modulated(ModulatedConfig),
    /// Playback of a recording.
    Trace(TraceConfig),
    /// A loss for each bit-rate.
    ByRate(ByRateConfig),
    /// A driver that drops frames which the card has received, after another loss.
    Driver(DriverConfig),
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
                    LossProcess::BernoulliUnits { p, unit_bytes } => {
                        LossConfig::BernoulliUnits { p, unit_bytes }
                    }
                    LossProcess::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
                        LossConfig::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss }
                    }
                    LossProcess::GilbertElliottFrames { to_bad, to_good, good_loss, bad_loss } => {
                        LossConfig::GilbertElliottFrames { to_bad, to_good, good_loss, bad_loss }
                    }
                    LossProcess::Runs(runs) => LossConfig::Runs(runs),
                    LossProcess::Interferer(interferer) => LossConfig::Interferer(interferer),
                    LossProcess::Drift(drift) => LossConfig::Drift(drift),
                    LossProcess::Modulated(modulated) => LossConfig::Modulated(modulated),
                    LossProcess::Trace(trace) => LossConfig::Trace(trace),
                    LossProcess::ByRate(losses) => LossConfig::ByRate(losses),
                    LossProcess::Driver(driver) => LossConfig::Driver(driver),
                })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
