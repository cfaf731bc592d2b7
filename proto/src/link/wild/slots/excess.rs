//! What a cycle takes beyond its two slots: the way there and back.

use super::STALE_CYCLES;

/// The way there and back over 200 km, in nanoseconds.
const LONGEST_WAY: i64 = 1_400_000;
/// Measurements of a cycle, from the first, of which the longest counts.
const FIRST_CYCLES: u32 = 16;

/// What was learned of it since the node came into step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Excess {
    nanos: i64,
    measurements: u32,
}

impl Excess {
    pub(super) fn nanos(self) -> i64 {
        self.nanos
    }

    /// Learns from two stamps of a neighbour, by how far they are apart and how long both slots of
    /// this cycle are, in nanoseconds. `is_even` tells whether they are as long as those of others.
    ///
    /// Not from the error of our own schedule: that mixes in the errors of earlier cycles, and
    /// two nodes which follow each other's errors swing. At first the longest counts: a neighbour
    /// that has not learned yet is early where a stamp was lost, never late.
    pub(super) fn learn(&mut self, apart: i64, slots: i64, is_even: bool) {
        let cycles = (apart + slots / 2) / slots;
        let most = if is_even { STALE_CYCLES as i64 } else { 1 };
        if !(1..=most).contains(&cycles) {
            return;
        }
        let excess = apart / cycles - slots;
        // More than that is no way there and back: slots had other lengths.
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
