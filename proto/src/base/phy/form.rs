//! Forms: what a radio of n or ac sends to one that knows less of it (802.11-2012 20.1 and 9.7.6,
//! 802.11ac-2013 22.1). That goes in the older of both formats, over the narrower of both channels
//! and in the fewer streams. A rate carries the number of its form, since the same figure may be
//! another MCS in each.

use super::{Phy, PhyKind, Width};
use crate::base::units::Bitrate;

const KINDS: [PhyKind; 2] = [PhyKind::N, PhyKind::Ac];
const WIDTHS: [Width; 3] = [Width::Mhz20, Width::Mhz40, Width::Mhz80];

impl Phy {
    /// What a frame at a rate of this PHY is: one of which PHY, at which of its rates.
    pub fn sent(&self, rate: Bitrate) -> (Self, Bitrate) {
        let Some(at) = usize::from(rate.form()).checked_sub(1) else { return (*self, rate) };
        let (kind, width) = (KINDS[at / 6 % 2], WIDTHS[at / 2 % 3]);
        let sent = Self { kind, width, streams: 1 + (at % 2) as u8, band: self.band(), ..*self };
        (sent, rate.in_form(0))
    }

    /// The rate of this PHY that a frame has which is one of `sent` at `rate`.
    pub(crate) fn rate_as(&self, sent: &Self, rate: Bitrate) -> Bitrate {
        let place = |width| WIDTHS.iter().position(|known| *known == width).unwrap_or(0);
        let is_own = (sent.kind, sent.width, sent.streams) == (self.kind, self.width, self.streams);
        if is_own {
            return rate;
        }
        let kind = usize::from(sent.kind == PhyKind::Ac);
        let at = kind * 6 + place(sent.width) * 2 + usize::from(sent.streams > 1);
        rate.in_form(1 + at as u8)
    }

    /// What it sends to a radio that has other formats, widths or streams than it; nothing where
    /// one of the two has no MCS.
    pub(super) fn common(&self, receiver: &Self) -> Option<Self> {
        let has_mcs = |phy: &Self| KINDS.contains(&phy.kind);
        let is_near = has_mcs(self) && has_mcs(receiver) && self.band() == receiver.band();
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
