//! Which bit-rate data goes at where the frame names none (`radio.md` 10).
//!
//! - Prism 2.5 and ARF keep one rate for all attempts of a packet. Prism goes down after each
//!   packet that failed, and back to the highest when 10 s have passed since the first
//!   acknowledgement behind the last failure. ARF goes down after a packet that failed, and up
//!   after a number of packets in a row at their first attempt, ten at first; a failure of the first
//!   packet at the higher rate doubles the number, any other resets it.
//! - Minstrel keeps the success of each rate as a moving average, a quarter new every 100 ms, and
//!   sends at the rate with the most expected throughput, then, after two failures each, at the
//!   second and at the surest. A tenth of the packets begin at another rate, to measure it; one that
//!   could not be better than the best is left to the chain.
//!
//! Each is kept per neighbour.

use std::collections::BTreeMap;

use farhop_proto::base::{Bitrate, Duration, Instant, NodeId, Rng};
use farhop_proto::stack::RateControl;

use super::config::ChipConfig;

/// Without a failure for so long, Prism returns to the highest rate.
const PRISM_PATIENCE: Duration = Duration::from_secs(10);
/// Packets in a row at their first attempt, before ARF tries the next rate.
const ARF_SUCCESSES: u32 = 10;
/// The most that failures raise them to.
const ARF_MOST: u32 = 160;
/// How often Minstrel takes stock.
const MINSTREL_UPDATE: Duration = Duration::from_millis(100);
/// Share of the packets that measure.
const MINSTREL_SAMPLES: f64 = 0.1;
/// Share of the last interval in the average.
const MINSTREL_NEW: f64 = 0.25;
/// Attempts at each rate of the chain.
const MINSTREL_TRIES: u8 = 2;

/// The rates of one radio towards its neighbours.
#[derive(Debug)]
pub(super) struct Rates {
    control: RateControl,
    fixed: Bitrate,
    rates: &'static [Bitrate],
    peers: BTreeMap<NodeId, Peer>,
    rng: Rng,
}

#[derive(Debug)]
enum Peer {
    Prism(Prism),
    Arf(Arf),
    Minstrel(Minstrel),
}

impl Rates {
    pub(super) fn new(config: &ChipConfig, rng: Rng) -> Self {
        Self {
            control: config.rate_control,
            fixed: config.rate,
            rates: config.phy.rates(),
            peers: BTreeMap::new(),
            rng,
        }
    }

    /// Whether all attempts of a packet go at one rate.
    pub(super) fn keeps_rate(&self) -> bool {
        self.control != RateControl::Minstrel
    }

    fn peer(&mut self, to: NodeId) -> Option<&mut Peer> {
        let control = self.control;
        if control == RateControl::Fixed {
            return None;
        }
        let count = self.rates.len();
        Some(self.peers.entry(to).or_insert_with(|| match control {
            RateControl::Prism => Peer::Prism(Prism { index: count - 1, acked_at: None }),
            RateControl::Arf => Peer::Arf(Arf::new(count)),
            RateControl::Fixed | RateControl::Minstrel => Peer::Minstrel(Minstrel::new(count)),
        }))
    }

    /// The rate of the next transmission to a neighbour, of a packet that was tried `attempts`
    /// times before.
    pub(super) fn rate(&mut self, to: NodeId, now: Instant, attempts: u8) -> Bitrate {
        let (rates, fixed) = (self.rates, self.fixed);
        let sample = if self.control == RateControl::Minstrel && attempts == 0 {
            let chosen = self.rng.below(rates.len() as u64) as usize;
            self.rng.chance(MINSTREL_SAMPLES).then_some(chosen)
        } else {
            None
        };
        let Some(peer) = self.peer(to) else { return fixed };
        rates[match peer {
            Peer::Prism(prism) => prism.index(now, rates.len()),
            Peer::Arf(arf) => arf.index,
            Peer::Minstrel(minstrel) => minstrel.index(rates, attempts, sample),
        }]
    }

    /// A transmission at `rate` brought `tried` frames, of which `acked` were acknowledged.
    pub(super) fn on_attempt(
        &mut self,
        to: NodeId,
        now: Instant,
        rate: Bitrate,
        tried: u64,
        acked: u64,
    ) {
        let rates = self.rates;
        if self.control == RateControl::Minstrel
            && let Some(index) = rates.iter().position(|own| *own == rate)
            && let Some(Peer::Minstrel(minstrel)) = self.peer(to)
        {
            minstrel.on_attempt(rates, now, index, tried, acked);
        }
    }

    /// A packet came to its end: acknowledged after so many attempts, or failed.
    pub(super) fn on_packet(&mut self, to: NodeId, now: Instant, acked: Option<u8>) {
        let most = self.rates.len() - 1;
        match self.peer(to) {
            Some(Peer::Prism(prism)) => prism.on_packet(now, acked.is_some()),
            Some(Peer::Arf(arf)) => arf.on_packet(most, acked),
            Some(Peer::Minstrel(_)) | None => {}
        }
    }
}

#[derive(Debug)]
struct Prism {
    index: usize,
    /// The first acknowledgement behind the last failure.
    acked_at: Option<Instant>,
}

impl Prism {
    fn index(&mut self, now: Instant, count: usize) -> usize {
        if self.acked_at.is_some_and(|at| now.since(at) >= PRISM_PATIENCE) {
            self.index = count - 1;
        }
        self.index
    }

    fn on_packet(&mut self, now: Instant, is_acked: bool) {
        if is_acked {
            self.acked_at.get_or_insert(now);
        } else {
            self.acked_at = None;
            self.index = self.index.saturating_sub(1);
        }
    }
}

#[derive(Debug)]
struct Arf {
    index: usize,
    in_a_row: u32,
    needed: u32,
    /// No packet has been sent yet at the rate that was raised to.
    is_probing: bool,
}

impl Arf {
    fn new(count: usize) -> Self {
        Self { index: count - 1, in_a_row: 0, needed: ARF_SUCCESSES, is_probing: false }
    }

    fn on_packet(&mut self, most: usize, acked: Option<u8>) {
        let was_probing = std::mem::take(&mut self.is_probing);
        let Some(attempts) = acked else {
            self.needed = if was_probing { (self.needed * 2).min(ARF_MOST) } else { ARF_SUCCESSES };
            self.index = self.index.saturating_sub(1);
            self.in_a_row = 0;
            return;
        };
        if was_probing {
            self.needed = ARF_SUCCESSES;
        }
        self.in_a_row = if attempts == 1 { self.in_a_row + 1 } else { 0 };
        if self.in_a_row >= self.needed && self.index < most {
            self.index += 1;
            self.in_a_row = 0;
            self.is_probing = true;
        }
    }
}

/// What Minstrel knows of one rate.
#[derive(Clone, Copy, Debug, Default)]
struct Success {
    /// Share of the frames that were acknowledged; not known of a rate that was never used.
    share: Option<f64>,
    tried: u64,
    acked: u64,
}

#[derive(Debug)]
struct Minstrel {
    rates: Vec<Success>,
    /// The rates of the attempts of a packet: the best, the second, the surest.
    chain: [usize; 3],
    updated: Instant,
}

impl Minstrel {
    /// Before anything is known, from the highest rate over the middle to the lowest.
    fn new(count: usize) -> Self {
        Self {
            rates: vec![Success::default(); count],
            chain: [count - 1, count / 2, 0],
            updated: Instant::ZERO,
        }
    }

    fn index(&self, rates: &[Bitrate], attempts: u8, sample: Option<usize>) -> usize {
        let best = self.expected(rates, self.chain[0]);
        match sample.filter(|index| rates[*index].mbps() > best) {
            Some(index) => index,
            None => self.chain[usize::from(attempts / MINSTREL_TRIES).min(2)],
        }
    }

    /// Expected throughput, in Mb/s.
    fn expected(&self, rates: &[Bitrate], index: usize) -> f64 {
        rates[index].mbps() * self.rates[index].share.unwrap_or(0.0)
    }

    fn on_attempt(
        &mut self,
        rates: &[Bitrate],
        now: Instant,
        index: usize,
        tried: u64,
        acked: u64,
    ) {
        self.rates[index].tried += tried;
        self.rates[index].acked += acked;
        if now.since(self.updated) >= MINSTREL_UPDATE {
            self.updated = now;
            self.take_stock(rates);
        }
    }

    fn take_stock(&mut self, rates: &[Bitrate]) {
        for rate in self.rates.iter_mut().filter(|rate| rate.tried > 0) {
            let new = rate.acked as f64 / rate.tried as f64;
            let old = rate.share.unwrap_or(new);
            rate.share = Some(old + MINSTREL_NEW * (new - old));
            (rate.tried, rate.acked) = (0, 0);
        }
        let order = |value: &dyn Fn(usize) -> f64, but: Option<usize>| {
            let others = (0..rates.len()).filter(|index| Some(*index) != but);
            others.max_by(|a, b| value(*a).total_cmp(&value(*b)).then(a.cmp(b)))
        };
        let expected = |index: usize| self.expected(rates, index);
        let share = |index: usize| self.rates[index].share.unwrap_or(0.0);
        let best = order(&expected, None).unwrap_or(0);
        // Where nothing gets through, the lowest rate is the best hope.
        let best = if expected(best) > 0.0 { best } else { 0 };
        let second = order(&expected, Some(best)).filter(|index| expected(*index) > 0.0);
        let surest = order(&share, None).filter(|index| share(*index) > 0.0);
        self.chain = [best, second.unwrap_or(best.saturating_sub(1)), surest.unwrap_or(0)];
    }
}
