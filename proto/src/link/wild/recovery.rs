//! Decides how much a link repeats and codes: it estimates the loss and derives the rest from that
//! (`wildnet.md` 7).
//!
//! The rule as printed, `(1 - p)^n = q`, is not a bound on loss; `p^n = q` is used, as the sheet
//! corrects it. Logarithms and powers are computed as repeated products, so that every machine gets
//! the same results.

use std::collections::VecDeque;

use super::config::{Recovery, Retries};
use crate::link::code::MAX_PARITY;
use crate::link::share;

/// Slots over which redundancy is computed.
pub const SLOTS: usize = 10;
/// Slots over which the burstiness of losses is measured.
const BURST_SLOTS: usize = 20;
/// Weight of a new slot in the moving average of loss.
const WEIGHT: f64 = 0.1;
/// Losses come in bursts if the variance of losses per slot exceeds this many times that of
/// independent losses with the same mean. For independent losses, this ratio over 20 slots follows
/// chi-squared with 19 degrees of freedom: it exceeds 3.5 in fewer than 1 of 100,000 cases. One
/// burst of half a slot in 20 slots of 14 frames gives 6 and more.
const BURST_RATIO: f64 = 3.5;
/// Most parity of a block: for each 10 data packets, and the most for short blocks, which need
/// relatively more. If half of the packets are lost, 1% of the data remains lost.
const MOST_PARITY_OF_TEN: usize = 25;
const MOST_PARITY_OF_FEW: usize = 8;

/// Retransmissions after which at most a fraction `q` of packets is lost, if each transmission is
/// lost with probability `p`.
pub fn retries(p: f64, q: f64) -> u8 {
    // A tolerance of one part in 10^9: as a float, 0.1 * 0.1 is slightly more than 0.01.
    let bound = q * (1.0 + 1e-9);
    let mut left = p;
    let mut retries = 0;
    while left > bound && retries < u8::MAX {
        left *= p;
        retries += 1;
    }
    retries
}

/// Fraction of data packets that remain lost, if each of `n` packets, `k` of which are data, is
/// lost with probability `p`, and any `k` received packets recover all data.
pub fn residual(k: usize, n: usize, p: f64) -> f64 {
    if p >= 1.0 {
        return 1.0;
    }
    if p <= 0.0 {
        return 0.0;
    }
    // Terms from r = 0 received packets on; each is its predecessor times (n - r) / (r + 1) * (1 -
    // p) / p.
    let mut term = (0..n).fold(1.0, |product, _| product * p);
    let mut sum = 0.0;
    for received in 0..k {
        let lost = (n - received) as f64;
        sum += term * lost / n as f64;
        term *= lost / (received + 1) as f64 * (1.0 - p) / p;
    }
    sum
}

/// The smallest number of parity packets with which at most a fraction `target` of `k` data packets
/// remains lost; at most two and a half for each data packet, or eight if that is more.
pub fn parity(k: usize, p: f64, target: f64) -> usize {
    let most = (k * MOST_PARITY_OF_TEN / 10).clamp(MOST_PARITY_OF_FEW, MAX_PARITY);
    (0..most).find(|parity| residual(k, k + parity, p) <= target).unwrap_or(most)
}

/// Frames of one slot to one neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    sent: u32,
    lost: u32,
}

/// The same over many slots.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    sent: u64,
    lost: u64,
}

/// Recovery rules of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) recovery: Recovery,
    /// Loss that may remain.
    pub(super) target: f64,
    pub(super) retries: Retries,
    /// Most retries where they follow the loss.
    pub(super) most: u8,
}

impl Rules {
    /// Most retries at any loss.
    pub(super) fn most_retries(&self) -> u8 {
        match (self.recovery, self.retries) {
            (Recovery::Fec, _) => 0,
            (_, Retries::Fixed(retries)) => retries,
            (_, Retries::Auto) => self.most,
        }
    }

    /// Retries at a loss of `p`.
    fn retries(&self, p: f64) -> u8 {
        match self.retries {
            Retries::Auto => self.most_retries().min(retries(p, self.target)),
            Retries::Fixed(_) => self.most_retries(),
        }
    }
}

/// How a class is treated now.
#[derive(Debug)]
struct Plan {
    rules: Rules,
    retries: u8,
    /// Parity for blocks of 1, 2, ... data packets; empty if nothing is coded.
    parity: Vec<u8>,
}

/// The estimate of loss to one neighbour, and the plan for each class that follows from it.
#[derive(Debug)]
pub(super) struct Estimate {
    average: Option<f64>,
    /// Over all slots so far.
    all: Tally,
    slots: VecDeque<Sample>,
    plans: Vec<Plan>,
    block: usize,
    /// Fewest retries where they follow the loss.
    least_retries: u8,
}

impl Estimate {
    /// For the classes with these rules. Blocks have at most `block` data packets.
    pub(super) fn new(rules: Vec<Rules>, block: usize) -> Self {
        let slots = VecDeque::with_capacity(BURST_SLOTS);
        let plan = |rules: Rules| Plan { rules, retries: rules.most_retries(), parity: Vec::new() };
        let plans = rules.into_iter().map(plan).collect();
        let (average, all) = (None, Tally::default());
        Self { average, all, slots, plans, block, least_retries: 0 }
    }

    /// For radios whose card repeats lost frames. The measured loss then says little about frames
    /// that go by themselves, that the end of a slot cuts off, or that the neighbour's card holds
    /// back because of a missing one: each packet may therefore be repeated once, at any loss.
    pub(super) fn expect_repeats_below(&mut self) {
        self.least_retries = 1;
    }

    /// Records a slot with `sent` frames, of which `received` are known to have arrived.
    pub(super) fn on_slot(&mut self, sent: u32, received: u32) {
        if sent == 0 {
            return;
        }
        let lost = sent.saturating_sub(received);
        self.all.sent += u64::from(sent);
        self.all.lost += u64::from(lost);
        let loss = f64::from(lost) / f64::from(sent);
        self.average = Some(self.average.map_or(loss, |old| old + WEIGHT * (loss - old)));
        if self.slots.len() == BURST_SLOTS {
            self.slots.pop_back();
        }
        self.slots.push_front(Sample { sent, lost });
        self.make_plans();
    }

    /// Moving average of the loss.
    pub(super) fn loss(&self) -> Option<f64> {
        self.average
    }

    /// Loss over all slots so far.
    pub(super) fn loss_so_far(&self) -> Option<f64> {
        share(self.all.lost, self.all.sent)
    }

    /// Loss over the last 10 slots; newer slots have more weight.
    pub(super) fn recent_loss(&self) -> f64 {
        let (mut lost, mut sent) = (0, 0);
        for (age, sample) in self.slots.iter().take(SLOTS).enumerate() {
            let weight = (SLOTS - age) as u32;
            lost += weight * sample.lost;
            sent += weight * sample.sent;
        }
        if sent == 0 { 0.0 } else { f64::from(lost) / f64::from(sent) }
    }

    /// Frames that were sent in the last slots, and how many of these were lost.
    fn tally(&self, slots: usize) -> (u32, u32) {
        let add = |(sent, lost), sample: &Sample| (sent + sample.sent, lost + sample.lost);
        self.slots.iter().take(slots).fold((0, 0), add)
    }

    /// The loss of the last slots by the rule of succession, (lost + 1) / (sent + 2). Without it, a
    /// link would seem to lose nothing after a few frames that all arrived, and what it loses would
    /// not be repaired.
    fn expected_loss(&self, slots: usize) -> f64 {
        let (sent, lost) = self.tally(slots);
        f64::from(lost + 1) / f64::from(sent + 2)
    }

    /// The loss for which retries are chosen.
    fn cautious_loss(&self) -> f64 {
        self.expected_loss(BURST_SLOTS).max(self.average.unwrap_or(1.0))
    }

    /// Whether losses come in bursts: whether their variance per slot is well above the binomial
    /// one.
    pub(super) fn is_bursty(&self) -> bool {
        if self.slots.len() < BURST_SLOTS {
            return false;
        }
        let (sent, lost) = self.tally(BURST_SLOTS);
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

    fn make_plans(&mut self) {
        let (recent, cautious) = (self.recent_loss(), self.cautious_loss());
        let expected = self.expected_loss(SLOTS);
        let is_bursty = self.is_bursty();
        for plan in &mut self.plans {
            let wants = match plan.rules.recovery {
                Recovery::Arq => false,
                Recovery::Fec | Recovery::FecOnRetransmit => true,
                Recovery::BurstFec => is_bursty,
            };
            let least = self.least_retries.min(plan.rules.most_retries());
            plan.retries = plan.rules.retries(cautious).max(least);
            plan.parity.clear();
            // Coding alone is set more cautiously: retransmission would repair what parity from the
            // loss of the last slots cannot.
            let loss = match plan.rules.recovery {
                Recovery::Fec => recent.max(expected),
                _ => recent,
            };
            let of = |k| parity(k, loss, plan.rules.target) as u8;
            if wants && loss > 0.0 {
                plan.parity.extend((1..=self.block).map(of));
            }
            if plan.parity.iter().all(|parity| *parity == 0) {
                plan.parity.clear();
            }
        }
    }

    /// How many classes there are.
    pub(super) fn classes(&self) -> usize {
        self.plans.len()
    }

    /// Most retransmissions of a packet of a class at the current loss.
    pub(super) fn retries(&self, class: usize) -> u8 {
        self.plans[class].retries
    }

    /// Whether first transmissions of a class are to be coded.
    pub(super) fn codes_new(&self, class: usize) -> bool {
        let plan = &self.plans[class];
        !plan.parity.is_empty() && plan.rules.recovery != Recovery::FecOnRetransmit
    }

    /// Whether retransmissions of a class are to be coded.
    pub(super) fn codes_again(&self, class: usize) -> bool {
        let plan = &self.plans[class];
        !plan.parity.is_empty() && plan.rules.recovery == Recovery::FecOnRetransmit
    }

    /// Parity for a block of `k` data packets of a class.
    pub(super) fn parity(&self, class: usize, k: usize) -> usize {
        let parity = &self.plans[class].parity;
        k.checked_sub(1).and_then(|index| parity.get(index)).map_or(0, |m| usize::from(*m))
    }

    /// Parity for so many packets, computed for the class that needs most, among those that are
    /// repaired by coding alone. Other classes do without parity if a slot has no room for it.
    pub(super) fn parity_alone(&self, packets: usize) -> usize {
        let is_alone = |class: &usize| self.plans[*class].rules.recovery == Recovery::Fec;
        let of = |class: usize| {
            let rest = self.parity(class, packets % self.block);
            self.full_parity(class) * (packets / self.block) + rest
        };
        (0..self.plans.len()).filter(is_alone).map(of).max().unwrap_or(0)
    }

    /// Parity for the longest block of a class.
    pub(super) fn full_parity(&self, class: usize) -> usize {
        self.parity(class, self.block)
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

    fn rules(recovery: Recovery, retries: Retries) -> Rules {
        Rules { recovery, target: 0.01, retries, most: 10 }
    }

    fn estimate(recovery: Recovery) -> Estimate {
        Estimate::new(vec![rules(recovery, Retries::Fixed(10))], 10)
    }

    fn after(slots: usize, mut lost: impl FnMut(usize, &mut Rng) -> u32) -> (Estimate, usize) {
        let mut rng = Seed(8).stream("loss");
        let mut estimate = estimate(Recovery::BurstFec);
        let mut coded = 0;
        for slot in 0..slots {
            let lost = lost(slot, &mut rng);
            estimate.on_slot(14, 14 - lost);
            coded += usize::from(estimate.codes_new(0));
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
        let mut estimate = estimate(Recovery::Fec);
        estimate.on_slot(14, 7);
        assert!(estimate.codes_new(0) && estimate.parity(0, 10) > 0);
        (0..10).for_each(|_| estimate.on_slot(14, 14));
        assert!(!estimate.codes_new(0));
        assert_eq!(estimate.parity(0, 10), 0);
    }

    #[test]
    fn coding_alone_keeps_to_its_target_where_little_is_sent() {
        let (loss, frames) = (0.2, 100_000);
        let mut rng = Seed(9).stream("loss");
        let mut estimate = estimate(Recovery::Fec);
        let mut left = 0.0;
        for _ in 0..frames {
            estimate.on_slot(1, u32::from(!rng.chance(loss)));
            left += residual(1, 1 + estimate.parity(0, 1), loss);
        }
        assert!(left / f64::from(frames) < 0.01, "{}", left / f64::from(frames));
        (0..10).for_each(|_| estimate.on_slot(1, 1));
        assert_eq!(estimate.parity(0, 1), 1, "ten frames are no proof");
    }

    #[test]
    fn retries_follow_the_loss_and_stay_within_their_bound() {
        let few = Rules { most: 2, ..rules(Recovery::Arq, Retries::Auto) };
        let strict = Rules { target: 0.001, ..rules(Recovery::Arq, Retries::Auto) };
        let classes = vec![rules(Recovery::Arq, Retries::Auto), few, strict];
        let mut estimate = Estimate::new(classes, 10);
        let now = |estimate: &Estimate| [0, 1, 2].map(|class| estimate.retries(class));
        assert_eq!(now(&estimate), [10, 2, 10], "nothing is known yet");
        // 30% of 20 frames a slot: the table of the sheet says 3 and 5.
        (0..60).for_each(|_| estimate.on_slot(20, 14));
        assert_eq!(now(&estimate), [3, 2, 5]);
        // Without loss: 1 of 402 may have been lost, which is more than 0.1%.
        (0..80).for_each(|_| estimate.on_slot(20, 20));
        assert_eq!(now(&estimate), [0, 0, 1]);
    }

    #[test]
    fn a_few_frames_that_came_are_no_proof() {
        let mut estimate = Estimate::new(vec![rules(Recovery::Arq, Retries::Auto)], 10);
        (0..20).for_each(|_| estimate.on_slot(1, 1));
        assert_eq!(estimate.retries(0), 1);
    }

    #[test]
    fn each_class_has_its_own_combination_of_repeating_and_coding() {
        let all = [Recovery::Fec, Recovery::Arq, Recovery::BurstFec, Recovery::FecOnRetransmit];
        let classes = all.map(|recovery| rules(recovery, Retries::Fixed(4)));
        let mut estimate = Estimate::new(classes.to_vec(), 10);
        let now = |estimate: &Estimate| {
            [0, 1, 2, 3].map(|class| {
                (estimate.retries(class), estimate.codes_new(class), estimate.codes_again(class))
            })
        };
        // First steady losses, then losses of half slots.
        (0..30).for_each(|_| estimate.on_slot(14, 12));
        let steady = [(0, true, false), (4, false, false), (4, false, false), (4, false, true)];
        assert_eq!(now(&estimate), steady);
        (0..20).for_each(|slot| estimate.on_slot(14, if slot % 10 == 3 { 6 } else { 14 }));
        let bursts = [(0, true, false), (4, false, false), (4, true, false), (4, false, true)];
        assert_eq!(now(&estimate), bursts);
        (0..10).for_each(|_| estimate.on_slot(14, 14));
        let none = [(0, false, false), (4, false, false), (4, false, false), (4, false, false)];
        assert_eq!(now(&estimate), none, "nothing is coded after ten slots without loss");
    }
}
