//! Loss processes of links (`radio.md` 5): the fate of each frame on its way.
//!
//! All share one interface, [`LossProcess::lost`]. A process in time takes its state at the start
//! of a frame, so that the long-run loss matches the formula for frames of any length; an
//! interferer destroys what it overlaps. Driver drops are drawn among the frames that arrive.

mod interferer;
mod replay;
mod runs;
mod states;
#[cfg(test)]
mod tests;
mod wander;

use std::sync::Arc;

use farhop_proto::base::{Bitrate, Duration, Instant, Rng};
pub use farhop_proto::stack::Fate;
use farhop_proto::stack::LossTrace;

pub use interferer::Interferer;
pub use runs::ErrorRuns;
pub use wander::{Burst, Drift, Modulated};

/// Configuration of a loss process.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossModel {
    /// Nothing is lost.
    #[default]
    None,
    /// Each frame is lost independently with probability `p`.
    Bernoulli {
        /// Probability, 0 to 1.
        p: f64,
    },
    /// Each unit of `bytes` bytes of a frame is lost independently with probability `p`, and a
    /// frame is lost with any of its units.
    Units {
        /// Probability, 0 to 1.
        p: f64,
        /// Size of a unit, in bytes.
        bytes: u32,
    },
    /// Gilbert-Elliott in time: two states with exponential sojourn times, each with its own loss.
    GilbertElliott {
        /// Mean sojourn in the good state.
        good: Duration,
        /// Mean sojourn in the bad state.
        bad: Duration,
        /// Loss of a frame that starts in the good state, 0 to 1.
        good_loss: f64,
        /// Loss of a frame that starts in the bad state, 0 to 1.
        bad_loss: f64,
    },
    /// Gilbert-Elliott by frame: two states that change from frame to frame, each with its own
    /// loss.
    GilbertElliottFrames {
        /// Probability of a change to the bad state from one frame to the next, above 0.
        to_bad: f64,
        /// Probability of a change to the good state from one frame to the next, above 0.
        to_good: f64,
        /// Loss of a frame in the good state, 0 to 1.
        good_loss: f64,
        /// Loss of a frame in the bad state, 0 to 1.
        bad_loss: f64,
    },
    /// Runs of lost frames of measured lengths, between runs of frames that arrive.
    Runs(Arc<ErrorRuns>),
    /// A hidden interferer, which the sender does not hear.
    Interferer(Box<Interferer>),
    /// A loss that wanders over seconds to minutes, with bursts.
    Drift(Box<Drift>),
    /// A loss that is drawn anew at equal intervals around its mean.
    Modulated(Box<Modulated>),
    /// A recording that is played back.
    Trace {
        /// The recording.
        trace: Arc<LossTrace>,
        /// Whether it repeats; if not, nothing is lost after its end.
        repeat: bool,
    },
    /// A process for each of these bit-rates, the slowest first. Any other bit-rate uses the
    /// process of the next faster one, or of the fastest.
    ByRate(Vec<(Bitrate, LossModel)>),
    /// A driver that drops frames which the card has received, on top of another process.
    Driver {
        /// Share of the received frames that it drops, 0 to 1.
        share: f64,
        /// Whether the card acknowledges them before they are dropped.
        acknowledges: bool,
        /// The loss process before the driver.
        channel: Box<LossModel>,
    },
}

impl LossModel {
    /// Builds the process with its random stream.
    ///
    /// Panics if a probability lies outside 0 to 1, a mean sojourn, interval or other time is zero,
    /// a state is never left, the mean of a drift is 0 or 1, or losses by bit-rate are empty or
    /// contain a driver.
    pub fn build(&self, mut rng: Rng) -> LossProcess {
        let mut driver = None;
        let mut model = self;
        while let Self::Driver { share, acknowledges, channel } = model {
            assert_probability(*share);
            let fate = if *acknowledges { Fate::Dropped } else { Fate::Unanswered };
            driver.get_or_insert((*share, fate));
            model = channel;
        }
        let process = Process::build(model, &mut rng);
        LossProcess { process, driver, rng }
    }

    /// Long-run share of frames such as this one that are not received, or not acknowledged,
    /// whenever they begin. In a recording every frame counts alike.
    pub fn mean(&self, frame: &Exposed) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Bernoulli { p } => *p,
            Self::Units { p, bytes: unit } => of_units(*p, frame.bytes, *unit),
            Self::GilbertElliott { good, bad, good_loss, bad_loss } => {
                let (good, bad) = (good.as_secs_f64(), bad.as_secs_f64());
                (good_loss * good + bad_loss * bad) / (good + bad)
            }
            Self::GilbertElliottFrames { to_bad, to_good, good_loss, bad_loss } => {
                (good_loss * to_good + bad_loss * to_bad) / (to_bad + to_good)
            }
            Self::Runs(runs) => runs.loss(),
            Self::Interferer(interferer) => interferer.mean(frame.length),
            Self::Drift(drift) => drift.mean(frame.bytes),
            Self::Modulated(modulated) => modulated.loss,
            Self::Trace { trace, .. } => {
                let entries = trace.entries();
                let is_answered = |fate: Fate| matches!(fate, Fate::Ok | Fate::Dropped);
                let lost = entries.iter().filter(|(_, fate)| !is_answered(*fate)).count();
                lost as f64 / entries.len().max(1) as f64
            }
            Self::ByRate(models) => {
                let place = frame.rate.place_in(models.iter().map(|(rate, _)| *rate));
                models[place].1.mean(frame)
            }
            Self::Driver { share, acknowledges, channel } => {
                let unanswered = if *acknowledges { 0.0 } else { *share };
                1.0 - (1.0 - channel.mean(frame)) * (1.0 - unanswered)
            }
        }
    }
}

fn assert_probability(p: f64) {
    assert!((0.0..=1.0).contains(&p), "a loss of {p}");
}

/// Loss of a frame that is lost with any of its units.
fn of_units(p: f64, bytes: u32, unit: u32) -> f64 {
    let units = bytes.div_ceil(unit.max(1)).max(1);
    1.0 - libm::pow(1.0 - p, f64::from(units))
}

/// A frame, or an MPDU whose fate is drawn separately.
#[derive(Clone, Copy, Debug)]
pub struct Exposed {
    /// When it begins to arrive.
    pub start: Instant,
    /// How long it lasts.
    pub length: Duration,
    /// How much of that is preamble and header; zero for an MPDU without them.
    pub plcp: Duration,
    /// Its bytes.
    pub bytes: u32,
    /// The bit-rate of these bytes.
    pub rate: Bitrate,
}

/// The fate of a frame, for a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FateRecord {
    /// Index of the transmitting radio.
    pub from: usize,
    /// Index of the hearing radio.
    pub to: usize,
    /// When the frame began to arrive.
    pub at: Instant,
    /// The frame's fate.
    pub fate: Fate,
}

/// The loss process of one direction of one link.
#[derive(Clone, Debug)]
pub struct LossProcess {
    process: Process,
    /// The share that the driver drops, and the fate of those frames.
    driver: Option<(f64, Fate)>,
    rng: Rng,
}

#[derive(Clone, Debug)]
enum Process {
    None,
    Bernoulli(f64),
    Units(f64, u32),
    InTime(Box<states::InTime>),
    ByFrame(Box<states::ByFrame>),
    Runs(Box<runs::Runs>),
    Interferer(Box<interferer::Interference>),
    Drift(Box<wander::Drifting>),
    Modulated(Box<wander::Modulation>),
    Replay(Box<replay::Replay>),
    ByRate(Box<[(Bitrate, Process)]>),
}

impl Process {
    fn build(model: &LossModel, rng: &mut Rng) -> Self {
        match model {
            LossModel::None => Self::None,
            LossModel::Bernoulli { p } => {
                assert_probability(*p);
                Self::Bernoulli(*p)
            }
            LossModel::Units { p, bytes } => {
                assert_probability(*p);
                Self::Units(*p, *bytes)
            }
            LossModel::GilbertElliott { good, bad, good_loss, bad_loss } => {
                Self::InTime(Box::new(states::InTime::new([*good, *bad], [*good_loss, *bad_loss])))
            }
            LossModel::GilbertElliottFrames { to_bad, to_good, good_loss, bad_loss } => {
                let states = states::ByFrame::new([*to_bad, *to_good], [*good_loss, *bad_loss]);
                Self::ByFrame(Box::new(states))
            }
            LossModel::Runs(runs) => Self::Runs(Box::new(runs::Runs::new(Arc::clone(runs)))),
            LossModel::Interferer(interferer) => {
                Self::Interferer(Box::new(interferer::Interference::new(interferer, rng)))
            }
            LossModel::Drift(drift) => Self::Drift(Box::new(wander::Drifting::new(drift, rng))),
            LossModel::Modulated(modulated) => {
                Self::Modulated(Box::new(wander::Modulation::new(modulated)))
            }
            LossModel::Trace { trace, repeat } => {
                Self::Replay(Box::new(replay::Replay::new(Arc::clone(trace), *repeat)))
            }
            LossModel::ByRate(models) => {
                assert!(!models.is_empty(), "losses of no bit-rate");
                let build = |(rate, model): &(Bitrate, LossModel)| (*rate, Self::build(model, rng));
                Self::ByRate(models.iter().map(build).collect())
            }
            LossModel::Driver { .. } => unreachable!("a driver was taken off before"),
        }
    }

    fn begin_recording_at(&mut self, begin: Instant) {
        match self {
            Self::Replay(replay) => replay.begin_at(begin),
            Self::ByRate(processes) => {
                processes.iter_mut().for_each(|(_, process)| process.begin_recording_at(begin));
            }
            _ => {}
        }
    }

    fn fate(&mut self, frame: &Exposed, rng: &mut Rng) -> Fate {
        let is_lost = match self {
            Self::None => false,
            Self::Bernoulli(p) => rng.chance(*p),
            Self::Units(p, unit) => rng.chance(of_units(*p, frame.bytes, *unit)),
            Self::InTime(states) => states.is_lost(frame.start, rng),
            Self::ByFrame(states) => states.is_lost(rng),
            Self::Runs(runs) => runs.is_lost(rng),
            Self::Drift(drift) => drift.is_lost(frame, rng),
            Self::Modulated(modulation) => modulation.is_lost(frame.start, rng),
            Self::Interferer(interferer) => return interferer.fate(frame, rng),
            Self::Replay(replay) => return replay.fate(frame.start),
            Self::ByRate(processes) => {
                let place = frame.rate.place_in(processes.iter().map(|(rate, _)| *rate));
                return processes[place].1.fate(frame, rng);
            }
        };
        if is_lost { Fate::Crc } else { Fate::Ok }
    }
}

impl LossProcess {
    /// Sets when recordings begin to play, if not at time zero; nothing is lost before.
    pub fn begin_recording_at(&mut self, begin: Instant) {
        self.process.begin_recording_at(begin);
    }

    /// Draws the fate of a frame. Frames must come in the order of their starts.
    pub fn lost(&mut self, frame: &Exposed) -> Fate {
        let fate = self.process.fate(frame, &mut self.rng);
        match self.driver {
            Some((share, dropped)) if fate == Fate::Ok && self.rng.chance(share) => dropped,
            _ => fate,
        }
    }
}

/// An exponentially distributed time with this mean, at least a nanosecond.
fn exponential(mean: Duration, rng: &mut Rng) -> Duration {
    // 1 - u lies in (0, 1], so that the logarithm is finite.
    mean.mul_f64(-libm::log(1.0 - rng.uniform())).max(Duration::from_nanos(1))
}
