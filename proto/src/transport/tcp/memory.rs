//! How far Linux lets the application write ahead (`tcp_sndbuf_expand`, `sk_stream_write_space`).
//!
//! The send buffer begins small, grows with the congestion window, and never shrinks. It counts the
//! memory of packets, not only their payload, and once it is full, the application is woken only
//! when a third of it is free. So a connection whose window was cut to a few segments may have
//! nothing to send while it waits for a retransmission, however much its application has.

/// Memory that counts for a full segment of 1,448 bytes: a power of two that holds payload and
/// headers (none for wireless drivers), and the packet's descriptor.
const RECKONED_BYTES: u64 = 2_304;
/// Memory of a packet beside its payload (`skb->truesize`, as `ss -m` shows it).
const OVERHEAD_BYTES: u64 = 832;
/// Unsent data in one packet: half of a window of 64 KB, in whole segments.
const GOAL_BYTES: u64 = 31_856;
/// Least window that counts (`TCP_INIT_CWND`).
const LEAST_WINDOW: u32 = 10;

/// The size limit of a send buffer.
#[derive(Clone, Debug)]
pub(super) struct SendMemory {
    /// Bytes that the buffer may hold now, and at most in the end.
    limit: u64,
    most: u64,
    /// It grows, and counts memory as Linux does.
    grows: bool,
    /// The application was told to wait (`SOCK_NOSPACE`).
    is_full: bool,
}

impl SendMemory {
    /// A buffer of `most` bytes, reached at once or by growth.
    pub(super) fn new(most: u64, grows: bool) -> Self {
        let limit = if grows { reckoned(LEAST_WINDOW).min(most) } else { most };
        Self { limit, most, grows, is_full: false }
    }

    /// How many more bytes the application may write; what it writes at once may overfill the
    /// buffer.
    pub(super) fn room(&self, held: Held) -> u64 {
        if self.is_full { 0 } else { self.limit.saturating_sub(self.taken(held)) }
    }

    /// The application has written.
    pub(super) fn on_written(&mut self, held: Held) {
        self.is_full = self.grows && self.taken(held) >= self.limit;
    }

    /// All that an acknowledgement allowed has been sent (`tcp_check_space`). `window` is the
    /// congestion window, if it is not filled.
    pub(super) fn check_space(&mut self, held: Held, window: Option<u32>) {
        if !self.is_full {
            return;
        }
        if let Some(window) = window {
            self.limit = self.limit.max(reckoned(window.max(LEAST_WINDOW)).min(self.most));
        }
        self.is_full = !self.is_writable(held);
    }

    /// Whether enough is free to wake a waiting application (`sk_stream_is_writeable`).
    pub(super) fn is_writable(&self, held: Held) -> bool {
        let taken = self.taken(held);
        self.limit.saturating_sub(taken) >= taken / 2
    }

    fn taken(&self, held: Held) -> u64 {
        let Held { bytes, unsent, packets } = held;
        let packets = u64::from(packets) + unsent.div_ceil(GOAL_BYTES);
        if self.grows { bytes + packets * OVERHEAD_BYTES } else { bytes }
    }
}

/// Contents of a send buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Payload bytes.
    pub(super) bytes: u64,
    /// Payload bytes that were not sent yet.
    pub(super) unsent: u64,
    /// Packets, of one or more segments, that are sent and not acknowledged.
    pub(super) packets: u32,
}

/// Room for twice a window of segments: one in flight, one behind it.
fn reckoned(window: u32) -> u64 {
    2 * u64::from(window) * RECKONED_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsent(bytes: u64) -> Held {
        Held { bytes, unsent: bytes, packets: 0 }
    }

    #[test]
    fn the_buffer_of_linux_grows_with_the_window_up_to_its_bound_and_never_back() {
        let mut memory = SendMemory::new(100_000, true);
        assert_eq!(memory.room(unsent(0)), 46_080, "as `ss -m` shows it");
        for (window, limit) in [(Some(20), 92_160), (None, 92_160), (Some(5), 92_160)] {
            memory.on_written(unsent(200_000));
            memory.check_space(unsent(0), window);
            assert_eq!(memory.room(unsent(0)), limit);
        }
        memory.on_written(unsent(200_000));
        memory.check_space(unsent(0), Some(1_000));
        assert_eq!(memory.room(unsent(0)), 100_000);
    }

    #[test]
    fn who_filled_it_waits_until_a_third_is_free() {
        let mut memory = SendMemory::new(46_080, true);
        memory.on_written(unsent(44_000));
        assert_eq!(memory.room(unsent(44_000)), 416, "two packets of unsent data");
        memory.on_written(unsent(60_000));
        for (bytes, is_open) in [(40_000, false), (29_900, false), (29_880, true)] {
            memory.check_space(unsent(bytes), None);
            assert_eq!(memory.room(unsent(bytes)) > 0, is_open, "{bytes}");
        }
    }

    #[test]
    fn packets_of_one_segment_each_take_more_than_one_of_many() {
        let memory = SendMemory::new(46_080, true);
        let sent = |packets| Held { bytes: 14_480, unsent: 0, packets };
        assert_eq!(memory.room(sent(1)) - memory.room(sent(10)), 9 * 832);
    }

    #[test]
    fn a_fixed_buffer_counts_payload_alone() {
        let mut memory = SendMemory::new(50_000, false);
        memory.on_written(unsent(60_000));
        assert_eq!(memory.room(unsent(60_000)), 0);
        assert_eq!(memory.room(Held { bytes: 49_999, unsent: 0, packets: 40 }), 1);
    }
}
