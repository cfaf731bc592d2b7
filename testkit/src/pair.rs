//! Two links over a lossy pipe, in virtual time.
//!
//! The pipe is a radio with the simplest rules that still show the purpose of slots: each end sends
//! one frame after the other, a frame takes its air time and the propagation delay, and frames that
//! arrive while an end sends are lost (half duplex). Frames with MAC acknowledgement are repeated
//! by the chip; the acknowledgement itself takes no time and is never lost.

use std::collections::{BTreeMap, VecDeque};

use farhop_proto::base::phy::mpdu_bytes;
use farhop_proto::base::{
    AckPolicy, Cx, Duration, EtherType, FlowId, Frame, FrameDone, FrameDown, FrameOutcome, FrameUp,
    Instant, Lane, NodeId, Packet, PacketUp, Phy, RadioSpec, ReceivedFrame, Rng, Room, Seed,
    TxOptions, UnitIds,
};
use farhop_proto::link::{Link, PeerSpec};

use crate::{Clock, Ledger};

/// Attempts of the chip for an acknowledged frame, unless the frame says otherwise.
const CHIP_ATTEMPTS: u8 = 7;

/// A transmission, given to the loss process.
#[derive(Debug)]
pub struct OnAir<'a> {
    /// The end that sends.
    pub from: usize,
    /// True time of its start.
    pub at: Instant,
    /// The frame.
    pub frame: &'a Frame,
}

/// Decides whether a transmission is lost.
pub type Loss = Box<dyn FnMut(&mut Rng, &OnAir<'_>) -> bool>;

/// Settings of the pipe.
pub struct PairConfig {
    /// The radios, equal at both ends.
    pub radio: RadioSpec,
    /// Propagation delay.
    pub delay: Duration,
    /// Clocks of the ends.
    pub clocks: [Clock; 2],
    /// Loss of frames.
    pub loss: Loss,
    /// Whether frames that arrive while an end sends are lost.
    pub half_duplex: bool,
    /// Fraction of frames that arrive twice.
    pub duplicate: f64,
    /// Fraction of frames that are handed up late, by up to 5 ms.
    pub reorder: f64,
    /// Timers fire late by up to this time, uniformly distributed.
    pub wake_late: Duration,
    /// Frames that a chip holds.
    pub chip_frames: usize,
    /// Largest payload of a frame that the devices accept, in bytes.
    pub longest: Option<usize>,
    /// Seed of the pipe.
    pub seed: Seed,
}

impl Default for PairConfig {
    /// 11 Mb/s, 80 km, no loss, half duplex.
    fn default() -> Self {
        let phy = Phy { preamble: farhop_proto::base::Preamble::Short, ..Phy::default() };
        Self {
            radio: RadioSpec::of(phy),
            delay: Duration::from_micros(267),
            clocks: [Clock::default(); 2],
            loss: Box::new(|_, _| false),
            half_duplex: true,
            duplicate: 0.0,
            reorder: 0.0,
            wake_late: Duration::ZERO,
            chip_frames: 2,
            longest: None,
            seed: Seed(1),
        }
    }
}

impl PairConfig {
    /// The default, with a loss probability `p` for each frame.
    pub fn with_loss(p: f64) -> Self {
        Self { loss: Box::new(move |rng, _| rng.chance(p)), ..Self::default() }
    }
}

/// A source of traffic for one flow.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The end that sends.
    pub end: usize,
    /// The flow.
    pub flow: u16,
    /// Payload of each packet, in bytes; at least 14.
    pub bytes: usize,
    /// Time between packets; zero keeps the queue full.
    pub every: Duration,
    /// True time of the first packet.
    pub from: Instant,
    /// True time of the end.
    pub until: Instant,
    /// Options of each packet.
    pub options: TxOptions,
}

impl Source {
    /// Full-size packets, as many as the link accepts, until `until`.
    pub fn saturated(end: usize, flow: u16, until: Instant) -> Self {
        let (every, from, options) = (Duration::ZERO, Instant::ZERO, TxOptions::default());
        Self { end, flow, bytes: 1_500, every, from, until, options }
    }
}

enum Event {
    Done(FrameDone),
    Arrived { frame: Frame, started: Instant, air: Duration },
}

struct End<L> {
    link: L,
    clock: Clock,
    /// Frames that the chip holds.
    held: usize,
    busy_until: Instant,
    on_air: VecDeque<(Instant, Instant)>,
    wake: Option<(Instant, Instant)>,
    is_silent: bool,
    /// How far the radio's clock is ahead of the node's, in nanoseconds.
    radio_ahead: i64,
}

/// Two links over a lossy pipe.
pub struct Pair<L> {
    /// What was sent and what arrived.
    pub ledger: Ledger,
    /// Frames lost because their receiver was sending.
    pub overlaps: u64,
    /// Transmissions.
    pub frames: u64,
    ends: [End<L>; 2],
    config: PairConfig,
    /// Each with the time of its next packet, and whether the first was offered.
    sources: Vec<(Source, Instant, bool)>,
    events: BTreeMap<(Instant, u64), (usize, Event)>,
    event_count: u64,
    ids: UnitIds,
    rng: Rng,
    now: Instant,
}

/// The node at an end: 1 or 2.
fn node(end: usize) -> NodeId {
    NodeId(end as u16 + 1)
}

impl<L: Link> Pair<L> {
    /// A pair of links; `build` makes each from its node, the radio and the neighbour.
    pub fn build(config: PairConfig, build: impl Fn(NodeId, &RadioSpec, PeerSpec) -> L) -> Self {
        let end = |end: usize| {
            let peer = PeerSpec { node: node(1 - end), radio: config.radio.id };
            End {
                link: build(node(end), &config.radio, peer),
                clock: config.clocks[end],
                held: 0,
                busy_until: Instant::ZERO,
                on_air: VecDeque::new(),
                wake: None,
                is_silent: false,
                radio_ahead: 0,
            }
        };
        let ends = [end(0), end(1)];
        Self {
            ledger: Ledger::default(),
            overlaps: 0,
            frames: 0,
            ends,
            rng: config.seed.stream("pair"),
            config,
            sources: Vec::new(),
            events: BTreeMap::new(),
            event_count: 0,
            ids: UnitIds::default(),
            now: Instant::ZERO,
        }
    }

    /// Adds a source of traffic.
    pub fn add(&mut self, source: Source) {
        self.sources.push((source, source.from, false));
    }

    /// The true time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The link layer at an end.
    pub fn link(&self, end: usize) -> &L {
        &self.ends[end].link
    }

    /// The status of a link, on its own clock.
    pub fn status(&self, end: usize) -> farhop_proto::link::LinkStatus {
        self.ends[end].link.status(self.ends[end].clock.local(self.now))
    }

    /// The time on the clock of an end.
    pub fn local(&self, end: usize) -> Instant {
        self.ends[end].clock.local(self.now)
    }

    /// Makes an end deaf and mute, or undoes that. Its link layer keeps running unaware.
    pub fn set_silent(&mut self, end: usize, is_silent: bool) {
        self.ends[end].is_silent = is_silent;
    }

    /// Sets how far the clock of an end's radio is ahead of its node's, in nanoseconds: reported
    /// arrival times jump with it.
    pub fn set_radio_clock(&mut self, end: usize, ahead: i64) {
        self.ends[end].radio_ahead = ahead;
    }

    /// Replaces the link layer at an end, as a restart does.
    pub fn replace(&mut self, end: usize, link: L) {
        self.ends[end].link = link;
        self.ends[end].wake = None;
    }

    /// Delivers bytes to an end as a frame of its neighbour.
    pub fn inject(&mut self, end: usize, payload: bytes::Bytes) {
        self.inject_as(end, EtherType::FARHOP, payload);
    }

    /// Delivers bytes as a frame of another protocol than that of farhop's links.
    pub fn inject_as(&mut self, end: usize, protocol: EtherType, payload: bytes::Bytes) {
        let local = self.local(end);
        let frame = self.received(end, payload, protocol, local);
        self.ends[end].link.handle_rx(&mut Cx::new(local), FrameUp::Received(frame));
        self.turn(end);
    }

    /// Runs until the true time `until`.
    pub fn run_until(&mut self, until: Instant) {
        while self.next_time().is_some_and(|next| next <= until) {
            self.step();
        }
        self.now = until;
    }

    /// Runs for `seconds` more.
    pub fn run_for(&mut self, seconds: f64) {
        self.run_until(self.now + Duration::from_secs_f64(seconds));
    }

    fn next_time(&mut self) -> Option<Instant> {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        let wakes = [0, 1].map(|end| self.wake(end));
        // A saturated source only has to be started: then it continues whenever there is room.
        let sources = self.sources.iter().filter(|(source, next, has_begun)| {
            !(source.every.is_zero() && *has_begun) && *next < source.until
        });
        let source = sources.map(|(_, next, _)| *next).min();
        [event, wakes[0], wakes[1], source].into_iter().flatten().min().map(|at| at.max(self.now))
    }

    /// True time at which the timer of an end fires; its lateness is drawn once.
    fn wake(&mut self, end: usize) -> Option<Instant> {
        let due = self.ends[end].link.poll_timeout()?;
        if let Some((known, at)) = self.ends[end].wake
            && known == due
        {
            return Some(at);
        }
        let late = self.rng.below(self.config.wake_late.as_nanos() + 1);
        let at = self.ends[end].clock.true_time(due).max(self.now) + Duration::from_nanos(late);
        self.ends[end].wake = Some((due, at));
        Some(at)
    }

    /// Advances to the next event, and handles it.
    pub fn step(&mut self) {
        let Some(next) = self.next_time() else { return };
        self.now = next;
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > next {
                break;
            }
            let (end, event) = entry.remove();
            self.on_event(end, event);
            self.turn(end);
        }
        for end in [0, 1] {
            if self.wake(end).is_some_and(|at| at <= next) {
                let local = self.local(end);
                self.ends[end].wake = None;
                let link = &mut self.ends[end].link;
                link.handle_timeout(&mut Cx::new(local));
                let due = link.poll_timeout();
                assert!(due.is_none_or(|due| due > local), "the deadline {due:?} is not ahead");
            }
            self.turn(end);
        }
    }

    fn on_event(&mut self, end: usize, event: Event) {
        let local = self.local(end);
        match event {
            Event::Done(done) => {
                self.ends[end].held -= 1;
                self.ends[end].link.handle_rx(&mut Cx::new(local), FrameUp::Done(done));
            }
            Event::Arrived { frame, started, air } => {
                if self.config.half_duplex && self.is_sending(end, started, started + air) {
                    self.overlaps += 1;
                    return;
                }
                if self.ends[end].is_silent {
                    return;
                }
                let started =
                    self.ends[end].clock.local(started).offset(self.ends[end].radio_ahead);
                let received = self.received(end, frame.payload, frame.protocol, started);
                let received = ReceivedFrame { to: frame.to, ..received };
                let link = &mut self.ends[end].link;
                link.handle_rx(&mut Cx::new(local), FrameUp::Received(received));
            }
        }
    }

    fn received(
        &self,
        end: usize,
        payload: bytes::Bytes,
        protocol: EtherType,
        started: Instant,
    ) -> ReceivedFrame {
        let (radio, rate) = (self.config.radio.id, self.config.radio.rate);
        let (from, to, signal, bits) = (node(1 - end), Some(node(end)), None, 0);
        ReceivedFrame { radio, from, to, protocol, payload, started, rate, signal, bits }
    }

    fn is_sending(&self, end: usize, from: Instant, until: Instant) -> bool {
        self.ends[end].on_air.iter().any(|(began, ended)| *began < until && *ended > from)
    }

    /// Moves everything that can move at one end.
    fn turn(&mut self, end: usize) {
        loop {
            let mut moved = self.take_up(end);
            for index in 0..self.sources.len() {
                if self.sources[index].0.end == end {
                    moved |= self.offer(index);
                }
            }
            let local = self.local(end);
            let free = self.config.chip_frames - self.ends[end].held;
            let room = |_: Lane| Room::units(free);
            let link = &mut self.ends[end].link;
            if let Some(unit) = link.poll_tx(&mut Cx::new(local), &room) {
                assert!(free > 0, "a frame without room for it");
                let FrameDown::Frame(frame) = unit else { panic!("only frames are sent here") };
                self.transmit(end, frame);
                moved = true;
            }
            if !moved {
                return;
            }
        }
    }

    fn take_up(&mut self, end: usize) -> bool {
        let mut moved = false;
        let local = self.local(end);
        while let Some(event) = self.ends[end].link.poll_rx(&mut Cx::new(local)) {
            moved = true;
            match event {
                PacketUp::Received(packet) => self.ledger.on_received(end, &packet, self.now),
                PacketUp::Done(done) => self.ledger.on_done(end, &done),
                PacketUp::Dropped { id, cause } => self.ledger.on_dropped(end, id, cause),
                PacketUp::Neighbour { .. } | PacketUp::Drowned(_) | PacketUp::LinkSample(_) => {}
            }
        }
        moved
    }

    /// Offers to the link the packets of a source that are due and have room.
    fn offer(&mut self, index: usize) -> bool {
        let (source, next, _) = self.sources[index];
        if next > self.now {
            return false;
        }
        self.sources[index].2 = true;
        let (radio, flow) = (self.config.radio.id, FlowId(source.flow));
        let to = Some(node(1 - source.end));
        let TxOptions { access, overflow, .. } = source.options;
        let lane = Lane { radio, to, flow, access, overflow };
        let (mut moved, mut next) = (false, next);
        while next <= self.now && self.now < source.until {
            let room = self.ends[source.end].link.room(lane);
            if room.is_none() {
                break;
            }
            let id = self.ids.next_id();
            let payload = self.ledger.payload(source.end, flow, source.bytes, self.now);
            let (protocol, options) = (EtherType::IPV4, source.options);
            let packet = Packet { id, radio, to, flow, protocol, payload, options, order: None };
            self.ledger.on_sent(source.end, id);
            let local = self.local(source.end);
            self.ends[source.end].link.handle_tx(&mut Cx::new(local), packet);
            moved = true;
            next += source.every;
        }
        // A paced source does not repeat what was refused.
        if !source.every.is_zero() {
            while next <= self.now {
                next += source.every;
            }
        }
        self.sources[index].1 = next;
        moved
    }

    /// The chip takes a frame: decides when it is sent, how often, and its outcome.
    fn transmit(&mut self, end: usize, frame: Frame) {
        let bytes = mpdu_bytes(frame.options.ack == AckPolicy::NoAck, frame.payload.len());
        let radio = self.config.radio;
        let air = radio.phy.air_time(bytes, frame.options.rate.unwrap_or(radio.rate));
        self.ends[end].held += 1;
        if self.config.longest.is_some_and(|longest| frame.payload.len() > longest) {
            return self.end_unsent(end, &frame, FrameOutcome::TooLong);
        }
        let start = self.ends[end].busy_until.max(self.now) + radio.mean_gap();
        let ends = self.ends[end].clock.local(start + air);
        if frame.options.deadline.is_some_and(|deadline| ends > deadline) {
            return self.end_unsent(end, &frame, FrameOutcome::Late);
        }
        let is_acked = frame.options.ack == AckPolicy::Normal && frame.to.is_some();
        let most = if is_acked { frame.options.attempts.unwrap_or(CHIP_ATTEMPTS) } else { 1 };
        let (mut at, mut attempts, mut came) = (start, 0, false);
        while attempts < most && !came {
            at = if attempts == 0 { start } else { at + air + radio.mean_gap() };
            attempts += 1;
            came = !self.ends[end].is_silent && !self.is_lost(end, at, &frame);
            self.frames += 1;
            if !self.ends[end].is_silent {
                self.ends[end].on_air.push_back((at, at + air));
            }
        }
        self.ends[end].busy_until = at + air;
        while self.ends[end].on_air.len() > 64 {
            self.ends[end].on_air.pop_front();
        }
        let outcome = match (is_acked, came) {
            (false, _) => FrameOutcome::Sent,
            (true, true) => FrameOutcome::Acked(0),
            (true, false) => FrameOutcome::Failed,
        };
        let air_time = air * u64::from(attempts);
        let done = FrameDone { id: frame.id, outcome, attempts, air_time };
        self.schedule(at + air, end, Event::Done(done));
        if came {
            self.propagate(end, frame, at, air);
        }
    }

    fn end_unsent(&mut self, end: usize, frame: &Frame, outcome: FrameOutcome) {
        let done = FrameDone { id: frame.id, outcome, attempts: 0, air_time: Duration::ZERO };
        self.schedule(self.now, end, Event::Done(done));
    }

    fn is_lost(&mut self, from: usize, at: Instant, frame: &Frame) -> bool {
        (self.config.loss)(&mut self.rng, &OnAir { from, at, frame })
    }

    fn propagate(&mut self, from: usize, frame: Frame, at: Instant, air: Duration) {
        let started = at + self.config.delay;
        let mut told = started + air;
        if self.rng.chance(self.config.reorder) {
            told += Duration::from_nanos(self.rng.below(5_000_000));
        }
        if self.rng.chance(self.config.duplicate) {
            let frame = frame.clone();
            self.schedule(told, 1 - from, Event::Arrived { frame, started, air });
        }
        self.schedule(told, 1 - from, Event::Arrived { frame, started, air });
    }

    fn schedule(&mut self, at: Instant, end: usize, event: Event) {
        self.event_count += 1;
        self.events.insert((at, self.event_count), (end, event));
    }
}
