//! Positions of nodes and what follows from them: who hears whom, how strongly and with what delay
//! (`radio.md` 4).

mod expand;
mod links;
mod near;
mod path_loss;
mod positions;

use std::sync::Arc;

use near::Near;
pub use path_loss::{PathLoss, gaussian};
pub(super) use positions::read as read_positions;

use super::scenario::{
    AreaConfig, LossConfig, MobilityKind, PropagationKind, RadioConfig, Scenario,
};
use crate::base::{Dbm, Duration, Phy, Rng, Seed};

/// Speed of light in air, in metres per second.
pub(super) const LIGHT_M_PER_S: f64 = 299_702_000.0;
/// Shadowing is cut off at this many standard deviations, so that signals have a finite reach.
const SHADOW_SIGMAS: f64 = 3.0;
/// More than what signals and floors together lose by rounding to hundredths of a decibel.
const ROUNDED_DB: f64 = 0.02;

/// Radios at positions, and the propagation between them.
#[derive(Clone, Debug)]
pub struct Space {
    wrap_m: Option<[f64; 2]>,
    path_loss: PathLoss,
    shadowing_db: f64,
    seed: Seed,
    loss: Arc<LossConfig>,
    loss_spread: Option<[f64; 2]>,
    sites: Vec<Site>,
    near: Near,
    /// Nobody is heard farther than this, in metres.
    farthest_m: f64,
}

/// A radio at a position.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// Position, in metres.
    pub at_m: [f64; 3],
    /// Radiated power in the direction of the antenna (EIRP), in dBm.
    pub sent_dbm: f64,
    /// Gain of the antenna less the loss of the cable, in decibels.
    pub gain_db: f64,
    /// Weaker signals are ignored, in dBm.
    pub floor_dbm: f64,
    /// PHY.
    pub phy: Phy,
    /// Channel.
    pub channel: u16,
}

/// How a radio hears another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    /// Index of the hearing radio among the sites.
    pub by: usize,
    /// Received power.
    pub signal: Dbm,
    /// Propagation delay.
    pub delay: Duration,
}

/// Signal thresholds of a radio, in dBm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Weakest signal that can be decoded, at any rate.
    pub receive: f64,
    /// Weakest signal at which data can be decoded: at its rate, or at any rate if the rate is
    /// chosen.
    pub data: f64,
    /// Whether the weakest signal that can be decoded depends on the rate of the frame.
    pub by_rate: bool,
    /// Weakest signal that makes the medium busy.
    pub sense: f64,
    /// Weakest signal that counts at all.
    pub floor: f64,
}

impl Space {
    /// A space without radios; `None` if only links carry anything.
    pub fn build(scenario: &Scenario) -> Option<Self> {
        let config = &scenario.propagation;
        let path_loss = PathLoss::build(scenario, scenario.radio.phy().band())?;
        let wrap_m = scenario.area.and_then(|area: AreaConfig| area.wrap.then_some(area.size_m));
        Some(Self {
            wrap_m,
            path_loss,
            shadowing_db: match scenario.propagation_kind() {
                PropagationKind::LogDistance => config.shadowing_db,
                _ => 0.0,
            },
            seed: Seed(config.seed),
            loss: Arc::new(config.loss.clone()),
            loss_spread: config.loss_spread,
            sites: Vec::new(),
            near: Near::default(),
            farthest_m: 0.0,
        })
    }

    /// Puts radios into the space; they replace those that were there.
    pub fn put(&mut self, sites: Vec<Site>) {
        self.sites = sites;
        self.near = Near::build(&self.sites, self.reach_m(0.0), self.wrap_m);
        self.farthest_m = self.reach_m(ROUNDED_DB);
    }

    /// The radios.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// Moves a radio.
    pub fn move_to(&mut self, site: usize, at_m: [f64; 3]) {
        let from = self.sites[site].at_m;
        self.sites[site].at_m = at_m;
        self.near.move_to(site as u32, from, at_m);
    }

    /// How far the strongest radio is heard by the most sensitive one, in metres, if that one were
    /// more sensitive by `more_db`.
    fn reach_m(&self, more_db: f64) -> f64 {
        let sent = self.most(|site| site.sent_dbm);
        let sensed = self.most(|site| site.gain_db - site.floor_dbm);
        let floor = -sensed - self.shadowing_db * SHADOW_SIGMAS;
        self.path_loss.reach_m(sent, floor - more_db)
    }

    fn most(&self, of: impl Fn(&Site) -> f64) -> f64 {
        self.sites.iter().map(of).fold(f64::MIN, f64::max)
    }

    /// How far apart two of the radios can be, in metres, while one of them decodes a signal of
    /// `receive_dbm` from the other.
    pub(super) fn decodable_m(&self, receive_dbm: f64) -> f64 {
        let (sent, gain) = (self.most(|site| site.sent_dbm), self.most(|site| site.gain_db));
        match self.path_loss {
            PathLoss::Range { receive_m, .. } => receive_m,
            path_loss => {
                path_loss.reach_m(sent, receive_dbm - gain - self.shadowing_db * SHADOW_SIGMAS)
            }
        }
    }

    /// Adds the indices of the radios that may hear a radio at a position, in rising order.
    pub fn around(&self, at_m: [f64; 3], found: &mut Vec<u32>) {
        self.near.around(at_m, found);
    }

    /// Calls back for each radio that hears radio `from`, in rising order of indices.
    pub fn hearers(&self, from: usize, candidates: &mut Vec<u32>, on: &mut dyn FnMut(Heard)) {
        candidates.clear();
        self.around(self.sites[from].at_m, candidates);
        for by in candidates.iter() {
            if let Some(heard) = self.heard(from, *by as usize) {
                on(heard);
            }
        }
    }

    /// How radio `by` hears radio `from`, if it does.
    pub fn heard(&self, from: usize, by: usize) -> Option<Heard> {
        let (source, sink) = (&self.sites[from], &self.sites[by]);
        if from == by || sink.phy.overlap(sink.channel, &source.phy, source.channel) == 0.0 {
            return None;
        }
        let distance = self.distance_m(source.at_m, sink.at_m);
        if distance > self.farthest_m {
            return None;
        }
        let floor = Dbm::from_f64(sink.floor_dbm);
        let received = self.path_loss.received(source.sent_dbm, distance)? + sink.gain_db;
        // Most candidates are too far away whatever their shadowing is.
        let most = self.shadowing_db * SHADOW_SIGMAS;
        if most > 0.0 && Dbm::from_f64(received + most) < floor {
            return None;
        }
        let signal = Dbm::from_f64(received + self.shadow_db(from, by));
        let delay = Duration::from_secs_f64(distance / LIGHT_M_PER_S);
        (signal >= floor).then_some(Heard { by, signal, delay })
    }

    /// The power that radio `by` receives from radio `from`, in dBm, however weak; `None` if the
    /// model has no signal there.
    pub fn signal_dbm(&self, from: usize, by: usize) -> Option<f64> {
        let (source, sink) = (&self.sites[from], &self.sites[by]);
        let distance = self.distance_m(source.at_m, sink.at_m);
        let received = self.path_loss.received(source.sent_dbm, distance)?;
        Some(received + sink.gain_db + self.shadow_db(from, by))
    }

    /// The distance between two positions; if the area wraps around, the shortest.
    pub fn distance_m(&self, a: [f64; 3], b: [f64; 3]) -> f64 {
        distance_m(self.wrap_m, a, b)
    }

    fn draws(&self, what: &str, from: usize, by: usize) -> Rng {
        self.seed.stream(&format!("{what}/{from}/{by}"))
    }

    fn shadow_db(&self, from: usize, by: usize) -> f64 {
        if self.shadowing_db == 0.0 {
            return 0.0;
        }
        let normal = gaussian(&mut self.draws("shadow", from, by));
        normal.clamp(-SHADOW_SIGMAS, SHADOW_SIGMAS) * self.shadowing_db
    }

    /// The loss from radio `from` to radio `by`.
    pub fn loss(&self, from: usize, by: usize) -> Arc<LossConfig> {
        match self.loss_spread {
            None => Arc::clone(&self.loss),
            Some([low, high]) => {
                let p = low + (high - low) * self.draws("loss", from, by).uniform();
                Arc::new(LossConfig::Bernoulli { p })
            }
        }
    }
}

/// The distance between two positions; if the area wraps around, the shortest.
pub(super) fn distance_m(wrap_m: Option<[f64; 2]>, a: [f64; 3], b: [f64; 3]) -> f64 {
    let mut sum = 0.0;
    for axis in 0..3 {
        let mut span = (a[axis] - b[axis]).abs();
        if let Some(size) = wrap_m.and_then(|size| size.get(axis).copied()) {
            span %= size;
            span = span.min(size - span);
        }
        sum += span * span;
    }
    sum.sqrt()
}

impl Site {
    /// A radio with these settings at a position.
    pub(super) fn build(scenario: &Scenario, radio: &RadioConfig, at_m: [f64; 3]) -> Self {
        let gain_db = radio.antenna_gain_dbi - radio.cable_loss_db;
        Self {
            at_m,
            sent_dbm: scenario.tx_power_dbm(radio) + gain_db,
            gain_db,
            floor_dbm: scenario.thresholds(radio).floor,
            phy: radio.phy(),
            channel: radio.channel,
        }
    }
}

impl Scenario {
    /// Whether any node moves.
    pub fn has_movers(&self) -> bool {
        self.mobility.kind != MobilityKind::Static
            || self.node.iter().any(|node| !node.path_m.is_empty())
    }

    /// An upper bound of the distance between two nodes, in metres: the diagonal of a box around
    /// all positions that they may reach by position, path or walk.
    pub(super) fn span_m(&self) -> f64 {
        let walks = self.area.filter(|_| self.mobility.kind == MobilityKind::RandomWalk);
        let corners = walks.into_iter().flat_map(|area| [[0.0; 2], area.size_m]);
        let corners = corners.map(|[x, y]| [Some(x), Some(y), None]);
        let on_paths = self.node.iter().flat_map(|node| &node.path_m);
        let axis = |point: &[f64], axis: usize| point.get(axis).copied().unwrap_or_default();
        let on_paths = on_paths.map(|point| [1, 2, 3].map(|at| Some(axis(point, at))));
        let places = self.node.iter().filter_map(|node| Some(node.place()?.map(Some)));
        let mut ends = [[f64::MAX, f64::MIN]; 3];
        for place in corners.chain(on_paths).chain(places) {
            for ([low, high], at) in ends.iter_mut().zip(place) {
                (*low, *high) = (low.min(at.unwrap_or(*low)), high.max(at.unwrap_or(*high)));
            }
        }
        let wrap_m = self.area.filter(|area| area.wrap).map(|area| area.size_m);
        let side = |axis: usize| {
            let span = (ends[axis][1] - ends[axis][0]).max(0.0);
            let size = wrap_m.and_then(|size| size.get(axis).copied());
            size.map_or(span, |size| span.min(size / 2.0))
        };
        [0, 1, 2].map(|axis| side(axis) * side(axis)).iter().sum::<f64>().sqrt()
    }

    /// The propagation model, or its default if the file gives none.
    pub fn propagation_kind(&self) -> PropagationKind {
        let is_placed = || {
            let of_node = |node: &super::NodeConfig| node.place().is_some();
            !self.layout.is_empty() || self.node.iter().any(of_node)
        };
        self.propagation.kind.unwrap_or_else(|| match is_placed() {
            true => PropagationKind::FreeSpace,
            false => PropagationKind::Links,
        })
    }

    fn tx_power_dbm(&self, radio: &RadioConfig) -> f64 {
        radio.tx_power_dbm.unwrap_or(match self.propagation_kind() {
            // 0.28183815 W (`radio.md` 4.1).
            PropagationKind::TwoRay => 24.5,
            _ => 20.0,
        })
    }

    /// The signal thresholds of a radio.
    pub fn thresholds(&self, radio: &RadioConfig) -> Thresholds {
        const NONE: f64 = -120.0;
        let sums = matches!(self.interference, super::InterferenceConfig::Sinr(_));
        let config = &self.propagation;
        let (mut by_rate, mut data) = (false, None);
        let (receive, sense, floor) = match self.propagation_kind() {
            PropagationKind::Links | PropagationKind::Fixed => (NONE, NONE, NONE),
            PropagationKind::Range => {
                let sense = config.signal_dbm - 3.0;
                (config.signal_dbm, sense, radio.sense_dbm.unwrap_or(sense))
            }
            // Ranges of 100 and 220 m (`radio.md` 4.1).
            PropagationKind::TwoRay => (-48.46, -62.16, -62.16),
            PropagationKind::FreeSpace | PropagationKind::LogDistance => {
                // Where interference adds up, the error curves determine what a rate needs.
                let is_open = radio.receive_dbm.is_none();
                by_rate = is_open && !sums;
                let phy = radio.phy();
                let lowest = phy.sensitivity_dbm(phy.basic_rates()[0]);
                if is_open && !self.stack.link.chooses_rates(radio) {
                    data = Some(phy.sensitivity_dbm(radio.rate()));
                }
                (lowest, lowest, lowest - if sums { 10.0 } else { 0.0 })
            }
        };
        let receive = radio.receive_dbm.unwrap_or(receive);
        let data = data.unwrap_or(receive);
        let sense = radio.sense_dbm.unwrap_or(sense.min(radio.receive_dbm.unwrap_or(sense)));
        let floor = radio.floor_dbm.unwrap_or(floor.min(sense));
        Thresholds { receive, data, by_rate, sense, floor }
    }
}

#[cfg(test)]
mod tests;
