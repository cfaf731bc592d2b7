//! One published number or property beside ours.

use serde::{Deserialize, Serialize};

use crate::estimate::Estimate;

/// The range in which ours must lie, its ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Band {
    /// The least, if there is one.
    pub low: Option<f64>,
    /// The most, if there is one.
    pub high: Option<f64>,
}

impl Band {
    /// Whether a number lies in it; what is not a number lies in none.
    pub fn contains(self, value: f64) -> bool {
        value.is_finite()
            && self.low.is_none_or(|low| value >= low)
            && self.high.is_none_or(|high| value <= high)
    }
}

/// What a row expects, as the file of a paper has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The target.
    pub id: String,
    /// Which of its numbers.
    pub key: String,
    /// What is measured, with its unit.
    pub what: String,
    /// What was published, in its words or figures.
    pub published: String,
    /// The least that is accepted.
    #[serde(default)]
    pub low: Option<f64>,
    /// The most that is accepted.
    #[serde(default)]
    pub high: Option<f64>,
    /// Why it misses, if it does, or how it is read.
    #[serde(default)]
    pub note: String,
}

/// One published number or property beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The target, for example `W-F9b`.
    pub id: String,
    /// What is measured, with its unit.
    pub what: String,
    /// What was published.
    pub published: String,
    /// What was measured.
    pub ours: Estimate,
    /// The accepted range.
    pub band: Band,
    /// Whether the mean of ours lies in it.
    pub ok: bool,
    /// How it is read, or why it misses.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Row {
    /// Puts what was measured beside what was expected.
    pub fn judge(expected: &Expected, ours: Estimate) -> Self {
        let band = Band { low: expected.low, high: expected.high };
        Self {
            id: expected.id.clone(),
            what: expected.what.clone(),
            published: expected.published.clone(),
            ours,
            band,
            ok: band.contains(ours.mean),
            note: expected.note.clone(),
        }
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
}
