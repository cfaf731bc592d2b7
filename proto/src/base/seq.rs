//! Sequence numbers that wrap around.

use serde::{Deserialize, Serialize};

/// A 32-bit sequence number with serial-number order (RFC 1982): `a` is before `b` if `b` is less
/// than 2^31 ahead of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u32);

impl Seq {
    /// The number `steps` further.
    pub const fn add(self, steps: u32) -> Self {
        Self(self.0.wrapping_add(steps))
    }

    /// The number `steps` back.
    pub const fn sub(self, steps: u32) -> Self {
        Self(self.0.wrapping_sub(steps))
    }

    /// Steps from `other` to here, negative if `other` is ahead.
    pub const fn distance(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// Whether this number comes before `other`.
    pub const fn is_before(self, other: Self) -> bool {
        self.distance(other) < 0
    }

    /// Whether this number comes after `other`.
    pub const fn is_after(self, other: Self) -> bool {
        self.distance(other) > 0
    }

    /// The later of the two.
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_across_the_wrap() {
        let last = Seq(u32::MAX);
        assert!(last.is_before(last.add(1)));
        assert_eq!(last.add(3).distance(last), 3);
        assert_eq!(Seq(2).sub(3), last);
        assert_eq!(last.max(Seq(0)), Seq(0));
    }
}
