//! What the flows of an `auto` class do, which decides how they are treated.

use std::ops::RangeInclusive;

use super::classify::Preset;
use crate::base::{Duration, Instant, Packet};
use crate::wire::ip;

/// Time over which the packets of a flow are observed.
const HABIT_TIME: Duration = Duration::from_secs(1);
/// Packets of at least this mean length fill frames, in bytes.
const FULL_BYTES: u32 = 1_000;
/// Packets of at most this mean length are small, in bytes.
const SMALL_BYTES: u32 = 500;
/// This many full packets within `HABIT_TIME` show a bulk flow.
const FULL_PACKETS: u32 = 10;
/// More packets within `HABIT_TIME` than this make a bulk flow; at most half of it is a low rate.
const HIGH_RATE: u32 = 400;
/// How many packets of a steady flow come within `HABIT_TIME`. With more, the queue of `realtime`,
/// 8 packets, would be full before 150 ms are over.
const STEADY: RangeInclusive<u32> = 10..=53;
/// Longest time between two packets of a steady flow. Behind a link with slots they come in groups.
const STEADY_GAP: Duration = Duration::from_millis(200);

/// What a flow does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Manner {
    /// It sends few or small packets.
    #[default]
    Interactive,
    /// It sends many packets, or full ones.
    Bulk,
    /// It sends small packets at a steady rate, as calls and measurements do.
    Realtime,
}

impl Manner {
    pub(super) const ALL: [Self; 3] = [Self::Interactive, Self::Bulk, Self::Realtime];

    /// The preset for such flows.
    pub(super) fn preset(self) -> Preset {
        match self {
            Self::Interactive => Preset::Interactive,
            Self::Bulk => Preset::Bulk,
            Self::Realtime => Preset::Realtime,
        }
    }
}

/// The behaviour of a flow. It is interactive at first, and a bulk flow as soon as many or full
/// packets come within a second. After a second with small packets at a low rate it is realtime if
/// they were steady and are not of TCP, which needs their order, and interactive if not; a realtime
/// flow stays that in pauses. Between the two it stays what it is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habit {
    since: Instant,
    packets: u32,
    bytes: u32,
    /// When the last packet came, and the longest time between two.
    last: Instant,
    gap: Duration,
    manner: Manner,
}

impl Habit {
    /// Counts a packet. Returns what the flow does.
    pub(super) fn on_packet(&mut self, now: Instant, packet: &Packet) -> Manner {
        if now.since(self.since) >= HABIT_TIME {
            if self.packets > 0 {
                self.manner = self.judge(ip::is_tcp(&packet.payload));
            }
            (self.since, self.packets, self.bytes, self.gap) = (now, 0, 0, Duration::ZERO);
        }
        if self.packets > 0 {
            self.gap = self.gap.max(now.since(self.last));
        }
        self.last = now;
        self.packets += 1;
        self.bytes = self.bytes.saturating_add(packet.payload.len() as u32);
        let is_full = self.packets >= FULL_PACKETS && self.bytes >= FULL_BYTES * self.packets;
        if is_full || self.packets > HIGH_RATE {
            self.manner = Manner::Bulk;
        }
        let is_steady = self.packets <= *STEADY.end() && self.is_small();
        if self.manner == Manner::Realtime && !is_steady {
            // Its short queue is no place for others.
            self.manner = Manner::Interactive;
        }
        self.manner
    }

    fn is_small(&self) -> bool {
        self.bytes <= SMALL_BYTES * self.packets
    }

    /// What the flow does, at the end of a second with packets.
    fn judge(&self, is_tcp: bool) -> Manner {
        let is_small = self.is_small();
        let is_steady = STEADY.contains(&self.packets) && self.gap <= STEADY_GAP;
        let has_pause = self.manner == Manner::Realtime && self.packets <= *STEADY.end();
        match self.manner {
            _ if is_small && (is_steady || has_pause) && !is_tcp => Manner::Realtime,
            Manner::Bulk if !is_small || self.packets > HIGH_RATE / 2 => Manner::Bulk,
            _ => Manner::Interactive,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::tests::packet;
    use super::*;

    /// When the flow does what, given when its packets come, in ms, and their length.
    fn manners(
        habit: &mut Habit,
        protocol: u8,
        packets: impl IntoIterator<Item = (u64, usize)>,
    ) -> Vec<Manner> {
        let on_packet = |(ms, bytes): (u64, usize)| {
            let mut payload = Vec::new();
            let (src, dst) = (Ipv4Addr::new(10, 66, 0, 1), Ipv4Addr::new(10, 66, 0, 2));
            ip::put_ipv4(&mut payload, src, dst, protocol, bytes - 20);
            payload.resize(bytes, 0);
            habit.on_packet(Instant::ZERO + Duration::from_millis(ms), &packet(payload))
        };
        packets.into_iter().map(on_packet).collect()
    }

    fn is_all(manners: &[Manner], manner: Manner) -> bool {
        manners.iter().all(|one| *one == manner)
    }

    #[test]
    fn a_habit_is_kept_until_the_flow_clearly_does_something_else() {
        let mut habit = Habit::default();
        let typing = |ms: u64| (0..60).map(move |n| (ms + n * 50, 80));
        assert!(is_all(&manners(&mut habit, ip::TCP, typing(0)), Manner::Interactive));
        let download = (0..300).map(|n| (3_000 + n * 3, 1_500));
        let download = manners(&mut habit, ip::TCP, download);
        assert!(is_all(&download[..9], Manner::Interactive));
        assert!(is_all(&download[9..], Manner::Bulk));
        let again = manners(&mut habit, ip::TCP, typing(5_000));
        assert!(is_all(&again[..20], Manner::Bulk));
        assert!(is_all(&again[20..], Manner::Interactive), "after one second");
        // Neither small nor full, at a medium rate: the flow stays what it is.
        let medium = || (0..900).map(|n| (9_000 + n * 4, 700));
        assert!(is_all(&manners(&mut habit, ip::TCP, medium()), Manner::Interactive));
        let mut bulk = Habit { manner: Manner::Bulk, ..habit };
        assert!(is_all(&manners(&mut bulk, ip::TCP, medium()), Manner::Bulk));
    }

    #[test]
    fn many_small_packets_are_no_low_rate() {
        let mut habit = Habit::default();
        let many = manners(&mut habit, ip::UDP, (0..1_000).map(|n| (n, 60)));
        assert_eq!(many.iter().position(|manner| *manner == Manner::Bulk), Some(400));
    }

    #[test]
    fn small_packets_at_a_steady_rate_are_realtime_unless_they_are_of_tcp() {
        // A call, as it leaves its host, and as two slots of 40 ms bring it.
        for group in [20, 40, 80] {
            let call = |ms: u64| (0..150).map(move |n| (ms + n * 20 / group * group, 200));
            let mut habit = Habit::default();
            let begin = manners(&mut habit, ip::UDP, call(0));
            assert!(is_all(&begin[..50], Manner::Interactive), "{group} ms");
            assert!(is_all(&begin[54..], Manner::Realtime), "{group} ms");
            // Whoever listens sends little.
            let pause = (0..20).map(|n| (3_000 + n * 500, 60));
            assert!(is_all(&manners(&mut habit, ip::UDP, pause), Manner::Realtime));
            assert!(is_all(&manners(&mut habit, ip::UDP, call(13_000)), Manner::Realtime));
            let faster = (0..300).map(|n| (16_000 + n * 10, 200));
            assert_eq!(manners(&mut habit, ip::UDP, faster)[299], Manner::Interactive);
            assert!(is_all(&manners(&mut habit, ip::UDP, call(25_000))[54..], Manner::Realtime));
            let one = manners(&mut habit, ip::UDP, [(29_000, 1_400)]);
            assert_eq!(one, [Manner::Interactive], "its queue would have room for eight");
            let full = (0..20).map(|n| (40_000 + n * 20, 1_400));
            assert_eq!(manners(&mut habit, ip::UDP, full)[19], Manner::Bulk);
            assert!(is_all(&manners(&mut Habit::default(), ip::TCP, call(0)), Manner::Interactive));
        }
        // Somebody who types: as many packets, but not steady.
        let words = (0..10).flat_map(|word| (0..10).map(move |n| (word * 700 + n * 30, 80)));
        assert!(is_all(&manners(&mut Habit::default(), ip::UDP, words), Manner::Interactive));
    }
}
