//! Records which counters were received: a sliding window over a ring of bits (RFC 6479).

/// Words of the ring. One of them is being reused for new counters, so one less counts.
const WORDS: usize = 65;
/// How far behind the highest counter others are still distinguished.
pub(super) const WINDOW: u64 = (WORDS as u64 - 1) * 64;

/// The counters that were received under one key.
#[derive(Debug)]
pub(super) struct Window {
    /// The highest counter received, plus one.
    next: u64,
    /// No counter below this one is accepted.
    first: u64,
    bits: [u64; WORDS],
}

impl Window {
    /// A window in which no counter was received, and none below `first` is accepted.
    pub(super) fn starting_at(first: u64) -> Self {
        Self { next: first, first, bits: [0; WORDS] }
    }

    /// Whether a counter is new: it was not received, and is not too old to tell.
    pub(super) fn is_new(&self, counter: u64) -> bool {
        if counter >= self.next {
            return true;
        }
        let is_told_apart = counter >= self.first && counter + WINDOW >= self.next;
        is_told_apart && self.bits[word(counter)] & bit(counter) == 0
    }

    /// The highest counter received, plus one.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Records a new counter.
    pub(super) fn insert(&mut self, counter: u64) {
        if counter >= self.next {
            let (last, now) = (self.next.saturating_sub(1) / 64, counter / 64);
            let fresh = if self.next == 0 { now + 1 } else { now - last };
            for step in 0..fresh.min(WORDS as u64) {
                self.bits[((now - step) % WORDS as u64) as usize] = 0;
            }
            self.next = counter + 1;
        }
        self.bits[word(counter)] |= bit(counter);
    }
}

fn word(counter: u64) -> usize {
    (counter / 64 % WORDS as u64) as usize
}

fn bit(counter: u64) -> u64 {
    1 << (counter % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_counter_comes_once() {
        let mut window = Window::starting_at(10);
        assert!(!window.is_new(9) && window.is_new(10) && window.is_new(u64::MAX >> 16));
        window.insert(12);
        assert!(window.is_new(11) && !window.is_new(12));
        window.insert(12 + WINDOW);
        assert!(!window.is_new(12) && !window.is_new(11), "12 came, 11 is too old");
        assert!(window.is_new(13));
    }

    proptest! {
        /// The model remembers every counter.
        #[test]
        fn the_window_agrees_with_a_set(
            first in prop_oneof![Just(0), 0_u64..200, Just((1 << 48) - 9_000)],
            steps in proptest::collection::vec(
                prop_oneof![-3_i64..4, -4_200_i64..4_200, -70_i64..70, -20_000_i64..20_000],
                1..400,
            ),
        ) {
            let mut window = Window::starting_at(first);
            let mut came = BTreeSet::new();
            let (mut at, mut next) = (first, first);
            for step in steps {
                at = at.saturating_add_signed(step);
                let is_known = at < next && at + WINDOW < next;
                let is_new = at >= first && !is_known && !came.contains(&at);
                prop_assert_eq!(window.is_new(at), is_new, "{}", at);
                if is_new {
                    window.insert(at);
                    came.insert(at);
                    next = next.max(at + 1);
                }
            }
        }
    }
}
