//! Nodes that move (`rain.md` 6): their current places, and who hears whom from there.
//!
//! Links are updated at an interval, not continuously: at 10 m/s and 100 ms, a node is up to a
//! metre away from where it seems to be. Links between nodes that stand still come from the plan
//! and are never computed again, and a pair with a `[[link]]` keeps that link.

use std::collections::BTreeSet;

use farhop_proto::base::{Duration, Instant, Rng, Seed};
use farhop_proto::stack::{MobilityConfig, MobilityKind, NodeConfig, Plan, Scenario, Space};

use super::losses::loss_model;
use crate::radio::{AirLink, Medium, MediumConfig};

/// The nodes that move, and the links that change with them.
pub(super) struct Mobility {
    space: Space,
    /// For each site of the space, the index of its radio on the medium.
    radios: Vec<usize>,
    /// For each site, the links that never change: those of the scenario file, and those between
    /// nodes that stand still.
    constant: Vec<Vec<AirLink>>,
    /// Pairs of sites that have a link in the scenario file.
    linked: BTreeSet<[usize; 2]>,
    movers: Vec<Mover>,
    is_mover: Vec<bool>,
    refresh: Duration,
    next: Instant,
}

struct Mover {
    site: usize,
    movement: Movement,
}

/// How one node moves.
enum Movement {
    /// Along points, each with its time in seconds and its place in metres.
    Path(Vec<(f64, [f64; 3])>),
    /// From one random point to the next.
    Walk(Walk),
}

/// The random walk of `rain.md` 6: a pause, then straight to a random point.
struct Walk {
    rng: Rng,
    area_m: [f64; 2],
    pause_s: [f64; 2],
    speed_m_per_s: [f64; 2],
    from: [f64; 3],
    to: [f64; 3],
    /// When the current leg begins and ends, in seconds.
    span_s: [f64; 2],
}

impl Mobility {
    /// The nodes of a scenario that move; `None` if none does. `medium` was built from `plan`.
    pub(super) fn build(
        scenario: &Scenario,
        plan: &Plan,
        medium: &MediumConfig,
        seed: Seed,
    ) -> Option<Self> {
        plan.space.as_ref()?;
        let mut movers = Vec::new();
        for (site, node) in plan.sites.iter().enumerate() {
            let config = &scenario.node[usize::from(node.0) - 1];
            let rng = || seed.stream(&format!("node/{}/walk", node.0));
            if let Some(movement) = Movement::build(scenario, config, rng) {
                movers.push(Mover { site, movement });
            }
        }
        if movers.is_empty() {
            return None;
        }
        let mut is_mover = vec![false; plan.sites.len()];
        movers.iter().for_each(|mover| is_mover[mover.site] = true);
        let refresh = Duration::from_secs_f64(scenario.mobility.refresh_ms / 1e3);
        let mut mobility = Self {
            radios: common_radios(plan),
            constant: vec![Vec::new(); plan.sites.len()],
            linked: BTreeSet::new(),
            space: plan.space.clone()?,
            movers,
            is_mover,
            refresh,
            next: Instant::ZERO + refresh,
        };
        mobility.sort_links(2 * scenario.link.len(), &medium.links);
        Some(mobility)
    }

    /// Picks out the links that never change. The first `of_file` links are those of the scenario
    /// file.
    fn sort_links(&mut self, of_file: usize, links: &[AirLink]) {
        for (index, link) in links.iter().enumerate() {
            let site = |radio: usize| self.radios.binary_search(&radio).ok();
            let Some(from) = site(link.from) else { continue };
            let to = site(link.to);
            let is_of_file = index < of_file;
            if let Some(to) = to.filter(|_| is_of_file) {
                self.linked.insert([from, to]);
            }
            let moves = self.is_mover[from] || to.is_some_and(|to| self.is_mover[to]);
            if is_of_file || !moves {
                self.constant[from].push(link.clone());
            }
        }
    }

    /// When the links are next updated.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.next
    }

    /// Moves the nodes to their current places, and updates the links on the medium.
    pub(super) fn handle_timeout(&mut self, now: Instant, medium: &mut Medium) {
        self.next = now + self.refresh;
        let mut candidates = Vec::new();
        let mut is_near = vec![false; self.is_mover.len()];
        for mover in &mut self.movers {
            let at_m = mover.movement.place(now.as_secs_f64());
            candidates.clear();
            self.space.around(self.space.sites()[mover.site].at_m, &mut candidates);
            self.space.move_to(mover.site, at_m);
            self.space.around(at_m, &mut candidates);
            candidates.iter().for_each(|site| is_near[*site as usize] = true);
        }
        for site in (0..is_near.len()).filter(|site| is_near[*site]) {
            let links = self.links(site, &mut candidates);
            medium.set_links(now, self.radios[site], &links);
        }
    }

    /// All current links from a site.
    fn links(&self, from: usize, candidates: &mut Vec<u32>) -> Vec<AirLink> {
        let mut links = self.constant[from].clone();
        candidates.clear();
        self.space.around(self.space.sites()[from].at_m, candidates);
        for by in candidates.iter().map(|by| *by as usize) {
            let moves = self.is_mover[from] || self.is_mover[by];
            if !moves || self.linked.contains(&[from, by]) {
                continue;
            }
            if let Some(heard) = self.space.heard(from, by) {
                links.push(AirLink {
                    from: self.radios[from],
                    to: self.radios[by],
                    delay: heard.delay,
                    signal: heard.signal,
                    loss: loss_model(&self.space.loss(from, by)),
                });
            }
        }
        links
    }
}

/// The index on the medium of each site's radio, the first of its node.
fn common_radios(plan: &Plan) -> Vec<usize> {
    let mut first = 0;
    let firsts: Vec<usize> = plan
        .nodes
        .iter()
        .map(|node| {
            first += node.radios.len();
            first - node.radios.len()
        })
        .collect();
    plan.sites.iter().map(|node| firsts[usize::from(node.0) - 1]).collect()
}

impl Movement {
    fn build(scenario: &Scenario, node: &NodeConfig, rng: impl FnOnce() -> Rng) -> Option<Self> {
        let start = node.place()?;
        if !node.path_m.is_empty() {
            let axis = |point: &[f64], index: usize| point.get(index).copied().unwrap_or_default();
            let mut points: Vec<(f64, [f64; 3])> = vec![(0.0, start)];
            points.extend(
                node.path_m.iter().map(|point| (point[0], [1, 2, 3].map(|at| axis(point, at)))),
            );
            return Some(Self::Path(points));
        }
        match scenario.mobility.kind {
            MobilityKind::Static => None,
            MobilityKind::RandomWalk => {
                let area_m = scenario.area.map(|area| area.size_m)?;
                Some(Self::Walk(Walk::build(&scenario.mobility, area_m, start, rng())))
            }
        }
    }

    /// The place of the node at a time in seconds, which must not decrease.
    fn place(&mut self, second: f64) -> [f64; 3] {
        match self {
            Self::Path(points) => {
                let passed = points.partition_point(|(at, _)| *at <= second);
                let (from_s, from) = points[passed.saturating_sub(1)];
                let Some((to_s, to)) = points.get(passed) else { return from };
                between(from, *to, (second - from_s) / (to_s - from_s))
            }
            Self::Walk(walk) => walk.place(second),
        }
    }
}

fn between(from: [f64; 3], to: [f64; 3], part: f64) -> [f64; 3] {
    let part = part.clamp(0.0, 1.0);
    [0, 1, 2].map(|axis| from[axis] + (to[axis] - from[axis]) * part)
}

impl Walk {
    fn build(config: &MobilityConfig, area_m: [f64; 2], start: [f64; 3], rng: Rng) -> Self {
        let mut walk = Self {
            rng,
            area_m,
            pause_s: config.pause_s,
            speed_m_per_s: config.speed_m_per_s,
            from: start,
            to: start,
            span_s: [0.0; 2],
        };
        walk.set_out();
        walk
    }

    /// Begins the next leg where and when the last one ended.
    fn set_out(&mut self) {
        let mut draw = |[low, high]: [f64; 2]| low + (high - low) * self.rng.uniform();
        let begin = self.span_s[1] + draw(self.pause_s);
        let [x, y] = self.area_m.map(|size| draw([0.0, size]));
        let speed = draw(self.speed_m_per_s);
        (self.from, self.to) = (self.to, [x, y, self.to[2]]);
        let [dx, dy] = [0, 1].map(|axis| self.to[axis] - self.from[axis]);
        self.span_s = [begin, begin + (dx * dx + dy * dy).sqrt() / speed];
    }

    fn place(&mut self, second: f64) -> [f64; 3] {
        while second >= self.span_s[1] {
            self.set_out();
        }
        let [begin, end] = self.span_s;
        between(self.from, self.to, (second - begin) / (end - begin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_followed_steadily_and_ends_where_it_ends() {
        let points = vec![(0.0, [0.0; 3]), (2.0, [0.0; 3]), (12.0, [100.0, 50.0, 0.0])];
        let mut path = Movement::Path(points);
        assert_eq!(path.place(1.0), [0.0; 3]);
        assert_eq!(path.place(7.0), [50.0, 25.0, 0.0]);
        assert_eq!(path.place(40.0), [100.0, 50.0, 0.0]);
    }

    #[test]
    fn a_random_walk_keeps_to_its_area_and_its_speed() {
        let config = MobilityConfig { kind: MobilityKind::RandomWalk, ..Default::default() };
        let rng = Seed(1).stream("walk");
        let mut walk = Walk::build(&config, [1000.0, 500.0], [3.0, 4.0, 2.0], rng);
        let mut last = walk.place(0.0);
        assert_eq!(last, [3.0, 4.0, 2.0], "it pauses first");
        let mut moved = 0.0;
        for tenth in 1..6000 {
            let here = walk.place(f64::from(tenth) / 10.0);
            assert!((0.0..=1000.0).contains(&here[0]) && (0.0..=500.0).contains(&here[1]));
            let step = (here[0] - last[0]).hypot(here[1] - last[1]);
            assert!(step <= 1.0 + 1e-9, "{step} m in 100 ms");
            moved += step;
            last = here;
        }
        // The speed is uniform in 1 to 10 m/s for each leg of about 400 m, so slow legs last
        // longest.
        assert!((1500.0..5000.0).contains(&moved), "{moved} m in 600 s");
    }
}
