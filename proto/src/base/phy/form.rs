//! Forms: what a radio of n or ac sends to a radio with fewer abilities (802.11-2012 20.1 and
//! 9.7.6, 802.11ac-2013 22.1 and 9.7.6.6).
//!
//! Data is sent in the older of the two formats, over the narrower of the two channels and in the
//! smaller number of streams; frames that are neither HT nor VHT, over the narrower channel. A rate
//! carries the number of its form, because the same figure may be another MCS in each form, with
//! another noise.

use super::{Band, GuardInterval, Phy, PhyKind, Width};
use crate::base::units::Bitrate;

const KINDS: [PhyKind; 2] = [PhyKind::N, PhyKind::Ac];
const WIDTHS: [Width; 3] = [Width::Mhz20, Width::Mhz40, Width::Mhz80];
const INTERVALS: [GuardInterval; 2] = [GuardInterval::Long, GuardInterval::Short];
/// The first HT or VHT form; 0 is the radio's own.
const MCS: usize = 1;
/// The first non-HT form: there is one for each width.
const NON_HT: usize = MCS + KINDS.len() * WIDTHS.len() * 2 * INTERVALS.len();

fn place<T: PartialEq>(known: &[T], it: &T) -> usize {
    known.iter().position(|known| known == it).unwrap_or(0)
}

impl Phy {
    const fn has_mcs(&self) -> bool {
        matches!(self.kind, PhyKind::N | PhyKind::Ac)
    }

    /// A frame at a rate of this PHY as it is sent: the PHY of that form, and its rate.
    pub fn sent(&self, rate: Bitrate) -> (Self, Bitrate) {
        let form = usize::from(rate.form());
        let (band, own) = (self.band(), rate.in_form(0));
        let sent = match form {
            0 => return (*self, rate),
            NON_HT.. => {
                let kind = match band {
                    Band::Ghz2 => PhyKind::G,
                    Band::Ghz5 => PhyKind::A,
                };
                let width = WIDTHS[(form - NON_HT) % WIDTHS.len()];
                Self { kind, width, streams: 1, mixed: false, ..*self }
            }
            _ => {
                let at = form - MCS;
                let (guard_interval, streams) = (INTERVALS[at % 2], 1 + (at / 2 % 2) as u8);
                let (width, kind) = (WIDTHS[at / 4 % 3], KINDS[at / 12]);
                Self { kind, width, streams, guard_interval, band, ..*self }
            }
        };
        (sent, own)
    }

    /// The rate of this PHY for a frame of PHY `sent`, n or ac, at one of its MCS.
    pub(crate) fn rate_as(&self, sent: &Self, rate: Bitrate) -> Bitrate {
        let of = |phy: &Self| (phy.kind, phy.width, phy.streams, phy.guard_interval);
        if of(sent) == of(self) {
            return rate;
        }
        let at = place(&KINDS, &sent.kind) * 3 + place(&WIDTHS, &sent.width);
        let at = at * 2 + usize::from(sent.streams > 1);
        rate.in_form((MCS + at * 2 + place(&INTERVALS, &sent.guard_interval)) as u8)
    }

    /// A rate as it is sent to radios with channels of that width: the older OFDM over at most that
    /// width, any other rate unchanged.
    #[inline]
    pub fn narrowed(&self, rate: Bitrate, width: Width) -> Bitrate {
        if !self.has_mcs() || width >= self.sent(rate).0.width || self.mcs(rate).is_some() {
            return rate;
        }
        rate.in_form((NON_HT + place(&WIDTHS, &width)) as u8)
    }

    /// The rate, as one of this PHY, of a frame that a radio of another PHY sent.
    #[inline]
    pub fn received(&self, sender: &Self, rate: Bitrate) -> Bitrate {
        if self == sender {
            return rate;
        }
        let (sent, own) = sender.sent(rate);
        match sent.mcs(own) {
            Some(_) => self.rate_as(&sent, own),
            None => self.narrowed(own, sent.width),
        }
    }

    /// The PHY in which it sends to a radio with other formats, widths or streams; `None` if one of
    /// the two has no MCS, or they are in different bands.
    pub(super) fn common(&self, receiver: &Self) -> Option<Self> {
        let is_near = self.has_mcs() && receiver.has_mcs() && self.band() == receiver.band();
        let kind = if self.kind == receiver.kind { self.kind } else { PhyKind::N };
        is_near.then(|| Self {
            kind,
            width: self.width.min(receiver.width),
            streams: self.streams.min(receiver.streams),
            band: self.band(),
            ..*self
        })
    }
}
