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

/// The largest packet that hosts send, and what a frame has beside it and what is of the radio: a
/// header, a bulk acknowledgement and a seal.
pub(in crate::stack) const PACKET_BYTES: usize = 1_500;
const OVERHEAD_BYTES: usize = 72;

/// Settings of a radio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RadioConfig {
    /// PHY. To a radio of another one, or of fewer streams or a narrower channel, data goes at
    /// rates that both know: those of DSSS to `802.11b`, those of the lesser of two radios of
    /// `802.11n` and `802.11ac`, those of `802.11a` and `802.11g` else.
    pub phy: PhyKind,
    /// DSSS preamble.
    pub preamble: Preamble,
    /// Band, of `802.11n`, which has a choice; 5 GHz if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub band: Option<Band>,
    /// Width of the channel, in MHz: 20; also 5 and 10 for `802.11a` and `802.11g`, 40 for
    /// `802.11n` and `802.11ac`, 80 for `802.11ac`.
    pub width_mhz: u16,
    /// Spatial streams of `802.11n` and `802.11ac`, 1 or 2.
    pub streams: u8,
    /// Guard interval of `802.11n` and `802.11ac`.
    pub guard_interval: GuardInterval,
    /// Whether `802.11g` shares the air with 802.11b: a slot of 20 us, and the rates of both.
    pub mixed: bool,
    /// Bit-rate of data, in Mb/s; the highest of the PHY if neither this nor `mcs` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Bit-rate of data as the number of an MCS, in the place of `rate_mbps`; those of `802.11n`
    /// with two streams are 8 to 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcs: Option<u8>,
    /// Bit-rate of acknowledgements by that of the data: the highest basic rate not above it, or
    /// the highest rate not above half of it.
    #[serde(skip_serializing_if = "AckRate::is_basic")]
    pub ack_rate: AckRate,
    /// Bit-rate of acknowledgements, in Mb/s, in the place of that rule; where its modulation (DSSS
    /// or OFDM) is not that of the data the rule holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_rate_mbps: Option<f64>,
    /// Most transmissions of an acknowledged frame, the first included.
    pub attempts: u8,
    /// The same for frames that are longer than `rts_threshold`.
    pub long_attempts: u8,
    /// Frames with more bytes than this (header and check sequence included) are announced by RTS
    /// and CTS; none are if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rts_threshold: Option<usize>,
    /// When a frame that finds an empty queue goes without a backoff.
    pub first_access: FirstAccess,
    /// What goes before OFDM frames where 802.11b stations are about.
    pub protection: Protection,
    /// Whether the four access categories of 802.11e contend, each with a queue of its own.
    pub edca: bool,
    /// What differs from the standard's parameters of the access categories.
    #[serde(skip_serializing_if = "AccessConfigs::is_default")]
    pub access: AccessConfigs,
    /// Most frames in one transmission of `802.11n` and `802.11ac`, up to 64; 1 never aggregates.
    /// Slots and blocks are planned by it. On a monitor interface frames go one by one whatever it
    /// says.
    pub aggregate: u8,
    /// How the rate of data is chosen.
    pub rate_control: RateControl,
    /// How long after a frame's end its acknowledgement may begin to arrive, in microseconds; set
    /// for the longest link of the radio if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_timeout_us: Option<f64>,
    /// Gap before frames without MAC acknowledgement.
    pub gap: Gap,
    /// Whether the contention window doubles after each failed attempt.
    pub exponential_backoff: bool,
    /// Whether it stays as it is while no data frame of another radio is heard for several
    /// failures, as has been measured of Atheros cards (`radio.md` 2.10).
    pub quiet_backoff: bool,
    /// Whether the radio waits for a busy medium; off under `wild` if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carrier_sense: Option<bool>,
    /// How long the signal of another radio must have been there until the medium is busy, in
    /// microseconds: a backoff that ends earlier ends in a collision. The standard allows 4 for
    /// OFDM and 15 for DSSS; ns-3 takes 4 for all.
    #[serde(skip_serializing_if = "is_zero")]
    pub cca_us: f64,
    /// Channel number, that of the middle of a channel wider than 20 MHz: 5 MHz from one to the
    /// next. Radios whose channels overlap disturb each other.
    pub channel: u16,
    /// A frame survives others that are at least this much weaker, in decibels.
    pub capture_db: f64,
    /// Whether the radio reports the end of each frame; without it the daemon goes by air time.
    pub transmit_status: bool,
    /// Slot time, in microseconds; that of the PHY if it is not given. Long links are tuned by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot_us: Option<f64>,
    /// Bit-rate of broadcast frames, in Mb/s; the lowest of the PHY if it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broadcast_rate_mbps: Option<f64>,
    /// What a wire makes of the bytes that links add to packets.
    #[serde(skip_serializing_if = "LinkOverhead::is_counted")]
    pub link_overhead: LinkOverhead,
    /// When the radio waits EIFS in the place of DIFS.
    pub eifs: EifsConfig,
    /// Transmit power at the card, in dBm; 20 if it is not given, and that of ns-2 (24.5) under
    /// `two-ray`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_power_dbm: Option<f64>,
    /// Gain of the antenna, sending and receiving, in dBi.
    pub antenna_gain_dbi: f64,
    /// Loss in the cable between card and antenna, in decibels.
    pub cable_loss_db: f64,
    /// The weakest signal that can be decoded, in dBm, at whatever rate. If it is not given it
    /// follows from the propagation model, and from the rate of each frame and the width of the
    /// channel where signals weaken steadily: that of this radio, also for frames that take less of
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receive_dbm: Option<f64>,
    /// The weakest signal that makes the medium busy, in dBm; follows likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sense_dbm: Option<f64>,
    /// Signals between radios at places that are weaker are left out of everything, in dBm;
    /// follows likewise. Links of the file are there however weak they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor_dbm: Option<f64>,
    /// From the time the host hands a frame over to the time the radio has it: nothing, the name
    /// of a preset, or points of the distribution.
    #[serde(skip_serializing_if = "DelayConfig::is_none")]
    pub departure: DelayConfig,
}

/// What a wire makes of the bytes that links add to packets: the headers of units, and feedback.
/// Calculations about links often leave them out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkOverhead {
    /// They take time like all others.
    #[default]
    Counted,
    /// They take no time, and frames of nothing else are never lost.
    Free,
    /// They take no time, and frames of nothing else are lost like all others.
    Lossy,
}

impl LinkOverhead {
    fn is_counted(&self) -> bool {
        *self == Self::Counted
    }
}

/// When a radio waits EIFS in the place of DIFS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EifsConfig {
    /// After a frame that it had locked on to and that then failed. Frames that collide from their
    /// start are energy only.
    #[default]
    AfterLock,
    /// After every frame that it sensed and did not decode, as the standard has it.
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
    /// How long the largest packet of a host takes on air where nothing acknowledges it, the mean
    /// gap before it with it.
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

    /// How it contends with its best effort.
    pub(in crate::stack) fn contention(&self) -> Contention {
        let usual = Contention::of(&self.phy(), self.edca);
        let own = self.access.of(AccessCategory::BestEffort);
        let (aifsn, cw_min) = match self.edca {
            true => (own.aifsn.unwrap_or(usual.aifsn), own.cw_min.unwrap_or(usual.cw_min)),
            false => (usual.aifsn, usual.cw_min),
        };
        Contention { slot: self.slot(), aifsn, cw_min }
    }

    /// The PHY with its choices. A width that there is not counts as 20 MHz.
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

    /// Bit-rate of data: the one given by its figure or by its MCS, or the highest.
    pub fn rate(&self) -> Bitrate {
        let phy = self.phy();
        let by_mcs = self.mcs.and_then(|mcs| phy.rate_of_mcs(mcs));
        let by_figure = || self.rate_mbps.map(Bitrate::from_mbps);
        let fastest = || *phy.rates().last().expect("every PHY has rates");
        by_mcs.or_else(by_figure).unwrap_or_else(fastest)
    }
}

/// How late a host is. How late its frames reach the radio is `departure` of the radio.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// From the time a timer is due to the time the host acts: nothing, the name of a preset, or
    /// points of the distribution.
    #[serde(skip_serializing_if = "DelayConfig::is_none")]
    pub wake_us: DelayConfig,
}

impl HostConfig {
    /// Whether the host is never late.
    pub fn is_default(&self) -> bool {
        self.wake_us.is_none()
    }
}
