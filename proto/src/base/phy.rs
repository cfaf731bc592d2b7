//! Air time: how long each frame of each 802.11 PHY takes (IEEE 802.11-1999, b clauses 15 and 18,
//! a clause 17, g clause 19; `radio.md` 1).
//!
//! Pure arithmetic, shared by the links that plan their air time and by the simulated chip.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::RadioId;
use super::time::Duration;
use super::units::Bitrate;

/// MAC header of a data frame without QoS, in bytes.
pub const DATA_HEADER_BYTES: usize = 24;
/// What QoS control adds to a data header, in bytes.
pub const QOS_CONTROL_BYTES: usize = 2;
/// LLC and SNAP headers, in bytes.
pub const LLC_SNAP_BYTES: usize = 8;
/// Frame check sequence, in bytes.
pub const FCS_BYTES: usize = 4;
/// ACK and CTS frames with their check sequence, in bytes.
pub const ACK_BYTES: usize = 14;
/// RTS frame with its check sequence, in bytes.
pub const RTS_BYTES: usize = 20;

/// Which PHY a radio has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PhyKind {
    /// DSSS and CCK, 2.4 GHz.
    #[default]
    #[serde(rename = "802.11b")]
    B,
    /// OFDM, 5 GHz.
    #[serde(rename = "802.11a")]
    A,
    /// ERP-OFDM at 2.4 GHz without 802.11b neighbours.
    #[serde(rename = "802.11g")]
    G,
}

/// DSSS preamble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preamble {
    /// 144 + 48 bits at 1 Mb/s.
    #[default]
    Long,
    /// 72 bits at 1 Mb/s, 48 at 2 Mb/s; never for frames at 1 Mb/s.
    Short,
}

/// The gap that a radio leaves before a frame without MAC acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// DIFS and a draw from the contention window, as the radios of the published systems did.
    #[default]
    Backoff,
    /// DIFS alone: what a card does with its contention window set to zero.
    Difs,
    /// SIFS: frames of one TXOP burst.
    Sifs,
}

/// One PHY with its fixed choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phy {
    /// Which one.
    pub kind: PhyKind,
    /// DSSS preamble; without meaning for OFDM.
    pub preamble: Preamble,
}

const DSSS_RATES: [Bitrate; 4] = [
    Bitrate::from_100kbps(10),
    Bitrate::from_100kbps(20),
    Bitrate::from_100kbps(55),
    Bitrate::from_100kbps(110),
];
const OFDM_RATES: [Bitrate; 8] = [
    Bitrate::from_100kbps(60),
    Bitrate::from_100kbps(90),
    Bitrate::from_100kbps(120),
    Bitrate::from_100kbps(180),
    Bitrate::from_100kbps(240),
    Bitrate::from_100kbps(360),
    Bitrate::from_100kbps(480),
    Bitrate::from_100kbps(540),
];

impl Phy {
    /// The rates of this PHY, rising.
    pub fn rates(&self) -> &'static [Bitrate] {
        match self.kind {
            PhyKind::B => &DSSS_RATES,
            PhyKind::A | PhyKind::G => &OFDM_RATES,
        }
    }

    /// Slot time.
    pub const fn slot(&self) -> Duration {
        match self.kind {
            PhyKind::B => Duration::from_micros(20),
            PhyKind::A | PhyKind::G => Duration::from_micros(9),
        }
    }

    /// Short interframe space.
    pub const fn sifs(&self) -> Duration {
        match self.kind {
            PhyKind::B | PhyKind::G => Duration::from_micros(10),
            PhyKind::A => Duration::from_micros(16),
        }
    }

    /// Distributed interframe space: SIFS and two slots.
    pub fn difs(&self) -> Duration {
        self.sifs() + self.slot() * 2
    }

    /// Smallest and largest contention window.
    pub const fn contention_window(&self) -> (u32, u32) {
        match self.kind {
            PhyKind::B => (31, 1023),
            PhyKind::A | PhyKind::G => (15, 1023),
        }
    }

    /// The part of [`Self::plcp`] before the header: synchronisation alone.
    pub fn preamble(&self, rate: Bitrate) -> Duration {
        match self.kind {
            PhyKind::B if self.plcp(rate) == Duration::from_micros(96) => Duration::from_micros(72),
            PhyKind::B => Duration::from_micros(144),
            PhyKind::A | PhyKind::G => Duration::from_micros(16),
        }
    }

    /// Preamble and PLCP header of a frame at `rate`.
    pub fn plcp(&self, rate: Bitrate) -> Duration {
        match self.kind {
            PhyKind::B if self.preamble == Preamble::Short && rate > DSSS_RATES[0] => {
                Duration::from_micros(96)
            }
            PhyKind::B => Duration::from_micros(192),
            PhyKind::A | PhyKind::G => Duration::from_micros(20),
        }
    }

    /// Air time of a frame of `bytes` bytes (MPDU with its check sequence) at `rate`.
    ///
    /// DSSS and CCK round up to a whole microsecond (the LENGTH field, clause 18.2.3.5); OFDM to a
    /// whole symbol of 4 us, and ERP-OFDM adds the 6 us of its signal extension.
    pub fn air_time(&self, bytes: usize, rate: Bitrate) -> Duration {
        let bits = bytes as u64 * 8;
        match self.kind {
            PhyKind::B => {
                self.plcp(rate) + Duration::from_micros((bits * 1_000_000).div_ceil(rate.bps()))
            }
            PhyKind::A | PhyKind::G => {
                let bits_per_symbol = rate.bps() * 4 / 1_000_000;
                let symbols = (16 + bits + 6).div_ceil(bits_per_symbol);
                let extension = if self.kind == PhyKind::G { 6 } else { 0 };
                Duration::from_micros(20 + 4 * symbols + extension)
            }
        }
    }

    /// The rate of the control frame that answers data at `rate`: the highest basic rate that is
    /// not above it; 1 and 2 Mb/s for b, 6, 12 and 24 for a and g.
    pub fn control_rate(&self, rate: Bitrate) -> Bitrate {
        let basic: &[Bitrate] = match self.kind {
            PhyKind::B => &DSSS_RATES[..2],
            PhyKind::A | PhyKind::G => &[OFDM_RATES[0], OFDM_RATES[2], OFDM_RATES[4]],
        };
        basic.iter().rev().copied().find(|basic| *basic <= rate).unwrap_or(basic[0])
    }

    /// Extended interframe space: SIFS, DIFS and an ACK at the lowest basic rate.
    pub fn eifs(&self) -> Duration {
        let lowest = self.rates()[0];
        self.sifs() + self.difs() + self.air_time(ACK_BYTES, lowest)
    }
}

/// What a link must know of a radio to plan its air time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadioSpec {
    /// The radio.
    pub id: RadioId,
    /// PHY.
    pub phy: Phy,
    /// Bit-rate of data.
    pub rate: Bitrate,
    /// Gap before frames without MAC acknowledgement.
    pub gap: Gap,
    /// Channel number: radios of one node on one channel share their slots.
    pub channel: u16,
}

impl RadioSpec {
    /// Air time of a frame without MAC acknowledgement whose payload behind LLC/SNAP has `bytes`
    /// bytes, the expected gap before it included.
    pub fn unacknowledged(&self, bytes: usize) -> Duration {
        let mpdu = DATA_HEADER_BYTES + QOS_CONTROL_BYTES + LLC_SNAP_BYTES + bytes + FCS_BYTES;
        self.mean_gap() + self.phy.air_time(mpdu, self.rate)
    }

    /// The gap before a frame, its mean where the radio draws it.
    pub fn mean_gap(&self) -> Duration {
        match self.gap {
            Gap::Backoff => {
                let (smallest, _) = self.phy.contention_window();
                self.phy.difs() + self.phy.slot() * u64::from(smallest) / 2
            }
            Gap::Difs => self.phy.difs(),
            Gap::Sifs => self.phy.sifs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(phy: Phy, bytes: usize, rate: u64) -> u64 {
        phy.air_time(bytes, Bitrate::from_100kbps(rate)).as_micros()
    }

    #[test]
    fn air_time_is_that_of_the_reference_table() {
        let long = Phy::default();
        let dsss = [10, 20, 55, 110].map(|rate| micros(long, 1536, rate));
        assert_eq!(dsss, [12480, 6336, 2427, 1310]);
        let a = Phy { kind: PhyKind::A, ..long };
        let ofdm = [60, 90, 120, 180, 240, 360, 480, 540].map(|rate| micros(a, 1536, rate));
        assert_eq!(ofdm, [2072, 1388, 1048, 704, 536, 364, 280, 248]);
    }

    #[test]
    fn the_short_preamble_saves_96_us_but_not_at_1_mbps() {
        let short = Phy { preamble: Preamble::Short, ..Phy::default() };
        let dsss = [10, 20, 55, 110].map(|rate| micros(short, 1536, rate));
        assert_eq!(dsss, [12480, 6240, 2331, 1214]);
    }

    #[test]
    fn acknowledgements_take_what_the_standard_says() {
        let long = Phy::default();
        let short = Phy { preamble: Preamble::Short, ..long };
        let a = Phy { kind: PhyKind::A, ..long };
        assert_eq!(micros(long, ACK_BYTES, 10), 304);
        assert_eq!(micros(long, ACK_BYTES, 20), 248);
        assert_eq!(micros(short, ACK_BYTES, 20), 152);
        assert_eq!([60, 120, 240].map(|rate| micros(a, ACK_BYTES, rate)), [44, 32, 28]);
        assert_eq!(long.eifs().as_micros(), 364);
    }

    #[test]
    fn interframe_spaces_follow_from_slot_and_sifs() {
        let difs = [PhyKind::B, PhyKind::A, PhyKind::G]
            .map(|kind| Phy { kind, ..Phy::default() }.difs().as_micros());
        assert_eq!(difs, [50, 34, 28]);
    }

    #[test]
    fn control_frames_use_the_highest_basic_rate_not_above_the_data() {
        let b = Phy::default();
        let a = Phy { kind: PhyKind::A, ..b };
        let control = |phy: Phy, rate| phy.control_rate(Bitrate::from_100kbps(rate)).mbps();
        assert_eq!([10, 20, 55, 110].map(|rate| control(b, rate)), [1.0, 2.0, 2.0, 2.0]);
        assert_eq!([60, 90, 180, 540].map(|rate| control(a, rate)), [6.0, 6.0, 12.0, 24.0]);
    }
}
