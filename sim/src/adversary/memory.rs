//! What a stranger remembers of the frames that it heard. All of it is bounded.

use std::collections::VecDeque;

use farhop_proto::base::{EtherType, Rng};

use super::Record;

/// Number of recent frames that it remembers.
const RECENT: usize = 16;
/// Number of frames that it remembers out of all that it ever heard.
const OLD: usize = 256;
/// The same for handshake messages.
const HANDSHAKES: usize = 64;
/// Frames that it collects to send them in another order.
const BATCH: usize = 12;
/// Sealed frames with types below this are handshake messages.
const FIRST_SEALED_DATA: u8 = 3;

/// A uniform random sample of all frames that were heard.
#[derive(Debug)]
struct Sample {
    kept: Vec<Record>,
    room: usize,
    seen: u64,
}

impl Sample {
    const fn new(room: usize) -> Self {
        Self { kept: Vec::new(), room, seen: 0 }
    }

    /// Keeps a frame with the same probability as all before it (reservoir sampling).
    fn take(&mut self, record: &Record, rng: &mut Rng) {
        self.seen += 1;
        if self.kept.len() < self.room {
            self.kept.push(record.clone());
            return;
        }
        let place = rng.below(self.seen) as usize;
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = record.clone();
        }
    }

    fn any(&self, rng: &mut Rng) -> Option<&Record> {
        let count = self.kept.len() as u64;
        (count > 0).then(|| &self.kept[rng.below(count) as usize])
    }
}

/// What a stranger remembers.
#[derive(Debug)]
pub(super) struct Memory {
    recent: VecDeque<Record>,
    old: Sample,
    handshakes: Sample,
    /// Consecutive frames, while a batch is collected.
    collected: Vec<Record>,
    /// The batch that is being sent, the next frame last.
    reordered: Vec<Record>,
    rng: Rng,
}

impl Memory {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            recent: VecDeque::with_capacity(RECENT),
            old: Sample::new(OLD),
            handshakes: Sample::new(HANDSHAKES),
            collected: Vec::with_capacity(BATCH),
            reordered: Vec::with_capacity(BATCH),
            rng,
        }
    }

    /// Takes a frame that was heard.
    pub(super) fn take(&mut self, record: &Record) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(record.clone());
        self.old.take(record, &mut self.rng);
        if is_handshake(record) {
            self.handshakes.take(record, &mut self.rng);
        }
        if self.collected.len() < BATCH {
            self.collected.push(record.clone());
        }
    }

    /// The frame that was heard last.
    pub(super) fn last(&self) -> Option<&Record> {
        self.recent.back()
    }

    /// A random one of the recent frames.
    pub(super) fn recent(&self, rng: &mut Rng) -> Option<&Record> {
        let count = self.recent.len() as u64;
        (count > 0).then(|| &self.recent[rng.below(count) as usize])
    }

    /// A random frame out of all that were heard.
    pub(super) fn old(&self, rng: &mut Rng) -> Option<&Record> {
        self.old.any(rng)
    }

    /// A random handshake message out of all that were heard.
    pub(super) fn handshake(&self, rng: &mut Rng) -> Option<&Record> {
        self.handshakes.any(rng)
    }

    /// The next frame of a batch that is sent in another order than it was heard.
    pub(super) fn reordered(&mut self, rng: &mut Rng) -> Option<Record> {
        if self.reordered.is_empty() && self.collected.len() == BATCH {
            // Frames are taken from the end, so in reverse; half of the time they are shuffled
            // instead.
            self.reordered.append(&mut self.collected);
            if rng.chance(0.5) {
                for end in (1..self.reordered.len()).rev() {
                    let place = rng.below(end as u64 + 1) as usize;
                    self.reordered.swap(end, place);
                }
            }
        }
        self.reordered.pop()
    }
}

/// Whether a frame is a handshake message.
pub(super) fn is_handshake(record: &Record) -> bool {
    let kind = record.payload.first().map(|first| first & 0x0f);
    record.protocol == EtherType::SEALED && kind.is_some_and(|kind| kind < FIRST_SEALED_DATA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use farhop_proto::base::{Bitrate, NodeId, Seed};

    fn record(number: u32) -> Record {
        let mut payload = vec![0x14];
        payload.extend_from_slice(&number.to_be_bytes());
        Record {
            from: NodeId(1),
            to: Some(NodeId(2)),
            protocol: EtherType::SEALED,
            payload: Bytes::from(payload),
            rate: Bitrate::from_100kbps(110),
        }
    }

    fn number(record: &Record) -> u32 {
        u32::from_be_bytes(record.payload[1..5].try_into().expect("four bytes"))
    }

    #[test]
    fn however_much_it_hears_it_keeps_a_fair_part_of_it() {
        let mut memory = Memory::new(Seed(1).stream("memory"));
        let frames = 100_000;
        (0..frames).for_each(|frame| memory.take(&record(frame)));
        assert_eq!((memory.recent.len(), memory.old.kept.len()), (RECENT, OLD));
        assert!(memory.handshakes.kept.is_empty() && memory.collected.len() <= BATCH);
        let early = memory.old.kept.iter().filter(|record| number(record) < frames / 2).count();
        assert!((90..=166).contains(&early), "{early} of {OLD} are from the first half");
    }

    #[test]
    fn a_batch_comes_out_whole_and_not_as_it_went_in() {
        let mut memory = Memory::new(Seed(1).stream("memory"));
        let mut rng = Seed(2).stream("draws");
        for round in 0..20 {
            assert_eq!(memory.reordered(&mut rng), None, "nothing is held back yet");
            (0..BATCH as u32).for_each(|frame| memory.take(&record(frame)));
            let out: Vec<u32> =
                (0..BATCH).filter_map(|_| memory.reordered(&mut rng)).map(|r| number(&r)).collect();
            let mut sorted = out.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..BATCH as u32).collect::<Vec<_>>());
            assert_ne!(out, sorted, "round {round}");
        }
    }
}
