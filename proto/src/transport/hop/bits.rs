//! Which frames of a block are there, one bit each.

use bytes::Bytes;

use crate::wire::hop::bits_bytes;

/// One bit for each frame of a block; frame 0 is the highest bit of the first byte, as on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    bytes: Vec<u8>,
    frames: u16,
    count: u16,
}

impl Bits {
    pub(super) fn none(frames: u16) -> Self {
        Self { bytes: vec![0; bits_bytes(frames)], frames, count: 0 }
    }

    pub(super) fn all(frames: u16) -> Self {
        let mut bits = Self::none(frames);
        (0..frames).for_each(|frame| _ = bits.set(frame));
        bits
    }

    /// Reads bits from a message; `None` unless there are as many bytes as the frames need. Bits
    /// after the last frame are ignored.
    pub(super) fn read(frames: u16, bytes: &[u8]) -> Option<Self> {
        if bytes.len() != bits_bytes(frames) {
            return None;
        }
        let has = |frame: &u16| bytes[usize::from(frame / 8)] & (0x80 >> (frame % 8)) != 0;
        let mut bits = Self::none(frames);
        (0..frames).filter(has).for_each(|frame| _ = bits.set(frame));
        Some(bits)
    }

    pub(super) fn write(&self) -> Bytes {
        Bytes::copy_from_slice(&self.bytes)
    }

    pub(super) fn has(&self, frame: u16) -> bool {
        self.bytes[usize::from(frame / 8)] & (0x80 >> (frame % 8)) != 0
    }

    /// Marks a frame. Returns whether it was not marked before.
    pub(super) fn set(&mut self, frame: u16) -> bool {
        let is_new = !self.has(frame);
        self.bytes[usize::from(frame / 8)] |= 0x80 >> (frame % 8);
        self.count += u16::from(is_new);
        is_new
    }

    pub(super) fn clear(&mut self) {
        self.bytes.fill(0);
        self.count = 0;
    }

    pub(super) fn count(&self) -> u16 {
        self.count
    }

    pub(super) fn is_full(&self) -> bool {
        self.count == self.frames
    }

    /// The first frame from `from` on that is marked here and in neither of the others.
    pub(super) fn next_beyond(&self, from: u16, others: [&Self; 2]) -> Option<u16> {
        (from..self.frames)
            .find(|frame| self.has(*frame) && others.iter().all(|other| !other.has(*frame)))
    }

    /// Number of frames that are marked here and there.
    pub(super) fn count_common(&self, other: &Self) -> u32 {
        let bytes = self.bytes.iter().zip(&other.bytes);
        bytes.map(|(own, other)| (own & other).count_ones()).sum()
    }

    /// Number of runs of frames that came, among these frames.
    pub(super) fn stretches(&self, came: &Self) -> u32 {
        let (mut stretches, mut has_come) = (0, false);
        for frame in (0..self.frames).filter(|frame| self.has(*frame)) {
            let comes = came.has(frame);
            stretches += u32::from(comes && !has_come);
            has_come = comes;
        }
        stretches
    }

    /// Number of frames that are marked here and in neither of the others.
    pub(super) fn count_beyond(&self, others: [&Self; 2]) -> u32 {
        let [a, b] = others;
        let bytes = self.bytes.iter().zip(&a.bytes).zip(&b.bytes);
        bytes.map(|((own, a), b)| (own & !a & !b).count_ones()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_behind_the_last_frame_do_not_count() {
        let bits = Bits::read(10, &[0xff, 0xff]).expect("two bytes");
        assert!(bits.is_full() && bits == Bits::all(10));
        assert_eq!(Bits::read(10, &[0xff]), None);
    }

    proptest! {
        #[test]
        fn what_is_beyond_is_the_difference(frames in 1..300_u16, draws: [Vec<u16>; 3]) {
            let [own, a, b] = draws.map(|set| {
                let mut bits = Bits::none(frames);
                set.iter().for_each(|frame| _ = bits.set(frame % frames));
                bits
            });
            let beyond: Vec<u16> =
                (0..frames).filter(|f| own.has(*f) && !a.has(*f) && !b.has(*f)).collect();
            prop_assert_eq!(own.count_beyond([&a, &b]) as usize, beyond.len());
            prop_assert_eq!(own.next_beyond(0, [&a, &b]), beyond.first().copied());
            prop_assert_eq!(Bits::read(frames, &own.write()), Some(own));
        }
    }
}
