//! What is drawn for a run.

use farhop_proto::base::{Duration, Instant, NodeId, Rng, Seed};
use farhop_proto::transport::hop::{Ahead, HopConfig, Schedule, Withhold};
use farhop_proto::wire::hop::FlowKey;

/// Number of nodes in the largest network.
pub(super) const MOST_NODES: u16 = 9;
/// Largest size of a flow's first block, in bytes.
const FIRST_BYTES: u64 = 8_191;

/// Everything that is drawn before a run starts.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of nodes, which are numbered from 1.
    pub nodes: u16,
    /// Links, each with its loss of datagrams.
    pub links: Vec<(NodeId, NodeId, f64)>,
    /// The flows.
    pub flows: Vec<FlowPlan>,
    /// Settings of all machines.
    pub config: HopConfig,
    /// The faults and their ends, with their times.
    pub faults: Vec<(Instant, Fault)>,
    /// When all faults have ended.
    pub healed: Instant,
    /// Share of datagrams that arrive twice.
    pub repeat: f64,
    /// Share of datagrams that are corrupted, by one flipped bit.
    pub corrupt: f64,
    /// Largest random delay of a datagram.
    pub spread: Duration,
    /// Longest time that a task of a disk takes.
    pub disk: Duration,
    /// For each node's clock, the error of its rate in ppm, and what it shows at the start.
    pub clocks: Vec<(f64, Duration)>,
    /// For each link, whether radios report if a message was delivered; if not, it only counts as
    /// sent.
    pub acknowledged: Vec<bool>,
    /// When nodes are told random next hops, which may form loops.
    pub sways: Vec<Instant>,
}

/// A flow of blocks.
#[derive(Clone, Debug)]
pub struct FlowPlan {
    /// Its source, and its number there.
    pub key: FlowKey,
    /// Its destination.
    pub to: NodeId,
    /// Sizes of its blocks, in bytes.
    pub lengths: Vec<usize>,
    /// When its application starts to send.
    pub begins: Instant,
}

/// A fault, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A node loses everything that is not on its disk, and stays down.
    Crash(NodeId),
    /// The node starts again.
    Restart(NodeId),
    /// The link with this index carries nothing.
    Down(usize),
    /// The link carries datagrams again.
    Up(usize),
    /// The disk of a node is full.
    Full(NodeId),
    /// The disk has room again.
    Free(NodeId),
}

impl Plan {
    /// Draws a plan.
    pub fn draw(seed: u64) -> Self {
        let mut rng = Seed(seed).stream("swarm");
        let nodes = 2 + rng.below(u64::from(MOST_NODES) - 1) as u16;
        let links = links(&mut rng, nodes);
        let count = links.len();
        let acknowledged = |rng: &mut Rng| {
            let share = [0.0, 0.5, 1.0][rng.below(3) as usize];
            (0..count).map(|_| rng.chance(share)).collect()
        };
        let config = config(&mut rng);
        let flows = flows(&mut rng, nodes, &config);
        let ends = Duration::from_secs(20 + rng.below(100));
        let faults = faults(&mut rng, nodes, links.len(), ends);
        let clock = |rng: &mut Rng| {
            (rng.uniform() * 400.0 - 200.0, Duration::from_millis(1 + rng.below(1_000_000)))
        };
        let sometimes = |rng: &mut Rng, most: f64| {
            if rng.chance(0.5) { rng.uniform() * most } else { 0.0 }
        };
        Self {
            nodes,
            links,
            flows,
            config,
            faults,
            healed: Instant::ZERO + ends,
            repeat: sometimes(&mut rng, 0.2),
            corrupt: sometimes(&mut rng, 0.02),
            spread: Duration::from_micros((sometimes(&mut rng, 60.0) * 1e3) as u64),
            disk: Duration::from_micros(100 + rng.below(100_000)),
            clocks: (0..nodes).map(|_| clock(&mut rng)).collect(),
            acknowledged: acknowledged(&mut rng),
            sways: sways(&mut rng, ends),
        }
    }
}

/// Times of random next hops: in half of all networks, every few seconds.
fn sways(rng: &mut Rng, ends: Duration) -> Vec<Instant> {
    let mut sways = Vec::new();
    if rng.chance(0.5) {
        let mean = 0.5 + rng.uniform() * 8.0;
        let mut at = 0.0;
        while at < ends.as_secs_f64() {
            sways.push(Instant::ZERO + Duration::from_secs_f64(at));
            at += 0.05 + rng.uniform() * 2.0 * mean;
        }
    }
    sways
}

/// A random tree, a row or a ring, with some additional links.
fn links(rng: &mut Rng, nodes: u16) -> Vec<(NodeId, NodeId, f64)> {
    let worst = rng.uniform() * 0.7;
    let is_row = rng.chance(0.4);
    let mut pairs = Vec::new();
    for node in 2..=nodes {
        let other = if is_row { node - 1 } else { 1 + rng.below(u64::from(node) - 1) as u16 };
        pairs.push((other, node));
    }
    if rng.chance(0.5) {
        for _ in 0..rng.below(u64::from(nodes)) {
            let a = 1 + rng.below(u64::from(nodes)) as u16;
            let b = 1 + rng.below(u64::from(nodes)) as u16;
            if a != b && !pairs.contains(&(a.min(b), a.max(b))) {
                pairs.push((a.min(b), a.max(b)));
            }
        }
    }
    let link = |(a, b)| (NodeId(a), NodeId(b), rng.uniform() * worst);
    pairs.into_iter().map(link).collect()
}

fn config(rng: &mut Rng) -> HopConfig {
    let frame_bytes = 200 + rng.below(1_200) as u16;
    let block_bytes = 8_192 + rng.below(40_000) as u32;
    let high_blocks = [1, 1, 2, 5, 100][rng.below(5) as usize];
    let withhold = [
        Withhold::Never,
        Withhold::Fifo,
        Withhold::BestLink,
        Withhold::WeightedSignal,
        Withhold::WeightedSignal,
    ];
    let is_tight = rng.chance(0.3);
    HopConfig {
        block_bytes: Some(block_bytes),
        frame_bytes,
        turn_frames: 1 + rng.below(8) as u16,
        in_flight: Some(1 + rng.below(3) as u32),
        pipeline: [None, Some(true), Some(true), Some(false)][rng.below(4) as usize],
        high_blocks,
        low_blocks: rng.below(u64::from(high_blocks)) as u32,
        withhold: withhold[rng.below(5) as usize],
        schedule: if rng.chance(0.7) { Schedule::RoundRobin } else { Schedule::ProportionalFair },
        ahead: if rng.chance(0.5) { Ahead::Gone } else { Ahead::Always },
        yields: rng.chance(0.5),
        spell_blocks: [0, 2, 16][block_bytes as usize % 3],
        interactive_gap_ms: [0.0, 5.0, 40.0][usize::from(frame_bytes) % 3],
        call_gap_ms: [0.0, 6.0][usize::from(frame_bytes / 3) % 2],
        end_to_end_s: 0.5 + rng.uniform() * 4.5,
        // Some have hardly more space than a few blocks need.
        disk_bytes: match rng.below(4) {
            0 => u64::from(block_bytes) * (8 + rng.below(20)),
            _ => 1 << 30,
        },
        memory_bytes: if is_tight { u64::from(block_bytes) * (5 + rng.below(8)) } else { 64 << 20 },
        ..HopConfig::default()
    }
}

fn flows(rng: &mut Rng, nodes: u16, config: &HopConfig) -> Vec<FlowPlan> {
    let mut flows = Vec::new();
    for local in 1..=1 + rng.below(8) as u16 {
        let from = 1 + rng.below(u64::from(nodes)) as u16;
        let hops = 1 + rng.below(u64::from(nodes) - 1) as u16;
        let to = (from - 1 + hops) % nodes + 1;
        let most = u64::from(config.bytes_of_block());
        let mut lengths = vec![1 + rng.below(FIRST_BYTES) as usize];
        for _ in 0..rng.below(10) {
            let most = if rng.chance(0.3) { FIRST_BYTES } else { most };
            lengths.push(1 + rng.below(most) as usize);
        }
        flows.push(FlowPlan {
            key: FlowKey { source: NodeId(from), local: local.into() },
            to: NodeId(to),
            lengths,
            begins: Instant::ZERO + Duration::from_millis(rng.below(20_000)),
        });
    }
    flows
}

/// Each fault ends, at the latest when the network is to heal.
fn faults(rng: &mut Rng, nodes: u16, links: usize, ends: Duration) -> Vec<(Instant, Fault)> {
    let mut faults = Vec::new();
    let span = |rng: &mut Rng| {
        let from = rng.uniform() * 0.9;
        let to = (from + rng.uniform() * 0.6).min(1.0);
        (Instant::ZERO + ends.mul_f64(from), Instant::ZERO + ends.mul_f64(to))
    };
    for node in (1..=nodes).map(NodeId) {
        let crashes = if rng.chance(0.4) { 1 + rng.below(4) } else { 0 };
        for _ in 0..crashes {
            let (from, to) = span(rng);
            // Half of them end at once.
            let to = if rng.chance(0.5) { from + Duration::from_millis(50) } else { to };
            faults.extend([(from, Fault::Crash(node)), (to, Fault::Restart(node))]);
        }
        if rng.chance(0.15) {
            let (from, to) = span(rng);
            faults.extend([(from, Fault::Full(node)), (to, Fault::Free(node))]);
        }
    }
    for link in 0..links {
        for _ in 0..if rng.chance(0.4) { 1 + rng.below(3) } else { 0 } {
            let (from, to) = span(rng);
            faults.extend([(from, Fault::Down(link)), (to, Fault::Up(link))]);
        }
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}
