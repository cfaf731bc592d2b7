//! Rate control (`radio.md` 10): chooses the bit-rate of frames for each neighbour.
//!
//! - `fixed`: one rate for all frames.
//! - `prism`: the firmware of the Prism 2.5. A frame whose attempts all fail takes the rate down by
//!   one step; 10 s after the first acknowledgement since the last failure, it jumps back to the
//!   highest.
//! - `arf`: one step up after 10 frames in a row that succeed at their first attempt; one step down
//!   when a frame fails, or when the first frame after a step up (a probe) is not acknowledged at
//!   once (Kamerman and Monteban 1997).
//! - `aarf`: the same, but a failed probe doubles the number of frames needed for the next step up,
//!   to at most 50 (adaptive ARF, Lacage 2004).
//! - `minstrel`: after the algorithm of that name in Linux. It keeps a moving average of each
//!   rate's success over 100 ms. The attempts of a frame use the rates of highest throughput,
//!   second highest throughput and highest success, in this order. One frame in ten also samples
//!   another rate: with its first attempt if that rate could be better than the best one, otherwise
//!   with its second. For aggregates, an attempt is a whole aggregate, and the count of attempts
//!   restarts once anything of it was acknowledged.
//!
//! With all but the last, a radio sends all attempts of a frame at the rate of the first. A
//! neighbour of another PHY gets a rate that it can decode ([`Phy::rate_for`]). Unacknowledged
//! frames use the lowest rate, unless the rate is fixed.

use std::collections::BTreeMap;
use std::rc::Rc;

use farhop_proto::base::{Bitrate, Duration, Instant, NodeId, Phy, Rng, Width};
use farhop_proto::stack::RateControl;

use super::config::ChipConfig;

/// The result of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) rate: Bitrate,
    /// MPDUs sent.
    pub(super) sent: u32,
    /// MPDUs acknowledged.
    pub(super) acked: u32,
    /// Which attempt of its frame it was, from 1.
    pub(super) attempt: u8,
    /// It is the last attempt of the frame, which was acknowledged or is given up.
    pub(super) is_last: bool,
}

impl Trial {
    /// Whether at least half of the MPDUs were acknowledged.
    fn is_success(self) -> bool {
        self.acked > 0 && 2 * self.acked >= self.sent
    }
}

/// How long after its first acknowledgement the Prism firmware keeps a lowered rate.
const PRISM_STAY: Duration = Duration::from_secs(10);
/// Frames in a row that lead to a step up.
const ARF_STEP: u32 = 10;
/// Upper limit of that number after failed probes, in adaptive ARF.
const ARF_STEP_MAX: u32 = 50;
/// How often Minstrel updates its statistics and its chain of rates.
const UPDATE: Duration = Duration::from_millis(100);
/// Weight of the old average.
const EWMA: f64 = 0.75;
/// One frame in this many is a sample.
const SAMPLE_EVERY: u32 = 10;
/// Frame length at which the air times of rates are compared.
const REFERENCE_BYTES: usize = 1_200;
/// Reference frames in an aggregate, where frames are aggregated.
const REFERENCE_FRAMES: usize = 16;
/// Attempts at each rate of the chain.
const CHAIN_ATTEMPTS: u8 = 2;

/// The rate control of one radio.
#[derive(Debug)]
pub(super) struct Rates {
    control: RateControl,
    /// The rates of the PHY; empty if the rate is fixed.
    rates: Choice,
    fixed: Bitrate,
    /// Rates for neighbours that cannot decode all of them; a single one each if the rate is fixed.
    of_others: BTreeMap<NodeId, Choice>,
    /// Neighbours with narrower channels.
    narrower: BTreeMap<NodeId, Width>,
    peers: BTreeMap<NodeId, Peer>,
    rng: Rng,
}

/// Rates in rising order, with the air time of a reference frame at each.
type Choice = Rc<[(Bitrate, Duration)]>;

#[derive(Debug)]
struct Peer {
    rates: Choice,
    state: State,
}

#[derive(Debug)]
enum State {
    Prism(Prism),
    Arf(Arf),
    Minstrel(Box<Minstrel>),
}

impl Rates {
    /// The rate control of a radio. All but `fixed` begin at the highest rate.
    pub(super) fn build(config: &ChipConfig, rng: Rng) -> Self {
        let control = config.rate_control;
        let is_fixed = control == RateControl::Fixed;
        let rates = choice(config, if is_fixed { &[] } else { config.phy.rates() });
        let (of_others, narrower, peers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { control, rates, fixed: config.rate, of_others, narrower, peers, rng }
    }

    /// Limits the rates for a neighbour of another PHY to those that it decodes.
    pub(super) fn limit(&mut self, config: &ChipConfig, to: NodeId, theirs: &Phy) {
        let (phy, fixed) = (&config.phy, self.fixed);
        if theirs.width < phy.width {
            self.narrower.insert(to, theirs.width);
        }
        let (rates, usual): (Vec<Bitrate>, &[Bitrate]) = match self.control {
            RateControl::Fixed => (phy.rate_for(theirs, fixed).into_iter().collect(), &[fixed]),
            _ => (phy.rates_for(theirs), phy.rates()),
        };
        if !rates.is_empty() && rates != usual {
            self.of_others.insert(to, choice(config, &rates));
        }
    }

    /// The lowest rate that a neighbour decodes; if the rate is fixed, that rate or its substitute.
    /// Unacknowledged frames use it: they teach the rate control nothing, and mac80211 does the
    /// same (net/mac80211/rate.c).
    pub(super) fn lowest_for(&self, to: NodeId) -> Bitrate {
        let rates = self.of_others.get(&to).unwrap_or(&self.rates);
        rates.first().map_or(self.fixed, |(rate, _)| *rate)
    }

    /// The width of a neighbour's channel (for broadcast, of the narrowest one), if less than our
    /// own.
    pub(super) fn width_to(&self, to: Option<NodeId>) -> Option<Width> {
        let narrower = match to {
            Some(to) => self.narrower.get(&to),
            None => self.narrower.values().min(),
        };
        narrower.copied()
    }

    /// Whether block acknowledgement agreements exist with a neighbour: both must support MCS
    /// rates.
    pub(super) fn agrees(&self, config: &ChipConfig, to: NodeId) -> bool {
        let is_mcs = |(rate, _): &(Bitrate, Duration)| config.phy.mcs(*rate).is_some();
        config.aggregates() && self.of_others.get(&to).is_none_or(|rates| rates.iter().any(is_mcs))
    }

    /// The rate that a frame for a neighbour will probably use, without a change of state.
    pub(super) fn guess(&self, to: NodeId) -> Bitrate {
        let Some(Peer { rates, state }) = self.peers.get(&to) else {
            let highest = self.of_others.get(&to).unwrap_or(&self.rates).last();
            return match (self.control, highest) {
                (RateControl::Fixed, _) | (_, None) => self.lowest_for(to),
                (_, Some((highest, _))) => *highest,
            };
        };
        let place = match state {
            State::Prism(prism) => prism.rate,
            State::Arf(arf) => arf.rate,
            State::Minstrel(minstrel) => minstrel.chain[0],
        };
        rates[place].0
    }

    /// Whether all attempts of a frame use the rate of the first.
    pub(super) fn keeps_rate(&self) -> bool {
        self.control != RateControl::Minstrel
    }

    fn peer(&mut self, to: NodeId) -> &mut Peer {
        self.peers.entry(to).or_insert_with(|| {
            let rates = Rc::clone(self.of_others.get(&to).unwrap_or(&self.rates));
            let highest = rates.len() - 1;
            let state = match self.control {
                RateControl::Fixed => unreachable!("a fixed rate has no peers"),
                RateControl::Prism => State::Prism(Prism { rate: highest, acked: None }),
                RateControl::Arf => State::Arf(Arf::at(highest, ARF_STEP)),
                RateControl::Aarf => State::Arf(Arf::at(highest, ARF_STEP_MAX)),
                RateControl::Minstrel => State::Minstrel(Box::new(Minstrel::over(highest + 1))),
            };
            Peer { rates, state }
        })
    }

    /// The rate of an attempt, counted from 1, at a frame for a neighbour.
    pub(super) fn rate(&mut self, now: Instant, to: NodeId, attempt: u8) -> Bitrate {
        if self.control == RateControl::Fixed {
            return self.lowest_for(to);
        }
        let count = self.peer(to).rates.len();
        // Drawn before it is known to be needed, as `peer` borrows `self`.
        let sample = (self.control == RateControl::Minstrel && attempt == 1)
            .then(|| self.rng.below(count as u64) as usize);
        let Peer { rates, state } = self.peer(to);
        let place = match state {
            State::Prism(prism) => prism.rate(now, count - 1),
            State::Arf(arf) => arf.rate,
            State::Minstrel(minstrel) => minstrel.rate(attempt, sample),
        };
        rates[place].0
    }

    /// An attempt at a frame for a neighbour begins.
    pub(super) fn on_attempt(&mut self, to: NodeId) {
        if let Some(Peer { state: State::Minstrel(minstrel), .. }) = self.peers.get_mut(&to) {
            minstrel.is_planned = false;
        }
    }

    /// Takes the result of an attempt into account.
    pub(super) fn on_trial(&mut self, now: Instant, to: NodeId, trial: Trial) {
        if self.control == RateControl::Fixed {
            return;
        }
        let Some(Peer { rates, state }) = self.peers.get_mut(&to) else { return };
        let place = rates.iter().position(|(rate, _)| *rate == trial.rate);
        let Some(place) = place else { return };
        match state {
            State::Prism(prism) if trial.is_last && place == prism.rate => {
                prism.on_end(now, trial.is_success());
            }
            State::Prism(_) => {}
            State::Arf(arf) => arf.on_trial(trial, place, rates.len() - 1),
            State::Minstrel(minstrel) => minstrel.on_trial(now, place, trial, rates),
        }
    }
}

/// Adds the air time of a reference frame to each rate.
fn choice(config: &ChipConfig, rates: &[Bitrate]) -> Choice {
    let phy = config.phy;
    // The frames of an aggregate share one preamble; for a single frame, the preamble would hide
    // the differences between fast rates.
    let most = if config.aggregates() { REFERENCE_FRAMES.min(config.aggregate) } else { 1 };
    let time = |rate| {
        let together = if phy.mcs(rate).is_some() { most } else { 1 };
        phy.air_time(REFERENCE_BYTES * together, rate) / together as u64
    };
    rates.iter().map(|rate| (*rate, time(*rate))).collect()
}

#[derive(Debug)]
struct Prism {
    rate: usize,
    /// The first acknowledgement since the last failure.
    acked: Option<Instant>,
}

impl Prism {
    fn rate(&mut self, now: Instant, highest: usize) -> usize {
        if self.acked.is_some_and(|acked| now.since(acked) >= PRISM_STAY) {
            self.rate = highest;
        }
        self.rate
    }

    fn on_end(&mut self, now: Instant, is_acked: bool) {
        if is_acked {
            self.acked.get_or_insert(now);
        } else {
            self.acked = None;
            self.rate = self.rate.saturating_sub(1);
        }
    }
}

#[derive(Debug)]
struct Arf {
    rate: usize,
    successes: u32,
    step: u32,
    /// Upper limit of `step`.
    most: u32,
    /// The next frame is the first after a step up.
    is_probe: bool,
}

impl Arf {
    const fn at(rate: usize, most: u32) -> Self {
        Self { rate, successes: 0, step: ARF_STEP, most, is_probe: false }
    }

    fn on_trial(&mut self, trial: Trial, place: usize, highest: usize) {
        let is_acked = trial.is_success();
        if trial.attempt == 1 && self.is_probe {
            self.is_probe = false;
            if !is_acked {
                self.step = (self.step * 2).min(self.most);
                self.step_down();
                return;
            }
        }
        if !is_acked {
            self.successes = 0;
            // A failed probe has led to a step down already.
            if trial.is_last && place == self.rate {
                self.step = ARF_STEP;
                self.step_down();
            }
        } else if trial.attempt == 1 {
            self.successes += 1;
            if self.successes >= self.step && self.rate < highest {
                self.rate += 1;
                self.successes = 0;
                self.is_probe = true;
            }
        }
    }

    fn step_down(&mut self) {
        self.rate = self.rate.saturating_sub(1);
        self.successes = 0;
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Statistics {
    sent: u32,
    acked: u32,
    /// Moving average of the success; `None` if the rate was never tried.
    success: Option<f64>,
    /// Even without losses it would be slower than the best rate with its losses.
    is_outdone: bool,
}

#[derive(Debug)]
struct Minstrel {
    rates: Vec<Statistics>,
    /// Rates of highest throughput, of second highest throughput, and of highest success.
    chain: [usize; 3],
    /// The rate that the current frame samples.
    sample: Option<usize>,
    /// A frame was counted, but its first attempt has not begun: the frame did not fit into a TXOP,
    /// or is planned anew after its announcement.
    is_planned: bool,
    frames: u32,
    update_at: Instant,
}

impl Minstrel {
    fn over(rates: usize) -> Self {
        let highest = rates - 1;
        Self {
            rates: vec![Statistics::default(); rates],
            chain: [highest, highest.saturating_sub(1), 0],
            sample: None,
            is_planned: false,
            frames: 0,
            update_at: Instant::ZERO,
        }
    }

    fn rate(&mut self, attempt: u8, draw: Option<usize>) -> usize {
        let is_planned = std::mem::replace(&mut self.is_planned, attempt == 1);
        if attempt == 1 && !is_planned {
            self.frames += 1;
            let is_due = self.frames.is_multiple_of(SAMPLE_EVERY);
            // The other rates of the chain are sampled too: they are used so rarely that their
            // statistics would grow old.
            self.sample = draw.filter(|rate| is_due && *rate != self.chain[0]);
        }
        // A sample comes before the chain, or as the second attempt if it cannot be better than the
        // best rate.
        let place = self.sample.map(|rate| if self.rates[rate].is_outdone { 2 } else { 1 });
        match (self.sample, place) {
            (Some(rate), Some(place)) if attempt == place => rate,
            (_, Some(place)) if attempt > place => self.at_chain(attempt - 1),
            _ => self.at_chain(attempt),
        }
    }

    fn at_chain(&self, attempt: u8) -> usize {
        let place = usize::from((attempt - 1) / CHAIN_ATTEMPTS);
        self.chain[place.min(self.chain.len() - 1)]
    }

    fn on_trial(&mut self, now: Instant, rate: usize, trial: Trial, times: &[(Bitrate, Duration)]) {
        self.is_planned = false;
        self.rates[rate].sent += trial.sent;
        self.rates[rate].acked += trial.acked;
        if now < self.update_at {
            return;
        }
        self.update_at = now + UPDATE;
        for statistics in self.rates.iter_mut().filter(|statistics| statistics.sent > 0) {
            let success = f64::from(statistics.acked) / f64::from(statistics.sent);
            let known = statistics.success.unwrap_or(success);
            statistics.success = Some(EWMA * known + (1.0 - EWMA) * success);
            (statistics.sent, statistics.acked) = (0, 0);
        }
        let throughput = |rate: usize| {
            let success = self.rates[rate].success.unwrap_or(0.0);
            // Hopeless rates only waste air time.
            if success < 0.1 { 0.0 } else { success / times[rate].1.as_secs_f64() }
        };
        let mut order: Vec<usize> = (0..self.rates.len()).collect();
        order.sort_by(|a, b| throughput(*b).total_cmp(&throughput(*a)));
        let best = throughput(order[0]);
        let reliable = |rate: &usize| {
            // Among nearly certain rates, prefers the fastest.
            let success = self.rates[*rate].success.unwrap_or(0.0);
            if success > 0.95 { 1.0 + throughput(*rate) } else { success }
        };
        let surest = (0..self.rates.len()).max_by(|a, b| reliable(a).total_cmp(&reliable(b)));
        self.chain = [order[0], order[order.len().min(2) - 1], surest.unwrap_or(0)];
        for (statistics, (_, time)) in self.rates.iter_mut().zip(times) {
            statistics.is_outdone = 1.0 / time.as_secs_f64() <= best;
        }
    }
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::{PhyKind, RadioId, Seed};

    use super::*;

    const PEER: NodeId = NodeId(2);

    fn rates(control: RateControl, kind: PhyKind) -> Rates {
        of_phy(control, Phy { kind, ..Phy::default() })
    }

    fn of_phy(control: RateControl, phy: Phy) -> Rates {
        let usual = ChipConfig::new(NodeId(1), RadioId(0), phy);
        let config = ChipConfig { rate_control: control, rate: phy.rates()[0], ..usual };
        Rates::build(&config, Seed(1).stream("rate"))
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Sends a frame whose attempts succeed where `passes` says so. Returns the rates it went at.
    fn send(
        rates: &mut Rates,
        now: Instant,
        attempts: u8,
        mut passes: impl FnMut(f64) -> bool,
    ) -> Vec<f64> {
        let mut used = Vec::new();
        for attempt in 1..=attempts {
            let rate = rates.rate(now, PEER, attempt);
            used.push(rate.mbps());
            let acked = passes(rate.mbps());
            let is_last = acked || attempt == attempts;
            rates.on_attempt(PEER);
            let trial = Trial { rate, sent: 1, acked: u32::from(acked), attempt, is_last };
            rates.on_trial(now, PEER, trial);
            if acked {
                break;
            }
        }
        used
    }

    #[test]
    fn prism_steps_down_frame_by_frame_and_jumps_back_after_ten_quiet_seconds() {
        let mut prism = rates(RateControl::Prism, PhyKind::B);
        assert_eq!(send(&mut prism, at(0), 8, |_| false), [11.0; 8]);
        assert_eq!(send(&mut prism, at(10), 8, |_| false), [5.5; 8]);
        assert_eq!(send(&mut prism, at(20), 8, |_| true), [2.0]);
        // Retries are no failure; the time runs from the first acknowledgement.
        let mut first = true;
        let late = |_| !std::mem::take(&mut first);
        assert_eq!(send(&mut prism, at(5_000), 8, late), [2.0, 2.0]);
        assert_eq!(send(&mut prism, at(10_019), 8, |_| true), [2.0]);
        assert_eq!(send(&mut prism, at(10_020), 8, |_| true), [11.0]);
        // Without an acknowledgement it never comes back.
        for _ in 0..5 {
            send(&mut prism, at(11_000), 8, |_| false);
        }
        assert_eq!(send(&mut prism, at(90_000), 8, |_| false)[0], 1.0);
    }

    #[test]
    fn arf_goes_up_after_ten_and_adaptive_arf_waits_twice_as_long_after_a_failed_probe() {
        for (control, then) in [(RateControl::Arf, 10), (RateControl::Aarf, 20)] {
            let mut arf = rates(control, PhyKind::B);
            assert_eq!(send(&mut arf, at(0), 4, |_| false), [11.0; 4]);
            let passes = |rate: f64| rate < 11.0;
            for _ in 0..10 {
                assert_eq!(send(&mut arf, at(1), 4, passes), [5.5]);
            }
            // The probe fails at its first attempt, and the rest goes at the old rate.
            assert_eq!(send(&mut arf, at(2), 4, passes), [11.0, 5.5]);
            for _ in 0..then {
                assert_eq!(send(&mut arf, at(3), 4, passes), [5.5]);
            }
            assert_eq!(send(&mut arf, at(4), 4, |_| true), [11.0]);
        }
    }

    #[test]
    fn minstrel_finds_the_rate_of_highest_throughput_and_still_looks_around() {
        let mut minstrel = rates(RateControl::Minstrel, PhyKind::A);
        let mut luck = Seed(2).stream("luck");
        // 24 Mb/s passes nearly always, 36 in a third, nothing above.
        let mut share: fn(f64) -> f64 = |rate| match rate {
            ..=24.0 => 0.98,
            ..=36.0 => 0.3,
            _ => 0.0,
        };
        let mut first = BTreeMap::new();
        for frame in 0..4_000 {
            let used = send(&mut minstrel, at(frame), 6, |rate| luck.chance(share(rate)));
            if frame >= 2_000 {
                *first.entry(used[0] as u64).or_insert(0) += 1;
            }
        }
        assert!(first[&24] > 1_900, "{first:?}");
        assert!(first.keys().all(|rate| *rate >= 24), "slower ones wait for a failure: {first:?}");
        assert!(first.len() > 2, "{first:?}");
        // The channel gets better: it follows within a few seconds.
        share = |_| 0.98;
        for frame in 4_000..8_000 {
            send(&mut minstrel, at(frame), 6, |rate| luck.chance(share(rate)));
        }
        let mut first = |frame: u64| send(&mut minstrel, at(8_001 + frame), 6, |_| true)[0];
        assert_eq!((0..10).map(&mut first).collect::<Vec<_>>(), [54.0; 10]);
    }

    #[test]
    fn minstrel_leaves_a_rate_that_loses_half_of_each_aggregate() {
        // Something of each comes, so that no second attempt ever tries another rate.
        let mut minstrel = rates(RateControl::Minstrel, PhyKind::N);
        let mut used = 0;
        for exchange in 0..2_000 {
            let now = at(5 * exchange);
            let rate = minstrel.rate(now, PEER, 1);
            let acked = match rate.mbps() {
                ..=52.0 => 19,
                ..=58.5 => 10,
                _ => 1,
            };
            let trial = Trial { rate, sent: 20, acked, attempt: 1, is_last: true };
            minstrel.on_trial(now, PEER, trial);
            used += u32::from(exchange >= 1_000 && rate.mbps() == 52.0);
        }
        assert!(used > 900, "{used} of 1000 at the best rate");
    }

    #[test]
    fn minstrel_tells_rates_apart_at_which_a_frame_is_hardly_longer_than_its_preamble() {
        let phy = Phy { kind: PhyKind::Ac, width: Width::Mhz80, streams: 2, ..Phy::default() };
        let rates = of_phy(RateControl::Minstrel, phy).rates;
        let [(slow, of_slow), (fast, of_fast)] = [rates[rates.len() - 6], rates[rates.len() - 1]];
        let gain = of_slow.as_secs_f64() / of_fast.as_secs_f64();
        assert_eq!((slow.mbps(), fast.mbps()), (351.0, 780.0));
        // By single frames it would be 1.2.
        assert!(gain > 1.9, "{gain}");
    }

    #[test]
    fn a_frame_that_is_planned_again_for_the_next_txop_is_one_frame() {
        let mut minstrel = rates(RateControl::Minstrel, PhyKind::A);
        let mut samples = 0;
        for frame in 0..4_000 {
            let now = at(frame);
            // Nine fit into a TXOP: of ten in a row one is planned twice.
            if frame > 0 && frame % 9 == 0 {
                minstrel.rate(now, PEER, 1);
            }
            let rate = minstrel.rate(now, PEER, 1);
            minstrel.on_attempt(PEER);
            let second = minstrel.rate(now, PEER, 2);
            samples += u32::from(rate.mbps() != 54.0 || second.mbps() != 54.0);
            let trial = Trial { rate, sent: 1, acked: 1, attempt: 1, is_last: true };
            minstrel.on_trial(now, PEER, trial);
        }
        assert!((200..=400).contains(&samples), "{samples} of 4,000");
    }
}
