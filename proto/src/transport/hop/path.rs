//! Pacing of frames to a neighbour where no radio limits the rate: a device without an air accepts
//! everything at once, and the bottleneck of the path, which may be anywhere, drops the excess.
//!
//! Frames are spaced. The rate grows while the share of frames that arrive and the delay of answers
//! are as usual, and falls when either gets worse, which is taken for congestion. If a lower rate
//! improves nothing, there is none: the loss is random, or others fill the path, and the old rate
//! returns. This is tested again from time to time.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::answers::FIRST_WAIT;
use super::block::{Phase, Transfer};
use super::pace::Round;
use super::{Hop, Wire};
use crate::base::{Duration, Instant, NodeId, RadioId};

/// Frames after which the next rate is decided.
const ENOUGH: u32 = 32;
/// Frames of the first round trip, or of the shortest time if the round trip is shorter.
const FIRST: f64 = 64.0;
const SHORTEST: Duration = Duration::from_millis(5);
/// A round lasts two round trips, or this long if that is longer.
const ROUND: Duration = Duration::from_millis(20);
/// Frames of this time, and at least this many, may be sent at once: timers are no finer.
const AT_ONCE: Duration = Duration::from_millis(2);
const LEAST_AT_ONCE: f64 = 4.0;
/// Lowest and highest rate, in frames per second.
const SLOWEST: f64 = 50.0;
const FASTEST: f64 = 1e7;
/// Congestion is a share of arriving frames below this part of the usual share, by more than this
/// many standard deviations.
const USUAL: f64 = 0.9;
const DEVIATIONS: f64 = 2.0;
/// Standard deviations by which the share has to be higher at a lower rate.
const CLEARLY: f64 = 1.5;
/// Queueing delay that is no congestion; half of a round trip if that is more.
const QUEUE: Duration = Duration::from_millis(20);
/// Growth at each decision without congestion: by 5% at first, then faster, up to twice the rate. A
/// new path begins as if after `AT_FIRST` such decisions.
const LEAST_GROWTH: f64 = 0.05;
const MOST_GROWTH: f64 = 2.0;
const AT_FIRST: u32 = 10;
/// A lower rate, as a part of what came through; with a queue, also as a part of the rate, within
/// these limits.
const BELOW: f64 = 0.95;
const BELOW_QUEUE: f64 = 0.85;
const LEAST_FOR_QUEUE: f64 = 0.5;
/// How often the rate is lowered for a queue that stays: after that, the queue is that of others.
const CUTS: u32 = 6;
const LEAST_CUT: f64 = 0.1;
/// Part of the rate that has to be used before it grows: an unused rate may be too high.
const USED: f64 = 0.5;
/// Decisions after which the random loss is estimated anew.
const ANEW: u32 = 24;
/// Least share that is taken to arrive.
const LEAST_SHARE: f64 = 0.01;

/// How often the rate of arriving frames is measured, how much more than that is expected, since
/// the sender begins slowly, and how much of a higher expectation remains each time.
const PERIOD: Duration = Duration::from_millis(100);
const READY: f64 = 2.0;
const FADES: f64 = 0.9;

/// What is known of the path to a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Frames per second.
    rate: f64,
    /// When the next frame may be sent at that rate, and whether one waits for it.
    next: Instant,
    waits: bool,
    /// Since when that rate is used, the frames sent since then, and of complete rounds the frames
    /// that were sent and that came.
    since: Instant,
    gone: u32,
    sent: u32,
    came: u32,
    /// Longest queueing delay of a request behind these frames, at least, and how long the frames
    /// before it were being sent.
    queue: Duration,
    span: Duration,
    /// Share and queueing delay that are usual without congestion.
    usual_share: f64,
    usual_queue: Duration,
    /// Decisions in a row without congestion, and decisions since the usual values were reset.
    streak: u32,
    age: u32,
    /// What was before the last decision, if that lowered the rate.
    cut: Option<Cut>,
}

/// What pacing has found out about the path to a neighbour whose device has no air.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathStatus {
    /// The neighbour.
    pub node: NodeId,
    /// Present limit of its rate, in Mb/s of blocks.
    pub most_mbps: f64,
    /// Share of frames that are lost without congestion, 0 to 1.
    pub loss: f64,
    /// Round-trip time, as far as it is known.
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Option<Duration>,
}

/// The times of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap {
    /// When its first frame was sent.
    pub(super) began: Instant,
    /// When its request was first and last sent. `None` if the answer may have waited for something
    /// else, such as a disk.
    pub(super) asked: Option<(Instant, Instant)>,
}

impl Lap {
    /// The times of a transfer that is being answered. An answer to a virtual request may belong to
    /// the transfer before.
    pub(super) fn of(transfer: &Transfer) -> Self {
        let asked = match transfer.phase {
            Phase::Asked { first, since, .. } if !transfer.is_virtual => Some((first, since)),
            _ => None,
        };
        Self { began: transfer.began, asked }
    }
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    rate: f64,
    streak: u32,
    sent: u32,
    share: f64,
    queue: Duration,
    /// How often the rate was lowered since then.
    count: u32,
}

/// Standard deviation of whether a frame comes, if this share does.
fn deviation(share: f64) -> f64 {
    let share = share.clamp(LEAST_SHARE, 1.0 - LEAST_SHARE);
    (share * (1.0 - share)).sqrt()
}

impl Path {
    fn build(now: Instant, round_trip: Duration) -> Self {
        Self {
            rate: FIRST / round_trip.max(SHORTEST).as_secs_f64(),
            next: now,
            waits: false,
            since: now,
            gone: 0,
            sent: 0,
            came: 0,
            queue: Duration::ZERO,
            span: Duration::ZERO,
            usual_share: 1.0,
            usual_queue: Duration::ZERO,
            streak: AT_FIRST,
            age: 0,
            cut: None,
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_secs_f64(1.0 / self.rate)
    }

    /// How far sending may be behind, and then catch up at once.
    fn slack(&self) -> Duration {
        AT_ONCE.max(Duration::from_secs_f64(LEAST_AT_ONCE / self.rate))
    }

    /// Whether a frame may be sent now.
    fn may_send(&mut self, now: Instant) -> bool {
        let may = self.next <= now;
        self.waits = !may;
        may
    }

    fn on_frame(&mut self, now: Instant) {
        self.gone += 1;
        self.next = self.next.max(now.saturating_sub(self.slack())) + self.interval();
    }

    /// Takes the result of a round.
    fn on_round(&mut self, now: Instant, round: Round, lap: Lap, round_trip: Duration) {
        if lap.began < self.since || round.sent == 0 {
            return;
        }
        self.sent += round.sent;
        self.came += round.came;
        if let Some((first, last)) = lap.asked
            && let queue = now.since(last).saturating_sub(round_trip)
            && queue > self.queue
        {
            (self.queue, self.span) = (queue, first.since(lap.began));
        }
        if self.sent < ENOUGH {
            return;
        }
        let share = f64::from(self.came) / f64::from(self.sent);
        let long = QUEUE.max(round_trip / 2);
        if self.judge_cut(share, long).is_continue() {
            let during = now.since(self.since).as_secs_f64();
            let is_used = f64::from(self.gone) > USED * self.rate * during;
            self.decide(share, long, is_used);
        }
        (self.since, self.sent, self.came) = (now, 0, 0);
        (self.queue, self.gone) = (Duration::ZERO, 0);
    }

    /// Returns to the earlier rate if the lower one improved nothing. Breaks if that settles the
    /// decision.
    fn judge_cut(&mut self, share: f64, long: Duration) -> ControlFlow<()> {
        let Some(cut) = self.cut.take() else { return ControlFlow::Continue(()) };
        let counts = 1.0 / f64::from(self.sent) + 1.0 / f64::from(cut.sent);
        let is_better = share > cut.share + CLEARLY * deviation(cut.share) * counts.sqrt()
            || (cut.queue > self.usual_queue && self.queue < cut.queue / 4 * 3);
        if is_better {
            return ControlFlow::Continue(());
        }
        if self.queue > self.usual_queue + long && cut.count < CUTS {
            self.rate = (self.rate * self.less_for_queue()).max(SLOWEST);
            self.cut = Some(Cut { count: cut.count + 1, ..cut });
            return ControlFlow::Break(());
        }
        (self.usual_share, self.usual_queue) = (share.max(LEAST_SHARE), self.queue);
        // If nothing arrived at all, the old rate was no better.
        if self.came > 0 {
            (self.rate, self.streak) = (cut.rate, cut.streak);
        }
        ControlFlow::Break(())
    }

    /// How far the share may be off by chance.
    fn noise(&self) -> f64 {
        DEVIATIONS * deviation(self.usual_share) / f64::from(self.sent).sqrt()
    }

    /// Factor for the rate where there is a queue: the frames of that time were too many by what
    /// built it up.
    fn less_for_queue(&self) -> f64 {
        let (span, queue) = (self.span.as_secs_f64(), self.queue.as_secs_f64());
        (span / (span + queue)).clamp(LEAST_FOR_QUEUE, BELOW_QUEUE)
    }

    fn decide(&mut self, share: f64, long: Duration, is_used: bool) {
        self.age += 1;
        if self.age >= ANEW {
            (self.age, self.usual_share, self.usual_queue) = (0, 1.0, Duration::ZERO);
        }
        let is_short = share < USUAL * self.usual_share - self.noise();
        let is_long = self.queue > self.usual_queue + long;
        if is_short || is_long {
            let Self { rate, streak, sent, queue, .. } = *self;
            self.cut = Some(Cut { rate, streak, sent, share, queue, count: 1 });
            let come = (share / self.usual_share * BELOW).clamp(LEAST_CUT, BELOW);
            self.rate *= if is_long { come.min(self.less_for_queue()) } else { come };
            self.streak = 0;
        } else {
            self.usual_share += (share - self.usual_share) / 4.0;
            if is_used && self.came > 0 {
                let growth = LEAST_GROWTH * f64::from(self.streak / 2).exp2();
                self.rate *= (1.0 + growth).min(MOST_GROWTH);
                self.streak += 1;
            }
        }
        self.rate = self.rate.clamp(SLOWEST, FASTEST);
    }
}

/// Rate at which frames come from a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inflow {
    /// Frames per second that this node is ready for.
    rate: f64,
    since: Instant,
    came: u32,
}

impl Inflow {
    fn build(now: Instant) -> Self {
        Self { rate: 0.0, since: now, came: 0 }
    }

    fn on_frame(&mut self, now: Instant) {
        self.came += 1;
        let during = now.since(self.since);
        if during >= PERIOD {
            let rate = f64::from(self.came) / during.as_secs_f64();
            self.rate = (rate * READY).max(self.rate * FADES);
            (self.since, self.came) = (now, 0);
        }
    }
}

impl Hop {
    /// Whether the path to a neighbour has an unknown capacity.
    pub(super) fn is_open(&self, via: NodeId) -> bool {
        self.is_open_radio(self.radio_of(via))
    }

    /// The same for all neighbours that a radio reaches.
    pub(super) fn is_open_radio(&self, radio: RadioId) -> bool {
        self.below.wires.get(&radio).is_some_and(|wire| wire.frame.is_none())
    }

    /// Time that a frame takes over a wire to or from a neighbour; `None` if it is not known yet.
    pub(super) fn frame_time(&self, via: NodeId, wire: &Wire) -> Option<Duration> {
        let there = self.paths.get(&via).map_or(0.0, |path| path.rate);
        let here = self.inflows.get(&via).map_or(0.0, |inflow| inflow.rate);
        let of_path = || Duration::from_secs_f64(1.0 / there.max(here));
        wire.frame.or_else(|| (there + here > 0.0).then(of_path))
    }

    /// The path to a neighbour, if its capacity is unknown.
    fn path(&mut self, now: Instant, via: NodeId) -> Option<&mut Path> {
        self.is_open(via).then(|| {
            let round_trip = self.answers.round_trip(via).unwrap_or(FIRST_WAIT);
            self.paths.entry(via).or_insert_with(|| Path::build(now, round_trip))
        })
    }

    /// Most frames of a round to a neighbour.
    pub(super) fn path_frames(&mut self, now: Instant, via: NodeId) -> u32 {
        let round = ROUND.max(self.answers.round_trip(via).unwrap_or_default() * 2);
        let most = |path: &mut Path| (path.rate * round.as_secs_f64()) as u32;
        self.path(now, via).map_or(u32::MAX, |path| most(path).max(ENOUGH))
    }

    /// Whether a frame may be sent to a neighbour now.
    pub(super) fn may_go_to(&mut self, now: Instant, via: NodeId) -> bool {
        self.path(now, via).is_none_or(|path| path.may_send(now))
    }

    /// A frame of a block has come from a neighbour.
    pub(super) fn on_path_arrival(&mut self, now: Instant, via: NodeId) {
        if self.is_open(via) {
            self.inflows.entry(via).or_insert_with(|| Inflow::build(now)).on_frame(now);
        }
    }

    /// A frame is sent to a neighbour.
    pub(super) fn on_path_frame(&mut self, now: Instant, via: NodeId) {
        if let Some(path) = self.paths.get_mut(&via) {
            path.on_frame(now);
        }
    }

    /// Takes the result of a round to a neighbour.
    pub(super) fn on_path_round(&mut self, now: Instant, via: NodeId, round: Round, lap: Lap) {
        let round_trip = self.answers.round_trip(via).unwrap_or_default();
        if let Some(path) = self.paths.get_mut(&via) {
            path.on_round(now, round, lap, round_trip);
        }
    }

    /// What was found out about all such paths.
    pub fn path_status(&self) -> Vec<PathStatus> {
        let bits = f64::from(self.config.frame_bytes) * 8.0;
        let status = |(node, path): (&NodeId, &Path)| PathStatus {
            node: *node,
            most_mbps: path.rate * bits / 1e6,
            loss: 1.0 - path.usual_share,
            round_trip: self.answers.round_trip(*node),
        };
        self.paths.iter().map(status).collect()
    }

    /// When the first waiting frame may be sent.
    pub(super) fn path_due(&self) -> Option<Instant> {
        self.paths.values().filter(|path| path.waits).map(|path| path.next).min()
    }

    /// Frames that may be sent by now no longer wait.
    pub(super) fn end_path_waits(&mut self, now: Instant) {
        let over = self.paths.values_mut().filter(|path| path.next <= now);
        over.for_each(|path| path.waits = false);
    }
}
