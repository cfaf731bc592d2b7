//! What a radio senses, in one cache line.
//!
//! Most of those who hear a frame have nothing to send and cannot decode it: the frame only comes
//! and goes. In a network of ten thousand radios that is most of all work, and it is done here
//! without a look at the rest of the radio.

use farhop_proto::base::{Duration, Instant};

use super::super::power::Power;

/// Whether the rest of the radio cares about energy that comes and goes.
// As wide as a pointer, so that the compiler keeps the kind of a port in its spare values, and the
// port is recognised by this line alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(in crate::radio) enum Attention {
    /// Nothing is being received, sent, or waited for.
    Idle,
    /// Something is.
    Engaged,
}

/// What a radio senses.
#[derive(Debug)]
#[repr(align(64))]
pub(in crate::radio) struct Ear {
    pub(in crate::radio) attention: Attention,
    /// All signals at the antenna, under summed interference.
    pub(super) ambient: Power,
    /// What makes the medium busy, under summed interference.
    pub(super) sense: Power,
    /// Since when the medium is busy, where it is.
    pub(in crate::radio) busy_since: Instant,
    /// When it last became idle, as a radio with carrier sense knows it.
    pub(in crate::radio) idle_since: Instant,
    /// Sum of the busy times that have ended.
    pub(in crate::radio) busy: Duration,
    /// Signals at the antenna that are strong enough to be sensed by themselves.
    pub(super) signals: u32,
    /// Transmitting radios of the same node on overlapping channels.
    pub(super) siblings: u16,
    /// Whether signals add up.
    pub(super) sums: bool,
    has_carrier_sense: bool,
}

impl Ear {
    pub(super) fn new(sums: bool, sense: Power, has_carrier_sense: bool) -> Self {
        Self {
            // Until the radio has said that it does not care.
            attention: Attention::Engaged,
            ambient: Power::ZERO,
            sense,
            busy_since: Instant::ZERO,
            idle_since: Instant::ZERO,
            busy: Duration::ZERO,
            signals: 0,
            siblings: 0,
            sums,
            has_carrier_sense,
        }
    }

    /// Whether there is something on the air, the own transmission not counted.
    pub(in crate::radio) fn is_sensing(&self) -> bool {
        let is_signal = if self.sums {
            self.ambient >= self.sense && self.ambient > Power::ZERO
        } else {
            self.signals > 0
        };
        is_signal || self.siblings > 0
    }

    /// Energy comes to a radio that is idle, or goes from it.
    pub(in crate::radio) fn hear(&mut self, now: Instant, power: Power, is_end: bool) {
        let was_sensing = self.is_sensing();
        if is_end {
            self.signals -= 1;
            self.ambient -= power;
        } else {
            self.signals += 1;
            self.ambient += power;
        }
        match (was_sensing, self.is_sensing()) {
            (false, true) => self.busy_since = now,
            (true, false) => {
                self.busy += now.since(self.busy_since);
                if self.has_carrier_sense {
                    self.idle_since = now;
                }
            }
            _ => {}
        }
    }
}
