//! A radio as links see it: what they need to know to plan its air time.

use super::{AmpduSize, BLOCK_ACK_BYTES, BLOCK_ACK_REQUEST_BYTES, Gap, Phy, mpdu_bytes};
use crate::base::id::RadioId;
use crate::base::time::Duration;
use crate::base::units::Bitrate;

/// Contention parameters of a radio for best effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    /// Slot time.
    pub slot: Duration,
    /// Slots in the interframe space after SIFS: 2 make a DIFS; with 802.11e, best effort has 3
    /// (802.11-2012, table 8-105).
    pub aifsn: u8,
    /// Smallest contention window.
    pub cw_min: u32,
}

impl Contention {
    /// The parameters of the standard, with 802.11e or without.
    pub const fn of(phy: &Phy, edca: bool) -> Self {
        let (cw_min, _) = phy.contention_window();
        Self { slot: phy.slot(), aifsn: if edca { 3 } else { 2 }, cw_min }
    }
}

/// What a link needs to know of a radio to plan its air time.
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
    /// What that gap, and the backoff before acknowledged frames, consist of.
    pub contention: Contention,
    /// Channel number: the radios of a node on one channel share their slots.
    pub channel: u16,
    /// Bytes that sealing adds to every frame; 0 if frames are not protected.
    pub seal_bytes: usize,
    /// Whether each access category has a queue of its own in the card (802.11e).
    pub edca: bool,
    /// Most frames to one neighbour in one transmission (A-MPDU), with one block acknowledgement; 1
    /// if each is sent by itself.
    pub aggregate: u8,
    /// Propagation delay to the farthest neighbour, or to the one that is sent to.
    pub way: Duration,
}

impl RadioSpec {
    /// The first radio of a node at its highest rate, on channel 1, with DIFS before its frames,
    /// without protection, 802.11e and aggregates.
    pub fn of(phy: Phy) -> Self {
        Self {
            id: RadioId(0),
            phy,
            rate: *phy.rates().last().expect("a PHY with rates"),
            gap: Gap::Difs,
            contention: Contention::of(&phy, false),
            channel: 1,
            seal_bytes: 0,
            edca: false,
            aggregate: 1,
            way: Duration::ZERO,
        }
    }

    /// The spec for sending to the radio of a neighbour, at no more than `most`. In a format older
    /// than its own it sends frame by frame. `None` if the other radio knows none of its rates.
    pub fn toward(&self, other: &Self, most: Option<Bitrate>) -> Option<Self> {
        let rate = match most {
            Some(most) => self.phy.rate_under(&other.phy, self.rate.min(most)),
            None => self.phy.rate_for(&other.phy, self.rate),
        }?;
        let is_many = self.phy.is_newer(rate);
        Some(Self { rate, aggregate: if is_many { self.aggregate } else { 1 }, ..*self })
    }

    /// Whether its channel overlaps that of another radio.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.phy.overlap(self.channel, &other.phy, other.channel) > 0.0
    }

    /// Air time of a frame without MAC acknowledgement, including the expected gap before it.
    /// `bytes` is the length of its payload behind LLC/SNAP before it is sealed.
    pub fn unacknowledged(&self, bytes: usize) -> Duration {
        let mpdu = self.mpdu_bytes(bytes);
        self.mean_gap() + self.phy.air_time(self.phy.psdu_bytes(mpdu, self.rate), self.rate)
    }

    /// Whether frames are aggregated.
    pub const fn aggregates(&self) -> bool {
        self.aggregate > 1
    }

    /// Air time of an A-MPDU and its block acknowledgement, including the expected gap before it,
    /// which has a backoff as before all acknowledged frames, and the propagation delay there and
    /// back.
    pub fn aggregated(&self, size: AmpduSize) -> Duration {
        let air = self.phy.air_time(size.bytes(), self.rate);
        self.drawn_gap() + air + self.answer(BLOCK_ACK_BYTES) + self.there_and_back()
    }

    /// Propagation delay to a neighbour and back.
    pub fn there_and_back(&self) -> Duration {
        self.way * 2
    }

    /// Air time of a block acknowledgement request and its answer, including the longest gap that
    /// may be drawn before it.
    pub fn block_ack_request(&self) -> Duration {
        let rate = self.phy.ack_rate(None, self.rate);
        let air = self.phy.air_time(BLOCK_ACK_REQUEST_BYTES, rate);
        let longest_gap = self.least_gap() + self.longest_draw();
        longest_gap + air + self.answer(BLOCK_ACK_BYTES)
    }

    /// SIFS and a control frame that answers data.
    fn answer(&self, bytes: usize) -> Duration {
        self.phy.sifs() + self.phy.air_time(bytes, self.phy.ack_rate(None, self.rate))
    }

    /// Whether an A-MPDU has room for one more frame. `bytes` is the length of its payload behind
    /// LLC/SNAP before it is sealed.
    pub fn has_room(&self, size: AmpduSize, bytes: usize) -> bool {
        size.mpdus() < usize::from(self.aggregate)
            && self.phy.has_room(size, self.mpdu_bytes(bytes), self.rate)
    }

    /// Air time that a frame takes when the air is full of such frames:
    /// [`RadioSpec::unacknowledged`], or its share of the longest possible A-MPDU.
    pub fn share(&self, bytes: usize) -> Duration {
        if !self.aggregates() {
            return self.unacknowledged(bytes);
        }
        let size = self.longest(bytes, self.aggregate.into());
        self.aggregated(size) / size.mpdus() as u64
    }

    /// The longest A-MPDU of at most `most` frames, whose payload behind LLC/SNAP has `bytes` bytes
    /// each.
    fn longest(&self, bytes: usize, most: usize) -> AmpduSize {
        self.phy.longest_ampdu(self.mpdu_bytes(bytes), self.rate, most)
    }

    /// How many frames fit into a time, each with a payload behind LLC/SNAP of `bytes` bytes: in
    /// A-MPDUs of full length, and a last one for the time that is left.
    pub fn frames_in(&self, time: Duration, bytes: usize) -> u64 {
        if !self.aggregates() {
            return time.div_duration(self.unacknowledged(bytes));
        }
        let full = self.longest(bytes, self.aggregate.into());
        let whole = time.div_duration(self.aggregated(full));
        let left = time.saturating_sub(self.aggregated(full) * whole);
        let fits = |frames: &usize| self.aggregated(self.longest(bytes, *frames)) <= left;
        let last = (1..full.mpdus()).rev().find(fits).unwrap_or(0);
        whole * full.mpdus() as u64 + last as u64
    }

    /// Length of a frame without MAC acknowledgement, in bytes. `bytes` is the length of its
    /// payload behind LLC/SNAP before it is sealed.
    pub const fn mpdu_bytes(&self, bytes: usize) -> usize {
        mpdu_bytes(true, bytes + self.seal_bytes)
    }

    /// The gap before a frame without MAC acknowledgement; the mean, if it has a backoff.
    pub fn mean_gap(&self) -> Duration {
        match self.gap {
            Gap::Backoff => self.drawn_gap(),
            Gap::Difs => self.least_gap(),
            Gap::Sifs => self.phy.sifs(),
        }
    }

    /// How long the medium must be idle before anything of best effort: DIFS, or AIFS with EDCA.
    fn least_gap(&self) -> Duration {
        self.phy.sifs() + self.contention.slot * u64::from(self.contention.aifsn)
    }

    /// The longest backoff of a first attempt.
    fn longest_draw(&self) -> Duration {
        self.contention.slot * u64::from(self.contention.cw_min)
    }

    /// The mean of a gap with a backoff, as before all acknowledged frames.
    pub fn drawn_gap(&self) -> Duration {
        self.least_gap() + self.longest_draw() / 2
    }

    /// How far the gap before a frame may deviate from its mean.
    pub fn gap_spread(&self) -> Duration {
        match self.gap {
            Gap::Backoff => self.mean_gap().saturating_sub(self.least_gap()),
            Gap::Difs | Gap::Sifs => Duration::ZERO,
        }
    }
}
