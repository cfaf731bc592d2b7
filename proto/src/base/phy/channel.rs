//! How much radios on different channels disturb each other (`radio.md` 6).

use super::{Phy, PhyKind};

/// Shares of power for channels of 20 or 22 MHz that are 0, 5, 10, 15 and 20 MHz apart.
const SHARES: [f64; 5] = [1.0, 0.7, 0.3, 0.05, 0.0];

impl Phy {
    /// The share of the power that a radio of `sender` sends on channel `from` that falls into
    /// channel `channel` of this one: 0 to 1. Channels are numbered by their centres, in steps of 5
    /// MHz.
    ///
    /// `radio.md` 6 has the shares for channels of 20 and 22 MHz. For other widths they decrease in
    /// the same way over the mean of both widths, so that channels whose edges meet do not overlap.
    /// If the sender's channel is wider, a part of the power falls outside the receiver's. The two
    /// bands do not overlap, and wires have no channels.
    pub fn overlap(&self, channel: u16, sender: &Self, from: u16) -> f64 {
        let has_wire = [self, sender].iter().any(|phy| phy.kind == PhyKind::Wire);
        if has_wire || self.band() != sender.band() {
            return 0.0;
        }
        let [own, theirs] = [self, sender].map(|phy| f64::from(phy.width.mhz()));
        let apart = f64::from(channel.abs_diff(from)) * 20.0 / ((own + theirs) / 2.0);
        let Some([near, far]) = SHARES.get(apart as usize..).and_then(<[f64]>::first_chunk) else {
            return 0.0;
        };
        let share = near + (far - near) * apart.fract();
        share * (own / theirs).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Width;

    fn phy(kind: PhyKind, width: Width) -> Phy {
        Phy { kind, width, ..Phy::default() }
    }

    #[test]
    fn channels_of_20_mhz_have_the_shares_of_the_sheet() {
        let b = phy(PhyKind::B, Width::Mhz20);
        let shares = [6, 5, 4, 3, 2, 1].map(|other| b.overlap(6, &b, other));
        assert_eq!(shares, [1.0, 0.7, 0.3, 0.05, 0.0, 0.0]);
    }

    #[test]
    fn channels_are_apart_where_their_edges_meet() {
        for (kind, widths) in [
            (PhyKind::A, [Width::Mhz5, Width::Mhz10, Width::Mhz20]),
            (PhyKind::Ac, [Width::Mhz20, Width::Mhz40, Width::Mhz80]),
        ] {
            for own in widths {
                for other in widths {
                    let [own, other] = [phy(kind, own), phy(kind, other)];
                    let meet = (own.width.mhz() + other.width.mhz()).div_ceil(10);
                    let overlap = |apart| own.overlap(100, &other, 100 + apart);
                    assert_eq!(overlap(meet), 0.0, "{own:?} {other:?}");
                    assert!(overlap(meet - 1) > 0.0, "{own:?} {other:?}");
                    let falls = (0..meet).all(|apart| overlap(apart) > overlap(apart + 1));
                    assert!(falls, "{own:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn a_narrow_channel_has_its_part_of_a_wide_one() {
        let (narrow, wide) = (phy(PhyKind::Ac, Width::Mhz20), phy(PhyKind::Ac, Width::Mhz80));
        assert_eq!(narrow.overlap(42, &wide, 42), 0.25);
        assert_eq!(wide.overlap(42, &narrow, 42), 1.0);
    }

    #[test]
    fn bands_and_wires_are_apart() {
        let [b, a, wire] =
            [PhyKind::B, PhyKind::A, PhyKind::Wire].map(|kind| phy(kind, Width::Mhz20));
        for (one, other) in [(b, a), (a, b), (a, wire), (wire, wire)] {
            assert_eq!(one.overlap(1, &other, 1), 0.0);
        }
    }
}
