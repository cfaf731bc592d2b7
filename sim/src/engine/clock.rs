//! The clock of a node, against true time.

use farhop_proto::base::{Duration, Instant, NodeId, Rng, Seed};
use farhop_proto::stack::{ClockConfig, Scenario, gaussian};

/// Local time of every clock at true time zero, before its offset: late enough that no offset of a
/// scenario leads before local time zero.
const EPOCH_NANOS: i64 = 1_000_000_000 * 1_100_000;

/// A clock with an offset and a constant rate error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: u64,
    /// Local nanoseconds in a billion true nanoseconds.
    rate: u64,
}

const BILLION: u64 = 1_000_000_000;

/// Largest offset of a drawn clock, in seconds (`radio.md` 9).
const OFFSET_S: f64 = 1.0;
/// Deviation of its rate error and its largest value, in parts per million.
const DRIFT_PPM: [f64; 2] = [20.0, 50.0];
/// How late such a host stamps what it receives, in seconds.
const STAMP_S: [f64; 2] = [5e-6, 50e-6];

/// The clock of a node: its own, or else as `host.clocks` says.
pub(super) fn of_node(scenario: &Scenario, index: usize, node: NodeId, seed: Seed) -> ClockConfig {
    let own = scenario.node[index].clock;
    if scenario.host.clocks.is_exact() || !own.is_default() {
        return own;
    }
    let mut rng = seed.stream(&format!("node/{}/clock", node.0));
    let offset_s = OFFSET_S * (2.0 * rng.uniform() - 1.0);
    let [deviation, most] = DRIFT_PPM;
    let drift_ppm = (deviation * gaussian(&mut rng)).clamp(-most, most);
    ClockConfig { offset_s, drift_ppm }
}

/// Stamps of received frames by a host that takes them late.
#[derive(Debug)]
pub(super) struct Stamps(Rng);

impl Stamps {
    /// The stamps of a node; `None` if they are exact.
    pub(super) fn build(scenario: &Scenario, node: NodeId, seed: Seed) -> Option<Self> {
        let rng = || seed.stream(&format!("node/{}/stamps", node.0));
        (!scenario.host.clocks.is_exact()).then(|| Self(rng()))
    }

    /// The stamp of a frame that began at `started` and is given to the host at `now`.
    pub(super) fn of(&mut self, started: Instant, now: Instant) -> Instant {
        let [least, most] = STAMP_S;
        let late = least + (most - least) * self.0.uniform();
        (started + Duration::from_secs_f64(late)).min(now)
    }
}

impl Clock {
    pub(super) fn build(config: &ClockConfig) -> Self {
        Self {
            start: (EPOCH_NANOS + (config.offset_s * 1e9) as i64) as u64,
            rate: BILLION.strict_add_signed((config.drift_ppm * 1e3) as i64),
        }
    }

    /// What the clock shows at a true time.
    pub(super) fn local(&self, at: Instant) -> Instant {
        let nanos = at.as_nanos();
        let elapsed = match self.rate {
            BILLION => nanos,
            rate => (u128::from(nanos) * u128::from(rate) / u128::from(BILLION)) as u64,
        };
        Instant::from_nanos(self.start.wrapping_add(elapsed))
    }

    /// The first true time at which the clock shows `local` or more.
    pub(super) fn true_time(&self, local: Instant) -> Instant {
        if local == Instant::MAX {
            return local;
        }
        let elapsed = local.as_nanos().saturating_sub(self.start);
        let nanos = match self.rate {
            BILLION => elapsed,
            rate => {
                let nanos = (u128::from(elapsed) * u128::from(BILLION)).div_ceil(rate.into());
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        };
        Instant::from_nanos(nanos)
    }
}

/// A distribution given by points `[fraction, microseconds]`, with linear interpolation between
/// them.
#[derive(Clone, Debug)]
pub(super) struct Quantiles(Vec<[f64; 2]>);

impl Quantiles {
    pub(super) fn build(points: &[[f64; 2]]) -> Self {
        Self(points.to_vec())
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// The quantile at `fraction`.
    pub(super) fn at(&self, fraction: f64) -> Duration {
        let mut last = [0.0, self.0.first().map_or(0.0, |point| point[1])];
        for point in &self.0 {
            if fraction <= point[0] {
                let part = (fraction - last[0]) / (point[0] - last[0]).max(f64::MIN_POSITIVE);
                let micros = last[1] + part * (point[1] - last[1]);
                return Duration::from_secs_f64(micros / 1e6);
            }
            last = *point;
        }
        Duration::from_secs_f64(last[1] / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use farhop_proto::stack::{ClocksConfig, HostConfig, NodeConfig};

    use super::*;

    #[test]
    fn a_wake_up_by_the_local_clock_is_never_early() {
        for (offset_s, drift_ppm) in [(1.0, 50.0), (-1.0, -50.0), (0.3, 0.0), (0.0, 33.3)] {
            let clock = Clock::build(&ClockConfig { offset_s, drift_ppm });
            for nanos in [0, 1, 999_999_937, 123_456_789_012] {
                let local = clock.local(Instant::from_nanos(nanos));
                let back = clock.true_time(local);
                assert!(clock.local(back) >= local);
                assert!(back.signed_since(Instant::from_nanos(nanos)).abs() <= 1);
            }
        }
    }

    #[test]
    fn drawn_clocks_differ_by_node_and_by_seed_and_stay_within_their_limits() {
        let own = ClockConfig { drift_ppm: 7.0, ..ClockConfig::default() };
        let node = |clock| NodeConfig { clock, ..NodeConfig::default() };
        let host = HostConfig { clocks: ClocksConfig::Drawn, ..HostConfig::default() };
        let node = vec![node(ClockConfig::default()), node(own)];
        let scenario = Scenario { host, node, ..Scenario::default() };
        let of = |node: u16, seed| of_node(&scenario, 0, NodeId(node), Seed(seed));
        assert_eq!(of(1, 1), of(1, 1));
        assert!(of(1, 1) != of(2, 1) && of(1, 1) != of(1, 2));
        assert_eq!(of_node(&scenario, 1, NodeId(2), Seed(1)).drift_ppm, 7.0, "its own");
        let all: Vec<ClockConfig> = (1..=2_000).map(|node| of(node, 3)).collect();
        assert!(all.iter().all(|it| it.offset_s.abs() <= 1.0 && it.drift_ppm.abs() <= 50.0));
        let mean = |of: fn(&ClockConfig) -> f64| all.iter().map(of).sum::<f64>() / 2_000.0;
        let deviation = mean(|it| it.drift_ppm * it.drift_ppm).sqrt();
        assert!((19.0..21.0).contains(&deviation), "{deviation}");
        assert!((0.48..0.52).contains(&mean(|it| it.offset_s.abs())));
        let mut stamps = Stamps::build(&scenario, NodeId(1), Seed(1)).unwrap();
        let at = |us| Instant::ZERO + Duration::from_micros(us);
        for _ in 0..100 {
            assert!((at(105)..=at(150)).contains(&stamps.of(at(100), at(900))));
            assert_eq!(stamps.of(at(100), at(104)), at(104), "not before it is there");
        }
    }

    #[test]
    fn quantiles_are_linear_between_points() {
        let host = Quantiles::build(&[[0.5, 50.0], [0.99, 1000.0], [1.0, 4000.0]]);
        assert_eq!(host.at(0.25).as_micros(), 50);
        assert_eq!(host.at(0.995).as_micros(), 2500);
        assert_eq!(host.at(1.0).as_micros(), 4000);
        assert_eq!(Quantiles::build(&[]).at(0.7), Duration::ZERO);
    }
}
