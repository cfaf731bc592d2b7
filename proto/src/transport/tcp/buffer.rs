//! The send buffer: bytes of the application, in the pieces in which they came, until the peer has
//! them.

use std::collections::VecDeque;

use bytes::Bytes;

/// Most pieces in the buffer, so that small messages cannot fill the memory.
const MAX_PIECES: usize = 8_192;

/// Bytes with their numbers in the sequence space.
#[derive(Debug)]
pub(super) struct SendBuffer {
    pieces: VecDeque<(u64, Bytes)>,
    start: u64,
    end: u64,
}

impl SendBuffer {
    /// An empty buffer whose first byte will have the number `start`.
    pub(super) fn new(start: u64) -> Self {
        Self { pieces: VecDeque::new(), start, end: start }
    }

    pub(super) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            let at = self.end;
            self.end += bytes.len() as u64;
            self.pieces.push_back((at, bytes));
        }
    }

    /// Drops all bytes before `until`.
    pub(super) fn release(&mut self, until: u64) {
        self.start = until.clamp(self.start, self.end);
        while self.pieces.front().is_some_and(|(at, b)| at + b.len() as u64 <= self.start) {
            self.pieces.pop_front();
        }
    }

    /// The number after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes held.
    pub(super) fn len(&self) -> u64 {
        self.end - self.start
    }

    pub(super) fn is_full(&self) -> bool {
        self.pieces.len() >= MAX_PIECES
    }

    /// The slices that hold `length` bytes from `from`.
    pub(super) fn slices(&self, from: u64, length: usize) -> impl Iterator<Item = &[u8]> {
        debug_assert!(from >= self.start && from + length as u64 <= self.end);
        let first = self.pieces.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let mut skip = self.pieces.get(first).map_or(0, |(at, _)| (from - at) as usize);
        let mut left = length;
        self.pieces.range(first..).map_while(move |(_, bytes)| {
            if left == 0 {
                return None;
            }
            let take = left.min(bytes.len() - skip);
            let slice = &bytes[skip..skip + take];
            skip = 0;
            left -= take;
            Some(slice)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cross_pieces_and_survive_release() {
        let mut buffer = SendBuffer::new(100);
        buffer.push(Bytes::from_static(b"abcd"));
        buffer.push(Bytes::new());
        buffer.push(Bytes::from_static(b"ef"));
        buffer.push(Bytes::from_static(b"ghi"));
        let read = |buffer: &SendBuffer, from, length| {
            buffer.slices(from, length).collect::<Vec<_>>().concat()
        };
        assert_eq!(read(&buffer, 100, 9), b"abcdefghi");
        assert_eq!(read(&buffer, 103, 4), b"defg");
        buffer.release(105);
        assert_eq!((buffer.len(), buffer.end()), (4, 109));
        assert_eq!(read(&buffer, 105, 2), b"fg");
        buffer.release(200);
        assert_eq!(buffer.len(), 0);
        assert_eq!(read(&buffer, 109, 0), b"");
    }
}
