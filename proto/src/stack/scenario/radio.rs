//! Settings of radios, and of the hosts that drive them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::departure::DelayConfig;
use super::is_zero;
use super::mac::{AccessConfigs, FirstAccess, Protection, RateControl};
use crate::base::{
    AccessCategory, AckRate, Band, Bitrate, Contention, Duration, Gap, GuardInterval, Phy, PhyKind,
    Preamble, RadioId, RadioSpec, Width,
};

/// Largest IP packet that hosts send, in bytes.
pub(in crate::stack) const PACKET_BYTES: usize = 1_500;
/// What a frame may carry beside the packet and the radio's own headers, in bytes: a link header, a
/// bulk acknowledgement and a seal.
const OVERHEAD_BYTES: usize = 72;

/// Settings of a radio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RadioConfig {
    /// PHY. To a radio with another PHY, fewer streams or a narrower channel, data goes at rates
    /// that both know: DSSS rates to `802.11b`, the rates of the lesser radio between `802.11n` and
    /// `802.11ac`, else those of `802.11a` or `802.11g`.
    pub phy: PhyKind,
    /// DSSS preamble.
    pub preamble: Preamble,
    /// Band. Only `802.11n` has a choice; its default is 5 GHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<Band>,
    /// Width of the channel, in MHz: 20; also 5 and 10 for `802.11a` and `802.11g`, 40 for
    /// `802.11n` and `802.11ac`, 80 for `802.11ac`.
    pub width_mhz: u16,
    /// Spatial streams, 1 or 2 (`802.11n`, `802.11ac`).
    pub streams: u8,
    /// Guard interval (`802.11n`, `802.11ac`).
    pub guard_interval: GuardInterval,
    /// Whether `802.11g` coexists with 802.11b: slots of 20 us, and the rates of both.
    pub mixed: bool,
    /// Bit-rate of data, in Mb/s. Default: the highest of the PHY, unless `mcs` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Bit-rate of data as an MCS, in place of `rate_mbps`; with two streams those of `802.11n` are
    /// 8 to 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
    /// How the bit-rate of an acknowledgement follows from that of the data: `basic` is the highest
    /// basic rate not above it, `half` the highest rate not above half of it.
    #[serde(skip_serializing_if = "AckRate::is_basic")]
    pub ack_rate: AckRate,
    /// Bit-rate of acknowledgements, in Mb/s, in place of the rule `ack_rate`. For data of another
    /// modulation (DSSS or OFDM) than this rate's, the rule still holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_rate_mbps: Option<f64>,
    /// Most transmissions of an acknowledged frame, the first included; of its RTS, if the frame is
    /// longer than `rts_threshold`.
    pub attempts: u8,
    /// Most transmissions of an acknowledged frame that is longer than `rts_threshold`.
    pub long_attempts: u8,
    /// Length above which frames are announced by RTS and CTS, in bytes including header and check
    /// sequence. Default: no frames are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rts_threshold: Option<usize>,
    /// When a frame that finds an empty queue is sent without a backoff.
    pub first_access: FirstAccess,
    /// How OFDM frames are protected where there are 802.11b stations (`mixed`).
    pub protection: Protection,
    /// Whether the radio has the four access categories of 802.11e (EDCA), each with a queue of its
    /// own.
    pub edca: bool,
    /// Changes to the standard's parameters of the access categories (`edca`).
    #[serde(skip_serializing_if = "AccessConfigs::is_default")]
    pub access: AccessConfigs,
    /// Most frames in one transmission (A-MPDU) of `802.11n` and `802.11ac`, up to 64; 1 never
    /// aggregates. Slots and blocks are planned by it. A monitor interface sends frames one by one
    /// regardless.
    pub aggregate: u8,
    /// How the bit-rate of data is chosen.
    pub rate_control: RateControl,
    /// How long after a frame's end its acknowledgement may begin to arrive, in microseconds.
    /// Default: as the longest link of the radio needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_timeout_us: Option<f64>,
    /// Gap before frames without MAC acknowledgement.
    pub gap: Gap,
    /// Whether the contention window doubles after each failed attempt.
    pub exponential_backoff: bool,
    /// Whether the contention window stays as it is after several failures in a row without a data
    /// frame from another radio in between, as measured on Atheros cards (`radio.md` 2.10).
    pub quiet_backoff: bool,
    /// Whether the radio defers to a busy medium. Default: no where the link schedules it (`wild`,
    /// `two-p`), else yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_sense: Option<bool>,
    /// How long another radio's signal must last before the medium counts as busy (CCA), in
    /// microseconds: a backoff that ends earlier ends in a collision. The standard allows 4 for
    /// OFDM and 15 for DSSS; ns-3 takes 4 for all.
    #[serde(skip_serializing_if = "is_zero")]
    pub cca_us: f64,
    /// Channel number, in steps of 5 MHz; that of the centre for channels wider than 20 MHz. Radios
    /// whose channels overlap disturb each other.
    pub channel: u16,
    /// Capture: a frame survives a later one that is weaker by at least this much, in decibels.
    pub capture_db: f64,
    /// Whether the radio reports the end of each frame. If not, the daemon estimates it from the
    /// air time.
    pub transmit_status: bool,
    /// Slot time, in microseconds, which is tuned for long links. Default: that of the PHY.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_us: Option<f64>,
    /// Bit-rate of broadcast frames, in Mb/s. Default: the lowest of the PHY.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broadcast_rate_mbps: Option<f64>,
    /// Whether the bytes that links add to packets take time on a wire.
    #[serde(skip_serializing_if = "LinkOverhead::is_counted")]
    pub link_overhead: LinkOverhead,
    /// When the radio waits EIFS instead of DIFS.
    pub eifs: EifsConfig,
    /// Transmit power at the card, in dBm. Default: 20; under `two-ray` that of ns-2 (24.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_power_dbm: Option<f64>,
    /// Gain of the antenna for sending and for receiving, in dBi.
    pub antenna_gain_dbi: f64,
    /// Loss of the cable between card and antenna, in decibels.
    pub cable_loss_db: f64,
    /// Weakest signal that can be decoded, in dBm, whatever the rate. Default: by the propagation
    /// model; with `free-space` and `log-distance` by the rate of each frame and by the channel
    /// width of this radio, even for frames that use less of the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_dbm: Option<f64>,
    /// Weakest signal that makes the medium busy, in dBm. Default: by the propagation model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sense_dbm: Option<f64>,
    /// Weakest signal that counts at all between radios at positions, in dBm. Default: by the
    /// propagation model. Links of the file exist however weak they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_dbm: Option<f64>,
    /// Delay from when the host hands a frame over until the radio has it: the name of a preset, or
    /// points of the distribution. Default: none.
    #[serde(skip_serializing_if = "DelayConfig::is_none")]
    pub departure: DelayConfig,
}

/// Whether the bytes that links add to packets (headers of units, and feedback) take time on a
/// wire. Calculations about links often leave them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkOverhead {
    /// They take time like all other bytes.
    #[default]
    Counted,
    /// They take no time, and frames that hold nothing else are never lost.
    Free,
    /// They take no time, and frames that hold nothing else are lost like all others.
    Lossy,
}

impl LinkOverhead {
    fn is_counted(&self) -> bool {
        *self == Self::Counted
    }
}

/// When a radio waits EIFS instead of DIFS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EifsConfig {
    /// After a frame that it had locked on to and that then failed. Frames that collide from their
    /// start are only energy.
    #[default]
    AfterLock,
    /// After every frame that it sensed and did not decode, as in the standard.
    Always,
}

impl Default for RadioConfig {
    fn default() -> Self {
        Self {
            phy: PhyKind::B,
            preamble: Preamble::Short,
            band: None,
            width_mhz: 20,
            streams: 1,
            guard_interval: GuardInterval::Long,
            mixed: false,
            rate_mbps: None,
            mcs: None,
            ack_rate: AckRate::Basic,
            ack_rate_mbps: None,
            attempts: 7,
            long_attempts: 4,
            rts_threshold: None,
            first_access: FirstAccess::AfterGap,
            protection: Protection::None,
            edca: false,
            access: AccessConfigs::default(),
            aggregate: 64,
            rate_control: RateControl::Fixed,
            ack_timeout_us: None,
            gap: Gap::Backoff,
            exponential_backoff: true,
            quiet_backoff: false,
            carrier_sense: None,
            cca_us: 0.0,
            channel: 1,
            capture_db: 10.0,
            transmit_status: true,
            slot_us: None,
            broadcast_rate_mbps: None,
            link_overhead: LinkOverhead::Counted,
            eifs: EifsConfig::AfterLock,
            tx_power_dbm: None,
            antenna_gain_dbi: 0.0,
            cable_loss_db: 0.0,
            receive_dbm: None,
            sense_dbm: None,
            floor_dbm: None,
            departure: DelayConfig::None,
        }
    }
}

impl RadioConfig {
    /// How long the largest packet of a host takes on air without acknowledgement, including the
    /// mean gap before it.
    pub(in crate::stack) fn packet_on_air(&self) -> Duration {
        let spec = RadioSpec {
            id: RadioId(0),
            phy: self.phy(),
            rate: self.rate(),
            gap: self.gap,
            contention: self.contention(),
            channel: self.channel,
            seal_bytes: 0,
            edca: self.edca,
            aggregate: 1,
            way: Duration::ZERO,
        };
        spec.unacknowledged(PACKET_BYTES + OVERHEAD_BYTES)
    }

    /// Slot time.
    pub(in crate::stack) fn slot(&self) -> Duration {
        self.slot_us.map_or(self.phy().slot(), |micros| Duration::from_secs_f64(micros / 1e6))
    }

    /// Contention parameters of best effort.
    pub(in crate::stack) fn contention(&self) -> Contention {
        let usual = Contention::of(&self.phy(), self.edca);
        let own = self.access.of(AccessCategory::BestEffort);
        let (aifsn, cw_min) = match self.edca {
            true => (own.aifsn.unwrap_or(usual.aifsn), own.cw_min.unwrap_or(usual.cw_min)),
            false => (usual.aifsn, usual.cw_min),
        };
        Contention { slot: self.slot(), aifsn, cw_min }
    }

    /// The PHY with its options. A width that does not exist counts as 20 MHz.
    pub fn phy(&self) -> Phy {
        Phy {
            kind: self.phy,
            preamble: self.preamble,
            width: Width::from_mhz(self.width_mhz).unwrap_or_default(),
            guard_interval: self.guard_interval,
            streams: self.streams,
            band: self.band.unwrap_or_default(),
            mixed: self.mixed,
            ack_rule: self.ack_rate,
        }
    }

    /// Bit-rate of data: that of `mcs` or of `rate_mbps`, or else the highest.
    pub fn rate(&self) -> Bitrate {
        let phy = self.phy();
        let by_mcs = self.mcs.and_then(|mcs| phy.rate_of_mcs(mcs));
        let by_figure = || self.rate_mbps.map(Bitrate::from_mbps);
        let fastest = || *phy.rates().last().expect("every PHY has rates");
        by_mcs.or_else(by_figure).unwrap_or_else(fastest)
    }
}

/// How late hosts act, and what their clocks show. How late a host's frames reach the radio is the
/// radio's `departure`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// Delay from when a timer is due until the host acts: the name of a preset, or points of the
    /// distribution. Default: none.
    #[serde(skip_serializing_if = "DelayConfig::is_none")]
    pub wake_us: DelayConfig,
    /// The clocks of all nodes that have no `clock` of their own.
    #[serde(skip_serializing_if = "ClocksConfig::is_exact")]
    pub clocks: ClocksConfig,
}

/// The clocks of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClocksConfig {
    /// They show the true time.
    #[default]
    Exact,
    /// As those of commodity cards: each has an offset of up to a second either way, runs too fast
    /// or too slow (normal, deviation 20 ppm, at most 50), and stamps what it receives 5 to 50 us
    /// late.
    Drawn,
}

impl ClocksConfig {
    /// Whether they show the true time.
    pub fn is_exact(&self) -> bool {
        *self == Self::Exact
    }
}

impl HostConfig {
    /// Whether hosts are never late and all clocks are exact.
    pub fn is_default(&self) -> bool {
        self.wake_us.is_none() && self.clocks.is_exact()
    }
}
