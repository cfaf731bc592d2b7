//! The testbed: 20 nodes on one floor (`hop.md` 11). The original positions are lost, so this is
//! another testbed with the same printed facts. `testbed.toml` was written once by the generator in
//! the tests below, which also check the facts.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use farhop_proto::stack::{LossConfig, NodeConfig, RadioLinkConfig, Scenario};
use serde::Deserialize;

use super::network::CALIBRATED;

const TEXT: &str = include_str!("testbed.toml");

/// The contents of the testbed file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Testbed {
    /// Transmit power and thresholds of all radios, in dBm.
    pub(super) tx_power_dbm: f64,
    pub(super) receive_dbm: f64,
    pub(super) sense_dbm: f64,
    pub(super) node: Vec<NodeConfig>,
    pub(super) link: Vec<RadioLinkConfig>,
}

pub(super) static TESTBED: LazyLock<Testbed> =
    LazyLock::new(|| toml::from_str(TEXT).expect("a test reads it"));

/// For a node and a destination, by their numbers from 1: the number of hops and the first hop.
static ROUTES: LazyLock<BTreeMap<(u16, u16), (u8, u16)>> = LazyLock::new(|| {
    let plan = TESTBED.scenario().plan();
    let routes = plan.nodes.iter().flat_map(|node| {
        let from = node.node.0;
        node.next_hops.iter().map(move |(to, hop)| ((from, to.0), (hop.hops, hop.via.0)))
    });
    routes.collect()
});

impl Testbed {
    /// The testbed without traffic.
    pub(super) fn scenario(&self) -> Scenario {
        let mut radio = CALIBRATED.radio.clone();
        radio.tx_power_dbm = Some(self.tx_power_dbm);
        (radio.receive_dbm, radio.sense_dbm) = (Some(self.receive_dbm), Some(self.sense_dbm));
        let link = self.link.clone();
        let text = "name = \"testbed\"\npropagation.kind = \"links\"\n\
                    interference = { kind = \"sinr\", curve = \"logistic\" }\n";
        let scenario: Scenario = toml::from_str(text).expect("a good scenario");
        Scenario { radio, node: self.node.clone(), link, ..scenario }
    }
}

/// The name of the node with this number, from 1.
pub(super) fn name(node: u16) -> String {
    format!("t{node}")
}

/// Number of hops between two nodes, by their numbers; 0 without a route.
pub(super) fn hops(from: u16, to: u16) -> u8 {
    ROUTES.get(&(from, to)).map_or(0, |(hops, _)| *hops)
}

/// The nodes on the route between two nodes, including both.
pub(super) fn path(from: u16, to: u16) -> Vec<u16> {
    let mut path = vec![from];
    while let Some(last) = path.last().filter(|last| **last != to) {
        path.push(ROUTES[&(*last, to)].1);
    }
    path
}

/// Number of nodes.
pub(super) const NODES: u16 = 20;
/// Two corners, five hops apart.
pub(super) const CORNERS: [u16; 2] = [1, 20];

/// The ordered pairs of nodes that are `least` to `most` hops apart.
pub(super) fn pairs(least: u8, most: u8) -> Vec<[u16; 2]> {
    let all = (1..=NODES).flat_map(|from| (1..=NODES).map(move |to| [from, to]));
    all.filter(|[from, to]| from != to && (least..=most).contains(&hops(*from, *to))).collect()
}

/// The access point, which has seven neighbours, five pairs of which do not sense each other; and
/// its neighbours.
pub(super) fn access_point() -> (u16, Vec<u16>) {
    let is_one = |node: &u16| {
        let near = near(*node);
        near.len() == 7 && hidden_pairs(&near) == 5
    };
    let found = (1..=NODES).find(is_one).expect("a test has looked");
    (found, near(found))
}

fn near(node: u16) -> Vec<u16> {
    (1..=NODES).filter(|other| hops(node, *other) == 1).collect()
}

/// The number of pairs among these nodes of which neither senses the other.
fn hidden_pairs(nodes: &[u16]) -> usize {
    let signals: BTreeMap<[&str; 2], f64> = TESTBED
        .link
        .iter()
        .map(|link| (link.between.each_ref().map(String::as_str), link.signal_dbm.unwrap_or(0.0)))
        .collect();
    let hears = |a: u16, b: u16| {
        let (a, b) = (name(a), name(b));
        let signal = signals.get(&[&*a, &*b]).or_else(|| signals.get(&[&*b, &*a]));
        signal.is_some_and(|signal| *signal >= TESTBED.sense_dbm)
    };
    let pairs = nodes.iter().flat_map(|a| nodes.iter().map(move |b| (*a, *b)));
    pairs.filter(|(a, b)| a < b && !hears(*a, *b)).count()
}

/// Units of a data frame of 1,500 bytes: loss grows with the length of a frame (`radio.md` 5.5).
const UNITS: i32 = 6;

/// Share of frames of 1,500 bytes that arrive over one direction of a link if nobody else sends.
fn delivery(loss: Option<&LossConfig>) -> f64 {
    match loss {
        Some(LossConfig::BernoulliUnits { p, .. }) => (1.0 - p).powi(UNITS),
        _ => 1.0,
    }
}

/// The two nodes of each link, with the share of frames that arrive from the first to the second,
/// in rising order of that share.
pub(super) fn links() -> Vec<([u16; 2], f64)> {
    let number = |name: &str| -> u16 { name[1..].parse().expect("t and a number") };
    let usable = TESTBED.link.iter().filter(|link| link.signal_dbm >= Some(TESTBED.receive_dbm));
    let mut links: Vec<([u16; 2], f64)> = usable
        .map(|link| {
            let ends = link.between.each_ref().map(|name| number(name));
            (ends, delivery(link.loss.as_ref()))
        })
        .collect();
    links.sort_by(|a, b| a.1.total_cmp(&b.1));
    links
}

#[cfg(test)]
mod tests {
    use farhop_proto::base::{Rng, Seed};
    use farhop_proto::stack::gaussian;

    use super::*;

    /// The floor, in metres.
    const FLOOR_M: [f64; 2] = [60.0, 30.0];
    /// Log-distance path loss with walls (`radio.md` 4.2). Without walls all nodes would reach each
    /// other, so the loss of inner walls is set to match the printed number of neighbours.
    const EXPONENT: f64 = 3.5;
    const REFERENCE_DB: f64 = 40.0;
    const SHADOWING_DB: f64 = 6.0;
    const WALLS_DB: f64 = 17.0;
    const POWER_DBM: f64 = 15.0;
    /// Weaker signals are left out.
    const FLOOR_DBM: f64 = -100.0;
    /// The first seed, from 1 on, with which the facts hold.
    const SEED: u64 = 40;

    /// Two nodes, and the signal between them in dBm.
    type Signal = (u16, u16, f64);

    /// The places of all nodes, the first and the last in two corners and the rest at random; and
    /// the signals between them.
    fn generate(seed: u64) -> (Vec<[f64; 2]>, Vec<Signal>) {
        let mut rng = Seed(seed).stream("testbed");
        let mut places = vec![[1.0, 1.0]];
        for _ in 0..NODES - 2 {
            let place = FLOOR_M.map(|side| (rng.uniform() * side * 10.0).round() / 10.0);
            places.push(place);
        }
        places.push(FLOOR_M.map(|side| side - 1.0));
        let mut links = Vec::new();
        for a in 0..places.len() {
            for b in a + 1..places.len() {
                let [dx, dy] = [0, 1].map(|axis| places[a][axis] - places[b][axis]);
                let far = dx.hypot(dy).max(1.0);
                let loss = REFERENCE_DB + WALLS_DB + 10.0 * EXPONENT * far.log10();
                let signal = POWER_DBM - loss + SHADOWING_DB * gaussian(&mut rng);
                let signal = (signal * 10.0).round() / 10.0;
                if signal >= FLOOR_DBM {
                    links.push((a as u16 + 1, b as u16 + 1, signal));
                }
            }
        }
        (places, links)
    }

    /// Hops between all nodes over links that can be received.
    fn distances(links: &[Signal]) -> Vec<Vec<u8>> {
        let mut far = vec![vec![u8::MAX; usize::from(NODES)]; usize::from(NODES)];
        for (node, row) in far.iter_mut().enumerate() {
            row[node] = 0;
        }
        for (a, b, signal) in links {
            if *signal >= RECEIVE_DBM {
                let (a, b) = (usize::from(*a) - 1, usize::from(*b) - 1);
                (far[a][b], far[b][a]) = (1, 1);
            }
        }
        for k in 0..far.len() {
            for a in 0..far.len() {
                for b in 0..far.len() {
                    far[a][b] = far[a][b].min(far[a][k].saturating_add(far[k][b]));
                }
            }
        }
        far
    }

    /// Weaker links lose over 40% of the frames at 11 Mb/s: more than noise alone would cause, due
    /// to multipath in an office. The loss of the other links is drawn independently of their
    /// signal.
    const RECEIVE_DBM: f64 = -80.0;
    /// Cards sense signals that they cannot decode at 11 Mb/s.
    const SENSE_DBM: f64 = -90.0;

    /// Whether the printed facts hold (`hop.md` 11).
    fn holds(links: &[Signal]) -> bool {
        let far = distances(links);
        let most = far.iter().flatten().copied().max().unwrap_or_default();
        let usable = links.iter().filter(|link| link.2 >= RECEIVE_DBM).count();
        let degree = 2.0 * usable as f64 / f64::from(NODES);
        let sensed = |a: usize, b: usize| {
            let is = |link: &&Signal| {
                let ends = [usize::from(link.0) - 1, usize::from(link.1) - 1];
                ends == [a.min(b), a.max(b)] && link.2 >= SENSE_DBM
            };
            links.iter().find(is).is_some()
        };
        let is_point = |node: usize| {
            let near: Vec<usize> = (0..far.len()).filter(|one| far[node][*one] == 1).collect();
            let hidden = near.iter().enumerate().flat_map(|(at, a)| {
                near[at + 1..].iter().filter(|b| !sensed(*a, **b)).collect::<Vec<_>>()
            });
            near.len() == 7 && hidden.count() == 5
        };
        (5..=6).contains(&most)
            && (4.5..=5.5).contains(&degree)
            && far[0][far.len() - 1] == 5
            && (0..far.len()).any(is_point)
    }

    fn text(seed: u64) -> String {
        let (places, links) = generate(seed);
        let mut text = format!(
            "# The testbed: 20 nodes in an office of 60 m by 30 m. Written by the generator in \
             testbed.rs; do not edit.\n\n\
             tx_power_dbm = {POWER_DBM:.1}\nreceive_dbm = {RECEIVE_DBM:.1}\n\
             sense_dbm = {SENSE_DBM:.1}\n\n"
        );
        for (index, [x, y]) in places.iter().enumerate() {
            let name = name(index as u16 + 1);
            text += &format!("[[node]]\nname = \"{name}\"\nposition_m = [{x:.1}, {y:.1}]\n\n");
        }
        // Each direction is drawn separately (`radio.md` 4.2). Here loss does not follow from the
        // signal, which is the same in both directions.
        let [mut there, mut back] = ["delivery", "delivery back"].map(|it| Seed(seed).stream(it));
        for (a, b, signal) in &links {
            let loss = |rng: &mut Rng| {
                let p = 1.0 - (0.6 + 0.38 * rng.uniform()).powf(1.0 / f64::from(UNITS));
                format!("{{ kind = \"bernoulli-units\", p = {p:.4}, unit_bytes = 250 }}")
            };
            let ([a, b], there, back) = ([name(*a), name(*b)], loss(&mut there), loss(&mut back));
            text += &format!(
                "[[link]]\nbetween = [\"{a}\", \"{b}\"]\nsignal_dbm = {signal:.1}\n\
                 loss = {there}\nloss_back = {back}\n\n"
            );
        }
        text.trim_end().to_owned() + "\n"
    }

    #[test]
    fn the_file_is_what_the_generator_writes_with_the_first_seed_that_has_the_facts() {
        if let Some(file) = std::env::var_os("FARHOP_WRITE_TESTBED") {
            let seed = (1..1_000_000).find(|seed| holds(&generate(*seed).1)).expect("a seed");
            println!("seed {seed}");
            std::fs::write(file, text(seed)).expect("it can be written");
            return;
        }
        assert_eq!(text(SEED), TEXT);
        assert!((1..SEED).all(|seed| !holds(&generate(seed).1)));
    }

    #[test]
    fn the_printed_facts_hold() {
        let all = pairs(1, u8::MAX);
        assert_eq!(all.len(), 20 * 19, "connected");
        let diameter = all.iter().map(|[a, b]| hops(*a, *b)).max();
        assert!((Some(5)..=Some(6)).contains(&diameter), "{diameter:?}");
        let degree = links().len() as f64 * 2.0 / 20.0;
        assert!((4.5..=5.5).contains(&degree), "{degree}");
        assert_eq!(hops(CORNERS[0], CORNERS[1]), 5);
        let (point, near) = access_point();
        assert_eq!((near.len(), hidden_pairs(&near)), (7, 5), "around {point}");
        for link in &TESTBED.link {
            for delivery in [&link.loss, &link.loss_back].map(|loss| delivery(loss.as_ref())) {
                assert!((0.599..=0.981).contains(&delivery), "{link:?} delivers {delivery}");
            }
        }
    }

    #[test]
    fn a_route_is_as_long_as_it_says() {
        for [from, to] in pairs(1, u8::MAX) {
            assert_eq!(path(from, to).len(), usize::from(hops(from, to)) + 1);
        }
    }
}
