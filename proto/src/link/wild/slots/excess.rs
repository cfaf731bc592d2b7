//! What a cycle takes beyond its two slots: the round-trip propagation delay.

use super::{STALE_CYCLES, Slots};
use crate::base::Duration;

/// Round-trip propagation delay over 200 km, in nanoseconds.
const LONGEST_WAY: i64 = 1_400_000;
/// For this many measurements, the longest one so far counts.
const FIRST_CYCLES: u32 = 16;

/// The excess that was learned since the node came into step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Excess {
    nanos: i64,
    measurements: u32,
    /// What it probably is, before anything was measured.
    expected: i64,
}

impl Slots {
    /// With one neighbour at this distance, as propagation delay, or nearer where nodes move: until
    /// the length of a cycle is learned, a lost stamp then costs no more than later.
    pub(in super::super) fn expect(&mut self, way: Duration) {
        self.excess.expected = 2 * way.as_nanos() as i64;
    }
}

impl Excess {
    /// The node is no longer in step.
    pub(super) fn forget(&mut self) {
        (self.nanos, self.measurements) = (self.expected, 0);
    }

    pub(super) fn nanos(self) -> i64 {
        self.nanos
    }

    /// Learns from two stamps of a neighbour: `apart` is the time between the starts that they ask
    /// for, and `slots` the length of both slots of this cycle, in nanoseconds. `is_even` tells
    /// whether all slots have the same length.
    ///
    /// The error of our own schedule is not used: it contains the errors of earlier cycles, and two
    /// nodes that follow each other's errors oscillate. At first the longest measurement counts: a
    /// neighbour that has not learned the delay yet is early after a lost stamp, never late.
    pub(super) fn learn(&mut self, apart: i64, slots: i64, is_even: bool) {
        let cycles = (apart + slots / 2) / slots;
        let most = if is_even { STALE_CYCLES as i64 } else { 1 };
        if !(1..=most).contains(&cycles) {
            return;
        }
        let excess = apart / cycles - slots;
        // A larger excess is no propagation delay: slots had other lengths.
        let most = slots / 16;
        let most = if is_even { most.max(LONGEST_WAY).min(slots / 4) } else { most };
        if excess.abs() <= most {
            let is_truer = self.measurements < FIRST_CYCLES
                && is_even
                && (self.nanos..=LONGEST_WAY).contains(&excess);
            self.nanos += (excess - self.nanos) / if is_truer { 1 } else { 4 };
            self.measurements = self.measurements.saturating_add(1);
        }
    }
}
