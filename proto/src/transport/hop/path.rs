//! How fast a neighbour is sent to where no radio holds anything back: a device without an air of
//! its own takes all at once, and the narrowest place of the path, which may be anywhere, drops
//! what is too much.
//!
//! Frames are spaced. They go faster while as large a share of them comes as ever and requests are
//! answered as soon as ever, and slower once that is no longer so: it is congestion. What is no
//! better at a lower speed is not: then that much is lost by chance, or others fill the path, and
//! the speed is as before. Now and then this is found out anew.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::answers::FIRST_WAIT;
use super::block::{Phase, Transfer};
use super::pace::Round;
use super::{Hop, Wire};
use crate::base::{Duration, Instant, NodeId, RadioId};

/// Frames after which it is decided how fast the next ones go.
const ENOUGH: u32 = 32;
/// Frames of the first round trip, or of so long if that is shorter.
const FIRST: f64 = 64.0;
const SHORTEST: Duration = Duration::from_millis(5);
/// A round is as long as two round trips, or so long if that is longer.
const ROUND: Duration = Duration::from_millis(20);
/// What may go at once without more: timers are no finer.
const AT_ONCE: Duration = Duration::from_millis(2);
const LEAST_AT_ONCE: f64 = 4.0;
/// Frames per second that are always sent, and never exceeded.
const SLOWEST: f64 = 50.0;
const FASTEST: f64 = 1e7;
/// A share of what usually comes of which less is congestion, beyond so many deviations.
const USUAL: f64 = 0.9;
const DEVIATIONS: f64 = 2.0;
/// By how many deviations more has to come at a lower speed.
const CLEARLY: f64 = 1.5;
/// A queue along the path that is no congestion; half of a round trip if that is more.
const QUEUE: Duration = Duration::from_millis(20);
/// Growth while nothing speaks against it: little at first, and up to twice at each decision.
const LEAST_GROWTH: f64 = 0.05;
const MOST_GROWTH: f64 = 2.0;
const AT_FIRST: u32 = 10;
/// How much less is sent than what came through at once, or where there is a queue.
const BELOW: f64 = 0.95;
const BELOW_QUEUE: f64 = 0.85;
const LEAST_FOR_QUEUE: f64 = 0.5;
/// How often less is sent for a queue that stays: then it is that of others.
const CUTS: u32 = 6;
const LEAST_CUT: f64 = 0.1;
/// A part of the rate that has to be used: else it may be too much and nobody knows.
const USED: f64 = 0.5;
/// Decisions after which it is found out anew what is lost by chance.
const ANEW: u32 = 24;
/// What comes at least where anything does.
const LEAST_SHARE: f64 = 0.01;

/// How often it is found out how fast frames come, how much more than that is made room for, since
/// the sender begins slowly, and what is left of more than that.
const PERIOD: Duration = Duration::from_millis(100);
const READY: f64 = 2.0;
const FADES: f64 = 0.9;

/// What is known of the path to a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    /// Frames per second.
    rate: f64,
    /// When the next frame may go at that rate, and whether one waits for it.
    next: Instant,
    waits: bool,
    /// Since when frames go at that rate, how many have gone since then, and what became of those
    /// of whole rounds.
    since: Instant,
    gone: u32,
    sent: u32,
    came: u32,
    /// The longest time that a request behind them waited in a queue at least, and how long the
    /// frames before it went.
    queue: Duration,
    span: Duration,
    /// What is usual without congestion.
    usual_share: f64,
    usual_queue: Duration,
    /// Decisions in a row that found room, and those since the usual was found out.
    streak: u32,
    age: u32,
    /// What was before the last decision, if that was to send less.
    cut: Option<Cut>,
}

/// What blocks have found out of the path to a neighbour whose device has no air of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PathStatus {
    /// The neighbour.
    pub node: NodeId,
    /// Bytes of blocks a second at most, in Mb/s.
    pub most_mbps: f64,
    /// The share of their frames that does not come and is not taken for congestion, 0 to 1.
    pub loss: f64,
    /// How long the way there and back takes at least, as far as that is known.
    #[serde(rename = "round_trip_ns")]
    pub round_trip: Option<Duration>,
}

/// When a round went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lap {
    /// Its first frame.
    pub(super) began: Instant,
    /// When it was first and last asked what came of it. Nothing if the answer may have waited for
    /// something else, as for a disk.
    pub(super) asked: Option<(Instant, Instant)>,
}

impl Lap {
    /// That of a transfer that is answered. An answer to a virtual request may be to one of the
    /// transfer before.
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
    /// How often less was sent since then.
    count: u32,
}

/// Of whether a frame comes, of which this share does.
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

    /// How far behind it may be with frames: then so many go at once.
    fn slack(&self) -> Duration {
        AT_ONCE.max(Duration::from_secs_f64(LEAST_AT_ONCE / self.rate))
    }

    /// Whether a frame may go.
    fn may_send(&mut self, now: Instant) -> bool {
        let may = self.next <= now;
        self.waits = !may;
        may
    }

    fn on_frame(&mut self, now: Instant) {
        self.gone += 1;
        self.next = self.next.max(now.saturating_sub(self.slack())) + self.interval();
    }

    /// What came of a round.
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

    /// Goes back to what was before if it is no better for having sent less.
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
        (self.rate, self.streak) = (cut.rate, cut.streak);
        ControlFlow::Break(())
    }

    /// How much the share of what comes may be off by chance.
    fn noise(&self) -> f64 {
        DEVIATIONS * deviation(self.usual_share) / f64::from(self.sent).sqrt()
    }

    /// By how much less is sent where there is a queue: what made it in that time was too much.
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
            if is_used {
                let growth = LEAST_GROWTH * f64::from(self.streak / 2).exp2();
                self.rate *= (1.0 + growth).min(MOST_GROWTH);
                self.streak += 1;
            }
        }
        self.rate = self.rate.clamp(SLOWEST, FASTEST);
    }
}

/// How fast frames come from a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inflow {
    /// Frames per second that it is ready for.
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
    /// Whether nobody says how fast a neighbour may be sent to.
    pub(super) fn is_open(&self, via: NodeId) -> bool {
        self.is_open_radio(self.radio_of(via))
    }

    /// The same of all that a radio reaches.
    pub(super) fn is_open_radio(&self, radio: RadioId) -> bool {
        self.below.wires.get(&radio).is_some_and(|wire| wire.frame.is_none())
    }

    /// How long a frame takes over a wire to a neighbour or from there; nothing where that is not
    /// known yet.
    pub(super) fn frame_time(&self, via: NodeId, wire: &Wire) -> Option<Duration> {
        let there = self.paths.get(&via).map_or(0.0, |path| path.rate);
        let here = self.inflows.get(&via).map_or(0.0, |inflow| inflow.rate);
        let of_path = || Duration::from_secs_f64(1.0 / there.max(here));
        wire.frame.or_else(|| (there + here > 0.0).then(of_path))
    }

    /// The path to a neighbour to whom something is about to be sent.
    fn path(&mut self, now: Instant, via: NodeId) -> Option<&mut Path> {
        self.is_open(via).then(|| {
            let round_trip = self.answers.round_trip(via).unwrap_or(FIRST_WAIT);
            self.paths.entry(via).or_insert_with(|| Path::build(now, round_trip))
        })
    }

    /// Frames of a round to a neighbour at most.
    pub(super) fn path_frames(&mut self, now: Instant, via: NodeId) -> u32 {
        let round = ROUND.max(self.answers.round_trip(via).unwrap_or_default() * 2);
        let most = |path: &mut Path| (path.rate * round.as_secs_f64()) as u32;
        self.path(now, via).map_or(u32::MAX, |path| most(path).max(ENOUGH))
    }

    /// Whether a frame may go to a neighbour now.
    pub(super) fn may_go_to(&mut self, now: Instant, via: NodeId) -> bool {
        self.path(now, via).is_none_or(|path| path.may_send(now))
    }

    /// A frame of a block has come from a neighbour.
    pub(super) fn on_path_arrival(&mut self, now: Instant, via: NodeId) {
        if self.is_open(via) {
            self.inflows.entry(via).or_insert_with(|| Inflow::build(now)).on_frame(now);
        }
    }

    /// A frame goes to a neighbour.
    pub(super) fn on_path_frame(&mut self, now: Instant, via: NodeId) {
        if let Some(path) = self.paths.get_mut(&via) {
            path.on_frame(now);
        }
    }

    /// What came of a round to a neighbour.
    pub(super) fn on_path_round(&mut self, now: Instant, via: NodeId, round: Round, lap: Lap) {
        let round_trip = self.answers.round_trip(via).unwrap_or_default();
        if let Some(path) = self.paths.get_mut(&via) {
            path.on_round(now, round, lap, round_trip);
        }
    }

    /// What was found out of all such paths.
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

    /// When the first frame that waits may go.
    pub(super) fn path_due(&self) -> Option<Instant> {
        self.paths.values().filter(|path| path.waits).map(|path| path.next).min()
    }

    /// Nothing waits that may go by now.
    pub(super) fn end_path_waits(&mut self, now: Instant) {
        let over = self.paths.values_mut().filter(|path| path.next <= now);
        over.for_each(|path| path.waits = false);
    }
}
