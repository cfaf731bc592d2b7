//! Expands a scenario: its layouts, the names of layout ends, and its random flows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::f64::consts::PI;

use super::read_positions;
use crate::base::{NodeId, Rng, Seed};
use crate::stack::plan::{Search, Topology};
use crate::stack::scenario::{
    FlowConfig, Generator, LayoutConfig, NodeConfig, Position, RandomEnds, RandomLayout, Scenario,
};

/// Attempts to draw suitable ends for one flow.
const TRIES: u32 = 1_000;

/// A source of random numbers between 0 and 1.
#[derive(Clone, Debug)]
enum Draws {
    Pcg(Rng),
    Lcg(u64),
}

impl Draws {
    fn build(layout: &RandomLayout) -> Self {
        match layout.generator {
            Generator::Pcg => {
                Self::Pcg(Seed(layout.seed).stream(&format!("layout/{}", layout.name)))
            }
            Generator::Lcg => {
                let mut draws = Self::Lcg(layout.seed);
                for _ in 0..8 {
                    draws.uniform();
                }
                draws
            }
        }
    }

    fn uniform(&mut self) -> f64 {
        match self {
            Self::Pcg(rng) => rng.uniform(),
            Self::Lcg(state) => {
                let product = state.wrapping_mul(6_364_136_223_846_793_005);
                *state = product.wrapping_add(1_442_695_040_888_963_407);
                (*state >> 11) as f64 / 9_007_199_254_740_992.0
            }
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.uniform() * bound as f64) as usize
    }
}

/// The range of a layout's nodes in the list of all nodes.
#[derive(Clone, Debug)]
struct Span {
    first: usize,
    count: usize,
    /// The generator that random flows continue where the positions ended.
    draws: Option<Draws>,
}

impl Scenario {
    /// This scenario with nothing in it that stands for something else: layouts are replaced by
    /// nodes, `NAME.first` and `NAME.last` by their names, and random flows by flows with ends.
    pub fn expanded(&self) -> Cow<'_, Self> {
        let is_short = |name: &String| name.contains('.');
        let links = self.link.iter().flat_map(|link| &link.between);
        let mut names = links
            .chain(self.flow.iter().flat_map(|flow| [&flow.from, &flow.to]))
            .chain(self.flow.iter().filter_map(|flow| flow.relay.as_ref()).flat_map(|one| &one.at))
            .chain(self.fault.iter().filter_map(|fault| fault.node.as_ref()))
            .chain(self.fault.iter().filter_map(|fault| fault.link.as_ref()).flatten());
        let is_plain = self.layout.is_empty() && !names.any(is_short);
        if is_plain && self.flow.iter().all(|flow| flow.random.is_none()) {
            return Cow::Borrowed(self);
        }
        let (mut scenario, spans) = self.with_nodes();
        if scenario.flow.iter().any(|flow| flow.random.is_some()) {
            scenario.flow = Ends::build(&scenario, spans, &Topology::build(&scenario)).all();
        }
        Cow::Owned(scenario)
    }

    /// For each flow of the file, the number of flows that it expands to in this topology.
    pub(in crate::stack) fn drawn(&self, topology: &Topology) -> Vec<usize> {
        let (scenario, spans) = self.with_nodes();
        let mut ends = Ends::build(&scenario, spans, topology);
        let flows = scenario.flow.iter().enumerate();
        flows.map(|(index, flow)| ends.flows(index, flow).len()).collect()
    }

    /// This scenario with its layouts replaced by nodes. Random flows remain.
    pub(in crate::stack) fn with_placed_nodes(&self) -> Self {
        self.with_nodes().0
    }

    fn with_nodes(&self) -> (Self, BTreeMap<String, Span>) {
        let mut scenario = self.clone();
        // What was left open follows from the layouts, which are gone afterwards.
        scenario.propagation.kind = Some(self.propagation_kind());
        let mut spans = BTreeMap::new();
        for layout in std::mem::take(&mut scenario.layout) {
            let first = scenario.node.len();
            let (places, draws) = self.places(&layout);
            scenario.node.extend(places.into_iter().map(|(name, at_m)| NodeConfig {
                name,
                position_m: Some(Position(at_m)),
                ..NodeConfig::default()
            }));
            let count = scenario.node.len() - first;
            spans.insert(layout.name().to_owned(), Span { first, count, draws });
        }
        let full = |name: &String| -> Option<String> {
            let (layout, end) = name.rsplit_once('.')?;
            let span = spans.get(layout).filter(|span| span.count > 0)?;
            let index = match end {
                "first" => span.first,
                "last" => span.first + span.count - 1,
                _ => return None,
            };
            Some(scenario.node[index].name.clone())
        };
        let links = scenario.link.iter_mut().flat_map(|link| &mut link.between);
        let flows = scenario.flow.iter_mut().flat_map(|flow| {
            let relays = flow.relay.iter_mut().flat_map(|relay| &mut relay.at);
            [&mut flow.from, &mut flow.to].into_iter().chain(relays)
        });
        let faults = scenario
            .fault
            .iter_mut()
            .flat_map(|fault| fault.node.iter_mut().chain(fault.link.iter_mut().flatten()));
        for name in links.chain(flows).chain(faults) {
            if let Some(full) = full(name) {
                *name = full;
            }
        }
        (scenario, spans)
    }

    /// Names and positions of the nodes of a layout, and its generator if random flows continue it.
    fn places(&self, layout: &LayoutConfig) -> (Vec<(String, [f64; 3])>, Option<Draws>) {
        let mut draws = None;
        let from = |origin: Position, [x, y]: [f64; 2]| {
            let Position([ox, oy, oz]) = origin;
            [ox + x, oy + y, oz]
        };
        let places = match layout {
            LayoutConfig::Chain(chain) => (0..chain.count)
                .map(|index| {
                    let at_m = from(chain.origin_m, [index as f64 * chain.spacing_m, 0.0]);
                    (format!("{}{}", chain.name, index + 1), at_m)
                })
                .collect(),
            LayoutConfig::Grid(grid) => (0..grid.rows * grid.columns)
                .map(|index| {
                    let (row, column) = (index / grid.columns, index % grid.columns);
                    let place = [column, row].map(|steps| steps as f64 * grid.spacing_m);
                    let name = format!("{}{}-{}", grid.name, row + 1, column + 1);
                    (name, from(grid.origin_m, place))
                })
                .collect(),
            LayoutConfig::Circle(circle) => (0..circle.count)
                .map(|index| {
                    let angle = 2.0 * PI * index as f64 / circle.count as f64;
                    let place = [libm::cos(angle), libm::sin(angle)].map(|p| p * circle.radius_m);
                    (format!("{}{}", circle.name, index + 1), from(circle.origin_m, place))
                })
                .collect(),
            LayoutConfig::Random(random) => {
                let own = draws.insert(Draws::build(random));
                let area = random.area_m.or(self.area.map(|area| area.size_m)).unwrap_or_default();
                (0..random.count)
                    .map(|index| {
                        let place = area.map(|size| own.uniform() * size);
                        (format!("{}{}", random.name, index + 1), from(random.origin_m, place))
                    })
                    .collect()
            }
            LayoutConfig::File(file) => {
                let text = file.text.as_deref().unwrap_or_default();
                read_positions(text).unwrap_or_default()
            }
        };
        (places, draws.filter(|draws| matches!(draws, Draws::Lcg(_))))
    }
}

/// Draws the ends of random flows.
struct Ends<'a> {
    scenario: &'a Scenario,
    spans: BTreeMap<String, Span>,
    topology: &'a Topology,
    search: Search,
}

impl<'a> Ends<'a> {
    fn build(
        scenario: &'a Scenario,
        spans: BTreeMap<String, Span>,
        topology: &'a Topology,
    ) -> Self {
        Self { scenario, spans, topology, search: Search::default() }
    }

    /// All flows of the file, expanded.
    fn all(&mut self) -> Vec<FlowConfig> {
        let scenario = self.scenario;
        let flows = scenario.flow.iter().enumerate();
        flows.flat_map(|(index, flow)| self.flows(index, flow)).collect()
    }

    /// The flows that a flow of the file expands to.
    fn flows(&mut self, index: usize, flow: &FlowConfig) -> Vec<FlowConfig> {
        let Some(random) = &flow.random else { return vec![flow.clone()] };
        let all = Span { first: 0, count: self.scenario.node.len(), draws: None };
        let layout = match &random.among {
            Some(name) => Some(name.clone()),
            None if self.spans.len() == 1 => self.spans.keys().next().cloned(),
            None => None,
        };
        let span = match &random.among {
            Some(name) => self.spans.get(name).cloned().unwrap_or(all),
            None => all,
        };
        let kept = layout.as_ref().and_then(|name| self.spans.get(name)?.draws.clone());
        let seed = Seed(random.seed);
        let own = || Draws::Pcg(seed.stream(&format!("flow/{index}/ends")));
        let mut draws = kept.unwrap_or_else(own);
        let mut starts = seed.stream(&format!("flow/{index}/start"));
        let mut flows = Vec::new();
        for number in 1..=random.count {
            let Some([from, to]) = self.ends(&span, flow, random, &mut draws) else { break };
            let name = |node: usize| self.scenario.node[node].name.clone();
            let mut one = FlowConfig { random: None, ..flow.clone() };
            (one.from, one.to) = (name(from), name(to));
            // To the millisecond, because people read it.
            one.start_s += (random.start_within_s * starts.uniform() * 1e3).floor() / 1e3;
            if !one.name.is_empty() {
                one.name = format!("{}{number}", one.name);
            }
            flows.push(one);
        }
        // The next random flows continue here.
        let span = layout.and_then(|name| self.spans.get_mut(&name));
        if let Some(kept) = span.and_then(|span| span.draws.as_mut()) {
            *kept = draws;
        }
        flows
    }

    /// Two different nodes that can be the ends of a flow; `None` if none were found.
    fn ends(
        &mut self,
        span: &Span,
        flow: &FlowConfig,
        random: &RandomEnds,
        draws: &mut Draws,
    ) -> Option<[usize; 2]> {
        let inside = span.first..span.first + span.count;
        if inside.is_empty() {
            return None;
        }
        let relays = flow.relay.iter().flat_map(|relay| &relay.at);
        let relays: Vec<NodeId> = relays.filter_map(|name| self.scenario.node_id(name)).collect();
        let most = flow.most_hops().unwrap_or(u8::MAX);
        for _ in 0..TRIES {
            let from = span.first + draws.below(span.count);
            let to = match random.hops {
                Some(hops) => {
                    let mut near = self.topology.within(number(from), hops.min(most));
                    near.retain(|id| inside.contains(&place(*id)));
                    if near.is_empty() {
                        continue;
                    }
                    place(near[draws.below(near.len())])
                }
                None => span.first + draws.below(span.count),
            };
            let is_relay = [from, to].iter().any(|end| relays.contains(&number(*end)));
            if from != to && !is_relay && (random.hops.is_some() || self.are_joined(flow, from, to))
            {
                return Some([from, to]);
            }
        }
        None
    }

    /// Whether the hop limit of a flow allows the path from one node to another.
    fn are_joined(&mut self, flow: &FlowConfig, from: usize, to: usize) -> bool {
        if self.scenario.may_join_later() {
            return true;
        }
        let hops = self.topology.hops(&mut self.search, number(from), number(to));
        hops.is_some_and(|hops| flow.most_hops().is_none_or(|most| hops <= most.into()))
    }
}

/// The id of a node, by its index in the list of all nodes.
fn number(place: usize) -> NodeId {
    NodeId(place as u16 + 1)
}

/// The index of a node in the list of all nodes.
fn place(node: NodeId) -> usize {
    usize::from(node.0) - 1
}
