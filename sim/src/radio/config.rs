//! Configuration of a medium: its radios and the directed links between them.

use farhop_proto::base::phy::{ACK_BYTES, BLOCK_ACK_BYTES};
use farhop_proto::base::{
    AccessCategory, Bitrate, Dbm, Duration, Gap, NodeId, Phy, PhyKind, RadioId,
};
use farhop_proto::stack::{FirstAccess, LinkOverhead, Protection, RateControl, SinrSettings};

use super::loss::LossModel;

/// The radios and the links of a medium.
#[derive(Clone, Debug, Default)]
pub struct MediumConfig {
    /// Radios; a radio's position in this list is its index everywhere else.
    pub radios: Vec<ChipConfig>,
    /// Directed links; a link's position in this list is its index everywhere else.
    pub links: Vec<AirLink>,
    /// How signals that overlap at a receiver affect each other.
    pub interference: Interference,
}

impl MediumConfig {
    /// Radios and links, with the threshold model of interference.
    pub fn new(radios: Vec<ChipConfig>, links: Vec<AirLink>) -> Self {
        Self { radios, links, interference: Interference::Threshold }
    }
}

/// How signals that overlap at a receiver affect each other (`radio.md` 4).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Interference {
    /// Pairwise comparison, as in ns-2: a frame survives a later one that is weaker by
    /// [`ChipConfig::capture_db`]; any other overlap destroys both.
    #[default]
    Threshold,
    /// Signals add up, and the errors of a frame follow from the ratio of its power to noise plus
    /// that sum, from moment to moment. Without [`SinrSettings::preamble_min_dbm`], the preamble of
    /// whatever can be decoded is detected.
    Sinr(SinrSettings),
}

/// One direction between two radios.
#[derive(Clone, Debug, PartialEq)]
pub struct AirLink {
    /// Index of the transmitting radio.
    pub from: usize,
    /// Index of the hearing radio.
    pub to: usize,
    /// Propagation delay.
    pub delay: Duration,
    /// Received power.
    pub signal: Dbm,
    /// Loss process of this direction.
    pub loss: LossModel,
}

/// When a radio waits EIFS instead of DIFS (`radio.md` 12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EifsRule {
    /// After a frame that the radio had locked on to and that then failed, as in ns-3. Frames that
    /// collide from their start count as energy only.
    #[default]
    AfterLock,
    /// After every frame that occupied the receiver and was not decoded, as in the standard.
    Always,
}

/// How one access category contends (IEEE 802.11-2007 7.3.2.29, `radio.md` 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcParams {
    /// AIFSN: slots that follow SIFS in the interframe space.
    pub aifsn: u8,
    /// Smallest contention window.
    pub cw_min: u32,
    /// Largest contention window.
    pub cw_max: u32,
    /// TXOP limit: how long the category may hold the air; zero allows one frame or one aggregate.
    pub txop: Duration,
}

impl AcParams {
    /// The longest TXOP that a driver can configure: 255 units of 32 us.
    pub const MOST_TXOP: Duration = Duration::from_micros(8160);

    /// The standard's parameters for stations, with the TXOP limits of the 2007 edition.
    pub fn of(access: AccessCategory, phy: &Phy) -> Self {
        let (cw_min, cw_max) = phy.contention_window_of(access);
        let is_dsss = phy.kind == PhyKind::B;
        let txop = |dsss, ofdm| Duration::from_micros(if is_dsss { dsss } else { ofdm });
        let (aifsn, txop) = match access {
            AccessCategory::Voice => (2, txop(3264, 1504)),
            AccessCategory::Video => (2, txop(6016, 3008)),
            AccessCategory::BestEffort => (3, Duration::ZERO),
            AccessCategory::Background => (7, Duration::ZERO),
        };
        Self { aifsn, cw_min, cw_max, txop }
    }

    /// The standard's parameters of all categories, in rising priority.
    pub fn all(phy: &Phy) -> [Self; 4] {
        ACCESS.map(|access| Self::of(access, phy))
    }
}

/// The access categories in rising priority.
pub(super) const ACCESS: [AccessCategory; 4] = [
    AccessCategory::Background,
    AccessCategory::BestEffort,
    AccessCategory::Video,
    AccessCategory::Voice,
];

/// One radio.
#[derive(Clone, Debug, PartialEq)]
pub struct ChipConfig {
    /// The node it belongs to.
    pub node: NodeId,
    /// Its number at the node.
    pub radio: RadioId,
    /// PHY.
    pub phy: Phy,
    /// Slot time; longer than the PHY's where a long link requires it.
    pub slot: Duration,
    /// Rate of frames that do not name one.
    pub rate: Bitrate,
    /// Rate of broadcast frames that do not name one.
    pub broadcast_rate: Bitrate,
    /// Rate of acknowledgements; if `None`, it follows from the rate of the data.
    pub ack_rate: Option<Bitrate>,
    /// Most attempts, the first included, for frames up to the RTS threshold, and for the RTS of
    /// longer ones; a frame's own limit takes precedence.
    pub attempts: u8,
    /// The same for the data transmissions of frames longer than the RTS threshold.
    pub long_attempts: u8,
    /// Frames longer than this many bytes are preceded by RTS and CTS.
    pub rts_threshold: Option<usize>,
    /// When a frame that finds an empty queue is sent without a backoff.
    pub first_access: FirstAccess,
    /// What precedes OFDM frames so that 802.11b stations stay silent.
    pub protection: Protection,
    /// EDCA parameters of the access categories; `None` is DCF with a single queue.
    pub edca: Option<[AcParams; 4]>,
    /// Most frames in one A-MPDU, if the PHY aggregates; up to 64.
    pub aggregate: usize,
    /// How the rate of frames that do not name one is chosen.
    pub rate_control: RateControl,
    /// From the end of a frame to the last moment at which the preamble of its acknowledgement may
    /// begin to arrive.
    pub ack_timeout: Duration,
    /// Gap before frames that ask for no acknowledgement.
    pub gap: Gap,
    /// Whether the contention window doubles after a failed attempt.
    pub exponential_backoff: bool,
    /// Whether the window stays unchanged during failures while no data frame of others is heard.
    pub quiet_backoff: bool,
    /// Whether the radio waits for others (CCA and NAV).
    pub carrier_sense: bool,
    /// When EIFS applies.
    pub eifs: EifsRule,
    /// Channel number; signals from other channels that overlap with it are only energy.
    pub channel: u16,
    /// How long the signal of another radio must be present before the medium counts as busy.
    pub cca: Duration,
    /// Signals weaker than this are sensed but cannot be decoded.
    pub receive_threshold: Dbm,
    /// Whether higher rates need a stronger signal, by [`Phy::sensitivity_dbm`].
    pub receives_by_rate: bool,
    /// Signals weaker than this do not make the medium busy.
    pub sense_threshold: Dbm,
    /// A reception survives a later frame that is at least this much weaker, in decibels.
    pub capture_db: f64,
    /// Queue size: frames that the chip holds in each queue, the one on air included.
    pub queue_frames: usize,
    /// Whether frames for other nodes are reported.
    pub overhear: bool,
    /// How a wire treats the bytes that links add to packets.
    pub link_overhead: LinkOverhead,
}

impl ChipConfig {
    /// A radio at the highest rate of its PHY with the settings of the standard: broadcast at the
    /// lowest rate, 7 attempts, an acknowledgement time-out of SIFS plus a slot, capture at 10 dB,
    /// a queue of 50 frames.
    pub fn new(node: NodeId, radio: RadioId, phy: Phy) -> Self {
        let rates = phy.rates();
        Self {
            node,
            radio,
            phy,
            slot: phy.slot(),
            rate: rates[rates.len() - 1],
            broadcast_rate: phy.basic_rates()[0],
            ack_rate: None,
            attempts: 7,
            long_attempts: 4,
            rts_threshold: None,
            first_access: FirstAccess::AfterGap,
            protection: Protection::None,
            edca: None,
            aggregate: phy.ampdu_limits().map_or(1, |limits| limits.mpdus),
            rate_control: RateControl::Fixed,
            ack_timeout: phy.sifs() + phy.slot(),
            gap: Gap::Backoff,
            exponential_backoff: true,
            quiet_backoff: false,
            carrier_sense: true,
            eifs: EifsRule::AfterLock,
            channel: 1,
            cca: Duration::ZERO,
            receive_threshold: Dbm::new(-120),
            receives_by_rate: false,
            sense_threshold: Dbm::new(-120),
            capture_db: 10.0,
            queue_frames: 50,
            overhear: true,
            link_overhead: LinkOverhead::Counted,
        }
    }

    /// Distributed interframe space: SIFS and two slots.
    pub fn difs(&self) -> Duration {
        self.phy.sifs() + self.slot * 2
    }

    /// Extended interframe space: SIFS, DIFS and an ACK at the lowest rate.
    pub fn eifs(&self) -> Duration {
        self.phy.sifs() + self.difs() + self.phy.air_time(ACK_BYTES, self.phy.basic_rates()[0])
    }

    /// Rate of the acknowledgement of data at `rate`; its channel is no wider than that of the
    /// data.
    #[inline]
    pub fn ack_rate(&self, rate: Bitrate) -> Bitrate {
        let answer = self.phy.ack_rate(self.ack_rate, rate);
        match rate.form() {
            0 => answer,
            _ => self.phy.narrowed(answer, self.phy.sent(rate).0.width),
        }
    }

    /// Air time of the acknowledgement of data at `rate`.
    pub fn ack_air_time(&self, rate: Bitrate) -> Duration {
        self.phy.air_time(ACK_BYTES, self.ack_rate(rate))
    }

    /// Air time of the block acknowledgement of data at `rate`.
    pub fn block_ack_air_time(&self, rate: Bitrate) -> Duration {
        self.phy.air_time(BLOCK_ACK_BYTES, self.ack_rate(rate))
    }

    /// Whether frames are sent under block acknowledgement agreements.
    pub(super) fn aggregates(&self) -> bool {
        self.aggregate > 1 && self.phy.ampdu_limits().is_some()
    }
}
