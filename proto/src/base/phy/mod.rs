//! Air time: how long each frame of each 802.11 PHY takes (IEEE 802.11-1999, b clauses 15 and 18, a
//! clause 17, g clause 19; 802.11-2012 clauses 18 and 20 for narrow channels and n; 802.11ac-2013
//! clause 22; `radio.md` 1).
//!
//! Pure arithmetic, shared by the links that plan their air time and by the simulated chip. A
//! narrow channel of a or g runs at a half or a quarter of the clock: symbols, preamble and SIFS
//! take two or four times as long, and the slot is that of table 18-17. The standard has no narrow
//! channels at 2.4 GHz; cards use the same times there, and a SIFS of 32 or 64 us needs no signal
//! extension.

mod ampdu;
mod channel;
mod form;
mod mode;
mod spec;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::AccessCategory;
use super::time::Duration;
use super::units::Bitrate;

pub use ampdu::{AmpduLimits, AmpduSize, DELIMITER_BYTES};
pub use mode::{Format, Mode, Ofdm};
pub use spec::{Contention, RadioSpec};

/// MAC header of a data frame without QoS, in bytes.
pub const DATA_HEADER_BYTES: usize = 24;
/// Length of the QoS control field in a data header, in bytes.
pub const QOS_CONTROL_BYTES: usize = 2;
/// Length of the LLC and SNAP headers, in bytes.
pub const LLC_SNAP_BYTES: usize = 8;
/// Frame check sequence, in bytes.
pub const FCS_BYTES: usize = 4;
/// Length of a data frame on air, from its MAC header to its check sequence, in bytes; `payload` is
/// the length of its payload behind LLC/SNAP.
pub const fn mpdu_bytes(is_qos: bool, payload: usize) -> usize {
    let qos = if is_qos { QOS_CONTROL_BYTES } else { 0 };
    DATA_HEADER_BYTES + qos + LLC_SNAP_BYTES + payload + FCS_BYTES
}

/// Length of ACK and CTS frames with their check sequence, in bytes.
pub const ACK_BYTES: usize = 14;
/// Length of an RTS frame with its check sequence, in bytes.
pub const RTS_BYTES: usize = 20;
/// Length of a compressed block acknowledgement with its check sequence, in bytes.
pub const BLOCK_ACK_BYTES: usize = 32;
/// Length of a block acknowledgement request with its check sequence, in bytes.
pub const BLOCK_ACK_REQUEST_BYTES: usize = 24;

/// The PHY of a radio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PhyKind {
    /// DSSS and CCK, 2.4 GHz.
    #[default]
    #[serde(rename = "802.11b")]
    B,
    /// OFDM, 5 GHz.
    #[serde(rename = "802.11a")]
    A,
    /// ERP-OFDM at 2.4 GHz.
    #[serde(rename = "802.11g")]
    G,
    /// HT, HT-mixed format, in either band.
    #[serde(rename = "802.11n")]
    N,
    /// VHT, 5 GHz.
    #[serde(rename = "802.11ac")]
    Ac,
    /// A wire: bytes at a rate, without preamble, gaps or contention.
    #[serde(rename = "wire")]
    Wire,
}

/// DSSS preamble.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Preamble {
    /// 144 + 48 bits at 1 Mb/s.
    #[default]
    Long,
    /// 72 bits at 1 Mb/s and 48 at 2 Mb/s; frames at 1 Mb/s still have the long one.
    Short,
}

/// The band of a radio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Band {
    /// 2.4 GHz: a SIFS of 10 us, and 6 us of signal extension after OFDM.
    #[serde(rename = "2.4GHz")]
    Ghz2,
    /// 5 GHz: a SIFS of 16 us.
    #[default]
    #[serde(rename = "5GHz")]
    Ghz5,
}

/// Width of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// 5 MHz: a quarter of the clock.
    Mhz5,
    /// 10 MHz: half the clock.
    Mhz10,
    /// 20 MHz, and the 22 MHz of DSSS.
    #[default]
    Mhz20,
    /// 40 MHz.
    Mhz40,
    /// 80 MHz.
    Mhz80,
}

impl Width {
    /// The width of this many MHz, if there is one.
    pub const fn from_mhz(mhz: u16) -> Option<Self> {
        match mhz {
            5 => Some(Self::Mhz5),
            10 => Some(Self::Mhz10),
            20 => Some(Self::Mhz20),
            40 => Some(Self::Mhz40),
            80 => Some(Self::Mhz80),
            _ => None,
        }
    }

    /// The width in MHz.
    pub const fn mhz(self) -> u16 {
        match self {
            Self::Mhz5 => 5,
            Self::Mhz10 => 10,
            Self::Mhz20 => 20,
            Self::Mhz40 => 40,
            Self::Mhz80 => 80,
        }
    }
}

/// The guard interval of n and ac.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GuardInterval {
    /// 0.8 us, symbols of 4 us.
    #[default]
    Long,
    /// 0.4 us, symbols of 3.6 us.
    Short,
}

/// The gap that a radio leaves before a frame without MAC acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gap {
    /// DIFS and a backoff, as in the radios of the published systems.
    #[default]
    Backoff,
    /// DIFS alone, as a card does with its contention window set to zero.
    Difs,
    /// SIFS, as between the frames of a TXOP.
    Sifs,
}

/// How the bit-rate of a control frame follows from that of the frame that it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AckRate {
    /// The highest basic rate that is not above it.
    #[default]
    Basic,
    /// The highest rate that is not above half of it, or else the lowest, as cards in an 802.11a
    /// testbed did (`radio.md` 1).
    Half,
}

impl AckRate {
    /// Whether it is the rule of the standard.
    pub fn is_basic(&self) -> bool {
        *self == Self::Basic
    }
}

/// A PHY with its fixed options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    /// The kind of PHY.
    pub kind: PhyKind,
    /// DSSS preamble; without effect on OFDM.
    pub preamble: Preamble,
    /// Width of the channel: 5 and 10 MHz for a and g, 40 for n and ac, 80 for ac.
    pub width: Width,
    /// Guard interval of n and ac.
    pub guard_interval: GuardInterval,
    /// Spatial streams of all data, 1 or 2; only n and ac use it.
    pub streams: u8,
    /// Band of n; each other kind has only one, see [`Phy::band`].
    pub band: Band,
    /// Whether g coexists with b: slots of 20 us, and the rates of both.
    pub mixed: bool,
    /// How the bit-rate of a control frame follows from that of the frame that it answers.
    pub ack_rule: AckRate,
}

impl Default for Phy {
    fn default() -> Self {
        Self {
            kind: PhyKind::B,
            preamble: Preamble::Long,
            width: Width::Mhz20,
            guard_interval: GuardInterval::Long,
            streams: 1,
            band: Band::Ghz5,
            mixed: false,
            ack_rule: AckRate::Basic,
        }
    }
}

/// Bits that OFDM adds before the data and, for each encoder, after it.
const SERVICE_BITS: u64 = 16;
const TAIL_BITS: u64 = 6;
/// Data bits of a symbol for each convolutional encoder in VHT: 600 Mb/s with symbols of 3.6 us.
const ENCODER_BITS: u64 = 2160;
/// Silence after OFDM at 2.4 GHz, to give decoders the time that the shorter SIFS lacks.
const SIGNAL_EXTENSION: Duration = Duration::from_micros(6);

impl Phy {
    /// Slot time.
    pub const fn slot(&self) -> Duration {
        Duration::from_micros(match (self.kind, self.slower()) {
            (PhyKind::Wire, _) => 0,
            (PhyKind::B, _) => 20,
            (_, 4) => 21,
            (_, 2) => 13,
            (PhyKind::G, _) if self.mixed => 20,
            _ => 9,
        })
    }

    /// Short interframe space.
    pub const fn sifs(&self) -> Duration {
        Duration::from_micros(match (self.kind, self.band(), self.slower()) {
            (PhyKind::Wire, ..) => 0,
            (_, Band::Ghz2, 1) => 10,
            (_, _, slower) => 16 * slower,
        })
    }

    /// Distributed interframe space: SIFS and two slots.
    pub fn difs(&self) -> Duration {
        self.sifs() + self.slot() * 2
    }

    /// Smallest and largest contention window.
    pub const fn contention_window(&self) -> (u32, u32) {
        match self.kind {
            PhyKind::Wire => (0, 0),
            PhyKind::B => (31, 1023),
            PhyKind::G if self.mixed => (31, 1023),
            _ => (15, 1023),
        }
    }

    /// Smallest and largest contention window of an access category (IEEE 802.11-2007, table 7-37).
    pub const fn contention_window_of(&self, access: AccessCategory) -> (u32, u32) {
        let (smallest, largest) = self.contention_window();
        match access {
            // A wire has no window.
            AccessCategory::Voice => {
                (((smallest + 1) / 4).saturating_sub(1), smallest.div_ceil(2).saturating_sub(1))
            }
            AccessCategory::Video => (smallest.div_ceil(2).saturating_sub(1), smallest),
            AccessCategory::BestEffort | AccessCategory::Background => (smallest, largest),
        }
    }

    /// The part of [`Self::plcp`] before the header: synchronisation only.
    pub fn preamble(&self, rate: Bitrate) -> Duration {
        if self.kind == PhyKind::Wire {
            Duration::ZERO
        } else if self.is_dsss(rate) {
            Duration::from_micros(if self.is_short(rate) { 72 } else { 144 })
        } else {
            Duration::from_micros(16 * self.slower())
        }
    }

    /// Preamble and PLCP header of a frame at `rate`; for HT and VHT everything before the data.
    pub fn plcp(&self, rate: Bitrate) -> Duration {
        if self.kind == PhyKind::Wire {
            return Duration::ZERO;
        }
        if self.is_dsss(rate) {
            return Duration::from_micros(if self.is_short(rate) { 96 } else { 192 });
        }
        let (sent, own) = self.sent(rate);
        let training = 4 * u64::from(sent.streams);
        Duration::from_micros(match (sent.kind, sent.mcs(own)) {
            (PhyKind::N, Some(_)) => 32 + training,
            (PhyKind::Ac, Some(_)) => 36 + training,
            _ => 20 * self.slower(),
        })
    }

    /// How long after its start a receiver indicates a frame at `rate` (aPHY-RX-START-Delay,
    /// 802.11-2012 tables 17-6 and 18-17): by then, an answer that began in time is known to be
    /// one. The value of a is also that of its format in g, n and ac (`radio.md` 2).
    pub fn rx_start_delay(&self, rate: Bitrate) -> Duration {
        if self.kind == PhyKind::Wire || self.is_dsss(rate) {
            return self.plcp(rate);
        }
        Duration::from_micros(match self.slower() {
            1 => 25,
            2 => 49,
            _ => 97,
        })
    }

    fn is_short(&self, rate: Bitrate) -> bool {
        self.preamble == Preamble::Short && rate > mode::DSSS[0]
    }

    /// Whether a frame at `rate` has the short preamble of DSSS.
    pub fn has_short_preamble(&self, rate: Bitrate) -> bool {
        self.is_dsss(rate) && self.is_short(rate)
    }

    /// Air time of a PSDU of `bytes` bytes at `rate`: an MPDU with its check sequence, or an A-MPDU
    /// with its delimiters (every PSDU of ac is an A-MPDU, see [`Self::psdu_bytes`]).
    ///
    /// DSSS and CCK round up to a whole microsecond (the LENGTH field, clause 18.2.3.5), OFDM to a
    /// whole symbol. A frame with short guard intervals ends on a multiple of 4 us after its
    /// preamble, because its length is announced to others in symbols of 4 us (802.11-2012 20.4.3,
    /// 802.11ac-2013 22.4.3). OFDM at 2.4 GHz adds the 6 us of its signal extension.
    pub fn air_time(&self, bytes: usize, rate: Bitrate) -> Duration {
        let bits = bytes as u64 * 8;
        if self.kind == PhyKind::Wire {
            return rate.time(bytes as u64);
        }
        if self.is_dsss(rate) {
            let micros = (bits * 1_000_000).div_ceil(rate.bps());
            return self.plcp(rate) + Duration::from_micros(micros);
        }
        let data = match self.mcs_bits_of(rate) {
            Some(per_symbol) => {
                let encoders = per_symbol.div_ceil(ENCODER_BITS);
                let symbols = (SERVICE_BITS + bits + TAIL_BITS * encoders).div_ceil(per_symbol);
                match self.sent(rate).0.guard_interval {
                    GuardInterval::Long => 4_000 * symbols,
                    GuardInterval::Short => (3_600 * symbols).next_multiple_of(4_000),
                }
            }
            None => {
                let per_symbol = (rate.bps() * 4 * self.slower() / 1_000_000).max(1);
                4_000 * self.slower() * (SERVICE_BITS + bits + TAIL_BITS).div_ceil(per_symbol)
            }
        };
        self.plcp(rate) + Duration::from_nanos(data) + self.signal_extension()
    }

    fn signal_extension(&self) -> Duration {
        match (self.band(), self.slower()) {
            (Band::Ghz2, 1) => SIGNAL_EXTENSION,
            _ => Duration::ZERO,
        }
    }

    /// The silence at the end of [`Self::air_time`], in which nothing is sent.
    pub fn silence(&self, rate: Bitrate) -> Duration {
        match self.mode(rate) {
            Mode::Ofdm(_) => self.signal_extension(),
            _ => Duration::ZERO,
        }
    }

    /// Extended interframe space: SIFS, DIFS and an ACK at the lowest basic rate.
    pub fn eifs(&self) -> Duration {
        let lowest = self.basic_rates()[0];
        self.sifs() + self.difs() + self.air_time(ACK_BYTES, lowest)
    }
}
