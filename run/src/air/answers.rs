//! How long the hosts of a lab take to answer a frame: the delay of the whole way from the card
//! through the daemon and the kernel, and back to the card.
//!
//! Over long links, this decides which frames collide, as nobody hears the other side begin. So a
//! simulation that is compared with a lab needs the delays of that lab.

use farhop_proto::base::{Duration, FrameUp, Instant};
use farhop_sim::radio::MediumEvent;

/// What comes later than this is not an answer: a delayed acknowledgement, or a frame of its own.
const LATEST: Duration = Duration::from_millis(2);
/// The quantiles that are told.
const QUANTILES: [f64; 10] = [0.0, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];

/// The times between the end of a received frame and the arrival of the next frame from the same
/// host, where its card had nothing to send.
#[derive(Debug)]
pub(super) struct Answers {
    radios: Vec<Radio>,
    /// How many took so many microseconds.
    counts: Vec<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Radio {
    /// Frames that the card has not finished.
    waiting: usize,
    /// The end of the frame that is not yet answered.
    heard: Option<Instant>,
    /// When the last frame came from the host.
    sent: Option<Instant>,
}

impl Answers {
    pub(super) fn new() -> Self {
        Self { radios: Vec::new(), counts: vec![0; LATEST.as_micros() as usize] }
    }

    fn radio(&mut self, index: usize) -> &mut Radio {
        if self.radios.len() <= index {
            self.radios.resize(index + 1, Radio::default());
        }
        &mut self.radios[index]
    }

    /// A card took a frame from its host.
    pub(super) fn on_sent(&mut self, radio: usize, at: Instant) {
        let radio = self.radio(radio);
        radio.waiting += 1;
        radio.sent = Some(at);
        let Some(heard) = radio.heard.take().filter(|heard| *heard <= at) else { return };
        if let Some(count) = self.counts.get_mut(at.since(heard).as_micros() as usize) {
            *count += 1;
        }
    }

    /// A card tells its host of something.
    pub(super) fn on_event(&mut self, event: &MediumEvent) {
        let radio = self.radio(event.radio);
        match &event.event {
            FrameUp::Done(_) => radio.waiting = radio.waiting.saturating_sub(1),
            // A frame that came in the meantime is no answer to this one.
            FrameUp::Received(_) if radio.waiting == 0 && radio.sent < Some(event.at) => {
                radio.heard = Some(event.at);
            }
            _ => {}
        }
    }

    /// Points of the distribution as a scenario has them, `[quantile, microseconds]`; none without
    /// answers.
    pub(super) fn points(&self) -> Vec<[f64; 2]> {
        let all: u64 = self.counts.iter().sum();
        if all == 0 {
            return Vec::new();
        }
        let (mut sums, mut sum) = (Vec::with_capacity(self.counts.len()), 0);
        for count in &self.counts {
            sum += count;
            sums.push(sum);
        }
        let at = |quantile: f64| {
            let rank = ((quantile * all as f64).ceil() as u64).max(1);
            sums.partition_point(|sum| *sum < rank) as f64
        };
        QUANTILES.map(|quantile| [quantile, at(quantile)]).into()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use farhop_proto::base::{
        EtherType, FrameDone, FrameOutcome, NodeId, Phy, RadioId, ReceivedFrame, UnitId,
    };

    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    fn event(radio: usize, micros: u64, event: FrameUp) -> MediumEvent {
        MediumEvent { radio, at: at(micros), event }
    }

    fn received() -> FrameUp {
        FrameUp::Received(ReceivedFrame {
            radio: RadioId(0),
            from: NodeId(2),
            to: None,
            protocol: EtherType::FARHOP,
            payload: Bytes::new(),
            started: Instant::ZERO,
            rate: Phy::default().rates()[0],
            signal: None,
            bits: 0,
        })
    }

    fn done() -> FrameUp {
        let (outcome, air_time) = (FrameOutcome::Sent, Duration::ZERO);
        FrameUp::Done(FrameDone { id: UnitId(1), outcome, attempts: 1, air_time })
    }

    #[test]
    fn answers_are_those_of_hosts_that_had_nothing_to_send() {
        let mut answers = Answers::new();
        assert!(answers.points().is_empty());
        // Two answers, of 80 and 120 us; the second frame after one is none.
        for (heard, sent) in [(1_000, 1_080), (5_000, 5_120)] {
            answers.on_event(&event(0, heard, received()));
            for micros in [sent, sent + 1] {
                answers.on_sent(0, at(micros));
                answers.on_event(&event(0, sent + 900, done()));
            }
        }
        // None: a late frame; one while another waited; one from before, told afterwards.
        answers.on_event(&event(1, 1_000, received()));
        answers.on_sent(1, at(9_000));
        answers.on_event(&event(1, 9_500, received()));
        answers.on_sent(1, at(9_600));
        answers.on_event(&event(1, 9_700, done()));
        answers.on_event(&event(1, 9_590, received()));
        answers.on_sent(1, at(9_800));
        let points = answers.points();
        assert_eq!((points[0], points[3], points[4]), ([0.0, 80.0], [0.5, 80.0], [0.75, 120.0]));
        assert_eq!(points.last(), Some(&[1.0, 120.0]));
    }
}
