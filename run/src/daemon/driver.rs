//! The loop of a daemon: it hands up what devices and the host received, fires timers that are due,
//! and hands down what the devices have room for.
//!
//! It sleeps until the earliest deadline and never spins: under `SCHED_FIFO` the kernel stops a
//! spinning process for 50 ms of every second. A source that used up its share of a turn rests for
//! a moment, so that a flood from one source cannot starve the slots.

mod keep;
mod radio;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use farhop_proto::base::PublicKey;
use farhop_proto::base::{
    Cx, Duration, FrameDown, FrameUp, Instant, Lane, NodeId, RadioId, Room, Seed,
};
use farhop_proto::link::secure::{Difference, SecureSpec};
use farhop_proto::stack::{NodePlan, Stack, StackStatus};
use farhop_proto::transport::hop::Hop;
use farhop_proto::wire::ip;
use rustix::event::{PollFd, PollFlags, poll};
use serde::Serialize;

use self::keep::NoBlocks;
use self::radio::Radio;
use super::differing::Differing;
use super::episodes::Episodes;
use super::host::{Host, HostStatus};
use super::neighbours::{Line, Neighbours};
use super::radios::Radios;
use super::upsets::{Upset, Upsets};
use crate::blocks::Exchange;
use crate::device::{BATCH, Clock, Device, DeviceStatus, timespec};
use crate::lateness::{WakeupStats, Wakeups};

/// Most frames that are handed to the radios in one turn.
const FRAMES: usize = 64;
/// Most IP packets that are taken from the host in one turn.
const PACKETS: usize = 64;
/// How long a source rests after it used up its share of a turn.
const REST: Duration = Duration::from_micros(250);

/// How often neighbours and devices are compared with what the log was told of them.
const LOOK: Duration = Duration::from_secs(1);

/// Antennas that are counted separately.
const ANTENNAS: usize = 3;

/// Counters of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DriverStats {
    /// Turns of the loop.
    pub turns: u64,
    /// Turns that ended at the limit of frames and left some for the next.
    pub turns_cut: u64,
    /// Times that a source used up its share of a turn and had to rest.
    pub rests: u64,
    /// IP packets of the host that were dropped because they held frames of this node's own `udp`
    /// devices.
    pub looped: u64,
    /// Requests of the link for bits in MAC acknowledgements, which no card supports.
    pub unsupported: u64,
    /// Frames that the link took back too late: they had been sent already.
    pub cancelled_late: u64,
    /// Received frames that the keys accept, or all if there are no keys, by antenna; the last
    /// counter includes all higher antennas. In a lab, frames of strangers never arrive by the
    /// first antenna.
    pub believed_by_antenna: [u64; ANTENNAS],
}

/// Whether a source has something to read, and until when it rests.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    is_ready: bool,
    rests_until: Instant,
}

/// A stack and its devices.
pub struct Driver {
    clock: Clock,
    stack: Stack,
    radios: Vec<Radio>,
    host: Option<(Box<dyn Host>, Source)>,
    /// Where this node's own `udp` devices send.
    underlay: BTreeSet<SocketAddr>,
    looped: Episodes,
    /// Moves blocks between the stack, the disk and programs.
    exchange: Option<Exchange>,
    no_blocks: Option<NoBlocks>,
    /// Events on their way up; a field so that its memory is reused.
    up: Vec<FrameUp>,
    due: Option<Instant>,
    /// When the last turn began; `None` before the first. A timer that it set for a moment before
    /// that, as something else no longer holds it back, does not count as late.
    turned: Option<Instant>,
    is_cut: bool,
    wakeups: Wakeups,
    upsets: Upsets,
    stats: DriverStats,
    neighbours: Neighbours,
    differing: Differing,
    devices: Radios,
    /// Whether frames are protected.
    is_secured: bool,
    /// When neighbours and devices were last looked at.
    looked: Instant,
}

impl Source {
    /// Whether to wait for it, because it does not rest.
    fn is_awake(&self, now: Instant) -> bool {
        now >= self.rests_until
    }

    fn rest(&mut self, now: Instant) {
        self.rests_until = now + REST;
    }
}

impl Driver {
    /// A stack that has no devices yet.
    pub fn build(plan: &NodePlan, seed: Seed, clock: Clock) -> Self {
        let guard = plan.slot().map_or(Duration::from_millis(1), |(_, guard)| guard);
        Self {
            clock,
            stack: Stack::build(plan, seed),
            radios: Vec::new(),
            host: None,
            underlay: BTreeSet::new(),
            looped: Episodes::default(),
            exchange: None,
            no_blocks: None,
            up: Vec::new(),
            due: None,
            turned: None,
            is_cut: false,
            wakeups: Wakeups::build(guard),
            upsets: Upsets::default(),
            stats: DriverStats::default(),
            neighbours: Neighbours::build(plan),
            differing: Differing::build(plan),
            devices: Radios::default(),
            is_secured: false,
            looked: Instant::ZERO,
        }
    }

    /// Adds a radio.
    pub fn add_radio(&mut self, id: RadioId, device: Box<dyn Device>) {
        self.radios.push(Radio::build(id, device));
    }

    /// Protects the frames; must be called before the first turn.
    pub fn set_security(&mut self, spec: SecureSpec) {
        self.is_secured = true;
        self.stack.set_security(spec);
    }

    /// From now on trusts exactly these keys of other nodes.
    pub fn set_keys(&mut self, keys: &BTreeMap<NodeId, PublicKey>) {
        self.stack.set_keys(&mut Cx::new(self.clock.now()), keys);
        // The next turn must come at once, as the stack may have frames to send.
        self.is_cut = true;
    }

    /// Connects the stack to the host.
    pub fn set_host(&mut self, host: Box<dyn Host>) {
        self.host = Some((host, Source { is_ready: true, ..Source::default() }));
    }

    /// Says where this node's own `udp` devices send: that must never come back from the host.
    pub(super) fn set_underlay(&mut self, underlay: BTreeSet<SocketAddr>) {
        self.underlay = underlay;
    }

    /// Time on the node's clock.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Sleeps until a source is ready or a timer is due. Returns whether one of `others` is ready.
    ///
    /// Fails if the system has no memory left.
    pub fn wait(&mut self, others: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<bool> {
        let now = self.clock.now();
        let turned = *self.turned.get_or_insert(now);
        self.due = self.poll_timeout().map(|due| due.max(turned));
        let timeout = match self.due {
            _ if self.is_cut => Some(Duration::ZERO),
            due => due.map(|due| due.since(now)),
        };
        let mut fds = Vec::with_capacity(self.radios.len() + 1 + others.len());
        let wanted = |source: &Source| {
            if source.is_awake(now) { PollFlags::IN } else { PollFlags::empty() }
        };
        for radio in &self.radios {
            fds.push(PollFd::from_borrowed_fd(radio.device.fd(), wanted(&radio.source)));
        }
        if let Some((host, source)) = &self.host {
            fds.push(PollFd::from_borrowed_fd(host.fd(), wanted(source)));
        }
        let mut programs = fds.len();
        if let Some(exchange) = &self.exchange {
            fds.push(PollFd::from_borrowed_fd(exchange.fd(), PollFlags::IN));
            programs = fds.len();
            let sources = exchange.sources();
            fds.extend(sources.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags)));
        }
        let own = fds.len();
        fds.extend(others.iter().map(|(fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)));
        match poll(&mut fds, timeout.map(timespec).as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let sources = self.radios.iter_mut().map(|radio| &mut radio.source);
        let sources = sources.chain(self.host.iter_mut().map(|(_, source)| source));
        for (source, ready) in sources.zip(&ready) {
            source.is_ready = *ready;
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.set_ready(&ready[programs..own]);
        }
        Ok(ready[own..].contains(&true))
    }

    /// When the next timer is due.
    fn poll_timeout(&self) -> Option<Instant> {
        let now = self.clock.now();
        let sources = self.radios.iter().map(|radio| &radio.source);
        let sources = sources.chain(self.host.iter().map(|(_, source)| source));
        let rests = sources.map(|source| source.rests_until).filter(|until| *until > now);
        let devices = self.radios.iter().filter_map(|radio| radio.device.poll_timeout(now));
        let held = self.radios.iter().filter_map(|radio| radio.next_release(now));
        let programs = self.exchange.as_ref().map(|exchange| match exchange.has_more() {
            true => now,
            false => exchange.poll_timeout(),
        });
        let own = self.stack.poll_timeout().into_iter().chain(programs);
        let own = own.chain(self.due_to_keep());
        own.chain(rests).chain(devices).chain(held).min()
    }

    /// Takes what was received, fires timers that are due, and hands down what there is room for.
    ///
    /// Fails if the port to the host is gone, or the interface of a device that is not reopened.
    pub fn turn(&mut self) -> io::Result<()> {
        self.stats.turns += 1;
        let now = self.clock.now();
        self.turned = Some(now);
        if let Some(due) = self.due.take().filter(|due| *due <= now) {
            self.wakeups.on_timer(due, now);
            self.upsets.on_timer(due, now);
        }
        self.take_frames()?;
        self.take_packets()?;
        let mut cx = Cx::new(self.clock.now());
        if self.stack.poll_timeout().is_some_and(|due| due <= cx.now) {
            self.stack.handle_timeout(&mut cx);
        }
        self.stack.turn(&mut cx);
        self.turn_blocks(&mut cx);
        self.give_frames()?;
        self.give_packets();
        if now.since(self.looked) > LOOK {
            self.looked = now;
            self.upsets.look(now);
            self.tell_of_neighbours();
            let devices = self.devices();
            tell(self.devices.news(now, &devices));
        }
        Ok(())
    }

    /// Moves blocks between the stack, the disk and programs.
    fn turn_blocks(&mut self, cx: &mut Cx<'_>) {
        let Some(exchange) = &mut self.exchange else { return };
        let is_called = exchange.is_called(cx.now);
        if !is_called && !self.stack.flows.hop().is_some_and(Hop::has_news) {
            return;
        }
        if let Some(hop) = self.stack.flows.hop_outside() {
            exchange.turn(cx.now, hop);
            self.stack.turn(cx);
        }
    }

    /// Logs changes at the neighbours.
    fn tell_of_neighbours(&mut self) {
        let status = self.stack.status(self.looked);
        for (name, how) in self.differing.news(self.looked, status.security.as_ref()) {
            match how {
                Some(how) => tracing::warn!(
                    "{name} {}: neither hears the other until both have the same `security`",
                    how.words()
                ),
                None => tracing::info!("nothing comes from {name} any more with another security"),
            }
        }
        if self.looped.begins(self.looked, Some(&self.stats.looped)) {
            tracing::warn!(
                "frames for a peer of a `udp` device come back: this host's route to that peer \
                 leads over the nodes. They are dropped; give the peer a route of its own"
            );
        }
        let mut news = self.neighbours.news(self.looked, &status.link);
        news.extend(self.neighbours.foreign(self.looked, &status.routing));
        tell(news);
    }

    fn take_frames(&mut self) -> io::Result<()> {
        for radio in &mut self.radios {
            if radio.source.is_ready {
                // Frames that are not ours take time too, though nothing of them is left.
                let has_more = radio.device.receive(&mut self.up)?;
                if has_more || self.up.len() >= BATCH {
                    self.stats.rests += 1;
                    radio.source.rest(self.clock.now());
                }
            }
            let now = self.clock.now();
            radio.device.handle_timeout(now, &mut self.up);
            let mut cx = Cx::new(now);
            for event in self.up.drain(..) {
                let antenna = match &event {
                    FrameUp::Received(frame) | FrameUp::Overheard(frame) => {
                        if !self.is_secured {
                            self.differing.on_frame(now, frame);
                        }
                        Some(usize::from(radio.device.antenna(frame)).min(ANTENNAS - 1))
                    }
                    FrameUp::Done(_) | FrameUp::Wanted(_) => None,
                };
                let before = self.stack.believed();
                self.stack.handle_frame(&mut cx, event);
                let is_believed = before.is_none_or(|before| self.stack.believed() != Some(before));
                if let Some(antenna) = antenna {
                    self.stats.believed_by_antenna[antenna] += u64::from(is_believed);
                }
            }
        }
        Ok(())
    }

    fn take_packets(&mut self) -> io::Result<()> {
        let Some((host, source)) = &mut self.host else { return Ok(()) };
        if !source.is_ready {
            return Ok(());
        }
        for _ in 0..PACKETS {
            let Some(packet) = host.receive()? else { return Ok(()) };
            // Otherwise each frame would be sent in another one, without end.
            if is_within(&self.underlay, &packet) {
                self.stats.looped += 1;
                continue;
            }
            self.stack.handle_ip(packet);
        }
        self.stats.rests += 1;
        source.rest(self.clock.now());
        Ok(())
    }

    fn give_frames(&mut self) -> io::Result<()> {
        self.release_held()?;
        for _ in 0..FRAMES {
            // Read the clock for each frame: handing over the one before took time.
            let mut cx = Cx::new(self.clock.now());
            let (now, radios) = (cx.now, &self.radios);
            let room = |lane: Lane| {
                let radio = radios.iter().find(|radio| radio.id == lane.radio);
                radio.map_or(Room::NONE, |radio| radio.room(now, lane.access))
            };
            let Some(down) = self.stack.poll_frame(&mut cx, &room) else {
                self.is_cut = false;
                self.flush();
                return Ok(());
            };
            self.hand_down(now, down)?;
            let mut cx = Cx::new(self.clock.now());
            for event in self.up.drain(..) {
                self.stack.handle_frame(&mut cx, event);
            }
            self.stack.turn(&mut cx);
        }
        self.is_cut = true;
        self.stats.turns_cut += 1;
        self.flush();
        Ok(())
    }

    fn flush(&mut self) {
        self.radios.iter_mut().for_each(|radio| radio.device.flush());
    }

    fn hand_down(&mut self, now: Instant, down: FrameDown) -> io::Result<()> {
        match down {
            FrameDown::Frame(frame) => {
                let radio = self.radios.iter_mut().find(|radio| radio.id == frame.radio);
                let radio = radio.expect("a frame for a radio that has room");
                radio.offer(now, frame, &mut self.up)?;
            }
            FrameDown::ReplyState { .. } => self.stats.unsupported += 1,
            FrameDown::Cancel(id) => {
                match self.radios.iter_mut().find_map(|radio| radio.cancel(id)) {
                    Some(event) => self.up.push(event),
                    None => self.stats.cancelled_late += 1,
                }
            }
        }
        Ok(())
    }

    /// Sends the held frames whose time has come.
    fn release_held(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        for radio in &mut self.radios {
            radio.release(now, &mut self.up)?;
        }
        let mut cx = Cx::new(now);
        for event in self.up.drain(..) {
            self.stack.handle_frame(&mut cx, event);
        }
        Ok(())
    }

    fn give_packets(&mut self) {
        while let Some(packet) = self.stack.poll_ip() {
            if let Some((host, _)) = &mut self.host {
                host.send(&packet);
            }
        }
    }

    /// How late the loop woke up.
    pub fn wakeups(&self) -> WakeupStats {
        self.wakeups.stats()
    }

    /// Standstills of the process; `None` if there were none.
    pub fn standstills(&self) -> Option<Upset> {
        self.upsets.standstills(self.clock.now())
    }

    /// Changes of the time of day; `None` if there were none.
    pub fn settings(&self) -> Option<Upset> {
        self.upsets.settings(self.clock.now())
    }

    /// Counters of the loop.
    pub fn stats(&self) -> DriverStats {
        self.stats
    }

    /// State of the radios' devices.
    pub fn devices(&self) -> Vec<DeviceStatus> {
        self.radios.iter().map(|radio| radio.device.status()).collect()
    }

    /// Counters of the port to the host.
    pub fn host(&self) -> Option<HostStatus> {
        self.host.as_ref().map(|(host, _)| host.status())
    }

    /// Neighbours whose security differs from ours, and how, by their names.
    pub fn differing(&self) -> BTreeMap<String, Difference> {
        self.differing.named(self.looked, self.stack_status().security.as_ref())
    }

    /// State of the stack.
    pub fn stack_status(&self) -> StackStatus {
        self.stack.status(self.clock.now())
    }
}

/// Whether an IP packet is a datagram for one of these sockets.
fn is_within(sockets: &BTreeSet<SocketAddr>, packet: &[u8]) -> bool {
    let is_it = || {
        let to = SocketAddr::new(ip::destination(packet)?, ip::ports(packet)?[1]);
        Some(sockets.contains(&to))
    };
    !sockets.is_empty() && is_it().unwrap_or(false)
}

fn tell(news: Vec<Line>) {
    for line in news {
        match line {
            Line::Info(text) => tracing::info!("{text}"),
            Line::Warning(text) => tracing::warn!("{text}"),
        }
    }
}
