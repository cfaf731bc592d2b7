//! Choices of the MAC in a radio's settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::AccessCategory;

/// What goes before OFDM frames so that 802.11b stations leave them the air (802.11g, mixed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Nothing.
    #[default]
    None,
    /// A CTS to oneself at a rate that all understand.
    CtsToSelf,
}

/// When a frame that finds an empty queue goes without a backoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FirstAccess {
    /// When the medium has been idle for the whole interframe space (IEEE 802.11-2012 9.3.4.2).
    #[default]
    AfterGap,
    /// When the medium is idle at that moment, however shortly, and whatever comes before the
    /// interframe space is over: as ns-3 does it. A relay with an empty queue then passes a packet
    /// on straight behind its acknowledgement.
    WhenIdle,
}

/// How a radio chooses the bit-rate of data that names none. Links with slots name it for all, and
/// frames without MAC acknowledgement, of which nobody learns whether they came, go at the lowest
/// unless it is fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateControl {
    /// Always the configured one.
    #[default]
    Fixed,
    /// The firmware of Prism 2.5: down after a packet that failed, back to the highest after 10 s
    /// without another.
    Prism,
    /// Auto rate fallback: down after a packet that failed, up after ten in a row at their first
    /// attempt.
    Arf,
    /// By the measured success of each rate, with a tenth of the packets sent to measure.
    Minstrel,
}

/// What a radio changes of the parameters of one access category.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessConfig {
    /// Slots in the interframe space behind SIFS, 2 to 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aifsn: Option<u8>,
    /// Smallest contention window: a power of two less one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cw_min: Option<u32>,
    /// Largest contention window: a power of two less one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cw_max: Option<u32>,
    /// How long the category may hold the air, in microseconds up to 8160; 0 is one frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txop_us: Option<u32>,
}

/// What a radio changes of the parameters of its access categories.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessConfigs {
    /// AC_BK.
    pub background: AccessConfig,
    /// AC_BE.
    pub best_effort: AccessConfig,
    /// AC_VI.
    pub video: AccessConfig,
    /// AC_VO.
    pub voice: AccessConfig,
}

impl AccessConfigs {
    /// Whether nothing is changed.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Of one category.
    pub const fn of(&self, access: AccessCategory) -> &AccessConfig {
        match access {
            AccessCategory::Background => &self.background,
            AccessCategory::BestEffort => &self.best_effort,
            AccessCategory::Video => &self.video,
            AccessCategory::Voice => &self.voice,
        }
    }
}
