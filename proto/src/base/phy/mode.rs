//! Modes: which rates a PHY has, and their modulation and coding (802.11-2012 tables 18-4 and 20-30
//! ff., 802.11ac-2013 tables 22-30 ff.).
//!
//! A rate identifies its mode within a PHY, and within each form of it (see `form`). HT and VHT
//! rates are identified by their nominal values, as printed in the standard, to 100 kb/s: 7.2 Mb/s
//! stands for 65/9 Mb/s. Where 40 MHz have an MCS of 54 Mb/s, that rate is the MCS and not the
//! non-HT mode.

use super::{AckRate, Band, GuardInterval, Phy, PhyKind, Width};
use crate::base::units::Bitrate;

/// The modulation of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Barker code, differential BPSK, 1 Mb/s.
    Dbpsk,
    /// Barker code, differential QPSK, 2 Mb/s.
    Dqpsk,
    /// Complementary code keying at 5.5 Mb/s, 4 bits per code word.
    Cck5,
    /// Complementary code keying at 11 Mb/s, 8 bits per code word.
    Cck11,
    /// OFDM symbols.
    Ofdm(Ofdm),
    /// Bytes at the line rate and nothing else.
    Wire,
}

/// An OFDM mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ofdm {
    /// Its preamble.
    pub format: Format,
    /// Coded bits per subcarrier: 1 (BPSK), 2, 4, 6 or 8 (256-QAM).
    pub bits_per_subcarrier: u8,
    /// Code rate as a fraction.
    pub code: (u8, u8),
    /// Data bits per symbol over all streams.
    pub bits_per_symbol: u16,
}

impl Mode {
    /// Signal at which one frame in ten of 1024 bytes is lost over 20 MHz, in dBm, for cards of
    /// 2003 to 2008 (`radio.md` 4.2). An MCS has the value of the older mode with its modulation
    /// and code; 64-QAM 5/6 and 256-QAM continue in steps of 2 dB and 4 dB. A wire decodes any
    /// signal.
    pub fn sensitivity_dbm(self) -> f64 {
        let ofdm = match self {
            Self::Dbpsk => return -94.0,
            Self::Dqpsk => return -91.0,
            Self::Cck5 => return -89.0,
            Self::Cck11 => return -85.0,
            Self::Wire => return f64::NEG_INFINITY,
            Self::Ofdm(ofdm) => ofdm,
        };
        match (ofdm.bits_per_subcarrier, ofdm.code) {
            (1, (1, _)) => -90.0,
            (1, _) => -89.0,
            (2, (1, _)) => -87.0,
            (2, _) => -85.0,
            (4, (1, _)) => -82.0,
            (4, _) => -79.0,
            (6, (2, _)) => -75.0,
            (6, (3, _)) => -73.0,
            (6, _) => -71.0,
            (_, (3, _)) => -67.0,
            _ => -65.0,
        }
    }
}

/// The preamble of OFDM data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// That of clause 18 (17 in the 1999 edition).
    NonHt,
    /// HT-mixed.
    Ht,
    /// VHT.
    Vht,
}

/// Bits per subcarrier and code rate of each MCS with one stream.
const MCS: [(u8, (u8, u8)); 10] = [
    (1, (1, 2)),
    (2, (1, 2)),
    (2, (3, 4)),
    (4, (1, 2)),
    (4, (3, 4)),
    (6, (2, 3)),
    (6, (3, 4)),
    (6, (5, 6)),
    (8, (3, 4)),
    (8, (5, 6)),
];

/// The non-HT modes: data bits per symbol, bits per subcarrier, code rate.
const NON_HT: [(u16, u8, (u8, u8)); 8] = [
    (24, 1, (1, 2)),
    (36, 1, (3, 4)),
    (48, 2, (1, 2)),
    (72, 2, (3, 4)),
    (96, 4, (1, 2)),
    (144, 4, (3, 4)),
    (192, 6, (2, 3)),
    (216, 6, (3, 4)),
];

/// Data subcarriers of HT and VHT by channel width: 20, 40, 80 MHz.
const SUBCARRIERS: [u32; 3] = [52, 108, 234];

pub(super) const DSSS: [Bitrate; 4] = [
    Bitrate::from_100kbps(10),
    Bitrate::from_100kbps(20),
    Bitrate::from_100kbps(55),
    Bitrate::from_100kbps(110),
];

/// Rates of clause 18 in a channel that is `slower` times narrower than 20 MHz.
const fn non_ht_rates(slower: u64) -> [Bitrate; 8] {
    let mut rates = [Bitrate::from_bps(0); 8];
    let mut index = 0;
    while index < rates.len() {
        rates[index] = Bitrate::from_bps(NON_HT[index].0 as u64 * 250_000 / slower);
        index += 1;
    }
    rates
}

static NON_HT_20: [Bitrate; 8] = non_ht_rates(1);
static NON_HT_10: [Bitrate; 8] = non_ht_rates(2);
static NON_HT_5: [Bitrate; 8] = non_ht_rates(4);
/// 802.11g that coexists with 802.11b.
static MIXED: [Bitrate; 12] = {
    let [b1, b2, b5, b11] = DSSS;
    let [a6, a9, a12, a18, a24, a36, a48, a54] = non_ht_rates(1);
    [b1, b2, b5, a6, a9, b11, a12, a18, a24, a36, a48, a54]
};
static BASIC_20: [Bitrate; 3] = [NON_HT_20[0], NON_HT_20[2], NON_HT_20[4]];
static BASIC_10: [Bitrate; 3] = [NON_HT_10[0], NON_HT_10[2], NON_HT_10[4]];
static BASIC_5: [Bitrate; 3] = [NON_HT_5[0], NON_HT_5[2], NON_HT_5[4]];
static WIRE: [Bitrate; 1] = [Bitrate::from_100kbps(1_000)];

/// Data bits per symbol of an MCS over all subcarriers and streams; zero if that is not a whole
/// number, as for MCS 9 at 20 MHz.
const fn bits_per_symbol(streams: usize, width: usize, mcs: usize) -> u32 {
    let (bits, (part, whole)) = MCS[mcs];
    let coded = SUBCARRIERS[width] * streams as u32 * bits as u32 * part as u32;
    if coded.is_multiple_of(whole as u32) { coded / whole as u32 } else { 0 }
}

type ByMcs<T> = [[[T; 10]; 3]; 2];

/// Data bits per symbol by streams, width and MCS.
static SYMBOL_BITS: ByMcs<u16> = {
    let mut table = [[[0; 10]; 3]; 2];
    let mut at = 0;
    while at < 60 {
        let (streams, width, mcs) = (at / 30, at / 10 % 3, at % 10);
        table[streams][width][mcs] = bits_per_symbol(streams + 1, width, mcs) as u16;
        at += 1;
    }
    table
};

/// Nominal rates with symbols of 4 us and of 3.6 us.
static RATES: [ByMcs<Bitrate>; 2] = [nominal(40), nominal(36)];

/// Nominal rates with symbols of `tenths` tenths of a microsecond: bits over time, rounded to 100
/// kb/s.
const fn nominal(tenths: u32) -> ByMcs<Bitrate> {
    let mut table = [[[Bitrate::from_bps(0); 10]; 3]; 2];
    let mut at = 0;
    while at < 60 {
        let (streams, width, mcs) = (at / 30, at / 10 % 3, at % 10);
        let bits = bits_per_symbol(streams + 1, width, mcs);
        let units = (bits * 100 + tenths / 2) / tenths;
        table[streams][width][mcs] = Bitrate::from_100kbps(units as u64);
        at += 1;
    }
    table
}

impl Phy {
    /// The rates of data, in rising order. A wire has any rate; the one listed is its default.
    pub fn rates(&self) -> &'static [Bitrate] {
        match self.kind {
            PhyKind::B => &DSSS,
            PhyKind::G if self.mixed => &MIXED,
            PhyKind::A | PhyKind::G => self.non_ht(),
            PhyKind::N => &self.all_mcs()[..8],
            PhyKind::Ac if self.width == Width::Mhz20 => &self.all_mcs()[..9],
            PhyKind::Ac => self.all_mcs(),
            PhyKind::Wire => &WIRE,
        }
    }

    /// The rates of frames that all radios around must decode: control and broadcast frames. For n
    /// and ac those of the older OFDM, without 54 Mb/s where that is an MCS.
    pub fn legacy_rates(&self) -> &'static [Bitrate] {
        match self.kind {
            PhyKind::N | PhyKind::Ac if self.stream_mcs(NON_HT_20[7]).is_some() => &NON_HT_20[..7],
            PhyKind::N | PhyKind::Ac => &NON_HT_20,
            _ => self.rates(),
        }
    }

    /// The usual basic rates (`radio.md` 1), in rising order: 1 and 2 Mb/s for b; 6, 12 and 24 for
    /// OFDM, less in narrow channels; both for mixed g.
    pub fn basic_rates(&self) -> &'static [Bitrate] {
        static MIXED_BASIC: [Bitrate; 5] =
            [DSSS[0], DSSS[1], NON_HT_20[0], NON_HT_20[2], NON_HT_20[4]];
        match (self.kind, self.width) {
            (PhyKind::B, _) => &DSSS[..2],
            (PhyKind::G, _) if self.mixed => &MIXED_BASIC,
            (PhyKind::Wire, _) => &WIRE,
            (PhyKind::A | PhyKind::G, Width::Mhz5) => &BASIC_5,
            (PhyKind::A | PhyKind::G, Width::Mhz10) => &BASIC_10,
            _ => &BASIC_20,
        }
    }

    /// Whether data can be sent at `rate`.
    pub fn has_rate(&self, rate: Bitrate) -> bool {
        match self.kind {
            PhyKind::Wire => rate.bps() > 0,
            _ => self.rates().contains(&rate),
        }
    }

    /// The MCS index of a rate, as cards count: those of 802.11n with two streams are 8 to 15.
    /// `None` if the rate is not an MCS.
    pub fn mcs(&self, rate: Bitrate) -> Option<u8> {
        let index = self.stream_mcs(rate)? as u8;
        Some(index + self.sent(rate).0.first_mcs())
    }

    /// The rate of an MCS, if this PHY has it.
    pub fn rate_of_mcs(&self, mcs: u8) -> Option<Bitrate> {
        if !matches!(self.kind, PhyKind::N | PhyKind::Ac) {
            return None;
        }
        self.rates().get(usize::from(mcs.checked_sub(self.first_mcs())?)).copied()
    }

    fn first_mcs(&self) -> u8 {
        if self.kind == PhyKind::N { 8 * self.stream_index() as u8 } else { 0 }
    }

    /// The index of a rate among the MCS of one stream.
    fn stream_mcs(&self, rate: Bitrate) -> Option<usize> {
        let (sent, rate) = self.sent(rate);
        match sent.kind {
            PhyKind::N | PhyKind::Ac => sent.rates().iter().position(|own| *own == rate),
            _ => None,
        }
    }

    /// The mode of a frame at `rate`. A rate that the PHY does not have counts as its lowest non-HT
    /// or DSSS rate.
    pub fn mode(&self, rate: Bitrate) -> Mode {
        if self.kind == PhyKind::Wire {
            return Mode::Wire;
        }
        if self.is_dsss(rate) {
            return match DSSS.iter().position(|own| *own == rate) {
                Some(1) => Mode::Dqpsk,
                Some(2) => Mode::Cck5,
                Some(3) => Mode::Cck11,
                _ => Mode::Dbpsk,
            };
        }
        if let Some(mcs) = self.stream_mcs(rate) {
            let (bits_per_subcarrier, code) = MCS[mcs];
            let (sent, _) = self.sent(rate);
            let format = if sent.kind == PhyKind::N { Format::Ht } else { Format::Vht };
            let bits_per_symbol = sent.mcs_bits(mcs);
            return Mode::Ofdm(Ofdm { format, bits_per_subcarrier, code, bits_per_symbol });
        }
        let (sent, rate) = self.sent(rate);
        let index = sent.non_ht().iter().position(|own| *own == rate).unwrap_or(0);
        let (bits_per_symbol, bits_per_subcarrier, code) = NON_HT[index];
        Mode::Ofdm(Ofdm { format: Format::NonHt, bits_per_subcarrier, code, bits_per_symbol })
    }

    /// The weakest signal at which a frame at `rate` counts as decodable, in dBm: that of its mode,
    /// plus the noise of its channel relative to 20 MHz.
    pub fn sensitivity_dbm(&self, rate: Bitrate) -> f64 {
        self.mode(rate).sensitivity_dbm() + self.sent(rate).0.noise_db()
    }

    /// Noise in the channel relative to one of 20 MHz, in decibels.
    pub fn noise_db(&self) -> f64 {
        match self.width {
            Width::Mhz20 => 0.0,
            width => 10.0 * libm::log10(f64::from(width.mhz()) / 20.0),
        }
    }

    /// The rate of the control frame that answers a frame at `rate`, by [`AckRate`]: the highest
    /// basic rate of the same modulation that is not above it; for an MCS, not above the non-HT
    /// rate of its modulation and code (802.11-2012, 9.7.6.5.2 and 9.7.9).
    pub fn control_rate(&self, rate: Bitrate) -> Bitrate {
        if self.kind == PhyKind::Wire {
            return rate;
        }
        let reference = self.stream_mcs(rate).map_or(rate, |mcs| {
            let (bits, code) = MCS[mcs];
            let same = NON_HT.iter().position(|own| (own.1, own.2) == (bits, code));
            // 64-QAM 5/6 and 256-QAM have no non-HT mode, and count as the fastest one.
            NON_HT_20[same.unwrap_or(NON_HT_20.len() - 1)]
        });
        let is_dsss = self.is_dsss(rate);
        let (rates, most) = match self.ack_rule {
            AckRate::Basic => (self.basic_rates(), reference),
            AckRate::Half => (self.legacy_rates(), Bitrate::from_bps(reference.bps() / 2)),
        };
        let mut alike = rates.iter().copied().filter(|rate| self.is_dsss(*rate) == is_dsss);
        let lowest = alike.next().unwrap_or(rates[0]);
        alike.rfind(|rate| *rate <= most).unwrap_or(lowest)
    }

    /// Rate of the acknowledgement of a frame at `rate`: the `given` one if it has the modulation
    /// of the frame, so that whoever decodes one decodes the other; else [`Self::control_rate`].
    pub fn ack_rate(&self, given: Option<Bitrate>, rate: Bitrate) -> Bitrate {
        let is_alike = |given: &Bitrate| self.is_dsss(*given) == self.is_dsss(rate);
        given.filter(is_alike).unwrap_or_else(|| self.control_rate(rate))
    }

    /// The rates of data for a radio of another PHY, in rising order: its own rates that the other
    /// radio decodes; or the common MCS of n and ac; or else those of the older OFDM.
    pub fn rates_for(&self, receiver: &Self) -> Vec<Bitrate> {
        let of = |rates: &[Bitrate]| {
            let known = rates.iter().filter(|rate| receiver.decodes(self, **rate));
            known.copied().collect::<Vec<_>>()
        };
        let own = of(self.rates());
        if !own.is_empty() {
            return own;
        }
        match self.common(receiver) {
            Some(sent) => sent.rates().iter().map(|rate| self.rate_as(&sent, *rate)).collect(),
            None => {
                let narrowed = |rate: &Bitrate| self.narrowed(*rate, receiver.width);
                let older = self.legacy_rates().iter().map(narrowed);
                of(&older.collect::<Vec<_>>())
            }
        }
    }

    /// The rate of data for a radio of another PHY, if for others it is `own`: the same rate, if
    /// that radio decodes it; or the MCS of the same modulation and code, or the highest one below;
    /// or the highest rate below, or else the lowest. `None` if the radio decodes none.
    pub fn rate_for(&self, receiver: &Self, own: Bitrate) -> Option<Bitrate> {
        if receiver.decodes(self, own) {
            return Some(own);
        }
        let alike = self.common(receiver).zip(self.stream_mcs(own)).map(|(sent, mcs)| {
            let rates = sent.rates();
            self.rate_as(&sent, rates[mcs.min(rates.len() - 1)])
        });
        alike.or_else(|| self.rate_under(receiver, own))
    }

    /// The highest rate of data for a radio that is not above `most`, or else the lowest.
    pub fn rate_under(&self, receiver: &Self, most: Bitrate) -> Option<Bitrate> {
        let rates = self.rates_for(receiver);
        let below = rates.iter().rfind(|rate| rate.bps() <= most.bps());
        below.or(rates.first()).copied()
    }

    /// Whether a frame at `rate` is in the newer of the two formats of a radio: OFDM beside DSSS in
    /// mixed g, HT or VHT beside the older OFDM. Other radios have only one format.
    pub fn is_newer(&self, rate: Bitrate) -> bool {
        match self.kind {
            PhyKind::G => self.mixed && !self.is_dsss(rate),
            _ => self.stream_mcs(rate).is_some(),
        }
    }

    /// Whether a radio of this PHY decodes what a radio of PHY `sender` sends at `rate` on its
    /// channel: a known format, in the same band and at the same clock; HT and VHT not wider than
    /// its own channel and with no more streams, but with either guard interval. Of g and n only
    /// mixed g knows DSSS: the others are assumed not to use it, neither for sending nor for
    /// receiving.
    pub fn decodes(&self, sender: &Self, rate: Bitrate) -> bool {
        if (self.band(), self.slower()) != (sender.band(), sender.slower()) {
            return false;
        }
        let (sent, own) = sender.sent(rate);
        let has_room = self.width >= sent.width && self.streams >= sent.streams;
        match sent.mode(own) {
            Mode::Wire => self.kind == PhyKind::Wire,
            Mode::Dbpsk | Mode::Dqpsk | Mode::Cck5 | Mode::Cck11 => self.is_dsss(rate),
            Mode::Ofdm(Ofdm { format, .. }) => match (format, self.kind) {
                (_, PhyKind::B | PhyKind::Wire) => false,
                (Format::NonHt, _) => true,
                (Format::Ht, kind) => matches!(kind, PhyKind::N | PhyKind::Ac) && has_room,
                (Format::Vht, kind) => kind == PhyKind::Ac && has_room,
            },
        }
    }

    /// Whether frames at `rate` are DSSS or CCK.
    pub(super) fn is_dsss(&self, rate: Bitrate) -> bool {
        self.kind == PhyKind::B || (self.mixed && self.kind == PhyKind::G && DSSS.contains(&rate))
    }

    /// Data bits per symbol of an MCS.
    pub(super) fn mcs_bits(&self, mcs: usize) -> u16 {
        SYMBOL_BITS[self.stream_index()][self.width_index()][mcs]
    }

    /// Data bits per symbol of an HT or VHT rate.
    pub(super) fn mcs_bits_of(&self, rate: Bitrate) -> Option<u64> {
        self.stream_mcs(rate).map(|mcs| u64::from(self.sent(rate).0.mcs_bits(mcs)))
    }

    fn all_mcs(&self) -> &'static [Bitrate; 10] {
        let interval = usize::from(self.guard_interval == GuardInterval::Short);
        &RATES[interval][self.stream_index()][self.width_index()]
    }

    fn non_ht(&self) -> &'static [Bitrate; 8] {
        match self.width {
            Width::Mhz5 => &NON_HT_5,
            Width::Mhz10 => &NON_HT_10,
            _ => &NON_HT_20,
        }
    }

    fn stream_index(&self) -> usize {
        usize::from(self.streams.clamp(1, 2)) - 1
    }

    fn width_index(&self) -> usize {
        match self.width {
            Width::Mhz5 | Width::Mhz10 | Width::Mhz20 => 0,
            Width::Mhz40 => 1,
            Width::Mhz80 => 2,
        }
    }

    /// How many times slower than at 20 MHz the clock of a narrow channel is.
    pub(super) const fn slower(&self) -> u64 {
        match (self.kind, self.width) {
            (PhyKind::A | PhyKind::G, Width::Mhz5) => 4,
            (PhyKind::A | PhyKind::G, Width::Mhz10) => 2,
            _ => 1,
        }
    }

    /// The band of the radio: that of its kind; n has a choice.
    pub const fn band(&self) -> Band {
        match self.kind {
            PhyKind::B | PhyKind::G => Band::Ghz2,
            PhyKind::A | PhyKind::Ac | PhyKind::Wire => Band::Ghz5,
            PhyKind::N => self.band,
        }
    }
}
