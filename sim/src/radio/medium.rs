//! The medium: all radios and the air between them, driven by its caller.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use farhop_proto::base::{
    AccessCategory, Bitrate, Dbm, Duration, FrameDown, FrameUp, Instant, NodeId, Phy, PhyKind,
    RadioId, Seed,
};

use super::air::{Air, Call, Calls, TIMERS, Timer, TxId};
use super::chip::Chip;
use super::config::{AirLink, ChipConfig, MediumConfig};
use super::heard::{Arrival, Heard};
use super::inject::Injected;
use super::links::{Hearer, Reach};
use super::loss::FateRecord;
use super::reception::Turn;
use super::stats::{ChipStats, LinkAir};
use super::transmission::{Transmission, TransmissionKind};
use super::wire::Wire;

/// Up to this many radios fit into the caches of any processor.
pub(crate) const FEW: usize = 256;

/// An event that a radio reports to its node.
#[derive(Clone, Debug)]
pub struct MediumEvent {
    /// Index of the radio.
    pub radio: usize,
    /// When it happened: at the end of the frame or of its acknowledgement.
    pub at: Instant,
    /// What happened.
    pub event: FrameUp,
}

/// What sends frames: a radio, or the end of a wire.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are radios, and a box would cost a miss")]
enum Port {
    Chip(Chip),
    Wire(Wire),
}

impl Port {
    fn settle(&mut self, air: &mut Air) {
        if let Self::Chip(chip) = self {
            chip.settle(air);
        }
    }
}

/// Calls a method of a port of either kind.
macro_rules! of_port {
    ($port:expr, $method:ident($($argument:expr),*)) => {
        match $port {
            Port::Chip(chip) => chip.$method($($argument),*),
            Port::Wire(wire) => wire.$method($($argument),*),
        }
    };
}

/// Settings without node and radio number, shared with one of the radios built last if equal.
fn shared(known: &mut Vec<Arc<ChipConfig>>, config: ChipConfig) -> Arc<ChipConfig> {
    const LAST: usize = 8;
    let config = ChipConfig { node: NodeId(0), radio: RadioId(0), ..config };
    let last = known.iter().rev().take(LAST).find(|other| ***other == config).cloned();
    last.unwrap_or_else(|| {
        known.push(Arc::new(config));
        Arc::clone(&known[known.len() - 1])
    })
}

/// Radios and the air between them.
#[derive(Debug)]
pub struct Medium {
    ports: Vec<Port>,
    air: Air,
    now: Instant,
    /// Timers that have fired, and ends of transmissions at their own radios.
    events: u64,
    /// Hearers whose radios must handle the current edge.
    calls: Calls,
}

impl Medium {
    /// A silent medium at time zero.
    ///
    /// Panics if a link names a radio that does not exist, or a loss is not a probability.
    pub fn new(config: MediumConfig, seed: Seed) -> Self {
        let air = Air::new(&config, seed);
        let mut known = Vec::new();
        let port = |(index, port): (usize, ChipConfig)| match port.phy.kind {
            PhyKind::Wire => Port::Wire(Wire::new(index, port)),
            _ => {
                let name = (port.node, port.radio);
                let settings = shared(&mut known, port);
                Port::Chip(Chip::new(index, name, settings, config.interference, seed))
            }
        };
        let ports = config.radios.into_iter().enumerate().map(port).collect();
        let mut medium = Self { ports, air, now: Instant::ZERO, events: 0, calls: Calls::new() };
        for radio in 0..medium.ports.len() {
            medium.limit_rates(radio);
        }
        medium
    }

    /// Tells a radio's rate control which rates its neighbours of another PHY can decode.
    fn limit_rates(&mut self, radio: usize) {
        let Port::Chip(chip) = &mut self.ports[radio] else { return };
        let links = &self.air.links;
        for to in links.addressed(radio) {
            let theirs = links.phy(to);
            if theirs != links.phy(radio) {
                chip.rates.limit(&chip.config, links.node(to), &theirs);
            }
        }
    }

    /// Gives a frame to a radio, or takes one back. All events up to `now` happen first.
    ///
    /// Panics if the radio has no [`Self::room`] for a frame.
    pub fn handle_frame(&mut self, now: Instant, radio: usize, frame: FrameDown) {
        self.handle_timeout(now);
        of_port!(&mut self.ports[radio], handle_frame(&mut self.air, self.now, frame));
        self.ports[radio].settle(&mut self.air);
    }

    /// Puts a frame on the air at once, whatever the medium and whatever sender it names: this
    /// models a radio that follows no rules. While it sends, it receives nothing.
    ///
    /// Returns whether the frame was sent: a radio that is down or still sending cannot send.
    /// Panics if `radio` is a wire.
    pub fn inject(&mut self, now: Instant, radio: usize, injected: Injected) -> bool {
        self.handle_timeout(now);
        let Port::Chip(chip) = &mut self.ports[radio] else { panic!("a wire has no stranger") };
        let is_sent = chip.inject(&mut self.air, self.now, injected);
        chip.settle(&mut self.air);
        is_sent
    }

    /// How many frames of an access category a radio accepts now; none while it is down. Without
    /// EDCA all categories share one queue.
    pub fn room(&self, radio: usize, access: AccessCategory) -> usize {
        match &self.ports[radio] {
            Port::Chip(chip) => chip.room(access),
            Port::Wire(wire) => wire.room(),
        }
    }

    /// When the next event of the model is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.air.queue.next_at()
    }

    /// Processes all events up to and including `now`, in the order of time.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, handle)) = self.air.queue.peek()
            && at <= now
        {
            debug_assert!(at >= self.now, "an event before the present");
            self.now = at;
            self.fire(at, handle, now);
        }
        self.now = self.now.max(now);
    }

    /// Processes events due before `limit` until a radio reports something. Returns the time of
    /// that report; by then all events of that time have happened.
    pub fn run_ahead(&mut self, limit: Instant) -> Option<Instant> {
        while let Some((at, handle)) = self.air.queue.peek()
            && at < limit
        {
            self.now = at;
            self.fire(at, handle, Instant::from_nanos(limit.as_nanos() - 1));
            if !self.air.reports.is_empty() {
                self.handle_timeout(self.now);
                return Some(self.now);
            }
        }
        None
    }

    /// Fires the next event, which is due now, and lets a signal go on to further hearers as long
    /// as they come no later than `until` and before any other event.
    fn fire(&mut self, at: Instant, handle: usize, until: Instant) {
        if let Some((tx, is_end)) = self.air.edge(handle) {
            if self.ports.len() > FEW && self.air.is_first(tx, is_end) {
                self.fetch(tx, is_end);
            }
            let hearers = Rc::clone(self.air.hearers(tx));
            let mut next = Some(at);
            while let Some(at) = next {
                self.now = at;
                match self.air.leave(tx, is_end) {
                    Some(radio) => self.end(radio, at),
                    None => self.pass(tx, is_end, at, &hearers),
                }
                // A report goes to the caller at once, so nothing later may happen first.
                let until = if self.air.reports.is_empty() { until } else { at };
                next = self.air.go_on(tx, is_end, until);
            }
            return;
        }
        self.events += 1;
        self.air.queue.take_first(handle);
        let air = &mut self.air;
        match (Timer::ALL[handle % TIMERS], &mut self.ports[handle / TIMERS]) {
            (Timer::Access, port) => of_port!(port, on_access(air, at)),
            (Timer::AckTimeout, Port::Chip(chip)) => chip.on_ack_timeout(air, at),
            (Timer::Reply, Port::Chip(chip)) => chip.on_reply(air, at),
            (Timer::Nav, Port::Chip(chip)) => chip.on_nav_unused(air, at),
            (_, Port::Wire(_)) => unreachable!("a wire has no such timer"),
        }
        self.ports[handle / TIMERS].settle(air);
        self.air.queue.fill();
    }

    /// A radio's own transmission ends.
    fn end(&mut self, radio: usize, at: Instant) {
        self.events += 1;
        of_port!(&mut self.ports[radio], on_tx_end(&mut self.air, at));
        self.ports[radio].settle(&mut self.air);
    }

    /// A start or an end reaches the hearers that it reaches at `at`.
    fn pass(&mut self, tx: TxId, is_end: bool, at: Instant, hearers: &[Hearer]) {
        let Self { ports, air, calls, .. } = self;
        air.pass(tx, is_end, at, calls);
        for &Call { place, is_turn, is_signal } in calls.as_slice() {
            let turn = Turn::of(is_turn, is_end);
            let hearer = &hearers[place as usize];
            match &mut ports[hearer.radio as usize] {
                Port::Chip(chip) => {
                    let is_touched = match turn {
                        Some(turn) if !is_signal => {
                            chip.on_turn(air, at, turn);
                            true
                        }
                        _ if is_end => chip.on_signal_end(air, at, (hearer, turn), tx),
                        _ => chip.on_signal_start(air, at, (hearer, turn), tx),
                    };
                    if is_touched {
                        chip.settle(air);
                    } else {
                        chip.settle_receiver(air);
                    }
                }
                Port::Wire(wire) if is_end => wire.on_signal_end(air, at, hearer, tx),
                Port::Wire(_) => {}
            }
        }
    }

    /// Touches the state of all hearers of a transmission before it is needed: with many radios
    /// most of it is not in the cache, and these loads do not depend on each other.
    fn fetch(&self, tx: TxId, is_end: bool) {
        let mut fetched = self.air.hearers(tx).iter().fold(0, |sum, hearer| {
            let radio = hearer.radio as usize;
            let sum = sum ^ self.air.ear(radio).fetch();
            match (hearer.reach, &self.ports[radio]) {
                (Reach::Decodable(link), Port::Chip(chip)) => {
                    sum ^ chip.fetch() ^ u64::from(self.air.links.get(link).to)
                }
                _ => sum,
            }
        });
        if let TransmissionKind::Ack(answer) = &self.air.transmission(tx).kind
            && is_end
        {
            fetched ^= self.fetch_sender(answer.to_radio);
        }
        std::hint::black_box(fetched);
    }

    fn fetch_sender(&self, radio: usize) -> u64 {
        match &self.ports[radio] {
            Port::Chip(chip) => chip.fetch_sender(),
            Port::Wire(_) => 0,
        }
    }

    /// Touches the state that a radio needs when it is given a frame to send.
    pub(crate) fn fetch_for_frame(&self, radio: usize) -> u64 {
        let chip = match &self.ports[radio] {
            Port::Chip(chip) => chip.fetch() ^ chip.fetch_sender(),
            Port::Wire(_) => 0,
        };
        chip ^ self.air.ear(radio).fetch()
    }

    /// The next report of a radio, in the order of time.
    pub fn poll_event(&mut self) -> Option<MediumEvent> {
        self.air.reports.pop_front()
    }

    /// Switches a radio off or on. When switched off it ends its frames as failed, and sends and
    /// receives nothing; its transmission on air is cut off, so that nobody can decode it.
    pub fn set_radio_up(&mut self, now: Instant, radio: usize, up: bool) {
        self.handle_timeout(now);
        of_port!(&mut self.ports[radio], set_up(&mut self.air, self.now, up));
        self.ports[radio].settle(&mut self.air);
    }

    /// Cuts or restores all links between two nodes, and those that come to be until they are
    /// restored. A frame on its way over a link that is cut arrives as energy that cannot be
    /// decoded.
    pub fn set_linked(&mut self, now: Instant, nodes: [NodeId; 2], up: bool) {
        self.handle_timeout(now);
        self.air.links.set_linked(nodes, up);
    }

    /// Cuts or restores one direction of a link, by its index.
    #[cfg(test)]
    pub(super) fn set_link_up(&mut self, now: Instant, link: usize, up: bool) {
        self.handle_timeout(now);
        self.air.links.set_up(link, up);
    }

    /// How many transmissions were on the air at one time, at most.
    #[cfg(test)]
    pub(super) fn places_on_air(&self) -> usize {
        self.air.places()
    }

    /// The radio of a node that frames of this radio are addressed to.
    pub fn addressed(&self, radio: usize, node: NodeId) -> Option<RadioId> {
        let links = &self.air.links;
        let to = links.addressed(radio).find(|to| links.node(*to) == node)?;
        Some(links.radio_id(to))
    }

    /// Replaces all links from a radio, for radios that move. Transmissions on their way still
    /// arrive over the links that they set out on. Links that did not exist at the start have no
    /// index.
    ///
    /// Panics as [`Self::new`] does, or if a link leads from another radio.
    pub fn set_links(&mut self, now: Instant, radio: usize, links: &[AirLink]) {
        self.handle_timeout(now);
        self.air.links.replace(radio, links);
        self.limit_rates(radio);
    }

    /// Sets when the loss recordings of links begin to play, if not at time zero; they lose nothing
    /// before.
    pub fn begin_recordings_at(&mut self, begin: Instant) {
        self.air.links.begin_recordings_at(begin);
    }

    /// Air time of answers and collisions on each link that had any.
    pub fn links_air(&self) -> impl Iterator<Item = LinkAir> {
        self.air.links.air()
    }

    /// Counters of a radio.
    pub fn stats(&self, radio: usize) -> ChipStats {
        match &self.ports[radio] {
            Port::Chip(chip) => {
                let (busy, overheard) = (self.air.ear(radio).busy(), chip.overheard);
                ChipStats { busy, overheard, ..chip.stats }
            }
            Port::Wire(wire) => wire.stats,
        }
    }

    /// Events that have happened.
    pub fn events(&self) -> u64 {
        self.events + self.air.passes
    }

    /// Transmissions of all radios, acknowledgements included.
    pub fn frames_on_air(&self) -> u64 {
        self.air.frames_on_air
    }

    /// A hash over the times, radios, kinds and numbers of all transmissions so far: equal runs
    /// have equal hashes.
    pub fn trace_hash(&self) -> u64 {
        self.air.trace_hash
    }

    /// Starts or stops recording the fate of frames on each link, for [`Self::poll_fate`].
    pub fn record_fates(&mut self, on: bool) {
        self.air.fates = on.then(VecDeque::new);
    }

    /// The fate of the next frame that a link carried.
    pub fn poll_fate(&mut self) -> Option<FateRecord> {
        self.air.fates.as_mut()?.pop_front()
    }

    /// Starts recording what the radios of a node decode, for [`Self::poll_arrival`]; `None` stops.
    pub fn record_arrivals(&mut self, node: Option<NodeId>) {
        self.air.heard = node.map(Heard::of);
    }

    /// The next arrival at the node, in the order in which transmissions end.
    pub fn poll_arrival(&mut self) -> Option<Arrival> {
        self.air.heard.as_mut()?.poll()
    }

    /// Starts or stops recording transmissions for [`Self::poll_transmission`]; off at first.
    pub fn record_transmissions(&mut self, on: bool) {
        self.air.is_recording = on;
    }

    /// The PHY and the channel of a radio.
    pub(crate) fn tuned(&self, radio: usize) -> (Phy, u16) {
        (self.air.links.phy(radio), self.air.links.channel(radio))
    }

    /// The delay and signal with which a node hears a radio's frames at `rate` now. Its own frames
    /// have no delay and no signal; others are taken at the node's strongest radio that can decode
    /// them. `None` if none of its radios can, or is up: power that leaks in from another channel
    /// is only energy.
    pub(crate) fn heard_at(
        &self,
        node: NodeId,
        (radio, rate): (usize, Bitrate),
    ) -> Option<(Duration, Option<Dbm>)> {
        let links = &self.air.links;
        if links.node(radio) == node {
            return Some((Duration::ZERO, None));
        }
        let can_decode = |hearer: &&Hearer| {
            let sink = hearer.radio as usize;
            let is_up = match &self.ports[sink] {
                Port::Chip(chip) => chip.is_up,
                Port::Wire(wire) => wire.is_up,
            };
            matches!(hearer.reach, Reach::Decodable(_))
                && links.node(sink) == node
                && is_up
                && links.is_strong(hearer, radio, rate)
        };
        let all = links.hearers(radio, rate).iter().filter(can_decode);
        let strongest = all.max_by_key(|hearer| hearer.signal)?;
        Some((strongest.delay, Some(strongest.signal)))
    }

    /// The next recorded transmission, in the order of their starts.
    pub fn poll_transmission(&mut self) -> Option<Transmission> {
        self.air.recorded.pop_front()
    }
}
