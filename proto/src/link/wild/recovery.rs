//! How much a link repeats and codes: estimates of loss, and what follows from them
//! (`wildnet.md` 7).
//!
//! The printed rule `(1 - p)^n = q` is not a loss bound; `p^n = q` is used, as the sheet corrects.
//! Logarithms and powers are repeated products, so that every machine computes the same.

use std::collections::VecDeque;

use super::config::Recovery;
use crate::link::code::MAX_PARITY;

/// Slots over which the redundancy is estimated.
pub const SLOTS: usize = 10;
/// Slots over which bursts are looked for.
const BURST_SLOTS: usize = 20;
/// Weight of a new slot in the moving average of loss.
const WEIGHT: f64 = 0.1;
/// Losses come in bursts while the variance of losses per slot is so many times that of
/// independent losses of the same mean. Over 20 slots of independent losses the ratio is that of
/// chi-squared with 19 degrees of freedom: above 3.5 in fewer than 1 of 100,000 cases. A burst of
/// half a slot once in 20 slots of 14 frames gives 6 and more.
const BURST_RATIO: f64 = 3.5;
/// Most parity of a block, for each 10 data packets and at least: 1% is left of half the packets
/// lost. Short blocks need more of it.
const MOST_PARITY_OF_TEN: usize = 25;
const MOST_PARITY_OF_FEW: usize = 8;

/// Retransmissions after which at most `q` of the packets are lost, at a loss of `p` for each.
pub fn retries(p: f64, q: f64) -> u8 {
    // One part in 10^9 more than q: 0.1 * 0.1 is a little over 0.01.
    let bound = q * (1.0 + 1e-9);
    let mut left = p;
    let mut retries = 0;
    while left > bound && retries < u8::MAX {
        left *= p;
        retries += 1;
    }
    retries
}

/// Fraction of data packets that are lost for good, if of `n` packets, `k` of them data, each is
/// lost with probability `p`, and any `k` recover all.
pub fn residual(k: usize, n: usize, p: f64) -> f64 {
    if p >= 1.0 {
        return 1.0;
    }
    if p <= 0.0 {
        return 0.0;
    }
    // Terms from r = 0 received; each is the one before times (n - r) / (r + 1) * (1 - p) / p.
    let mut term = (0..n).fold(1.0, |product, _| product * p);
    let mut sum = 0.0;
    for received in 0..k {
        let lost = (n - received) as f64;
        sum += term * lost / n as f64;
        term *= lost / (received + 1) as f64 * (1.0 - p) / p;
    }
    sum
}

/// The smallest number of parity packets with which at most `target` of `k` data packets are
/// lost, as far as two and a half for each data packet reach, or eight.
pub fn parity(k: usize, p: f64, target: f64) -> usize {
    let most = (k * MOST_PARITY_OF_TEN / 10).clamp(MOST_PARITY_OF_FEW, MAX_PARITY);
    (0..most).find(|parity| residual(k, k + parity, p) <= target).unwrap_or(most)
}

/// What became of the frames of one slot to one neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    sent: u32,
    lost: u32,
}

/// The estimate of loss to one neighbour, and the plan of coding that follows.
#[derive(Debug)]
pub(super) struct Estimate {
    recovery: Recovery,
    target: f64,
    average: Option<f64>,
    slots: VecDeque<Sample>,
    /// Parity for blocks of 1, 2, .. data packets; empty where nothing is coded.
    plan: Vec<u8>,
    block: usize,
}

impl Estimate {
    /// Codes blocks of at most `block` data packets.
    pub(super) fn new(recovery: Recovery, target: f64, block: usize) -> Self {
        let slots = VecDeque::with_capacity(BURST_SLOTS);
        Self { recovery, target, average: None, slots, plan: Vec::new(), block }
    }

    /// Of the frames of one slot, `received` are known to have come.
    pub(super) fn on_slot(&mut self, sent: u32, received: u32) {
        if sent == 0 {
            return;
        }
        let lost = sent.saturating_sub(received);
        let loss = f64::from(lost) / f64::from(sent);
        self.average = Some(self.average.map_or(loss, |old| old + WEIGHT * (loss - old)));
        if self.slots.len() == BURST_SLOTS {
            self.slots.pop_back();
        }
        self.slots.push_front(Sample { sent, lost });
        self.make_plan();
    }

    /// Moving average of loss.
    pub(super) fn loss(&self) -> Option<f64> {
        self.average
    }

    /// Loss over the last 10 slots, the newest weighted most.
    pub(super) fn recent_loss(&self) -> f64 {
        let (mut lost, mut sent) = (0, 0);
        for (age, sample) in self.slots.iter().take(SLOTS).enumerate() {
            let weight = (SLOTS - age) as u32;
            lost += weight * sample.lost;
            sent += weight * sample.sent;
        }
        if sent == 0 { 0.0 } else { f64::from(lost) / f64::from(sent) }
    }

    /// Whether losses come in bursts: their variance per slot is well above the binomial one.
    pub(super) fn is_bursty(&self) -> bool {
        if self.slots.len() < BURST_SLOTS {
            return false;
        }
        let sum = |part: fn(&Sample) -> u32| self.slots.iter().map(part).sum::<u32>();
        let (sent, lost) = (sum(|sample| sample.sent), sum(|sample| sample.lost));
        if lost == 0 || lost == sent {
            return false;
        }
        let p = f64::from(lost) / f64::from(sent);
        let square = |sample: &Sample| {
            let off = f64::from(sample.lost) - f64::from(sample.sent) * p;
            off * off / (f64::from(sample.sent) * p * (1.0 - p))
        };
        let ratio = self.slots.iter().map(square).sum::<f64>() / (BURST_SLOTS - 1) as f64;
        ratio > BURST_RATIO
    }

    fn make_plan(&mut self) {
        let wants = match self.recovery {
            Recovery::Arq => false,
            Recovery::Fec | Recovery::FecOnRetransmit => true,
            Recovery::BurstFec => self.is_bursty(),
        };
        self.plan.clear();
        let p = self.recent_loss();
        if wants && p > 0.0 {
            let target = self.target;
            self.plan.extend((1..=self.block).map(|k| parity(k, p, target) as u8));
        }
    }

    /// Whether first transmissions are to be coded.
    pub(super) fn codes_new(&self) -> bool {
        !self.plan.is_empty() && self.recovery != Recovery::FecOnRetransmit
    }

    /// Whether retransmissions are to be coded.
    pub(super) fn codes_again(&self) -> bool {
        !self.plan.is_empty() && self.recovery == Recovery::FecOnRetransmit
    }

    /// Parity for a block of `k` data packets.
    pub(super) fn parity(&self, k: usize) -> usize {
        k.checked_sub(1).and_then(|index| self.plan.get(index)).map_or(0, |m| usize::from(*m))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Rng, Seed};

    #[test]
    fn retries_are_those_of_the_table() {
        let loss = [0.1, 0.2, 0.3, 0.4, 0.5];
        let row = |q| loss.map(|p| retries(p, q));
        assert_eq!(row(0.1), [0, 1, 1, 2, 3]);
        assert_eq!(row(0.05), [1, 1, 2, 3, 4]);
        assert_eq!(row(0.01), [1, 2, 3, 5, 6]);
        assert_eq!(row(0.001), [2, 4, 5, 7, 9]);
        assert_eq!(retries(0.0, 0.01), 0);
    }

    #[test]
    fn twice_the_packets_carry_thirty_percent_loss_to_one() {
        let left = residual(10, 20, 0.3);
        assert!((left - 0.0098).abs() < 0.0001, "{left}");
        assert_eq!(parity(10, 0.3, 0.01), 10);
        assert_eq!(parity(10, 0.0, 0.01), 0);
        assert_eq!(parity(10, 0.9, 0.01), 25, "no more than two and a half for each");
        assert_eq!(parity(1, 0.5, 0.01), 6, "half of them to the seventh is under a hundredth");
    }

    #[test]
    fn without_redundancy_all_losses_remain() {
        for p in [0.0, 0.05, 0.3, 1.0] {
            assert!((residual(8, 8, p) - p).abs() < 1e-12);
        }
    }

    fn after(slots: usize, mut lost: impl FnMut(usize, &mut Rng) -> u32) -> (Estimate, usize) {
        let mut rng = Seed(8).stream("loss");
        let mut estimate = Estimate::new(Recovery::BurstFec, 0.01, 10);
        let mut coded = 0;
        for slot in 0..slots {
            let lost = lost(slot, &mut rng);
            estimate.on_slot(14, 14 - lost);
            coded += usize::from(estimate.codes_new());
        }
        (estimate, coded)
    }

    #[test]
    fn steady_independent_loss_is_no_burst() {
        for p in [0.02, 0.1, 0.3] {
            let (estimate, coded) =
                after(20_000, |_, rng| (0..14).map(|_| u32::from(rng.chance(p))).sum());
            assert!(coded <= 20, "coded in {coded} of 20,000 slots at {p}");
            assert!((estimate.loss().expect("samples") - p).abs() < 0.15);
        }
    }

    #[test]
    fn lost_halves_of_slots_are_bursts() {
        let (_, coded) = after(1_000, |slot, _| if slot % 10 == 3 { 8 } else { 0 });
        assert!(coded > 900, "coded in {coded} slots");
    }

    #[test]
    fn ten_slots_without_loss_end_the_coding() {
        let mut estimate = Estimate::new(Recovery::Fec, 0.01, 10);
        estimate.on_slot(14, 7);
        assert!(estimate.codes_new() && estimate.parity(10) > 0);
        (0..10).for_each(|_| estimate.on_slot(14, 14));
        assert!(!estimate.codes_new());
        assert_eq!(estimate.parity(10), 0);
    }
}
