//! Which neighbours are heard, and how well (RFC 3626, sections 7 and 8.1): the quality of a link
//! is the share of HELLOs that arrive in each direction.

use std::collections::BTreeMap;

use super::config::OlsrConfig;
use super::paths::Cost;
use crate::base::{AddressPlan, Duration, Instant, Limit, NodeId, RadioId};
use crate::wire::olsr::{Hello, LinkCode, Neighbour};

/// Most links that are kept; HELLOs of others are ignored.
pub(super) const LINKS: usize = 256;
/// The longest time for which a HELLO is believed, and between two of them, whatever it says.
const MOST_VALIDITY: Duration = Duration::from_secs(600);
const MOST_INTERVAL: Duration = Duration::from_secs(60);
/// The shortest time between two HELLOs that is believed.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);
/// Least HELLOs by which the share is divided, if the window has as many: one of one does not mean
/// all.
const LEAST_SEEN: u8 = 4;
/// HELLOs that still count once the last ones are missing: earlier ones say little then.
const RECENT: u8 = 10;
/// How many missing in a row that takes: on a bad link, this happens by chance about once a minute.
const MISSING: u32 = 5;

/// Gaps between HELLOs by which is judged whether they come more often than announced, and how many
/// of them have to be short: a few are short by chance, when a HELLO has waited for the channel.
const GAPS: usize = 16;
const SHORT_GAPS: usize = 4;
/// An announced interval, as a gap. The mean time between two HELLOs is 7/8 of it, and a gap below
/// 5/8 is short.
const WHOLE_GAP: u64 = 128;

/// A link from a neighbour's radio to one of ours.
#[derive(Debug)]
pub(super) struct Link {
    /// The last HELLOs: whether each arrived, the newest in bit 0.
    window: u32,
    /// How many of them count, and how many may.
    seen: u8,
    most: u8,
    /// HELLOs until the values with which it was [forgotten](Link::forget) have left the window.
    anew: u8,
    /// When the next HELLO counts as lost.
    overdue: Instant,
    /// The interval that the neighbour announced last.
    interval: Duration,
    /// When the last HELLO arrived, and the last gaps between two of them, as parts of the interval
    /// that was announced.
    arrived_at: Option<Instant>,
    gaps: [u8; GAPS],
    /// Share of our HELLOs that arrive there, as it reports, of 255 (NLQ).
    nlq: u8,
    /// Until when it is believed to hear us.
    symmetric_until: Instant,
    /// Until when it counts as heard.
    heard_until: Instant,
    /// Until when it asks us to forward what it floods.
    pub(super) selects_us_until: Instant,
    pub(super) willingness: u8,
    /// Nodes with which it has links in both directions.
    pub(super) neighbours: Vec<NodeId>,
    /// Limits how many signatures of messages that it forwards are checked.
    pub(super) checks: Limit,
    /// Limits how many of its HELLOs count.
    pub(super) hellos: Limit,
}

impl Link {
    fn new(interval: Duration, most: u8) -> Self {
        Self {
            window: 0,
            seen: 0,
            most,
            anew: 0,
            overdue: Instant::MAX,
            interval,
            arrived_at: None,
            gaps: [u8::MAX; GAPS],
            nlq: 0,
            symmetric_until: Instant::ZERO,
            heard_until: Instant::ZERO,
            selects_us_until: Instant::ZERO,
            willingness: 0,
            neighbours: Vec::new(),
            checks: Limit::new(256, Duration::from_millis(5)),
            hellos: Limit::new(2, interval.clamp(LEAST_INTERVAL, MOST_INTERVAL) / 2),
        }
    }

    fn count(&mut self, arrived: bool) {
        let most = if self.anew > 0 { RECENT.min(self.most) } else { self.most };
        self.anew = self.anew.saturating_sub(1);
        self.window = self.window << 1 | u32::from(arrived);
        self.seen = (self.seen + 1).min(most);
        if self.window.trailing_zeros() >= MISSING {
            self.seen = self.seen.min(RECENT);
        }
    }

    /// Counts the HELLOs that should have come by now. A HELLO is sent an interval after the last
    /// one, less up to a quarter (RFC 3626, 18.3); any number of missing ones are counted at mean
    /// intervals.
    fn count_overdue(&mut self, now: Instant) {
        let limit = self.heard_until.min(now);
        let step = self.pace() * 7 / 8;
        for _ in 0..self.most {
            if self.overdue > limit {
                break;
            }
            self.count(false);
            self.overdue += step;
        }
    }

    /// Whether a HELLO that comes now follows another so soon that it says nothing more of the
    /// link: it was sent by another card of the neighbour, or was recorded and sent again.
    fn is_copy(&self, now: Instant) -> bool {
        self.arrived_at.is_some_and(|last| now.since(last) < self.interval / 8)
    }

    /// Notes the arrival of a HELLO that announces an interval.
    fn note_gap(&mut self, now: Instant, interval: Duration) {
        if let Some(last) = self.arrived_at.replace(now) {
            let gap = now.since(last).as_nanos().saturating_mul(WHOLE_GAP);
            let gap = gap / self.interval.as_nanos().max(1);
            self.gaps.rotate_right(1);
            self.gaps[0] = u8::try_from(gap).unwrap_or(u8::MAX);
        }
        self.interval = interval;
    }

    /// The interval at which missing HELLOs are counted: the announced one, unless HELLOs really
    /// come more often. If they come twice as often and half of them are lost, there is one in each
    /// announced interval, and hardly any would seem to be missing.
    fn pace(&self) -> Duration {
        let mut gaps = self.gaps;
        gaps.sort_unstable();
        let gap = u64::from(gaps[SHORT_GAPS - 1]);
        if gap >= WHOLE_GAP * 5 / 8 {
            return self.interval;
        }
        (self.interval * gap / (WHOLE_GAP * 7 / 8)).max(LEAST_INTERVAL)
    }

    /// Treats it as a link that has hardly been heard for long, so that any other route is taken. A
    /// neighbour may seem gone beside the traffic of hidden nodes although it is there: the only
    /// route over it stays until the next HELLO is really missing, and recovers with each HELLO
    /// that comes. Returns whether more was known of the link.
    fn forget(&mut self) -> bool {
        let known = self.arrived();
        (self.seen, self.anew) = (RECENT.min(self.most), RECENT);
        self.window = if known == 0 { 0 } else { 1 << (self.seen - 1) };
        known > 1
    }

    /// HELLOs in the window that arrived.
    fn arrived(&self) -> u32 {
        (self.window & (u32::MAX >> (32 - u32::from(self.seen.max(1))))).count_ones()
    }

    /// Share of its HELLOs that arrive here, of 255 (LQ).
    pub(super) fn lq(&self) -> u8 {
        let least = LEAST_SEEN.min(self.most);
        (self.arrived() * 255 / u32::from(self.seen.max(least))) as u8
    }

    /// Share of our HELLOs that arrive there, of 255 (NLQ).
    pub(super) fn nlq(&self) -> u8 {
        self.nlq
    }

    pub(super) fn is_symmetric(&self, now: Instant) -> bool {
        self.symmetric_until > now && self.cost().is_some()
    }

    /// Expected transmissions of a packet; `None` if none arrives.
    pub(super) fn cost(&self) -> Option<Cost> {
        Cost::of(self.lq(), self.nlq)
    }
}

/// All links of a node.
#[derive(Debug)]
pub(super) struct Links {
    node: NodeId,
    plan: AddressPlan,
    window: u8,
    links: BTreeMap<(NodeId, RadioId), Link>,
}

impl Links {
    pub(super) fn new(node: NodeId, plan: AddressPlan, config: &OlsrConfig) -> Self {
        let window = config.window.clamp(1, OlsrConfig::MOST_WINDOW);
        Self { node, plan, window, links: BTreeMap::new() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = ((NodeId, RadioId), &Link)> {
        self.links.iter().map(|(key, link)| (*key, link))
    }

    pub(super) fn get(&self, key: (NodeId, RadioId)) -> Option<&Link> {
        self.links.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: (NodeId, RadioId)) -> Option<&mut Link> {
        self.links.get_mut(&key)
    }

    /// The best radio to each neighbour that hears us, in the order of the neighbours.
    pub(super) fn best(&self, now: Instant) -> BTreeMap<NodeId, (Cost, RadioId)> {
        let mut best: BTreeMap<NodeId, (Cost, RadioId)> = BTreeMap::new();
        for ((node, radio), link) in self.all().filter(|(_, link)| link.is_symmetric(now)) {
            let cost = link.cost().expect("a symmetric link delivers");
            let entry = best.entry(node).or_insert((cost, radio));
            *entry = (*entry).min((cost, radio));
        }
        best
    }

    /// Takes a HELLO. Returns whether there was room for its sender.
    pub(super) fn on_hello(
        &mut self,
        now: Instant,
        key: (NodeId, RadioId),
        hello: &Hello,
        validity: Duration,
    ) -> bool {
        if !self.links.contains_key(&key) && self.links.len() >= LINKS {
            return false;
        }
        let validity = validity.min(MOST_VALIDITY);
        let own = self.plan.ipv4(self.node);
        let most = self.window;
        let link = self.links.entry(key).or_insert_with(|| Link::new(hello.interval, most));
        let interval = hello.interval.clamp(LEAST_INTERVAL, MOST_INTERVAL);
        link.hellos.set_every(interval / 2);
        if !link.is_copy(now) {
            link.count_overdue(now);
            link.count(true);
            link.note_gap(now, interval);
            link.overdue = now + link.pace() * 11 / 8;
        }
        link.heard_until = now + validity;
        link.willingness = hello.willingness;
        let about_us = hello.neighbours.iter().filter(|(_, neighbour)| neighbour.address == own);
        for (code, neighbour) in about_us {
            // What it hears over another of its radios says nothing about this link.
            if *code == LinkCode::Neighbour {
                continue;
            }
            link.nlq = neighbour.lq;
            link.symmetric_until = now + validity;
            if *code == LinkCode::Relay {
                link.selects_us_until = now + validity;
            }
        }
        let node = |neighbour: &Neighbour| self.plan.node(neighbour.address.into());
        let symmetric = hello.neighbours.iter().filter(|(code, _)| code.is_symmetric());
        link.neighbours = symmetric
            .filter_map(|(_, neighbour)| node(neighbour))
            .filter(|node| *node != self.node)
            .collect();
        link.neighbours.sort_unstable();
        link.neighbours.dedup();
        true
    }

    /// See [`Link::forget`]; false if the link is not known.
    pub(super) fn forget(&mut self, key: (NodeId, RadioId)) -> bool {
        self.links.get_mut(&key).is_some_and(Link::forget)
    }

    /// Forgets all neighbours but these.
    pub(super) fn retain(&mut self, is_kept: impl Fn(NodeId) -> bool) {
        self.links.retain(|(node, _), _| is_kept(*node));
    }

    /// Counts missing HELLOs, and forgets neighbours that have been silent for too long.
    pub(super) fn expire(&mut self, now: Instant) {
        self.links.retain(|_, link| {
            link.count_overdue(now);
            link.heard_until > now
        });
    }

    /// Contents of a HELLO over a radio: neighbours heard by this radio and by the others.
    pub(super) fn told(
        &self,
        now: Instant,
        radio: RadioId,
        relays: &[NodeId],
    ) -> Vec<(LinkCode, Neighbour)> {
        let mut told: BTreeMap<NodeId, (LinkCode, Neighbour)> = BTreeMap::new();
        for ((node, at), link) in self.all() {
            let code = match link.is_symmetric(now) {
                true if at != radio => LinkCode::Neighbour,
                true if relays.contains(&node) => LinkCode::Relay,
                true => LinkCode::Symmetric,
                false if at == radio => LinkCode::Asymmetric,
                false => continue,
            };
            let address = self.plan.ipv4(node);
            let neighbour = Neighbour { address, lq: link.lq(), nlq: link.nlq };
            // A link over this radio takes precedence over what the others hear. Whether the link
            // works in both directions, and whether the other node is a neighbour, are two
            // questions (6.1.1).
            match told.get_mut(&node) {
                None => _ = told.insert(node, (code, neighbour)),
                Some((known @ LinkCode::Asymmetric, _)) if code == LinkCode::Neighbour => {
                    *known = LinkCode::AsymmetricNeighbour;
                }
                Some(known) if known.0 == LinkCode::Neighbour => {
                    let is_one_way = code == LinkCode::Asymmetric;
                    let code = if is_one_way { LinkCode::AsymmetricNeighbour } else { code };
                    *known = (code, neighbour);
                }
                Some(_) => {}
            }
        }
        told.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hello_that_is_missing_counts() {
        let config = OlsrConfig { window: 12, ..OlsrConfig::default() };
        let interval = Duration::from_secs(2);
        let hello = Hello { interval, willingness: 3, neighbours: Vec::new() };
        let key = (NodeId(2), RadioId(0));
        let patterns: [(&[bool], u8); 4] = [
            (&[true], 255),
            (&[true, true, false], 170),
            (&[true, false], 127),
            (&[true, false, false], 85),
        ];
        for (arrives, share) in patterns {
            let mut links = Links::new(NodeId(1), AddressPlan::default(), &config);
            let mut now = Instant::ZERO;
            for number in 0..=120 {
                // Less by up to a quarter of the interval.
                let less = if number % 4 < 2 { interval / 4 } else { Duration::ZERO };
                now += interval - less;
                if arrives[number % arrives.len()] {
                    assert!(links.on_hello(now, key, &hello, interval * 6));
                }
            }
            assert_eq!(links.get(key).map(Link::lq), Some(share), "{arrives:?}");
        }
    }

    /// The mean quality of a link over which each HELLO is lost with probability `loss`, and whose
    /// neighbour sends one each `every` and announces `interval`.
    fn measured(every: Duration, interval: Duration, loss: f64) -> f64 {
        let mut links = Links::new(NodeId(1), AddressPlan::default(), &OlsrConfig::default());
        let mut rng = crate::base::Seed(1).stream("hellos");
        let hello = Hello { interval, willingness: 3, neighbours: Vec::new() };
        let key = (NodeId(2), RadioId(0));
        let mut now = Instant::ZERO;
        let mut sum = 0.0;
        let many = 2_000;
        for number in 0..many + 100 {
            now += every - Duration::from_nanos(rng.below(every.as_nanos() / 4));
            let may_count = links
                .get_mut(key)
                .is_none_or(|link| rng.chance(1.0 - loss) && link.hellos.take(now));
            if may_count {
                assert!(links.on_hello(now, key, &hello, interval * 10));
            }
            links.expire(now);
            if number >= 100 {
                sum += links.get(key).map_or(0.0, |link| f64::from(link.lq()) / 255.0);
            }
        }
        sum / f64::from(many)
    }

    #[test]
    fn hellos_that_come_more_often_than_announced_hide_no_losses() {
        let interval = Duration::from_secs(2);
        for loss in [0.0, 0.3, 0.5] {
            let honest = measured(interval, interval, loss);
            assert!((honest - (1.0 - loss)).abs() < 0.03, "{honest} as announced, loss {loss}");
            // An eighth of them exceeds the limit if none is lost.
            let twice = measured(interval / 2, interval, loss);
            let wanted = 0.85 * (1.0 - loss)..1.05 - loss;
            assert!(wanted.contains(&twice), "{twice} at twice the rate, loss {loss}");
            let often = measured(interval / 4, interval, loss);
            assert!(often < 1.05 - loss, "{often} at four times the rate, loss {loss}");
        }
    }

    #[test]
    fn a_neighbour_with_two_cards_on_this_channel_is_heard_as_with_one() {
        let interval = Duration::from_secs(2);
        let mut links = Links::new(NodeId(1), AddressPlan::default(), &OlsrConfig::default());
        let hello = Hello { interval, willingness: 3, neighbours: Vec::new() };
        let key = (NodeId(2), RadioId(0));
        let mut now = Instant::ZERO;
        for number in 0..80_u64 {
            now += interval * 7 / 8;
            for late in [Duration::ZERO, Duration::from_millis(20)] {
                if number % 4 != 0 {
                    assert!(links.on_hello(now + late, key, &hello, interval * 10));
                }
            }
            links.expire(now + Duration::from_millis(30));
        }
        let lq = links.get(key).map_or(0, Link::lq);
        assert!((180..=200).contains(&lq), "{lq}: three of four arrive");
    }

    #[test]
    fn a_few_hellos_that_waited_change_no_pace() {
        let interval = Duration::from_secs(2);
        let mut link = Link::new(interval, 32);
        let mut now = Instant::ZERO;
        for number in 0..64 {
            let late = if number % 6 == 0 { interval * 3 / 4 } else { Duration::ZERO };
            link.note_gap(now + late, interval);
            assert_eq!(link.pace(), interval);
            now += interval;
        }
    }

    #[test]
    fn what_came_long_ago_counts_only_while_some_still_come() {
        let mut link = Link::new(Duration::from_secs(2), OlsrConfig::default().window);
        let shares = |link: &mut Link, arrived: bool, times: usize| -> Vec<u8> {
            let mut share = || {
                link.count(arrived);
                link.lq()
            };
            (0..times).map(|_| share()).collect()
        };
        assert_eq!(shares(&mut link, true, 40).last(), Some(&255));
        assert_eq!(shares(&mut link, false, 5), [247, 239, 231, 223, 127], "from then on of ten");
        assert_eq!(shares(&mut link, false, 5), [102, 76, 51, 25, 0]);
        assert_eq!(
            shares(&mut link, true, 2),
            [255 / 11, 2 * 255 / 12].map(|share: u16| share as u8)
        );
    }

    #[test]
    fn a_link_without_losses_is_perfect_however_short_the_window() {
        for window in 1..=OlsrConfig::MOST_WINDOW {
            let mut link = Link::new(Duration::from_secs(2), window);
            (0..window).for_each(|_| link.count(true));
            assert_eq!(link.lq(), 255, "a window of {window}");
        }
        let mut link = Link::new(Duration::from_secs(2), 32);
        link.count(true);
        assert_eq!(link.lq(), 63, "one of one does not mean all");
    }

    #[test]
    fn one_that_was_forgotten_and_is_there_comes_back_with_ten() {
        let mut link = Link::new(Duration::from_secs(2), OlsrConfig::default().window);
        (0..40).for_each(|_| link.count(true));
        assert!(link.forget());
        let mut share = || {
            link.count(true);
            link.lq()
        };
        let shares: Vec<u8> = (0..12).map(|_| share()).collect();
        assert_eq!((shares[0], shares[4], shares[8]), (25, 127, 229));
        assert_eq!(shares[9..], [255; 3]);
    }
}
