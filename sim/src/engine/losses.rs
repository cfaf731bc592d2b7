//! Losses: builds the loss processes of a scenario's links, and records what links lost (the format
//! is that of `farhop_proto::stack::LossTrace`).

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use farhop_proto::base::phy::mpdu_bytes;
use farhop_proto::base::{Bitrate, Duration, Instant, Phy};
use farhop_proto::stack::{
    BurstConfig, DriftConfig, InterfererConfig, LossConfig, ModulatedConfig, ModulationShape, Plan,
    TRACE_END, TRACE_HEADER,
};

use crate::radio::{Burst, Drift, ErrorRuns, FateRecord, Interferer, LossModel, Modulated};

/// IP and UDP headers of an interferer's packets.
const DATAGRAM_HEADER_BYTES: usize = 28;

fn millis(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

/// The loss model of a link.
///
/// Panics if the scenario has problems.
pub(super) fn loss_model(config: &LossConfig) -> LossModel {
    match config {
        LossConfig::Bernoulli { p: 0.0 } => LossModel::None,
        LossConfig::Bernoulli { p } => LossModel::Bernoulli { p: *p },
        LossConfig::BernoulliUnits { p, unit_bytes } => {
            LossModel::Units { p: *p, bytes: *unit_bytes }
        }
        LossConfig::GilbertElliott { good_ms, bad_ms, good_loss, bad_loss } => {
            let (good, bad) = (millis(*good_ms), millis(*bad_ms));
            LossModel::GilbertElliott { good, bad, good_loss: *good_loss, bad_loss: *bad_loss }
        }
        LossConfig::GilbertElliottFrames { to_bad, to_good, good_loss, bad_loss } => {
            LossModel::GilbertElliottFrames {
                to_bad: *to_bad,
                to_good: *to_good,
                good_loss: *good_loss,
                bad_loss: *bad_loss,
            }
        }
        LossConfig::Runs(runs) => {
            let runs = ErrorRuns::new(&runs.errors, runs.loss);
            LossModel::Runs(Arc::new(runs.expect("the scenario has no problems")))
        }
        LossConfig::Interferer(interferer) => {
            LossModel::Interferer(Box::new(interferer_model(interferer)))
        }
        LossConfig::Drift(drift) => LossModel::Drift(Box::new(drift_model(drift))),
        LossConfig::Modulated(modulated) => {
            let ModulatedConfig { loss, spread, period_ms, shape } = *modulated;
            let is_square = shape == ModulationShape::Square;
            let period = millis(period_ms);
            LossModel::Modulated(Box::new(Modulated { loss, spread, period, is_square }))
        }
        LossConfig::Trace(trace) => {
            let recording = trace.recording.clone().expect("the scenario has no problems");
            LossModel::Trace { trace: recording, repeat: trace.repeat }
        }
        LossConfig::ByRate(losses) => {
            let of_rate =
                |(mbps, loss): &(f64, LossConfig)| (Bitrate::from_mbps(*mbps), loss_model(loss));
            LossModel::ByRate(losses.rates.iter().map(of_rate).collect())
        }
        LossConfig::Driver(driver) => LossModel::Driver {
            share: driver.q,
            acknowledges: driver.ack,
            channel: Box::new(loss_model(&driver.loss)),
        },
    }
}

fn interferer_model(config: &InterfererConfig) -> Interferer {
    let phy = Phy::default();
    let payload = config.size_bytes as usize;
    let rate = Bitrate::from_mbps(config.rate_mbps);
    Interferer {
        interval: Duration::from_secs_f64(payload as f64 * 8.0 / (config.load_mbps * 1e6)),
        air_time: phy.air_time(mpdu_bytes(false, payload + DATAGRAM_HEADER_BYTES), rate),
        phy,
    }
}

fn drift_model(config: &DriftConfig) -> Drift {
    let burst = |burst: BurstConfig| Burst {
        gap: Duration::from_secs_f64(burst.every_s),
        shortest: millis(burst.shortest_ms),
        longest: millis(burst.longest_ms),
        loss: burst.loss,
    };
    Drift {
        loss: config.loss,
        sigma: config.sigma,
        correlation: Duration::from_secs_f64(config.correlation_s),
        reference_bytes: config.reference_bytes,
        burst: config.burst.map(burst),
    }
}

/// Writes the fates of the frames of each link.
pub(super) struct LossRecorder<'a> {
    out: io::BufWriter<Box<dyn Write + 'a>>,
    /// The names of the radios' nodes, with the number of a radio that is not the first.
    radios: Vec<String>,
    /// The links in the recording, and the time of their last entry.
    links: BTreeMap<(usize, usize), Instant>,
}

impl<'a> LossRecorder<'a> {
    pub(super) fn build(out: Box<dyn Write + 'a>, plan: &Plan) -> io::Result<Self> {
        let mut out = io::BufWriter::new(out);
        writeln!(out, "# What became of the frames of each link, from when they began to arrive.")?;
        writeln!(out, "{TRACE_HEADER}")?;
        let names = plan.nodes.iter().flat_map(|node| {
            node.radios.iter().map(|radio| match radio.spec.id.0 {
                0 => node.name.clone(),
                number => format!("{}.{number}", node.name),
            })
        });
        Ok(Self { out, radios: names.collect(), links: BTreeMap::new() })
    }

    pub(super) fn add(&mut self, record: &FateRecord) -> io::Result<()> {
        let FateRecord { from, to, at, fate } = *record;
        let (Some(sender), Some(hearer)) = (self.radios.get(from), self.radios.get(to)) else {
            // The frame of a stranger, which no scenario can name.
            return Ok(());
        };
        self.links.insert((from, to), at);
        writeln!(self.out, "{},{sender}>{hearer},{}", at.as_nanos(), fate.name())
    }

    pub(super) fn finish(mut self, end: Instant) -> io::Result<()> {
        for ((from, to), last) in &self.links {
            let (from, to) = (&self.radios[*from], &self.radios[*to]);
            writeln!(self.out, "{},{from}>{to},{TRACE_END}", end.max(*last).as_nanos())?;
        }
        self.out.flush()
    }
}
