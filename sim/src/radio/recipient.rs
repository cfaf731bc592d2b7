//! The receiving side of a block acknowledgement agreement: which of the last 64 sequence numbers
//! have arrived, and the frames that wait for earlier ones (IEEE 802.11-2012 9.21.3 to 9.21.7).
//!
//! Frames are delivered in the order of their numbers. A missing frame holds back the rest until it
//! arrives, until a later number moves the window past it, or until the sender gives it up and says
//! so with a request.

use farhop_proto::base::ReceivedFrame;

/// Size of the sequence number space.
pub(super) const NUMBERS: u16 = 4096;
/// A frame that arrived; `None` if the driver drops it after the card has acknowledged it.
pub(super) type Arrived = Option<ReceivedFrame>;

/// Sequence numbers in a window.
pub(super) const WINDOW: u16 = 64;

/// How far `to` lies after `from`, modulo [`NUMBERS`].
pub(super) const fn distance(from: u16, to: u16) -> u16 {
    to.wrapping_sub(from) % NUMBERS
}

const fn plus(number: u16, more: u16) -> u16 {
    number.wrapping_add(more) % NUMBERS
}

/// Whether `number` lies before `start`, i.e. in the half of the number space before it.
pub(super) const fn is_before(number: u16, start: u16) -> bool {
    distance(start, number) >= NUMBERS / 2
}

/// The receiver's state for one sender and access category.
#[derive(Debug)]
pub(super) struct Recipient {
    /// The first number in the map.
    start: u16,
    /// A bit for each number that has arrived, `start` in the lowest bit.
    map: u64,
    /// The first number that has not been delivered or given up.
    next: u16,
    /// Frames that wait for `next`, by their number modulo the window.
    held: Vec<Option<Arrived>>,
}

impl Recipient {
    /// An agreement that begins with number `start`.
    pub(super) fn new(start: u16) -> Self {
        Self { start, map: 0, next: start, held: vec![None; usize::from(WINDOW)] }
    }

    /// The first number and the map of the block acknowledgement.
    pub(super) const fn score(&self) -> (u16, u64) {
        (self.start, self.map)
    }

    /// Follows the start of the sender's window, which never goes back. If it nevertheless lies
    /// before what has arrived here, so many frames were given up unheard that the numbers have
    /// come halfway around, and the agreement begins anew.
    pub(super) fn follow(&mut self, window: u16, up: &mut impl FnMut(Arrived)) {
        if is_before(window, self.start) {
            self.pass_to(plus(self.next, WINDOW), up);
            *self = Self::new(window);
        }
    }

    /// Marks a number as arrived, for the block acknowledgement.
    fn note(&mut self, number: u16) {
        if is_before(number, self.start) {
            return;
        }
        let ahead = distance(self.start, number);
        if ahead >= WINDOW {
            self.shift(ahead - (WINDOW - 1));
        }
        self.map |= 1 << distance(self.start, number);
    }

    fn shift(&mut self, by: u16) {
        self.start = plus(self.start, by);
        self.map = if by < WINDOW { self.map >> by } else { 0 };
    }

    /// Takes a frame, and gives all frames that are now in order to `up`. Returns false for a
    /// number that has arrived before, or that the window has passed.
    pub(super) fn take(
        &mut self,
        number: u16,
        frame: Arrived,
        up: &mut impl FnMut(Arrived),
    ) -> bool {
        self.note(number);
        let ahead = distance(self.next, number);
        if is_before(number, self.next) || (ahead < WINDOW && self.held_at(number).is_some()) {
            return false;
        }
        if ahead >= WINDOW {
            self.pass_to(plus(self.next, ahead - (WINDOW - 1)), up);
        }
        *self.held_at(number) = Some(frame);
        self.release(up);
        true
    }

    /// The sender will not send anything before `start` again.
    pub(super) fn move_to(&mut self, start: u16, up: &mut impl FnMut(Arrived)) {
        if !is_before(start, self.start) {
            self.shift(distance(self.start, start));
        }
        if !is_before(start, self.next) {
            self.pass_to(start, up);
            self.release(up);
        }
    }

    fn held_at(&mut self, number: u16) -> &mut Option<Arrived> {
        &mut self.held[usize::from(number % WINDOW)]
    }

    /// Gives up the missing numbers before `start`, and delivers what waits among them.
    fn pass_to(&mut self, start: u16, up: &mut impl FnMut(Arrived)) {
        for number in 0..distance(self.next, start).min(WINDOW) {
            let number = plus(self.next, number);
            self.held_at(number).take().into_iter().for_each(&mut *up);
        }
        self.next = start;
    }

    fn release(&mut self, up: &mut impl FnMut(Arrived)) {
        while let Some(frame) = self.held_at(self.next).take() {
            up(frame);
            self.next = plus(self.next, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use farhop_proto::base::{Bitrate, EtherType, Instant, NodeId, RadioId};

    use super::*;

    fn frame(number: u16) -> Arrived {
        Some(ReceivedFrame {
            radio: RadioId(0),
            from: NodeId(1),
            to: Some(NodeId(2)),
            protocol: EtherType::IPV4,
            payload: Bytes::copy_from_slice(&number.to_be_bytes()),
            started: Instant::ZERO,
            rate: Bitrate::from_100kbps(650),
            signal: None,
            bits: 0,
        })
    }

    fn number(frame: &Arrived) -> u16 {
        let frame = frame.as_ref().expect("no driver drops any");
        u16::from_be_bytes([frame.payload[0], frame.payload[1]])
    }

    #[test]
    fn a_hole_holds_back_what_follows_until_it_is_filled() {
        let mut recipient = Recipient::new(4094);
        let mut up = Vec::new();
        for at in [4094, 0, 1, 0] {
            recipient.take(at, frame(at), &mut |frame| up.push(number(&frame)));
        }
        assert_eq!(up, [4094]);
        assert_eq!(recipient.score(), (4094, 0b1101));
        assert!(recipient.take(4095, frame(4095), &mut |frame| up.push(number(&frame))));
        assert_eq!(up, [4094, 4095, 0, 1]);
        assert!(!recipient.take(4095, frame(4095), &mut |frame| up.push(number(&frame))));
        assert_eq!(recipient.score(), (4094, 0b1111));
    }

    #[test]
    fn a_number_beyond_the_window_moves_it_and_releases_what_waits() {
        let mut recipient = Recipient::new(0);
        let mut up = Vec::new();
        for at in [1, 2, 5, 66] {
            recipient.take(at, frame(at), &mut |frame| up.push(number(&frame)));
        }
        // 66 is the last of a window that begins with 3: 1 and 2 go up, 5 waits for 3 and 4.
        assert_eq!(up, [1, 2]);
        assert_eq!(recipient.score(), (3, 1 << 63 | 1 << 2));
        recipient.move_to(5, &mut |frame| up.push(number(&frame)));
        assert_eq!(up, [1, 2, 5]);
        recipient.move_to(2000, &mut |frame| up.push(number(&frame)));
        assert_eq!(up, [1, 2, 5, 66]);
        assert_eq!(recipient.score(), (2000, 0));
    }
}
