//! Remembers the frames that nodes sent, and which nodes received each of them. Only this tells
//! whether a stranger's copy was accepted a second time, or brought its receiver a frame that it
//! had missed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use farhop_proto::base::ReceivedFrame;

/// Frames that are remembered. A copy of a forgotten frame counts as the stranger's own.
const REMEMBERED: usize = 1 << 17;

/// Frames that nodes sent.
#[derive(Debug, Default)]
pub struct Genuine {
    /// The nodes that received each of them, by digest.
    got: BTreeMap<u128, BTreeSet<u32>>,
    order: VecDeque<u128>,
}

impl Genuine {
    /// A node sent a frame.
    pub fn on_sent(&mut self, frame: &ReceivedFrame) {
        self.entry(frame);
    }

    /// A node received a frame of another node.
    pub fn on_received(&mut self, node: usize, frame: &ReceivedFrame) {
        self.entry(frame).insert(node as u32);
    }

    /// Whether some node sent this frame and `node` had not received it. From now on it has.
    pub fn has_missed(&mut self, node: usize, frame: &ReceivedFrame) -> bool {
        let got = self.got.get_mut(&digest(frame));
        got.is_some_and(|got| got.insert(node as u32))
    }

    fn entry(&mut self, frame: &ReceivedFrame) -> &mut BTreeSet<u32> {
        let digest = digest(frame);
        if !self.got.contains_key(&digest) {
            if self.order.len() == REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.got.remove(&oldest);
            }
            self.order.push_back(digest);
        }
        self.got.entry(digest).or_default()
    }
}

/// A digest of a frame. It is no cryptographic hash, as nobody searches for collisions.
fn digest(frame: &ReceivedFrame) -> u128 {
    const FACTOR: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
    let ends = u64::from(frame.from.0) << 32 | frame.to.map_or(1 << 16, |to| u64::from(to.0));
    let head = u64::from(frame.protocol.0) << 48 ^ frame.payload.len() as u64;
    let words = frame.payload.chunks(8).map(|part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        u64::from_le_bytes(word)
    });
    [ends, head]
        .into_iter()
        .chain(words)
        .fold(FACTOR, |sum, word| (sum ^ u128::from(word)).wrapping_mul(FACTOR).rotate_left(47))
}

#[cfg(test)]
mod tests {
    use super::*;
    use farhop_proto::base::{Bitrate, EtherType, Instant, NodeId, RadioId};

    fn frame(to: u16, payload: &'static [u8]) -> ReceivedFrame {
        ReceivedFrame {
            radio: RadioId(0),
            from: NodeId(1),
            to: Some(NodeId(to)),
            protocol: EtherType::SEALED,
            payload: payload.into(),
            started: Instant::ZERO,
            rate: Bitrate::from_100kbps(110),
            signal: None,
            bits: 0,
        }
    }

    #[test]
    fn a_frame_is_missed_until_it_comes_once() {
        let mut genuine = Genuine::default();
        assert!(!genuine.has_missed(1, &frame(2, b"one")), "nobody sent it");
        genuine.on_sent(&frame(2, b"one"));
        assert!(genuine.has_missed(1, &frame(2, b"one")));
        assert!(!genuine.has_missed(1, &frame(2, b"one")), "it came");
        assert!(genuine.has_missed(2, &frame(2, b"one")), "but not to that one");
        genuine.on_received(1, &frame(2, b"two"));
        assert!(!genuine.has_missed(1, &frame(2, b"two")));
        for other in [frame(3, b"two"), frame(2, b"twp"), frame(2, b"two\0")] {
            assert!(!genuine.has_missed(2, &other), "never sent");
        }
    }
}
