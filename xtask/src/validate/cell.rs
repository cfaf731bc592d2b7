//! Radios that all hear each other and always have a frame to send, on the radio model alone.

use bytes::Bytes;
use farhop_proto::base::{
    Dbm, Duration, EtherType, FlowId, Frame, FrameDown, FrameOutcome, FrameUp, Instant, NodeId, RadioId, Seed,
    TxOptions, UnitId,
};
use farhop_sim::radio::{AirLink, ChipConfig, LossModel, Medium, MediumConfig};

/// Radios, and which of them send to which.
pub(crate) struct Cell {
    /// Radios, of nodes 1, 2, ...
    pub(crate) radios: Vec<ChipConfig>,
    /// Propagation between any two.
    pub(crate) delay: Duration,
    /// From which radio to which.
    pub(crate) senders: Vec<(usize, usize)>,
    /// Bytes behind LLC/SNAP.
    pub(crate) bytes: usize,
    /// Bytes of them that count.
    pub(crate) payload: usize,
    /// Seed of all draws.
    pub(crate) seed: u64,
    /// Length of the run; nothing is counted in the first 2 s of it.
    pub(crate) length: Duration,
}

/// What came of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    /// Delivered payload of all senders, in Mb/s.
    pub(crate) mbps: f64,
    /// Share of attempts that were not acknowledged.
    pub(crate) failed: f64,
}

/// Before this, nothing counts.
const WARM_UP: Duration = Duration::from_secs(2);

impl Cell {
    /// Runs it.
    pub(crate) fn run(&self) -> Outcome {
        let mut medium = Medium::new(self.medium(), Seed(self.seed));
        let mut next_id = 0;
        let mut put = |medium: &mut Medium, now: Instant, from: usize, to: usize| {
            next_id += 1;
            medium.handle_frame(now, from, self.frame(next_id, to));
        };
        for &(from, to) in &self.senders {
            // One on air and one that waits: the queue is never empty when a frame ends.
            put(&mut medium, Instant::ZERO, from, to);
            put(&mut medium, Instant::ZERO, from, to);
        }
        let (from, end) = (Instant::ZERO + WARM_UP, Instant::ZERO + WARM_UP + self.length);
        let (mut delivered, mut attempts, mut acknowledged) = (0_u64, 0_u64, 0_u64);
        while let Some(now) = medium.poll_timeout().filter(|now| *now <= end) {
            medium.handle_timeout(now);
            while let Some(event) = medium.poll_event() {
                match event.event {
                    FrameUp::Received(_) => delivered += u64::from(event.at >= from),
                    FrameUp::Done(done) => {
                        if event.at >= from {
                            attempts += u64::from(done.attempts);
                            acknowledged += u64::from(done.outcome != FrameOutcome::Failed);
                        }
                        let sender = self.senders.iter().find(|(from, _)| *from == event.radio);
                        let (from, to) = *sender.expect("only senders have frames");
                        put(&mut medium, now, from, to);
                    }
                    FrameUp::Overheard(_) => {}
                }
            }
        }
        Outcome {
            mbps: delivered as f64 * self.payload as f64 * 8.0 / self.length.as_secs_f64() / 1e6,
            failed: 1.0 - acknowledged as f64 / attempts as f64,
        }
    }

    fn medium(&self) -> MediumConfig {
        let count = self.radios.len();
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let link = |(from, to)| AirLink {
            from,
            to,
            delay: self.delay,
            signal: Dbm::new(-50),
            loss: LossModel::None,
        };
        let links = pairs.filter(|(from, to)| from != to).map(link).collect();
        MediumConfig::new(self.radios.clone(), links)
    }

    fn frame(&self, id: u64, to: usize) -> FrameDown {
        FrameDown::Frame(Frame {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(to as u16 + 1)),
            flow: FlowId(0),
            protocol: EtherType::IPV4,
            payload: Bytes::from(vec![0; self.bytes]),
            options: TxOptions::default(),
        })
    }
}
