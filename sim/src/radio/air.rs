//! The air: who hears whom, what is on its way, and the future events of all radios.
//!
//! A transmission reaches each hearer as two edges, its start and its end, after the delay of the
//! link. The edges of one link keep their order, so that only the first of them needs a place in
//! the event queue. Transmissions live in a slab and are freed with their last edge.

use std::collections::VecDeque;

use bytes::Bytes;
use farhop_proto::base::{Dbm, Duration, FrameUp, Instant, Seed};

use super::config::{AirLink, MediumConfig};
use super::loss::LossProcess;
use super::medium::MediumEvent;
use super::queue::EventQueue;
use super::transmission::{Transmission, TransmissionKind};

/// The timers of one radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The end of the gap or the backoff, or the time before which a frame must not go.
    Access,
    /// The end of the own transmission.
    TxEnd,
    /// No acknowledgement can come any more.
    AckTimeout,
    /// SIFS after a frame that wants an acknowledgement.
    Reply,
}

/// Timers of each radio.
pub(super) const TIMERS: usize = 4;

impl Timer {
    pub(super) const ALL: [Self; TIMERS] =
        [Self::Access, Self::TxEnd, Self::AckTimeout, Self::Reply];
}

/// Names a transmission in the slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TxId(u32);

#[derive(Debug)]
struct Held {
    transmission: Transmission,
    /// Edges still to come; the slot is free at zero.
    edges: u32,
    /// The transmitter was switched off before the end.
    is_cut_off: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    at: Instant,
    order: u64,
    pub(super) tx: TxId,
    pub(super) is_end: bool,
}

/// One direction between two radios, at work.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) to: usize,
    delay: Duration,
    pub(super) signal: Dbm,
    pub(super) loss: LossProcess,
    pub(super) is_up: bool,
    /// Whether frames for the hearer's node are for this radio of it.
    pub(super) is_addressed: bool,
    /// The last sequence number that was accepted.
    pub(super) last_sequence: Option<u16>,
    edges: VecDeque<Edge>,
}

/// The air and its events.
#[derive(Debug)]
pub(super) struct Air {
    pub(super) queue: EventQueue,
    pub(super) links: Vec<Link>,
    /// Links by transmitter: those of radio `r` are `hearers[first[r]..first[r + 1]]`.
    hearers: Vec<u32>,
    first: Vec<u32>,
    slab: Vec<Held>,
    free: Vec<u32>,
    pub(super) reports: VecDeque<MediumEvent>,
    pub(super) is_recording: bool,
    pub(super) recorded: VecDeque<Transmission>,
    pub(super) frames_on_air: u64,
    pub(super) trace_hash: u64,
}

impl Air {
    /// Panics if a link names a radio that does not exist, or leads from a radio to itself.
    pub(super) fn new(config: &MediumConfig, seed: Seed) -> Self {
        let radios = &config.radios;
        let mut links: Vec<Link> = Vec::with_capacity(config.links.len());
        let mut by_radio: Vec<Vec<u32>> = vec![Vec::new(); radios.len()];
        for (index, AirLink { from, to, delay, signal, loss }) in
            config.links.iter().copied().enumerate()
        {
            assert!(from < radios.len() && to < radios.len(), "link {index} to an unknown radio");
            assert!(from != to, "link {index} leads from a radio to itself");
            let (source, sink) = (&radios[from], &radios[to]);
            let is_addressed = source.channel == sink.channel
                && !by_radio[from]
                    .iter()
                    .any(|other| radios[links[*other as usize].to].node == sink.node);
            if source.channel == sink.channel {
                by_radio[from].push(index as u32);
            }
            let name = format!(
                "air/{}.{}-{}.{}/loss",
                source.node.0, source.radio.0, sink.node.0, sink.radio.0
            );
            links.push(Link {
                to,
                delay,
                signal,
                loss: loss.build(seed.stream(&name)),
                is_up: true,
                is_addressed,
                last_sequence: None,
                edges: VecDeque::new(),
            });
        }
        let mut first = vec![0];
        let mut hearers = Vec::with_capacity(links.len());
        for of_radio in by_radio {
            hearers.extend(of_radio);
            first.push(hearers.len() as u32);
        }
        Self {
            queue: EventQueue::new(radios.len() * TIMERS + links.len()),
            links,
            hearers,
            first,
            slab: Vec::new(),
            free: Vec::new(),
            reports: VecDeque::new(),
            is_recording: false,
            recorded: VecDeque::new(),
            frames_on_air: 0,
            trace_hash: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn link_handle(&self, link: usize) -> usize {
        (self.first.len() - 1) * TIMERS + link
    }

    pub(super) fn set_timer(&mut self, radio: usize, timer: Timer, at: Instant) {
        self.queue.set(radio * TIMERS + timer as usize, at);
    }

    pub(super) fn cancel_timer(&mut self, radio: usize, timer: Timer) {
        self.queue.cancel(radio * TIMERS + timer as usize);
    }

    pub(super) fn timer(&self, radio: usize, timer: Timer) -> Option<Instant> {
        self.queue.due(radio * TIMERS + timer as usize)
    }

    pub(super) fn report(&mut self, radio: usize, at: Instant, event: FrameUp) {
        self.reports.push_back(MediumEvent { radio, at, event });
    }

    pub(super) fn transmission(&self, tx: TxId) -> &Transmission {
        &self.slab[tx.0 as usize].transmission
    }

    /// Puts a transmission on the air.
    pub(super) fn transmit(&mut self, transmission: Transmission) {
        self.frames_on_air += 1;
        self.fold(&transmission);
        if self.is_recording {
            self.recorded.push_back(transmission.clone());
        }
        let (start, end, radio) = (transmission.start, transmission.end, transmission.radio);
        let hearers = self.first[radio] as usize..self.first[radio + 1] as usize;
        if hearers.is_empty() {
            return;
        }
        let held = Held { transmission, edges: 0, is_cut_off: false };
        let tx = match self.free.pop() {
            Some(slot) => {
                self.slab[slot as usize] = held;
                TxId(slot)
            }
            None => {
                self.slab.push(held);
                TxId(self.slab.len() as u32 - 1)
            }
        };
        let mut edges = 0;
        for place in hearers {
            let link = self.hearers[place] as usize;
            if self.links[link].is_up {
                self.push_edge(link, start, tx, false);
                self.push_edge(link, end, tx, true);
                edges += 2;
            }
        }
        if edges == 0 {
            self.free.push(tx.0);
        }
        self.slab[tx.0 as usize].edges = edges;
    }

    fn push_edge(&mut self, index: usize, at: Instant, tx: TxId, is_end: bool) {
        let order = self.queue.take_order();
        let link = &mut self.links[index];
        let edge = Edge { at: at + link.delay, order, tx, is_end };
        let is_first = link.edges.is_empty();
        link.edges.push_back(edge);
        if is_first {
            let handle = self.link_handle(index);
            self.queue.set_in_order(handle, edge.at, order);
        }
    }

    /// Takes the edge of a link that is due, and sets the next one.
    pub(super) fn take_edge(&mut self, link: usize) -> Edge {
        let handle = self.link_handle(link);
        let edges = &mut self.links[link].edges;
        let edge = edges.pop_front().expect("a link whose event is due has an edge");
        match edges.front() {
            Some(next) => self.queue.set_in_order(handle, next.at, next.order),
            None => self.queue.cancel(handle),
        }
        edge
    }

    /// Counts down the edges of a transmission, and forgets it after the last.
    pub(super) fn release(&mut self, tx: TxId) {
        let held = &mut self.slab[tx.0 as usize];
        held.edges -= 1;
        if held.edges == 0 {
            if let TransmissionKind::Data { payload, .. } = &mut held.transmission.kind {
                *payload = Bytes::new();
            }
            self.free.push(tx.0);
        }
    }

    /// Ends what a radio has on air now: its transmitter was switched off. Nobody can decode it.
    pub(super) fn cut_off(&mut self, radio: usize, now: Instant) {
        for place in self.first[radio] as usize..self.first[radio + 1] as usize {
            let index = self.hearers[place] as usize;
            let handle = self.link_handle(index);
            let link = &mut self.links[index];
            let is_next = link.edges.len() == 1;
            // The transmission at hand is the last on the link, if it went there at all.
            if let Some(edge) = link.edges.back_mut()
                && self.slab[edge.tx.0 as usize].transmission.end > now
            {
                edge.at = now + link.delay;
                if is_next {
                    self.queue.set_in_order(handle, edge.at, edge.order);
                }
            }
        }
        for held in &mut self.slab {
            if held.transmission.radio == radio && held.transmission.end > now {
                held.transmission.end = now;
                held.is_cut_off = true;
            }
        }
    }

    /// Whether a transmission was cut off.
    pub(super) fn is_cut_off(&self, tx: TxId) -> bool {
        self.slab[tx.0 as usize].is_cut_off
    }

    /// Folds a transmission into the hash that tells whether two runs were the same.
    fn fold(&mut self, transmission: &Transmission) {
        let kind = match &transmission.kind {
            TransmissionKind::Data { sequence, attempt, payload, .. } => {
                u64::from(*sequence) << 8 | u64::from(*attempt) | (payload.len() as u64) << 32
            }
            TransmissionKind::Ack { to_radio, bits, accept, .. } => {
                1 << 63 | (*to_radio as u64) << 32 | u64::from(*bits) << 1 | u64::from(*accept)
            }
        };
        let words =
            [transmission.start.as_nanos(), transmission.end.as_nanos(), transmission.radio as u64];
        for word in words.into_iter().chain([kind]) {
            self.trace_hash =
                (self.trace_hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
    }
}
