//! The model of the air, run in the order of the frames' own times.
//!
//! It has no clock and no socket: its caller passes frames, with the kernel's time of each, and the
//! present time.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use farhop_proto::base::{Duration, FrameDown, Instant, NodeId, UnitId};
use farhop_sim::radio::{Medium, MediumEvent};

use super::answers::Answers;
use super::attach::{Injected, What};
use super::hostile::{Hostile, HostileStats};

/// The begin or end of a fault while the air runs.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// When, on the air's clock.
    pub at: Instant,
    /// Whether the fault ends then.
    pub up: bool,
    /// What is affected.
    pub what: Fault,
}

/// What a fault affects. It is up again once all its faults have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A radio, by its index.
    Radio(usize),
    /// All links between two nodes, of which the one with the lower number comes first.
    Link([NodeId; 2]),
}

/// Frames that came after the model had passed their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LateArrivals {
    pub(super) count: u64,
    pub(super) worst: Duration,
}

/// The model and how far it has run.
#[derive(Debug)]
pub(super) struct Paced {
    medium: Medium,
    /// How far the model has run.
    now: Instant,
    /// Changes to come, in reverse order: the next one is the last element.
    changes: Vec<Change>,
    /// How many faults hold each thing down.
    downs: BTreeMap<Fault, u32>,
    late: LateArrivals,
    answers: Answers,
    hostile: Hostile,
}

impl Paced {
    /// `strangers` is the index of the first stranger's radio, if there is one. Recordings of
    /// losses wait for [`Self::begin_recordings`].
    pub(super) fn build(mut medium: Medium, now: Instant, strangers: Option<usize>) -> Self {
        let late = LateArrivals::default();
        let (changes, downs) = Default::default();
        let answers = Answers::new();
        let hostile = Hostile::build(strangers);
        medium.begin_recordings_at(Instant::MAX);
        Self { medium, now, changes, downs, late, answers, hostile }
    }

    pub(super) fn medium(&self) -> &Medium {
        &self.medium
    }

    pub(super) fn late(&self) -> LateArrivals {
        self.late
    }

    /// How long hosts take to answer a frame.
    pub(super) fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Begins to play back recordings of losses.
    pub(super) fn begin_recordings(&mut self, now: Instant) {
        self.medium.begin_recordings_at(now);
    }

    /// Adds a change for later.
    pub(super) fn plan_change(&mut self, change: Change) {
        self.changes.push(change);
        self.changes.sort_by_key(|change| Reverse((change.at, change.up)));
    }

    /// When something is next due.
    pub(super) fn poll_timeout(&self) -> Instant {
        let change = self.changes.last().map_or(Instant::MAX, |change| change.at);
        self.medium.poll_timeout().unwrap_or(Instant::MAX).min(change)
    }

    /// Runs the model to `now`, with every frame at its own time. Frames for which their chip has
    /// no room are passed to `refused`.
    ///
    /// A frame from before the model's present time is taken at that time, and counted as late. A
    /// frame from after `now`, which only a clock that was set can cause, is taken at `now`.
    pub(super) fn run(
        &mut self,
        arrivals: &mut Vec<Injected>,
        now: Instant,
        refused: &mut dyn FnMut(usize, UnitId),
    ) {
        let now = now.max(self.now);
        arrivals.sort_by_key(|arrival| arrival.at);
        for Injected { at, radio, what } in arrivals.drain(..) {
            let behind = self.now.since(at);
            if !behind.is_zero() {
                self.late.count += 1;
                self.late.worst = self.late.worst.max(behind);
            }
            self.advance(at.clamp(self.now, now));
            match what {
                What::Hostile(frame) => self.hostile.send(&mut self.medium, self.now, radio, frame),
                What::Frame(frame) if self.medium.room(radio, frame.options.access) == 0 => {
                    refused(radio, frame.id);
                }
                What::Frame(frame) => {
                    self.answers.on_sent(radio, at);
                    self.medium.handle_frame(self.now, radio, FrameDown::Frame(frame));
                }
            }
        }
        self.advance(now);
    }

    fn advance(&mut self, until: Instant) {
        while let Some(change) = self.changes.pop_if(|change| change.at <= until) {
            self.now = self.now.max(change.at);
            self.apply(change);
        }
        self.medium.handle_timeout(until);
        self.now = until;
    }

    fn apply(&mut self, change: Change) {
        let downs = self.downs.entry(change.what).or_default();
        *downs = if change.up { downs.saturating_sub(1) } else { *downs + 1 };
        let is_up = *downs == 0;
        match change.what {
            Fault::Radio(radio) => self.medium.set_radio_up(self.now, radio, is_up),
            Fault::Link(nodes) => self.medium.set_linked(self.now, nodes, is_up),
        }
    }

    /// The next event of a radio, in the order of time, and the antenna of its reception: 0 unless
    /// it is a stranger's frame.
    pub(super) fn poll_event(&mut self) -> Option<(MediumEvent, u8)> {
        let event = self.medium.poll_event()?;
        self.answers.on_event(&event);
        let antenna = self.hostile.antenna_of(&event);
        Some((event, antenna))
    }

    /// Counters of strangers' frames.
    pub(super) fn hostile(&self) -> HostileStats {
        self.hostile.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use farhop_proto::base::{
        AckPolicy, Dbm, EtherType, FlowId, Frame, FrameOutcome, FrameUp, Gap, Phy, RadioId, Seed,
        TxOptions,
    };
    use farhop_sim::radio::{AirLink, ChipConfig, LossModel, MediumConfig};

    /// Two radios 10 us apart that do not wait for each other.
    fn paced() -> Paced {
        let radio = |node| ChipConfig {
            gap: Gap::Difs,
            carrier_sense: false,
            queue_frames: 2,
            ..ChipConfig::new(NodeId(node), RadioId(0), Phy::default())
        };
        let link = |from, to| AirLink {
            from,
            to,
            delay: Duration::from_micros(10),
            signal: Dbm::new(-60),
            loss: LossModel::Bernoulli { p: 0.0 },
        };
        let config = MediumConfig::new(vec![radio(1), radio(2)], vec![link(0, 1), link(1, 0)]);
        Paced::build(Medium::new(config, Seed(1)), Instant::ZERO, None)
    }

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn arrival(micros: u64, radio: usize, id: u64) -> Injected {
        let frame = Frame {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(2 - radio as u16)),
            flow: FlowId(0),
            protocol: EtherType::FARHOP,
            payload: Bytes::from(vec![id as u8; 100]),
            options: TxOptions { ack: AckPolicy::NoAck, ..TxOptions::default() },
        };
        Injected { at: at(micros), radio, what: What::Frame(frame) }
    }

    fn run(paced: &mut Paced, mut arrivals: Vec<Injected>, now: u64) -> Vec<u64> {
        let mut refused = Vec::new();
        paced.run(&mut arrivals, at(now), &mut |_, id| refused.push(id.0));
        refused
    }

    /// Who received which frame (by its first byte), and when its preamble began.
    fn received(paced: &mut Paced) -> Vec<(usize, u8, u64)> {
        std::iter::from_fn(|| paced.poll_event())
            .filter_map(|(event, _)| match event.event {
                FrameUp::Received(frame) => {
                    Some((event.radio, frame.payload[0], frame.started.as_nanos() / 1_000))
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn frames_go_on_air_at_the_time_of_their_arrival_not_of_the_wake_up() {
        let mut paced = paced();
        // The process slept through both frames, and read radio 1 first.
        assert!(
            run(&mut paced, vec![arrival(3_000, 1, 2), arrival(1_000, 0, 1)], 9_000).is_empty()
        );
        // On an idle medium: sent at once, and 10 us on the way.
        assert_eq!(received(&mut paced), [(1, 1, 1_010), (0, 2, 3_010)]);
        assert_eq!(paced.late(), LateArrivals::default());
    }

    #[test]
    fn what_is_not_over_yet_is_not_told() {
        let mut paced = paced();
        run(&mut paced, vec![arrival(1_000, 0, 1)], 1_100);
        assert!(received(&mut paced).is_empty());
        let due = paced.poll_timeout();
        assert!(due > at(1_100) && due < at(2_000), "{due:?}");
        run(&mut paced, Vec::new(), 2_000);
        assert_eq!(received(&mut paced), [(1, 1, 1_010)]);
        assert_eq!(paced.poll_timeout(), Instant::MAX);
    }

    #[test]
    fn a_frame_that_comes_too_late_is_taken_now_and_counted() {
        let mut paced = paced();
        run(&mut paced, Vec::new(), 5_000);
        run(&mut paced, vec![arrival(4_300, 0, 1), arrival(5_000, 1, 2)], 9_000);
        assert_eq!(paced.late(), LateArrivals { count: 1, worst: Duration::from_micros(700) });
        // Both radios send at once; they are half duplex, so neither hears anything.
        assert!(received(&mut paced).is_empty());
    }

    #[test]
    fn a_stamp_from_the_future_does_not_run_the_model_ahead() {
        let mut paced = paced();
        run(&mut paced, vec![arrival(90_000, 0, 1)], 1_000);
        run(&mut paced, Vec::new(), 3_000);
        assert_eq!(received(&mut paced), [(1, 1, 1_010)]);
    }

    #[test]
    fn beyond_the_chips_queue_frames_are_refused() {
        let mut paced = paced();
        let flood = (1..=5).map(|id| arrival(1_000, 0, id)).collect();
        assert_eq!(run(&mut paced, flood, 9_000), [3, 4, 5]);
        let heard: Vec<u8> = received(&mut paced).iter().map(|(_, id, _)| *id).collect();
        assert_eq!(heard, [1, 2]);
    }

    #[test]
    fn a_thing_is_up_when_no_fault_holds_it_down() {
        let mut paced = paced();
        let what = Fault::Link([NodeId(1), NodeId(2)]);
        for (down, up) in [(1_000, 20_000), (20_000, 40_000), (25_000, 30_000)] {
            paced.plan_change(Change { at: at(down), up: false, what });
            paced.plan_change(Change { at: at(up), up: true, what });
        }
        let times = [100, 5_000, 22_000, 35_000, 41_000];
        let frames = times.iter().enumerate().map(|(id, time)| arrival(*time, 0, id as u64));
        run(&mut paced, frames.collect(), 60_000);
        let heard: Vec<u8> = received(&mut paced).iter().map(|(_, id, _)| *id).collect();
        assert_eq!(heard, [0, 4]);
        assert_eq!(paced.poll_timeout(), Instant::MAX);
    }

    #[test]
    fn the_radio_of_a_node_that_is_down_refuses_and_ends_what_it_had() {
        let mut paced = paced();
        paced.plan_change(Change { at: at(1_100), up: false, what: Fault::Radio(0) });
        assert_eq!(run(&mut paced, vec![arrival(1_000, 0, 1), arrival(2_000, 0, 2)], 9_000), [2]);
        let ends: Vec<FrameOutcome> = std::iter::from_fn(|| paced.poll_event())
            .filter_map(|(event, _)| match event.event {
                FrameUp::Done(done) => Some(done.outcome),
                _ => None,
            })
            .collect();
        assert_eq!(ends, [FrameOutcome::Failed]);
    }
}
