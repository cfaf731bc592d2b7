//! The radiotap fields of 802.11n and ac frames (radiotap.org, `MCS` and `VHT`).

use crate::base::{Bitrate, GuardInterval, Phy, PhyKind, Width};

/// How a frame of 802.11n (HT) or ac (VHT) is modulated and coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mcs {
    /// 802.11n or ac.
    pub kind: PhyKind,
    /// The index, counted as in [`Phy::mcs`].
    pub index: u8,
    /// Streams; `None` for HT, whose index includes them.
    pub streams: Option<u8>,
    /// Width of the channel, if known.
    pub width: Option<Width>,
    /// Guard interval, if known.
    pub guard_interval: Option<GuardInterval>,
}

impl Mcs {
    /// Decodes the MCS field: known, flags, index.
    pub(super) fn of_ht(value: &[u8]) -> Option<Self> {
        let [known, flags, index] = *value else { return None };
        let width = match flags & 0x03 {
            1 => Width::Mhz40,
            _ => Width::Mhz20,
        };
        let has = |bit: u8| known & bit != 0;
        has(0x02).then(|| Self {
            kind: PhyKind::N,
            index,
            streams: None,
            width: has(0x01).then_some(width),
            guard_interval: has(0x04).then(|| guard_interval(flags)),
        })
    }

    /// Decodes the VHT field: known, flags, bandwidth, and MCS and streams of the first user.
    pub(super) fn of_vht(value: &[u8]) -> Option<Self> {
        let [known, _, flags, bandwidth, first, ..] = *value else { return None };
        let width = match bandwidth {
            0 | 2 | 3 => Some(Width::Mhz20),
            1 => Some(Width::Mhz40),
            4 => Some(Width::Mhz80),
            _ => None,
        };
        let has = |bit: u8| known & bit != 0;
        let (index, streams) = (first >> 4, first & 0x0f);
        let is_ours = width.is_some() || !has(0x40);
        // Without streams there is no user.
        (streams > 0 && is_ours).then(|| Self {
            kind: PhyKind::Ac,
            index,
            streams: Some(streams),
            width: width.filter(|_| has(0x40)),
            guard_interval: has(0x04).then(|| guard_interval(flags)),
        })
    }

    /// The bit-rate of a PHY that this describes, if there is one.
    pub(super) fn rate_of(&self, phy: &Phy) -> Option<Bitrate> {
        let streams = match self.kind {
            PhyKind::N => self.index / 8 + 1,
            _ => self.streams.unwrap_or(phy.streams),
        };
        let sent = Phy {
            kind: self.kind,
            streams,
            width: self.width.unwrap_or(phy.width),
            guard_interval: self.guard_interval.unwrap_or(phy.guard_interval),
            band: phy.band(),
            ..*phy
        };
        let rate = sent.rate_of_mcs(self.index).filter(|rate| phy.decodes(&sent, *rate))?;
        Some(phy.rate_as(&sent, rate))
    }
}

/// The guard interval in the flags of an MCS or VHT field.
fn guard_interval(flags: u8) -> GuardInterval {
    if flags & 0x04 != 0 { GuardInterval::Short } else { GuardInterval::Long }
}

/// Known are width, MCS, guard interval, format (mixed), FEC (convolutional), STBC and extension
/// spatial streams (none): all that the field has.
pub(super) fn put_ht(out: &mut Vec<u8>, phy: &Phy, rate: Bitrate) {
    let (sent, _) = phy.sent(rate);
    let width = u8::from(sent.width == Width::Mhz40);
    let short = u8::from(sent.guard_interval == GuardInterval::Short) << 2;
    out.extend_from_slice(&[0x7f, width | short, phy.mcs(rate).unwrap_or(0)]);
}

/// Known are STBC (none), guard interval and width, beside MCS and streams of the only user.
pub(super) fn put_vht(out: &mut Vec<u8>, phy: &Phy, rate: Bitrate) {
    let (sent, _) = phy.sent(rate);
    let width = match sent.width {
        Width::Mhz80 => 4,
        Width::Mhz40 => 1,
        _ => 0,
    };
    let short = u8::from(sent.guard_interval == GuardInterval::Short) << 2;
    out.extend_from_slice(&0x0045_u16.to_le_bytes());
    let first = phy.mcs(rate).unwrap_or(0) << 4 | sent.streams;
    out.extend_from_slice(&[short, width, first, 0, 0, 0, 0, 0, 0, 0]);
}
