//! A stranger of a lab: a process with its own radio, which obeys no protocol.
//!
//! The simulator's [`Stranger`] decides what it sends, and when. A late wake-up makes a frame late,
//! and the air refuses a frame that would overlap the one before.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use farhop_proto::base::{
    AccessCategory, AckPolicy, Duration, Instant, Phy, RadioId, ReceivedFrame, Seed,
};
use farhop_proto::link::secure::SecurityConfig;
use farhop_proto::stack::{NodeConfig, Scenario};
use farhop_proto::wire::ieee80211::{self, DataHeader};
use farhop_proto::wire::radiotap::{self, Injection};
use farhop_sim::adversary::{OldKey, Script, Sent, Setup, Shot, Source, Stranger, place};
use farhop_sim::engine::medium_config;
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::children::read_scenario;
use super::network;
use crate::daemon::control::{Control, Request};
use crate::device::signals::Signals;
use crate::device::{BATCH, Clock, FRAME_BYTES, PacketSocket, os, timespec};
use crate::lateness::{WakeupStats, Wakeups};

/// Name of the radio's end of a stranger's veth pair.
pub(super) fn far_end(stranger: usize) -> String {
    format!("farx{stranger}")
}

/// Name of the air's end of a stranger's veth pair.
pub(super) fn near_end(stranger: usize) -> String {
    format!("airx{stranger}")
}

/// File with the frames that a stranger repeats as noise.
pub(super) fn script_file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.script"))
}

/// File into which a stranger writes, on request, what it has sent.
pub(super) fn sent_file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.sent"))
}

/// Status of a stranger.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StrangerStatus {
    /// How late it woke up.
    pub(super) wakeups: WakeupStats,
    /// Number of frames that it handed to the air, by kind.
    pub(super) by_kind: BTreeMap<String, u64>,
    /// Processor time so far, in seconds.
    pub(super) cpu_s: f64,
    /// Largest resident memory so far, in kB.
    pub(super) memory_kb: u64,
}

struct Radio {
    source: Source,
    phy: Phy,
    clock: Clock,
    socket: PacketSocket,
    buffer: Vec<u8>,
    out: Vec<u8>,
    sequence: u16,
    /// When the run began; before that nothing is sent.
    begin: Option<Instant>,
    wakeups: Wakeups,
    by_kind: BTreeMap<String, u64>,
    /// All frames that it handed to the air since the run began.
    sent: Vec<Sent>,
    /// File for these.
    sent_file: PathBuf,
}

/// Runs a stranger: it waits for its radio, and sends once the run has begun.
///
/// Fails if the parent is dead or the radio is missing.
pub fn run_stranger(dir: &Path, name: &str, parent: u32, seed: u64) -> Result<()> {
    os::die_with_parent(parent)?;
    let scenario = read_scenario(dir)?;
    let index = scenario.adversary.iter().position(|stranger| stranger.name == name);
    let index = index.with_context(|| format!("no adversary '{name}' in the scenario"))?;
    let setup = setup(&scenario, index);
    let phy = setup.phy;
    let source = match fs::read(script_file(dir, name)) {
        Ok(text) => Source::Noise(Script::new(serde_json::from_slice::<Vec<Sent>>(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Source::Live(Box::new(Stranger::build(setup, Seed(seed))))
        }
        Err(error) => return Err(error.into()),
    };
    let far = far_end(index);
    network::take_up_radio(&far, &far)?;
    let mut control = Control::open(dir, name)?;
    let signals = Signals::take().context("cannot take over signals")?;
    os::ask_for_punctuality();
    let mut radio = Radio {
        source,
        phy,
        clock: Clock::start(),
        socket: PacketSocket::open(&far, None)?,
        buffer: vec![0; FRAME_BYTES],
        out: Vec::with_capacity(FRAME_BYTES),
        sequence: 0,
        begin: None,
        wakeups: Wakeups::build(Duration::from_millis(1)),
        by_kind: BTreeMap::new(),
        sent: Vec::new(),
        sent_file: sent_file(dir, name),
    };
    loop {
        let signal = [(signals.as_fd(), PollFlags::IN)];
        let others: Vec<_> = signal.into_iter().chain(control.sources()).collect();
        let is_asked = radio.step(&others)?;
        drop(others);
        if is_asked && signals.poll()?.is_some() {
            return Ok(());
        }
        if is_asked {
            control.serve(&mut |request| radio.answer(request));
        }
    }
}

fn setup(scenario: &Scenario, index: usize) -> Setup {
    let plan = scenario.plan();
    let mut medium = medium_config(scenario, &plan);
    let setup = place(scenario, &plan, &mut medium, false).swap_remove(index).setup;
    Setup { old_key: old_key(scenario), ..setup }
}

/// What a stranger with a once trusted key has; the scenario file of the lab has all public keys.
fn old_key(scenario: &Scenario) -> Option<OldKey> {
    let security = scenario.security.clone().filter(SecurityConfig::is_on)?;
    let key = |node: &NodeConfig| Some((scenario.node_id(&node.name)?, node.key?));
    Some(OldKey { security, keys: scenario.node.iter().filter_map(key).collect() })
}

impl Radio {
    fn answer(&mut self, request: Request) -> serde_json::Value {
        match request {
            Request::Begin {} => {
                self.begin = Some(self.clock.now());
                serde_json::json!({})
            }
            Request::Script {} => match self.write_down() {
                Ok(()) => serde_json::json!({}),
                Err(error) => serde_json::json!({ "error": error.to_string() }),
            },
            _ => {
                let usage = os::usage();
                let (cpu_s, memory_kb) = (usage.cpu_s, usage.memory_kb);
                let (wakeups, by_kind) = (self.wakeups.stats(), self.by_kind.clone());
                let status = StrangerStatus { wakeups, by_kind, cpu_s, memory_kb };
                serde_json::to_value(status).expect("plain data")
            }
        }
    }

    fn write_down(&self) -> io::Result<()> {
        let mut file = io::BufWriter::new(fs::File::create(&self.sent_file)?);
        serde_json::to_writer(&mut file, &self.sent)?;
        file.flush()
    }

    /// When the next frame is due, by the clock of this process.
    fn due(&self) -> Option<Instant> {
        Some(self.begin? + self.source.poll_timeout()?.since(Instant::ZERO))
    }

    /// Sleeps until a frame has come or is due, and handles it. Returns whether one of `others` is
    /// ready.
    fn step(&mut self, others: &[(BorrowedFd<'_>, PollFlags)]) -> io::Result<bool> {
        let due = self.due();
        let timeout = due.map(|due| timespec(due.since(self.clock.now())));
        let own = PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN);
        let more = others.iter().map(|(fd, events)| PollFd::from_borrowed_fd(*fd, *events));
        let mut fds: Vec<PollFd<'_>> = std::iter::once(own).chain(more).collect();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now = self.clock.now();
        if let Some(due) = due.filter(|due| *due <= now) {
            self.wakeups.on_timer(due, now);
        }
        let is_asked = fds[1..].iter().any(|fd| !fd.revents().is_empty());
        drop(fds);
        self.hear()?;
        while let Some(due) = self.due().filter(|due| *due <= self.clock.now()) {
            self.send(due)?;
        }
        Ok(is_asked)
    }

    fn hear(&mut self) -> io::Result<()> {
        for _ in 0..BATCH {
            let Some(arrival) = self.socket.receive(&mut self.buffer)? else { return Ok(()) };
            let Some(frame) =
                (!arrival.outgoing).then(|| received(&self.phy, &self.buffer[..arrival.length]))
            else {
                continue;
            };
            let now = self.clock.now().since(self.begin.unwrap_or(self.clock.now()));
            if let Some(frame) = frame {
                self.source.handle_frame(Instant::ZERO + now, &frame);
            }
        }
        Ok(())
    }

    fn send(&mut self, due: Instant) -> io::Result<()> {
        let begin = self.begin.expect("nothing is due before");
        let at = Instant::ZERO + due.since(begin);
        let Some(Shot { kind, frame, air_time }) = self.source.poll_shot(at) else { return Ok(()) };
        self.out.clear();
        let injection = Injection { phy: self.phy, rate: frame.rate, retries: None };
        radiotap::put_injection(&mut self.out, &injection);
        let header = DataHeader {
            from: (frame.from, RadioId(0)),
            to: frame.to.map(|to| (to, RadioId(0))),
            ack: AckPolicy::NoAck,
            access: AccessCategory::default(),
            sequence: self.sequence,
            retry: false,
            duration_us: 0,
            protocol: frame.protocol,
        };
        self.sequence = (self.sequence + 1) & 0x0fff;
        ieee80211::put_data(&mut self.out, &header, &frame.payload);
        if self.socket.send(&self.out)? {
            let name = kind.map_or("noise", |kind| kind.name());
            *self.by_kind.entry(name.into()).or_default() += 1;
            let bytes = frame.payload.len();
            self.sent.push(Sent { at, air_time, rate: frame.rate, bytes });
        }
        Ok(())
    }
}

/// Decodes a frame from the air.
fn received(phy: &Phy, packet: &[u8]) -> Option<ReceivedFrame> {
    let tap = radiotap::parse(packet).ok()?;
    let mpdu = Bytes::copy_from_slice(packet.get(tap.length..)?);
    let (header, payload) = ieee80211::decode(&mpdu).ok()?;
    Some(ReceivedFrame {
        radio: RadioId(0),
        from: header.from.0,
        to: header.to.map(|(node, _)| node),
        protocol: header.protocol,
        payload,
        started: Instant::ZERO,
        rate: tap.rate_of(phy).or(tap.rate).unwrap_or(phy.legacy_rates()[0]),
        signal: tap.signal,
        bits: 0,
    })
}
