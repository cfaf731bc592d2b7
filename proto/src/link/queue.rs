//! Queue disciplines: which packets a queue accepts. Drop-tail accepts all while there is room. RED
//! (Floyd and Jacobson 1993, with the gentle variant of 2000) accepts fewer the longer the mean
//! queue is, and marks packets instead of dropping them where possible (RFC 3168, 7).
//!
//! Lengths are in packets, as in ns-2. While the queue is empty, ns-2 lowers the mean according to
//! the rate of its link; a radio has no fixed rate, so the time per packet is measured. Packets are
//! marked below the upper threshold and dropped above it.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::base::{Duration, Instant, Lane, Packet, Rng};
use crate::wire::ip::{self, Ecn};

/// The discipline of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum QueueConfig {
    /// Accepts packets while there is room.
    #[default]
    DropTail,
    /// Random early detection.
    Red(RedConfig),
}

impl QueueConfig {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Configuration of RED.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedConfig {
    /// Mean queue length below which all packets are accepted, in packets.
    pub min_packets: f64,
    /// Mean queue length at which a packet is marked or dropped with probability `max_p`, in
    /// packets.
    pub max_packets: f64,
    /// Weight of the current length in the moving average, 0 to 1.
    pub weight: f64,
    /// Probability of a mark or drop at `max_packets`, 0 to 1.
    pub max_p: f64,
    /// Whether the probability rises gradually above `max_packets`, to 1 at twice that length;
    /// otherwise it rises to 1 at once.
    pub gentle: bool,
    /// Whether ECN-capable packets are marked instead of dropped, below `max_packets`.
    pub ecn: bool,
}

impl Default for RedConfig {
    fn default() -> Self {
        Self {
            min_packets: 5.0,
            max_packets: 15.0,
            weight: 0.002,
            max_p: 0.1,
            gentle: true,
            ecn: true,
        }
    }
}

/// Free places on a lane of a queue with `length` packets, `others` of which belong to sources that
/// do not wait for room.
///
/// Sources that wait take each place as soon as it is free, so that the others would never find
/// one. The queue therefore accepts up to half of its limit from the others, however full it is, as
/// if packets of waiting sources were still in the buffers of their sockets.
pub(super) fn places(
    limit: usize,
    length: usize,
    others: impl FnOnce() -> usize,
    lane: Lane,
) -> usize {
    let (free, half) = (limit.saturating_sub(length), limit.div_ceil(2));
    if lane.overflow.waits() || free >= half {
        free
    } else {
        free.max(half.saturating_sub(others()))
    }
}

/// Free places on a lane of a queue; see [`places`].
pub(super) fn free(limit: usize, queue: &VecDeque<Packet>, lane: Lane) -> usize {
    let others = || queue.iter().filter(|packet| !packet.options.overflow.waits()).count();
    places(limit, queue.len(), others, lane)
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Take,
    Mark,
    Drop,
}

/// Sources that wait are held back for this long, if nothing leaves. Nothing leaves a queue whose
/// packets are all for neighbours that are gone or have no keys.
const HELD_FOR: Duration = Duration::from_millis(100);

/// The RED state of one queue.
#[derive(Debug)]
pub(super) struct Red {
    config: RedConfig,
    rng: Rng,
    /// Mean length, in packets.
    mean: f64,
    /// Packets since the last one that was marked or dropped; none while the mean is below
    /// `min_packets`.
    since: Option<u32>,
    /// Until when sources that wait are held back: a packet was dropped and none has left since.
    held_until: Option<Instant>,
    /// When the queue became empty; none if it is not empty.
    idle: Option<Instant>,
    /// The packets that left last, if others were queued behind them; and the mean time per packet.
    left: Option<Left>,
    packet_time: Option<Duration>,
    pub(super) marked: u64,
    pub(super) dropped: u64,
}

/// Packets that left at the same instant, as those of an aggregate do.
#[derive(Clone, Copy, Debug)]
struct Left {
    at: Instant,
    count: u64,
    /// How long they took together, and the mean time per packet before them.
    span: Option<Duration>,
    before: Option<Duration>,
}

impl Left {
    /// The mean time per packet, with these packets included.
    fn packet_time(&self) -> Option<Duration> {
        let Some(span) = self.span else { return self.before };
        let time = span / self.count;
        let followed = |before| (0..self.count).fold(before, |mean, _| (mean * 7 + time) / 8);
        Some(self.before.map_or(time, followed))
    }
}

impl Red {
    pub(super) fn build(config: RedConfig, rng: Rng) -> Self {
        Self {
            config,
            rng,
            mean: 0.0,
            since: None,
            held_until: None,
            idle: Some(Instant::ZERO),
            left: None,
            packet_time: None,
            marked: 0,
            dropped: 0,
        }
    }

    /// Decides about a packet that arrives at a queue of `length` packets.
    pub(super) fn judge(&mut self, now: Instant, length: usize, packet: &[u8]) -> Verdict {
        self.follow(now, length);
        let RedConfig { min_packets, max_packets, max_p, gentle, ecn, .. } = self.config;
        if self.mean < min_packets {
            self.since = None;
            return Verdict::Take;
        }
        let over = (self.mean - max_packets) / max_packets;
        let share = match over < 0.0 {
            true => max_p * (self.mean - min_packets) / (max_packets - min_packets),
            false if gentle && over < 1.0 => max_p + (1.0 - max_p) * over,
            false => 1.0,
        };
        let since = self.since.map_or(0, |since| since + 1);
        self.since = Some(since);
        // Spreads the chosen packets evenly: their distances are uniform, not geometric.
        let spread = 1.0 - f64::from(since) * share;
        if spread > share && self.rng.uniform() * spread >= share {
            return Verdict::Take;
        }
        self.since = Some(0);
        // A packet that another queue has marked is forwarded unchanged (RFC 3168, 5).
        if ecn && over < 0.0 && ip::ecn(packet) != Ecn::NotEct {
            self.marked += 1;
            return Verdict::Mark;
        }
        self.dropped += 1;
        self.held_until = (length > 0).then(|| self.held_until.unwrap_or(now + self.patience()));
        if length == 0 {
            // Nothing will leave after which the queue could become empty.
            self.idle = Some(now);
        }
        Verdict::Drop
    }

    /// Whether a lane has no room although the queue does: a source that waits for room may try
    /// again only after a packet has left; otherwise its packet would be judged again and again.
    pub(super) fn holds_back(&self, lane: Lane) -> bool {
        self.held_until.is_some() && lane.overflow.waits()
    }

    /// How long sources that wait are held back at most: no less than two packets take.
    fn patience(&self) -> Duration {
        self.packet_time.map_or(HELD_FOR, |time| HELD_FOR.max(time * 2))
    }

    /// When sources that wait may try again although nothing has left.
    pub(super) fn due(&self) -> Option<Instant> {
        self.held_until
    }

    /// Lets sources that wait try again if nothing has left for long.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.held_until = self.held_until.filter(|until| *until > now);
    }

    /// Advances the mean to the present.
    fn follow(&mut self, now: Instant, length: usize) {
        let weight = self.config.weight;
        if let (Some(idle), Some(time)) = (self.idle.take(), self.packet_time) {
            // As if this many packets had arrived at the empty queue.
            let packets = now.since(idle).as_nanos() / time.as_nanos().max(1);
            self.mean *= power(1.0 - weight, packets);
        }
        self.mean += weight * (length as f64 - self.mean);
    }

    /// Records that a packet has left and `length` remain.
    pub(super) fn on_left(&mut self, now: Instant, length: usize) {
        self.held_until = None;
        let left = match self.left.filter(|_| self.idle.is_none()) {
            Some(left) if left.at == now => Left { count: left.count + 1, ..left },
            others => Left {
                at: now,
                count: 1,
                span: others.map(|left| now.since(left.at)),
                before: self.packet_time,
            },
        };
        self.packet_time = left.packet_time();
        self.left = (length > 0).then_some(left);
        if length == 0 {
            self.idle = Some(now);
        }
    }
}

/// A power with an integer exponent, by squaring.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::base::{Overflow, Seed};

    fn red(config: RedConfig) -> Red {
        Red::build(config, Seed(3).stream("red"))
    }

    fn packet(ecn: Ecn) -> Bytes {
        let mut packet = Vec::new();
        let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        ip::put_ipv4(&mut packet, from, to, ip::UDP, 0);
        ip::with_ecn(packet.into(), ecn)
    }

    /// Share of `count` packets that were not simply taken at a constant length, and the verdicts.
    fn share(red: &mut Red, length: usize, packet: &[u8], count: usize) -> (f64, Vec<Verdict>) {
        let judged = (0..count).map(|_| red.judge(Instant::ZERO, length, packet));
        let hit: Vec<Verdict> = judged.filter(|verdict| *verdict != Verdict::Take).collect();
        (hit.len() as f64 / count as f64, hit)
    }

    #[test]
    fn half_of_a_queue_is_for_those_for_whom_nothing_waits_above() {
        let free = |limit, length, others, waits| {
            let overflow = if waits { Overflow::Wait } else { Overflow::DropTail };
            places(limit, length, || others, Lane { overflow, ..Lane::default() })
        };
        assert_eq!([free(50, 49, 0, true), free(50, 50, 0, true)], [1, 0]);
        // If the queue contains only their packets, they may fill it, but not beyond its limit.
        assert_eq!([free(50, 10, 10, false), free(50, 50, 50, false)], [40, 0]);
        assert_eq!([free(50, 50, 0, false), free(50, 60, 10, false)], [25, 15]);
        assert_eq!([free(50, 75, 25, false), free(50, 75, 25, true)], [0, 0]);
        assert_eq!([free(1, 1, 0, false), free(1, 2, 1, false)], [1, 0]);
    }

    #[test]
    fn what_waits_is_judged_again_only_after_a_packet_has_left() {
        let mut red = red(RedConfig { weight: 1.0, ..RedConfig::default() });
        let waits = Lane { overflow: Overflow::Wait, ..Lane::default() };
        assert_eq!(red.judge(Instant::ZERO, 40, &packet(Ecn::NotEct)), Verdict::Drop);
        assert!(red.holds_back(waits) && !red.holds_back(Lane::default()));
        red.on_left(Instant::ZERO, 39);
        assert!(!red.holds_back(waits));
        // Nothing leaves: all packets are for a neighbour that is gone.
        assert_eq!(red.judge(Instant::ZERO, 40, &packet(Ecn::NotEct)), Verdict::Drop);
        let due = red.due().unwrap();
        red.on_timeout(Instant::ZERO + HELD_FOR / 2);
        assert!(red.holds_back(waits));
        red.on_timeout(due);
        assert!(!red.holds_back(waits) && red.due().is_none());
        // In an empty queue, no packet will leave.
        red.mean = 40.0;
        red.config.weight = 0.0;
        assert_eq!(red.judge(Instant::ZERO, 0, &packet(Ecn::NotEct)), Verdict::Drop);
        assert!(!red.holds_back(waits));
    }

    #[test]
    fn the_share_rises_between_the_thresholds() {
        let config = RedConfig { weight: 1.0, ..RedConfig::default() };
        for (length, p) in [(4, 0.0), (10, 0.05), (15, 0.1)] {
            let (found, _) = share(&mut red(config), length, &packet(Ecn::NotEct), 20_000);
            // Chosen packets are 1 to 1 / p - 1 packets apart, uniformly: 1 / (2 p) on average.
            assert!((found - 2.0 * p).abs() <= 0.1 * p, "{found} at {length}");
        }
        let (found, _) = share(&mut red(config), 18, &packet(Ecn::NotEct), 20_000);
        assert!(found > 0.5, "{found}");
        assert_eq!(share(&mut red(config), 30, &packet(Ecn::Ect0), 100).0, 1.0);
    }

    #[test]
    fn what_can_be_marked_is_marked_below_the_upper_threshold() {
        let config = RedConfig { weight: 1.0, ..RedConfig::default() };
        let kinds = |length, ecn, config| share(&mut red(config), length, &packet(ecn), 1_000).1;
        assert!(kinds(14, Ecn::Ect0, config).iter().all(|verdict| *verdict == Verdict::Mark));
        assert!(kinds(14, Ecn::Ce, config).iter().all(|verdict| *verdict == Verdict::Mark));
        assert!(kinds(14, Ecn::NotEct, config).iter().all(|verdict| *verdict == Verdict::Drop));
        assert!(kinds(16, Ecn::Ect0, config).iter().all(|verdict| *verdict == Verdict::Drop));
        let without = RedConfig { ecn: false, ..config };
        assert!(kinds(14, Ecn::Ect0, without).iter().all(|verdict| *verdict == Verdict::Drop));
    }

    #[test]
    fn the_mean_falls_although_all_that_comes_to_an_empty_queue_is_dropped() {
        let mut red = red(RedConfig::default());
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        red.judge(at(0), 50, &packet(Ecn::NotEct));
        for k in 0..20 {
            red.on_left(at(k), 50);
        }
        red.mean = 100.0;
        red.on_left(at(20), 0);
        let dropped =
            (1..).find(|k| red.judge(at(20 + k * 100), 0, &packet(Ecn::NotEct)) != Verdict::Drop);
        // 100 packets would have fitted into each 100 ms.
        assert!(dropped.is_some_and(|k| k < 20), "{dropped:?}");
    }

    #[test]
    fn the_mean_falls_while_the_queue_is_empty() {
        let mut red = red(RedConfig { weight: 0.1, ..RedConfig::default() });
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        for k in 0..40 {
            red.judge(at(k), 10, &packet(Ecn::NotEct));
            red.on_left(at(k), 9);
        }
        let before = red.mean;
        assert!(before > 9.0);
        red.on_left(at(40), 0);
        // 20 packets of 1 ms would have fitted into the silence.
        red.judge(at(60), 0, &packet(Ecn::NotEct));
        let expected = before * power(0.9, 21);
        assert!((red.mean - expected).abs() < 1e-9, "{} {expected}", red.mean);
    }

    #[test]
    fn packets_of_one_aggregate_share_the_time_that_it_took() {
        let mut red = red(RedConfig::default());
        red.judge(Instant::ZERO, 50, &packet(Ecn::NotEct));
        for aggregate in 0..20_u64 {
            for packet in 0..27 {
                let at = Instant::ZERO + Duration::from_micros(5_400 * aggregate);
                red.on_left(at, 1_000 - packet);
            }
        }
        let time = red.packet_time.expect("it was measured");
        assert!((199..=201).contains(&time.as_micros()), "{time:?}");
    }
}
