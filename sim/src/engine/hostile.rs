//! The strangers of a simulated network: feeds them what they hear, sends their frames, and counts
//! what the nodes accept.

use std::collections::BTreeMap;

use farhop_proto::base::{Instant, ReceivedFrame, Seed};

use super::report::{AdversaryReport, Counters, OWN_NAME};
use crate::adversary::{Genuine, Placed, Script, Sent, Shot, Source, UnderWay};
use crate::radio::{Injected, Medium};

/// Origin of a frame that a node heard.
#[derive(Clone, Copy)]
pub(super) enum Heard {
    Genuine,
    Hostile {
        position: usize,
        /// It is an exact copy of a node's frame that this node had missed.
        is_missed_copy: bool,
    },
}

/// The strangers of a run.
pub(super) struct Hostile {
    /// Index of the first stranger's radio; the others follow.
    first_radio: usize,
    sources: Vec<Source>,
    under_way: UnderWay,
    /// What each stranger sent, to be repeated as noise in a second run.
    sent: Vec<Vec<Sent>>,
    count: u64,
    by_kind: BTreeMap<&'static str, u64>,
    accepted: u64,
    relayed: u64,
    own_name: u64,
    genuine: Genuine,
}

impl Hostile {
    /// `None` if there are no strangers. With `scripts`, they only repeat those as noise.
    pub(super) fn build(
        placed: Vec<Placed>,
        scripts: Option<Vec<Script>>,
        seed: Seed,
    ) -> Option<Box<Self>> {
        let first_radio = placed.first()?.radio;
        let sources: Vec<Source> = match scripts {
            Some(scripts) => scripts.into_iter().map(Source::Noise).collect(),
            None => {
                let live = |one: Placed| Source::Live(Box::new(one.build(seed)));
                placed.into_iter().map(live).collect()
            }
        };
        Some(Box::new(Self {
            first_radio,
            sent: vec![Vec::new(); sources.len()],
            sources,
            under_way: UnderWay::default(),
            count: 0,
            by_kind: BTreeMap::new(),
            accepted: 0,
            relayed: 0,
            own_name: 0,
            genuine: Genuine::default(),
        }))
    }

    /// When a stranger next sends.
    pub(super) fn poll_timeout(&self) -> Instant {
        let next = self.sources.iter().filter_map(Source::poll_timeout).min();
        next.unwrap_or(Instant::MAX)
    }

    /// Sends the frames that are due.
    pub(super) fn handle_timeout(&mut self, now: Instant, medium: &mut Medium) {
        for (index, source) in self.sources.iter_mut().enumerate() {
            let Some(shot) = source.poll_shot(now) else { continue };
            let Shot { kind, frame, air_time } = shot;
            let payload = frame.payload.clone();
            let injected = Injected {
                from: frame.from,
                to: frame.to,
                protocol: frame.protocol,
                payload: frame.payload,
                rate: frame.rate,
                air_time,
            };
            let is_sent = medium.inject(now, self.first_radio + index, injected);
            assert!(is_sent, "a stranger's frames do not overlap");
            self.count += 1;
            if let Some(kind) = kind {
                *self.by_kind.entry(kind.name()).or_default() += 1;
                let bytes = payload.len();
                self.sent[index].push(Sent { at: now, air_time, rate: frame.rate, bytes });
                self.under_way.on_begin(now, air_time, payload);
            }
        }
    }

    /// Gives a stranger a frame that its radio heard.
    pub(super) fn handle_heard(&mut self, now: Instant, radio: usize, frame: &ReceivedFrame) {
        self.genuine.on_sent(frame);
        self.sources[radio - self.first_radio].handle_frame(now, frame);
    }

    /// Counts a frame with the receiver's own node as its sender, which the radio drops.
    pub(super) fn on_own_name(&mut self) {
        self.own_name += 1;
    }

    /// A node without keys hears a frame, and accepts it.
    pub(super) fn on_heard_without_keys(&mut self, frame: &ReceivedFrame) {
        if let Some(position) = self.under_way.position(frame) {
            self.on_accepted(position);
        }
    }

    /// A node with keys hears a frame. Returns where the frame is from.
    pub(super) fn on_heard_by(&mut self, node: usize, frame: &ReceivedFrame) -> Heard {
        match self.under_way.position(frame) {
            Some(position) => {
                let is_missed_copy = self.genuine.has_missed(node, frame);
                Heard::Hostile { position, is_missed_copy }
            }
            None => {
                self.genuine.on_received(node, frame);
                Heard::Genuine
            }
        }
    }

    /// The keys of a node let the frame pass that it just heard.
    pub(super) fn on_believed(&mut self, heard: Heard) {
        match heard {
            Heard::Genuine => {}
            Heard::Hostile { is_missed_copy: true, .. } => self.relayed += 1,
            Heard::Hostile { position, is_missed_copy: false } => self.on_accepted(position),
        }
    }

    fn on_accepted(&mut self, position: usize) {
        self.accepted += u64::from(self.under_way.on_accepted(position));
    }

    /// The counts so far, for the report.
    pub(super) fn report(&self) -> AdversaryReport {
        let counter = |(kind, count): (&&'static str, &u64)| ((*kind).into(), *count);
        let mut rejected = Counters::new();
        if self.own_name > 0 {
            rejected.insert(OWN_NAME.into(), self.own_name);
        }
        AdversaryReport {
            sent: self.count,
            accepted: self.accepted,
            relayed: self.relayed,
            by_kind: self.by_kind.iter().map(counter).collect(),
            rejected,
            honest_goodput_ratio: None,
        }
    }

    /// Takes what each of them sent, to be repeated as noise.
    pub(super) fn take_scripts(&mut self) -> Vec<Script> {
        self.sent.drain(..).map(Script::new).collect()
    }
}
