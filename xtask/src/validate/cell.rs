//! Radios that all hear each other and always have a frame to send, on the radio model alone.

use bytes::Bytes;
use farhop_proto::base::{
    Dbm, Duration, EtherType, FlowId, Frame, FrameDown, FrameOutcome, FrameUp, Instant, NodeId,
    RadioId, Seed, TxOptions, UnitId,
};
use farhop_sim::radio::{AirLink, ChipConfig, LossModel, Medium, MediumConfig};

/// A set of radios, and which of them send to which.
pub(crate) struct Cell {
    /// The radios of nodes 1, 2, and so on.
    pub(crate) radios: Vec<ChipConfig>,
    /// Propagation delay between any two.
    pub(crate) delay: Duration,
    /// Sender and receiver of each pair; a radio sends to only one other.
    pub(crate) senders: Vec<(usize, usize)>,
    /// How their frames are sent.
    pub(crate) options: TxOptions,
    /// Frames in a sender's queue, with the one on air.
    pub(crate) backlog: usize,
    /// Size of a frame's body after LLC/SNAP, in bytes.
    pub(crate) bytes: usize,
    /// How many of these bytes count as goodput.
    pub(crate) payload: usize,
    /// Seed of all random draws.
    pub(crate) seed: u64,
    /// Length of the run; the first 2 s do not count.
    pub(crate) length: Duration,
}

/// The result of a cell.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Delivered payload of all senders, in Mb/s.
    pub(crate) mbps: f64,
    /// Share of attempts that were not acknowledged.
    pub(crate) failed: f64,
    /// Acknowledged frames of each sender.
    pub(crate) acknowledged: Vec<u64>,
}

/// Time before which nothing counts.
const WARM_UP: Duration = Duration::from_secs(2);

impl Cell {
    /// All others send to the last of these radios, packets of `bytes` bytes, of which `payload`
    /// count.
    pub(crate) fn to_the_last(
        radios: Vec<ChipConfig>,
        (bytes, payload): (usize, usize),
        length: Duration,
    ) -> Self {
        let sink = radios.len() - 1;
        Self {
            radios,
            delay: Duration::from_nanos(20),
            senders: (0..sink).map(|radio| (radio, sink)).collect(),
            options: TxOptions::default(),
            // One on air and one waiting.
            backlog: 2,
            bytes,
            payload,
            seed: 1,
            length,
        }
    }

    /// Runs the cell.
    pub(crate) fn run(&self) -> Outcome {
        let mut medium = Medium::new(self.medium(), Seed(self.seed));
        let mut next_id = 0;
        let mut put = |medium: &mut Medium, now: Instant, from: usize, to: usize| {
            next_id += 1;
            medium.handle_frame(now, from, self.frame(next_id, to));
        };
        for &(from, to) in &self.senders {
            for _ in 0..self.backlog {
                put(&mut medium, Instant::ZERO, from, to);
            }
        }
        let (from, end) = (Instant::ZERO + WARM_UP, Instant::ZERO + WARM_UP + self.length);
        let (mut delivered, mut attempts) = (0_u64, 0_u64);
        let mut acknowledged = vec![0_u64; self.senders.len()];
        while let Some(now) = medium.poll_timeout().filter(|now| *now <= end) {
            medium.handle_timeout(now);
            while let Some(event) = medium.poll_event() {
                match event.event {
                    FrameUp::Received(_) => delivered += u64::from(event.at >= from),
                    FrameUp::Done(done) => {
                        let is_sender = |(from, _): &(usize, usize)| *from == event.radio;
                        let sender = self.senders.iter().position(is_sender);
                        let sender = sender.expect("only senders have frames");
                        if event.at >= from {
                            attempts += u64::from(done.attempts);
                            let was_acked = matches!(done.outcome, FrameOutcome::Acked(_));
                            acknowledged[sender] += u64::from(was_acked);
                        }
                        put(&mut medium, now, event.radio, self.senders[sender].1);
                    }
                    FrameUp::Overheard(_) | FrameUp::Wanted(_) => {}
                }
            }
        }
        Outcome {
            mbps: delivered as f64 * self.payload as f64 * 8.0 / self.length.as_secs_f64() / 1e6,
            failed: 1.0 - acknowledged.iter().sum::<u64>() as f64 / attempts as f64,
            acknowledged,
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
            options: self.options,
        })
    }
}
