//! A block machine with its disk and its applications, as a daemon has them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use farhop_proto::base::{AddressPlan, Duration, Instant, NodeId, Seed};
use farhop_proto::transport::hop::{Arrived, Delivery, Hop, HopConfig, Keep, Whole, frames_of};
use farhop_proto::wire::hop::{BlockId, FlowKey};

use super::plan::{FlowPlan, MOST_NODES};

/// What survives a crash of the node.
#[derive(Debug, Default)]
pub(super) struct Disk {
    blocks: BTreeMap<BlockId, Whole>,
    /// For each flow that ends here: the checksum of its first block, and the number of the next
    /// one.
    pub(super) incoming: BTreeMap<FlowKey, (u32, u32)>,
    /// For each flow that begins here: how many of its first blocks have arrived.
    arrived: BTreeMap<FlowKey, u32>,
    pub(super) is_full: bool,
}

/// A task of the disk.
#[derive(Debug)]
enum Task {
    Keep(Whole),
    Drop(BlockId),
    Get(BlockId),
    Deliver(Delivery),
    Note(FlowKey, u32),
}

/// A flow that begins here.
#[derive(Debug)]
struct Trip {
    plan: FlowPlan,
    next: u32,
    arrived: u32,
    /// Blocks that arrived before earlier ones.
    early: BTreeSet<u32>,
}

pub(super) struct Node {
    pub(super) hop: Hop,
    pub(super) id: NodeId,
    pub(super) is_up: bool,
    /// How often it has crashed.
    pub(super) life: u32,
    pub(super) disk: Disk,
    config: HopConfig,
    plans: Vec<FlowPlan>,
    trips: BTreeMap<FlowKey, Trip>,
    tasks: VecDeque<Task>,
    /// Whether the disk is busy.
    pub(super) is_writing: bool,
    /// The clock: its rate, as a factor, and what it showed at the start.
    rate: f64,
    shift: Duration,
}

impl Node {
    pub(super) fn build(
        id: NodeId,
        config: &HopConfig,
        plans: Vec<FlowPlan>,
        (gain_ppm, shift): (f64, Duration),
    ) -> Self {
        let mut node = Self {
            hop: machine(id, config, 0),
            id,
            is_up: true,
            life: 0,
            disk: Disk::default(),
            config: config.clone(),
            plans,
            trips: BTreeMap::new(),
            tasks: VecDeque::new(),
            is_writing: false,
            rate: 1.0 + gain_ppm * 1e-6,
            shift,
        };
        node.begin(Instant::ZERO);
        node
    }

    /// The time on the node's clock, given true time.
    pub(super) fn local(&self, now: Instant) -> Instant {
        let passed = Duration::from_nanos((now.as_nanos() as f64 * self.rate) as u64);
        Instant::ZERO + self.shift + passed
    }

    /// The true time at which the node's clock has reached a time.
    pub(super) fn global(&self, local: Instant) -> Instant {
        let passed = local.since(Instant::ZERO).saturating_sub(self.shift);
        let nanos = (passed.as_nanos() as f64 / self.rate).ceil() as u64;
        // Rounded up, so that the clock has surely reached it.
        Instant::from_nanos(nanos + 1_000)
    }

    /// Crashes: everything that is not on the disk is lost.
    pub(super) fn crash(&mut self) {
        self.is_up = false;
        self.is_writing = false;
        self.life += 1;
        self.tasks.clear();
    }

    /// Starts, with what is on the disk.
    pub(super) fn begin(&mut self, now: Instant) {
        let local = self.local(now);
        self.is_up = true;
        self.hop = machine(self.id, &self.config, self.life);
        for (flow, (opened, next)) in &self.disk.incoming {
            self.hop.restore_arrivals(local, *flow, (*opened, *next), false);
        }
        self.hop.keep_blocks();
        for whole in self.disk.blocks.values() {
            self.hop.restore(local, whole.clone());
        }
        self.trips.clear();
        for plan in &self.plans {
            let arrived = self.disk.arrived.get(&plan.key).copied().unwrap_or(0);
            let (next, early) = (arrived, BTreeSet::new());
            self.trips.insert(plan.key, Trip { plan: plan.clone(), next, arrived, early });
        }
    }

    /// Moves blocks between the machine, the disk and the applications. Returns the blocks whose
    /// arrival was reported to their source here.
    pub(super) fn turn(&mut self, now: Instant) -> Vec<Arrived> {
        let local = self.local(now);
        let mut told = Vec::new();
        while let Some(arrived) = self.hop.poll_arrived() {
            self.on_arrived(arrived);
            told.push(arrived);
        }
        while let Some(delivery) = self.hop.poll_delivery() {
            self.tasks.push_back(Task::Deliver(delivery));
        }
        while let Some(keep) = self.hop.poll_keep() {
            self.tasks.push_back(match keep {
                Keep::Put(whole) => Task::Keep(whole),
                Keep::Drop(id) => Task::Drop(id),
                Keep::Get(id) => Task::Get(id),
            });
        }
        for trip in self.trips.values_mut() {
            let flow = trip.plan.key;
            let count = trip.plan.lengths.len() as u32;
            while let Some(length) = trip.plan.lengths.get(trip.next as usize).copied()
                && now >= trip.plan.begins
                && self.hop.has_room(local, flow, length)
            {
                let id = BlockId { flow, number: trip.next };
                let text = text(id, length);
                let frames = frames_of(&text, usize::from(self.config.frame_bytes));
                trip.next += 1;
                self.hop.push(local, id, trip.plan.to, trip.next == count, frames);
            }
        }
        told
    }

    fn on_arrived(&mut self, arrived: Arrived) {
        let flow = arrived.id.flow;
        let Some(trip) = self.trips.get_mut(&flow) else { return };
        trip.early.insert(arrived.id.number);
        while trip.early.remove(&trip.arrived) {
            trip.arrived += 1;
        }
        self.tasks.push_back(Task::Note(flow, trip.arrived));
    }

    /// Whether the disk has a task.
    pub(super) fn has_task(&self) -> bool {
        !self.tasks.is_empty()
    }

    /// Completes the first task of the disk. Returns the block that this has delivered to an
    /// application.
    ///
    /// Fails if that is not the next block of its flow, or was changed.
    pub(super) fn on_disk_done(
        &mut self,
        now: Instant,
        lengths: &BTreeMap<FlowKey, Vec<usize>>,
    ) -> Result<Option<BlockId>, String> {
        let local = self.local(now);
        match self.tasks.pop_front().expect("the disk was at work") {
            Task::Keep(whole) if self.disk.is_full => self.hop.handle_not_kept(local, whole.id),
            Task::Keep(whole) => {
                let id = whole.id;
                self.disk.blocks.insert(id, whole);
                self.hop.handle_kept(id);
            }
            Task::Drop(id) => _ = self.disk.blocks.remove(&id),
            Task::Get(id) => {
                let whole = self.disk.blocks.get(&id).cloned();
                self.hop.handle_got(local, id, whole);
            }
            Task::Note(flow, arrived) => _ = self.disk.arrived.insert(flow, arrived),
            // The disk will have room again: the delivery is tried again.
            Task::Deliver(delivery) if self.disk.is_full => {
                self.tasks.push_front(Task::Deliver(delivery));
            }
            Task::Deliver(Delivery { id, shape, frames }) => {
                let next = self.disk.incoming.get(&id.flow).map_or(0, |(_, next)| *next);
                if id.number != next {
                    return Err(format!("{id:?} was delivered in the place of {next}"));
                }
                if frames.concat() != text(id, lengths[&id.flow][id.number as usize]) {
                    return Err(format!("{id:?} was changed on its way"));
                }
                let opened = self.disk.incoming.get(&id.flow).map_or(shape.crc, |(crc, _)| *crc);
                self.disk.incoming.insert(id.flow, (opened, next + 1));
                self.hop.accept(local, id);
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// Whether the applications of all flows that begin here know that everything has arrived.
    pub(super) fn is_done(&self) -> bool {
        self.trips.values().all(|trip| trip.arrived as usize == trip.plan.lengths.len())
    }

    /// The state of the node, to find the cause of a failure.
    pub(super) fn describe(&self) -> String {
        let waiting: Vec<_> =
            self.hop.waiting(Instant::ZERO).map(|(id, shape)| (id, shape.destination)).collect();
        let trips: Vec<_> =
            self.trips.values().map(|t| (t.plan.key.local, t.plan.to, t.next, t.arrived)).collect();
        let counters: Vec<_> =
            self.hop.counters().into_iter().filter(|(_, count)| *count > 0).collect();
        format!(
            "node {}: trips (flow, to, next, arrived) {trips:?}; waiting {waiting:?}; {counters:?}",
            self.id.0
        )
    }
}

fn machine(id: NodeId, config: &HopConfig, life: u32) -> Hop {
    let seed = Seed(u64::from(id.0) << 32 | u64::from(life));
    let mut hop = Hop::build(config.clone(), id, AddressPlan::default(), None, seed.stream("hop"));
    // Some neighbours of a node share an air, others do not.
    hop.set_airs((1..=MOST_NODES).map(|node| (NodeId(node), usize::from(node / 2 % 2))).collect());
    hop
}

/// The content of a block, different for each block.
fn text(id: BlockId, length: usize) -> Bytes {
    let seed = u64::from(id.number) << 24 | u64::from(id.flow.local) << 8;
    let seed = (seed | u64::from(id.flow.source.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..length).map(|at| (seed >> (at % 53)) as u8 ^ (at >> 3) as u8).collect()
}
