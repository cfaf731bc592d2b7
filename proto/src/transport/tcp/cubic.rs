//! CUBIC (RFC 9438) with HyStart, as in Linux (`tcp_cubic`; Ha and Rhee 2011; RFC 9406 in spirit).
//!
//! Linux differs from the RFC: the window is computed from the time of the acknowledgement plus the
//! minimum round-trip time, and the reduction is to 717/1024. Without a known maximum, the window
//! grows by at least one in twenty acknowledged segments. HyStart ends slow start either when the
//! round-trip time rises or by the length of a train of acknowledgements; it has no conservative
//! phase.

use super::config::Tick;
use super::congestion::{Acked, Controller, Sample, Window};
use crate::base::{Duration, Instant};

/// Part of the window after a reduction, of 1,024.
const BETA: u64 = 717;
/// C = 0.4 segments/s^3, of 1,024.
const SCALE: u64 = 410;
/// Units of the curve's time in a second.
const TICKS: u64 = 1_024;
/// Acknowledged segments, in units of 1/8 window, for each segment that Reno adds: the additive
/// increase equivalent to Reno's with this reduction is 3 (1 - beta) / (1 + beta) (RFC 9438, 4.3).
const RENO_PER: u64 = 8 * (1_024 + BETA) / 3 / (1_024 - BETA);
/// As long as the window does not grow, the curve is evaluated once in this time.
const LOOK: Duration = Duration::from_nanos(31_250_000);
/// Right after a reduction, round trips are still those of the full queue.
const SETTLE: Duration = Duration::from_secs(1);
/// Smallest window for HyStart.
const LOW_WINDOW: u32 = 16;
/// Round-trip samples of a round after which their minimum is reliable.
const MIN_SAMPLES: u32 = 8;
/// Longest time between two acknowledgements of one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// How much longer than half of the minimum round trip a train may be: half the delay that
/// segmentation offload may add.
const TRAIN_SLACK: Duration = Duration::from_micros(500);

/// State of one sender.
#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    /// Tick in which the time of the curve is counted.
    tick: Tick,
    /// Acknowledged segments for which the window grows by one.
    per: u32,
    /// Window at the last cut; zero if there was none.
    last_max: u32,
    last_window: u32,
    last_time: Option<Instant>,
    epoch: Option<Instant>,
    /// Where the curve is flat: window, and time after the epoch, `TICKS` to a second.
    origin: u32,
    flat_at: u64,
    acked: u64,
    /// The window that Reno would have.
    reno: u32,
    least_rtt: Option<Duration>,
    start: HyStart,
}

/// State of HyStart, which finds the end of slow start.
#[derive(Clone, Debug, Default)]
struct HyStart {
    found: bool,
    round_end: u64,
    round_start: Instant,
    last_ack: Instant,
    round_least: Option<Duration>,
    samples: u32,
}

impl Cubic {
    pub(super) fn new(tick: Tick) -> Self {
        Self { tick, ..Self::default() }
    }

    /// Computes after how many acknowledged segments the window grows by one.
    fn update(&mut self, now: Instant, cwnd: u32, segments: u32) {
        let now = self.tick.begin(now);
        self.acked += u64::from(segments);
        let is_recent = self.last_time.is_some_and(|last| now.since(last) <= LOOK);
        if self.last_window == cwnd && is_recent {
            return;
        }
        // The curve is evaluated once in a tick.
        if self.epoch.is_none() || self.last_time != Some(now) {
            self.follow_curve(now, cwnd, segments);
        }
        self.keep_up_with_reno(cwnd);
        self.per = self.per.max(2);
    }

    fn follow_curve(&mut self, now: Instant, cwnd: u32, segments: u32) {
        self.last_window = cwnd;
        self.last_time = Some(now);
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin_epoch(now, cwnd, segments),
        };
        let least_rtt = self.tick.whole(self.least_rtt.unwrap_or_default());
        let target = self.curve(now.since(epoch) + least_rtt);
        self.per = match target.checked_sub(cwnd) {
            Some(above @ 1..) => cwnd / above,
            _ => cwnd.saturating_mul(100),
        };
        if self.last_max == 0 {
            self.per = self.per.min(20);
        }
    }

    fn begin_epoch(&mut self, now: Instant, cwnd: u32, segments: u32) -> Instant {
        self.epoch = Some(now);
        self.acked = segments.into();
        self.reno = cwnd;
        let below = u64::from(self.last_max.saturating_sub(cwnd));
        self.flat_at = cube_root((below << 40) / SCALE);
        self.origin = self.last_max.max(cwnd);
        now
    }

    /// The window on the curve at a time after the epoch (RFC 9438, figure 1).
    fn curve(&self, since: Duration) -> u32 {
        let at = (u128::from(since.as_nanos()) * u128::from(TICKS) / 1_000_000_000) as u64;
        let off = u128::from(at.abs_diff(self.flat_at));
        let change = ((u128::from(SCALE) * off * off * off) >> 40).min(u128::from(u32::MAX)) as u32;
        if at < self.flat_at {
            self.origin.saturating_sub(change)
        } else {
            self.origin.saturating_add(change)
        }
    }

    fn keep_up_with_reno(&mut self, cwnd: u32) {
        let step = (u64::from(cwnd) * RENO_PER / 8).max(1);
        // Strictly more, so that the counter is never left at zero.
        if self.acked > step {
            let steps = (self.acked - 1) / step;
            self.acked -= steps * step;
            self.reno += steps as u32;
        }
        if self.reno > cwnd {
            self.per = self.per.min(cwnd / (self.reno - cwnd));
        }
    }
}

impl HyStart {
    fn begin_round(&mut self, sample: &Sample) {
        (self.round_start, self.last_ack) = (sample.now, sample.now);
        self.round_end = sample.nxt;
        self.round_least = None;
        self.samples = 0;
    }

    /// Whether slow start should end with this acknowledgement. Rounds are counted below the
    /// smallest window too.
    fn is_end(&mut self, sample: &Sample, cwnd: u32, rtt: Duration, least: Duration) -> bool {
        if sample.una > self.round_end || self.round_end == 0 {
            self.begin_round(sample);
        }
        if cwnd < LOW_WINDOW {
            return false;
        }
        let mut end = false;
        if sample.now.since(self.last_ack) <= TRAIN_GAP {
            self.last_ack = sample.now;
            end = sample.now.since(self.round_start) > least / 2 + TRAIN_SLACK;
        }
        let round_least = self.round_least.map_or(rtt, |before| before.min(rtt));
        self.round_least = Some(round_least);
        if self.samples < MIN_SAMPLES {
            self.samples += 1;
            return end;
        }
        let rise = (least / 8).clamp(Duration::from_millis(4), Duration::from_millis(16));
        end || round_least > least + rise
    }
}

/// The integer part of the cube root.
fn cube_root(value: u64) -> u64 {
    let mut root = 0_u64;
    for bit in (0..22).rev() {
        let next = root | (1 << bit);
        if u128::from(next).pow(3) <= u128::from(value) {
            root = next;
        }
    }
    root
}

impl Controller for Cubic {
    fn on_sample(&mut self, window: &mut Window, sample: &Sample) {
        let Some(rtt) = sample.rtt else { return };
        if self.epoch.is_some_and(|epoch| sample.now.since(epoch) < SETTLE) {
            return;
        }
        let least = self.least_rtt.map_or(rtt, |before| before.min(rtt));
        self.least_rtt = Some(least);
        if !self.start.found && window.in_slow_start() {
            self.start.found = self.start.is_end(sample, window.cwnd, rtt, least);
            if self.start.found {
                window.ssthresh = window.cwnd;
            }
        }
    }

    fn on_acked(&mut self, window: &mut Window, acked: &Acked) {
        let mut segments = acked.segments;
        if window.in_slow_start() {
            segments = window.slow_start(segments);
            if segments == 0 {
                return;
            }
        }
        self.update(acked.now, window.cwnd, segments);
        window.avoid(segments, self.per);
    }

    fn threshold(&mut self, basis: u32, _mss: u32) -> u32 {
        self.epoch = None;
        let part = |of: u64, whole: u64| (u64::from(basis) * of / whole) as u32;
        // Fast convergence: a flow that did not get back to its maximum leaves room for others.
        let converge = basis < self.last_max;
        self.last_max = if converge { part(1_024 + BETA, 2 * 1_024) } else { basis };
        part(BETA, 1_024).max(2)
    }

    fn on_timeout(&mut self) {
        *self = Self::new(self.tick);
    }

    fn on_restart(&mut self, now: Instant, idle: Duration) {
        // The curve does not advance while nothing is sent.
        let (begin, now) = (self.tick.begin(now - idle), self.tick.begin(now));
        self.epoch = self.epoch.map(|epoch| (epoch + now.since(begin)).min(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: f64) -> Instant {
        Instant::ZERO + Duration::from_secs_f64(secs)
    }

    /// The windows after a cut from `max`, once a round trip of `rtt` seconds, all acknowledged.
    fn windows_after_cut(cubic: &mut Cubic, max: u32, rtt: f64, secs: f64) -> Vec<(f64, u32)> {
        let cut = cubic.threshold(max, 1_000);
        let mut window = Window { cwnd: cut, ssthresh: cut, count: 0 };
        let mut windows = Vec::new();
        let mut time = 100.0;
        while time < 100.0 + secs {
            for k in 0..window.cwnd {
                let now = at(time + rtt * f64::from(k) / f64::from(window.cwnd));
                cubic.on_acked(&mut window, &Acked { now, segments: 1 });
            }
            time += rtt;
            windows.push((time - 100.0, window.cwnd));
        }
        windows
    }

    #[test]
    fn the_window_follows_the_curve_of_the_rfc() {
        // RFC 9438, 4.2: W(t) = C (t - K)^3 + W_max, K = cbrt(W_max (1 - beta) / C). With a window
        // of 1,000 segments and long round trips the Reno-friendly region plays no part.
        let mut cubic = Cubic { least_rtt: Some(Duration::from_millis(100)), ..Cubic::default() };
        let beta = 717.0 / 1_024.0;
        let k = (1_000.0 * (1.0 - beta) / 0.4_f64).cbrt();
        assert!((k - 9.08).abs() < 0.01);
        for (time, window) in windows_after_cut(&mut cubic, 1_000, 0.1, 14.0) {
            let expected = 0.4 * (time - k).powi(3) + 1_000.0;
            let off = f64::from(window) - expected;
            // Half way up the concave part it trails by what it grows in a round trip.
            assert!(off.abs() < 15.0, "{window} at {time} s, {expected:.1} by the RFC");
        }
        assert!(cubic.flat_at.abs_diff((k * 1_024.0) as u64) <= 5);
    }

    #[test]
    fn the_window_is_cut_to_seven_tenths_and_converges_fast() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.threshold(1_000, 1_000), 700);
        assert_eq!(cubic.last_max, 1_000);
        assert_eq!(cubic.threshold(800, 1_000), 560);
        // (1 + beta) / 2 of the window, as it did not come back to the maximum.
        assert_eq!(cubic.last_max, 680);
        assert_eq!(cubic.threshold(2, 1_000), 2);
    }

    #[test]
    fn on_short_paths_it_grows_like_reno_with_the_same_average() {
        // RFC 9438, 4.3: 3 (1 - beta) / (1 + beta) = 0.53 segments per round trip.
        let mut cubic = Cubic { least_rtt: Some(Duration::from_millis(5)), ..Cubic::default() };
        let windows = windows_after_cut(&mut cubic, 20, 0.005, 0.1);
        let (_, last) = windows[windows.len() - 1];
        assert!((23..=26).contains(&last), "14 + 20 * 0.53 = 24.6, found {last}");
    }

    #[test]
    fn a_pause_moves_the_curve_and_a_time_out_forgets_it() {
        let mut cubic = Cubic::default();
        windows_after_cut(&mut cubic, 100, 0.1, 1.0);
        let before = cubic.epoch.expect("it grows");
        cubic.on_restart(at(103.0), Duration::from_secs(1));
        assert_eq!(cubic.epoch, Some(before + Duration::from_secs(1)));
        cubic.on_restart(at(103.0), Duration::from_secs(9));
        assert_eq!(cubic.epoch, Some(at(103.0)));
        cubic.on_timeout();
        assert_eq!((cubic.last_max, cubic.epoch), (0, None));
    }

    /// Ends of slow start: acknowledgements of a round come `gap_us` apart with these round trips.
    fn hystart(rounds: &[(u64, u64)], per_round: u64) -> Option<usize> {
        let mut cubic = Cubic::default();
        let mut window = Window { cwnd: 32, ssthresh: 1_000, count: 0 };
        let mut una = 0;
        for (round, (rtt_us, gap_us)) in rounds.iter().enumerate() {
            let begin = at(1.0 + 0.1 * round as f64);
            for k in 0..per_round {
                una += 1;
                let now = begin + Duration::from_micros(gap_us * k);
                let rtt = Some(Duration::from_micros(*rtt_us));
                let sample = Sample { now, rtt, una, nxt: una + per_round, mss: 1_000 };
                cubic.on_sample(&mut window, &sample);
            }
            if window.ssthresh == window.cwnd {
                return Some(round);
            }
        }
        None
    }

    #[test]
    fn slow_start_ends_when_the_round_trip_has_risen_by_an_eighth() {
        // An eighth of 80 ms is 10 ms; acknowledgements too far apart to be a train.
        assert_eq!(hystart(&[(80_000, 2_500), (89_000, 2_500), (91_000, 2_500)], 20), Some(2));
        assert_eq!(hystart(&[(80_000, 2_500), (89_000, 2_500), (89_500, 2_500)], 20), None);
        // Of a short path 4 ms at least.
        assert_eq!(hystart(&[(8_000, 2_500), (11_500, 2_500), (12_500, 2_500)], 20), Some(2));
    }

    #[test]
    fn slow_start_ends_when_a_train_is_as_long_as_half_the_round_trip() {
        // 40 ms and 0.5 ms of slack: 45 acknowledgements 1 ms apart are longer, 40 are not.
        assert_eq!(hystart(&[(80_000, 1_000)], 40), None);
        assert_eq!(hystart(&[(80_000, 1_000)], 45), Some(0));
    }

    #[test]
    fn cube_roots_are_whole() {
        for root in [0, 1, 2, 9_299, 2_000_000] {
            let cube = root * root * root;
            assert_eq!(cube_root(cube), root);
            assert_eq!(cube_root(cube + 3 * root), root);
        }
    }
}
