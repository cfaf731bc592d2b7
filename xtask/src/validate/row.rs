//! A row of the tables: a value of ours and its reference.

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

/// How far a value may be from its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tolerance {
    /// By this share of the reference.
    Relative(f64),
    /// By this much, in the row's unit.
    Absolute(f64),
    /// Not below the reference.
    AtLeast,
    /// Not above the reference.
    AtMost,
    /// In this range, in which the reference is the median.
    Between(f64, f64),
}

/// One compared value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The group, as in `--only`.
    pub(crate) group: &'static str,
    /// What was measured.
    pub(crate) name: String,
    /// Unit of both figures.
    pub(crate) unit: &'static str,
    /// The reference: from theory, the kernel or ns-3.
    pub(crate) reference: f64,
    /// The value that farhop gives.
    pub(crate) ours: f64,
    /// How far they may be apart.
    pub(crate) tolerance: Tolerance,
    /// Whether they are within the tolerance.
    pub(crate) ok: bool,
    /// What a reader should know about the row.
    pub(crate) note: String,
}

impl Row {
    /// A value and its reference, judged by a tolerance.
    pub(crate) fn new(
        group: &'static str,
        name: impl Into<String>,
        unit: &'static str,
        (ours, reference): (f64, f64),
        tolerance: Tolerance,
    ) -> Self {
        let ok = tolerance.accepts(ours, reference);
        let note = String::new();
        Self { group, name: name.into(), unit, reference, ours, tolerance, ok, note }
    }

    /// The row with a note.
    pub(crate) fn with_note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// The difference of ours from the reference, as text.
    pub(crate) fn difference(&self) -> String {
        match self.tolerance {
            _ if self.reference == 0.0 => format!("{:+.3}", self.ours),
            Tolerance::Absolute(_) => format!("{:+.3}", self.ours - self.reference),
            Tolerance::Relative(_) | Tolerance::Between(..) => {
                format!("{:+.1}%", (self.ours / self.reference - 1.0) * 100.0)
            }
            Tolerance::AtLeast | Tolerance::AtMost => {
                format!("x {:.2}", self.ours / self.reference)
            }
        }
    }
}

impl Tolerance {
    fn accepts(self, ours: f64, reference: f64) -> bool {
        match self {
            Self::Relative(share) => (ours - reference).abs() <= share * reference.abs(),
            Self::Absolute(most) => (ours - reference).abs() <= most,
            // What was divided by nothing is no measurement.
            Self::AtLeast => ours.is_finite() && ours >= reference,
            Self::AtMost => ours.is_finite() && ours <= reference,
            Self::Between(low, high) => (low..=high).contains(&ours),
        }
    }

    /// The tolerance as text.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Relative(share) => format!("{}%", (share * 1000.0).round() / 10.0),
            Self::Absolute(most) => format!("{most}"),
            Self::AtLeast => "at least".into(),
            Self::AtMost => "at most".into(),
            Self::Between(low, high) => format!("{low:.2} to {high:.2}"),
        }
    }

    /// The kind of tolerance, and its number.
    fn parts(self, reference: f64) -> (&'static str, f64) {
        match self {
            Self::Relative(share) => ("relative", share),
            Self::Absolute(most) => ("absolute", most),
            Self::AtLeast => ("at-least", 0.0),
            Self::AtMost => ("at-most", 0.0),
            Self::Between(low, high) => ("between", (high - reference).max(reference - low)),
        }
    }

    /// The lowest and the highest value that is accepted.
    fn bounds(self, reference: f64) -> (Option<f64>, Option<f64>) {
        match self {
            Self::Relative(share) => {
                let most = share * reference.abs();
                (Some(reference - most), Some(reference + most))
            }
            Self::Absolute(most) => (Some(reference - most), Some(reference + most)),
            Self::AtLeast => (Some(reference), None),
            Self::AtMost => (None, Some(reference)),
            Self::Between(low, high) => (Some(low), Some(high)),
        }
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, tolerance) = self.tolerance.parts(self.reference);
        let (lowest, highest) = self.tolerance.bounds(self.reference);
        let mut row = serializer.serialize_struct("Row", 11)?;
        row.serialize_field("group", self.group)?;
        row.serialize_field("name", &self.name)?;
        row.serialize_field("unit", self.unit)?;
        row.serialize_field("reference", &self.reference)?;
        row.serialize_field("ours", &self.ours)?;
        row.serialize_field("tolerance", &tolerance)?;
        row.serialize_field("tolerance_kind", kind)?;
        row.serialize_field("lowest", &lowest)?;
        row.serialize_field("highest", &highest)?;
        row.serialize_field("ok", &self.ok)?;
        row.serialize_field("note", &self.note)?;
        row.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ok(ours: f64, reference: f64, tolerance: Tolerance) -> bool {
        Row::new("group", "name", "Mb/s", (ours, reference), tolerance).ok
    }

    #[test]
    fn a_figure_outside_its_tolerance_is_not_ok() {
        assert!(is_ok(1.03, 1.0, Tolerance::Relative(0.031)));
        assert!(!is_ok(1.04, 1.0, Tolerance::Relative(0.031)));
        assert!(!is_ok(0.96, 1.0, Tolerance::Relative(0.031)));
        assert!(!is_ok(1e-3, 0.0, Tolerance::Absolute(1e-4)));
        assert!(is_ok(50.0, 50.0, Tolerance::AtLeast) && !is_ok(49.9, 50.0, Tolerance::AtLeast));
        assert!(is_ok(1.4, 1.5, Tolerance::AtMost) && !is_ok(1.6, 1.5, Tolerance::AtMost));
        assert!(!is_ok(4.0, 3.5, Tolerance::Between(2.9, 3.9)));
    }

    #[test]
    fn what_cannot_be_measured_is_never_ok() {
        for tolerance in [
            Tolerance::Relative(1.0),
            Tolerance::Absolute(1.0),
            Tolerance::AtLeast,
            Tolerance::AtMost,
            Tolerance::Between(0.0, 1.0),
        ] {
            assert!(!is_ok(f64::NAN, 1.0, tolerance), "{tolerance:?}");
        }
    }
}
