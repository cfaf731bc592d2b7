//! One published number or property beside our measurement.

use serde::{Deserialize, Serialize};

use crate::Effort;
use crate::estimate::Estimate;
use crate::lab::TOLERANCE;

/// The range in which our measurement must lie, its ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// Lower end; `None` if unbounded.
    pub low: Option<f64>,
    /// Upper end; `None` if unbounded.
    pub high: Option<f64>,
}

impl Band {
    /// Whether a number lies in it; NaN and infinities never do.
    pub fn contains(self, value: f64) -> bool {
        value.is_finite()
            && self.low.is_none_or(|low| value >= low)
            && self.high.is_none_or(|high| value <= high)
    }

    /// Whether it accepts every number: a row with such a band only shows both values.
    pub fn is_open(self) -> bool {
        self.low.is_none() && self.high.is_none()
    }
}

/// What a row expects, as in the file of a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The target.
    pub id: String,
    /// The key of one of its numbers.
    pub key: String,
    /// What is measured, with its unit.
    pub what: String,
    /// What was published, in the paper's words or figures.
    pub published: String,
    /// The least that is accepted.
    #[serde(default)]
    pub low: Option<f64>,
    /// The most that is accepted.
    #[serde(default)]
    pub high: Option<f64>,
    /// How to read it, or why it may miss.
    #[serde(default)]
    pub note: String,
    /// Why it misses, if it is known to.
    #[serde(default)]
    pub known: String,
    /// Our mean when that was found; infinite if curves that should cross do not. A row that is
    /// further from its band, or elsewhere, is not known to be there.
    #[serde(default)]
    pub known_at: Option<f64>,
    /// Whether lab and simulator are not compared here: a small difference of large numbers.
    #[serde(default)]
    pub loose: bool,
    /// Whether a quick run may be too short to measure it.
    #[serde(default)]
    pub long: bool,
}

impl Expected {
    /// Whether a row with this measurement is known to miss.
    fn knows(&self, ours: Estimate, effort: Effort) -> bool {
        let share = if effort.quick { DRIFT_QUICK } else { DRIFT };
        let chance = 3.0 * ours.deviation / (ours.seeds as f64).sqrt();
        let is_near =
            |at: f64| ours.mean == at || (ours.mean - at).abs() <= share * at.abs() + chance;
        !self.known.is_empty() && self.known_at.is_some_and(is_near)
    }
}

/// How far a row that is known to miss may be from where it was when that was found, relative to
/// that, beside what chance explains; and the same for a quick run.
const DRIFT: f64 = 0.15;
const DRIFT_QUICK: f64 = 0.4;

/// One published number or property beside our measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The target, for example `W-F9b`.
    pub id: String,
    /// What is measured, with its unit.
    pub what: String,
    /// What was published.
    pub published: String,
    /// What we measured.
    pub ours: Estimate,
    /// The accepted range.
    pub band: Band,
    /// Whether our mean lies in the band; also true if a quick run could not measure it.
    pub ok: bool,
    /// Whether a quick run was too short to measure it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unmeasured: bool,
    /// How to read it; if it misses and is known to, why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Whether it is known to miss.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub known: bool,
    /// What real daemons over an emulated air measured, with the kernel's TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<Estimate>,
    /// What the simulator measured with the same scenarios as the lab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab_sim: Option<Estimate>,
    /// Whether these two agree; `None` without a lab, or if the row is not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab_ok: Option<bool>,
}

impl Row {
    /// Compares a measurement with what is expected.
    ///
    /// NaN lies outside of every band, but a quick run is not blamed for a number that only long
    /// runs measure.
    pub fn judge(expected: &Expected, ours: Estimate, effort: Effort) -> Self {
        let band = Band { low: expected.low, high: expected.high };
        let (has_reason, is_known) = (!expected.known.is_empty(), expected.knows(ours, effort));
        let unmeasured = effort.quick && expected.long && !ours.mean.is_finite();
        let ok = unmeasured || band.contains(ours.mean);
        Self {
            id: expected.id.clone(),
            what: expected.what.clone(),
            published: expected.published.clone(),
            ours,
            band,
            ok,
            unmeasured,
            note: if has_reason && !ok { &expected.known } else { &expected.note }.clone(),
            known: is_known,
            lab: None,
            lab_sim: None,
            lab_ok: None,
        }
    }

    /// Adds what a lab measured, and the simulator with the same scenarios.
    pub(crate) fn set_lab(
        &mut self,
        expected: &Expected,
        lab: Option<Estimate>,
        sim: Option<Estimate>,
    ) {
        let is_number = |it: &Estimate| it.mean.is_finite();
        let (lab, sim) = (lab.filter(is_number), sim.filter(is_number));
        let agree = |lab: Estimate, sim: Estimate| (sim.mean / lab.mean - 1.0).abs() <= TOLERANCE;
        (self.lab, self.lab_sim) = (lab, sim);
        self.lab_ok = lab.zip(sim).filter(|_| !expected.loose).map(|(lab, sim)| agree(lab, sim));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_band_belong_to_it_and_what_is_no_number_does_not() {
        let band = Band { low: Some(1.0), high: Some(2.0) };
        assert!(band.contains(1.0) && band.contains(2.0));
        assert!(!band.contains(0.99) && !band.contains(2.01) && !band.contains(f64::NAN));
        assert!(Band { low: None, high: None }.contains(-5.0));
        assert!(!Band::default().contains(f64::INFINITY));
    }

    fn judged(mean: f64, quick: bool) -> Row {
        judged_as("long = true", mean, quick)
    }

    fn judged_as(more: &str, mean: f64, quick: bool) -> Row {
        let text = "id = \"W-F0\"\nkey = \"k\"\nwhat = \"rate\"\npublished = \"3\"\nlow = 2.5\n\
                    note = \"how\"\nknown = \"why\"\n";
        let expected = toml::from_str(&format!("{text}{more}")).expect("a good row");
        Row::judge(&expected, Estimate::exact(mean), Effort { seeds: 1, quick })
    }

    #[test]
    fn why_a_row_misses_is_told_only_where_it_does() {
        assert_eq!(judged(3.0, false).note, "how");
        assert_eq!(judged(2.0, false).note, "why");
        assert!(judged_as("known_at = 2.8", 3.0, false).known, "it is known to miss at times");
        assert!(!judged(2.0, false).known, "nobody says where it was");
        assert!(judged_as("known_at = inf", f64::INFINITY, false).known);
        assert!(!judged_as("known_at = inf", f64::NAN, false).known, "it is the worse everywhere");
    }

    #[test]
    fn a_row_that_misses_otherwise_than_it_is_known_to_is_not_known_to() {
        let known = |mean, quick| judged_as("known_at = 2.0", mean, quick).known;
        assert!(known(2.2, false) && known(1.8, false) && known(1.3, true));
        assert!(!known(1.6, false) && !known(1.1, true) && !known(f64::NAN, false));
        assert_eq!(judged_as("known_at = 2.0", 1.6, false).note, "why", "the reason is told");
    }

    #[test]
    fn what_a_quick_run_cannot_measure_is_not_held_against_it() {
        let verdict = |mean, quick| {
            let row = judged(mean, quick);
            (row.ok, row.unmeasured)
        };
        assert_eq!(verdict(f64::NAN, true), (true, true));
        assert_eq!(verdict(f64::NAN, false), (false, false));
        assert!(!judged_as("", f64::NAN, true).ok, "a short run measures the others");
        assert_eq!([verdict(2.0, true), verdict(3.0, true)], [(false, false), (true, false)]);
    }
}
