//! MAC options of a radio.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::AccessCategory;

/// What protects OFDM frames from 802.11b stations, which cannot decode them (`mixed` 802.11g).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Protection {
    /// Nothing.
    #[default]
    None,
    /// CTS-to-self, at a rate that all stations understand.
    CtsToSelf,
}

/// When a frame that finds an empty queue is sent without a backoff.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FirstAccess {
    /// If the medium has been idle for the whole interframe space (IEEE 802.11-2012 9.3.4.2).
    #[default]
    AfterGap,
    /// If the medium is idle at that moment, however briefly, and whatever happens before the
    /// interframe space is over, as in ns-3. A relay with an empty queue then forwards a packet
    /// right after its acknowledgement.
    WhenIdle,
}

/// How a radio chooses the bit-rate of data frames that do not name one. Links with slots name it
/// for all frames. Frames without MAC acknowledgement give no feedback and go at the lowest rate,
/// unless the rate is fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateControl {
    /// Always the configured rate.
    #[default]
    Fixed,
    /// The firmware of Prism 2.5: down after a packet that failed, back to the highest rate after
    /// 10 s without another failure. The firmware makes 8 attempts (`attempts = 8`).
    Prism,
    /// Auto rate fallback: down after a packet that failed, up after ten in a row that needed one
    /// attempt each.
    Arf,
    /// Adaptive auto rate fallback: the same, but after a step up that fails at once it waits for
    /// twice as many, at most 50.
    Aarf,
    /// By the measured success of each rate; a tenth of the packets probe other rates.
    Minstrel,
}

/// Changes to the parameters of one access category.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessConfig {
    /// Slots in the interframe space after SIFS (AIFSN), 2 to 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aifsn: Option<u8>,
    /// Smallest contention window: a power of two minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cw_min: Option<u32>,
    /// Largest contention window: a power of two minus one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cw_max: Option<u32>,
    /// How long the category may hold the air (TXOP), in microseconds, up to 8160; 0 is one frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub txop_us: Option<u32>,
}

/// Changes to the parameters of a radio's access categories.
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

    /// The changes to one category.
    pub const fn of(&self, access: AccessCategory) -> &AccessConfig {
        match access {
            AccessCategory::Background => &self.background,
            AccessCategory::BestEffort => &self.best_effort,
            AccessCategory::Video => &self.video,
            AccessCategory::Voice => &self.voice,
        }
    }
}
