//! Strangers at work in a world: they hear, they send, and it is counted what the nodes took from
//! them.
//!
//! A hostile frame bears no mark on the air. It is known by where its bytes stand in memory, which
//! is nowhere else while it is under way.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use farhop_proto::base::{Duration, Instant, ReceivedFrame, Seed};

use super::report::{AdversaryReport, Counters};
use crate::adversary::{Placed, Script, Sent, Shot, Stranger};
use crate::radio::{Injected, Medium};

/// The longest that a frame is on its way, for forgetting it after that.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

/// One who sends.
enum Source {
    Live(Box<Stranger>),
    Noise(Script),
}

impl Source {
    fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Live(stranger) => stranger.poll_timeout(),
            Self::Noise(script) => script.poll_timeout(),
        }
    }

    fn poll_shot(&mut self, now: Instant) -> Option<Shot> {
        match self {
            Self::Live(stranger) => stranger.poll_shot(now),
            Self::Noise(script) => script.poll_shot(now),
        }
    }
}

/// A hostile frame on its way.
struct InFlight {
    until: Instant,
    payload: Bytes,
    is_accepted: bool,
}

/// The strangers of a run.
pub(super) struct Hostile {
    /// Index of the first one's radio; the others follow.
    first_radio: usize,
    sources: Vec<Source>,
    in_flight: VecDeque<InFlight>,
    /// What each sent, for a run with noise in its place.
    sent: Vec<Vec<Sent>>,
    count: u64,
    by_kind: BTreeMap<&'static str, u64>,
    accepted: u64,
}

impl Hostile {
    /// `None` if there are none. With `scripts` the strangers only repeat those, as noise.
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
            in_flight: VecDeque::new(),
            count: 0,
            by_kind: BTreeMap::new(),
            accepted: 0,
        }))
    }

    /// When one of them next sends.
    pub(super) fn poll_timeout(&self) -> Instant {
        let next = self.sources.iter().filter_map(Source::poll_timeout).min();
        next.unwrap_or(Instant::MAX)
    }

    /// Sends what is due.
    pub(super) fn handle_timeout(&mut self, now: Instant, medium: &mut Medium) {
        while self.in_flight.pop_front_if(|frame| frame.until < now).is_some() {}
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
                self.sent[index].push(Sent { at: now, air_time, rate: frame.rate });
                let until = now + air_time + ON_ITS_WAY;
                self.in_flight.push_back(InFlight { until, payload, is_accepted: false });
            }
        }
    }

    /// Takes what the radio of a stranger heard.
    pub(super) fn handle_heard(&mut self, radio: usize, frame: &ReceivedFrame) {
        if let Source::Live(stranger) = &mut self.sources[radio - self.first_radio] {
            stranger.handle_frame(frame);
        }
    }

    /// Which frame on its way a reception is; `None` for those of nodes.
    pub(super) fn number_of(&self, frame: &ReceivedFrame) -> Option<usize> {
        let is_same = |hostile: &InFlight| {
            let (ours, theirs) = (&hostile.payload, &frame.payload);
            !theirs.is_empty() && (ours.as_ptr(), ours.len()) == (theirs.as_ptr(), theirs.len())
        };
        self.in_flight.iter().position(is_same)
    }

    /// Notes that a node took a frame for one that it may act on.
    pub(super) fn on_accepted(&mut self, number: usize) {
        let frame = &mut self.in_flight[number];
        self.accepted += u64::from(!frame.is_accepted);
        frame.is_accepted = true;
    }

    /// What they did so far. Takes what was sent, for noise in its place.
    pub(super) fn report(&self) -> AdversaryReport {
        let counter = |(kind, count): (&&'static str, &u64)| ((*kind).into(), *count);
        AdversaryReport {
            sent: self.count,
            accepted: self.accepted,
            by_kind: self.by_kind.iter().map(counter).collect(),
            rejected: Counters::new(),
            honest_goodput_ratio: None,
        }
    }

    /// What each of them sent, to be repeated as noise.
    pub(super) fn take_scripts(&mut self) -> Vec<Script> {
        self.sent.drain(..).map(Script::new).collect()
    }
}
