//! One line of the tables: a figure of ours beside its reference.

use serde::{Serialize, Serializer, ser::SerializeStruct as _};

/// How far a figure may be from its reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tolerance {
    /// By this share of the reference.
    Relative(f64),
    /// By so much, in the row's unit.
    Absolute(f64),
    /// Not below the reference.
    AtLeast,
    /// Not above the reference.
    AtMost,
    /// From the first to the second; the reference is where the other one's median lies.
    Between(f64, f64),
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// Group, as `--only` names it.
    pub(crate) group: &'static str,
    /// What was measured.
    pub(crate) name: String,
    /// Unit of both figures.
    pub(crate) unit: &'static str,
    /// What theory, the kernel or ns-3 says.
    pub(crate) reference: f64,
    /// What farhop says.
    pub(crate) ours: f64,
    /// How far apart they may be.
    pub(crate) tolerance: Tolerance,
    /// Whether they are no further apart than that.
    pub(crate) ok: bool,
    /// What a reader should know beside it.
    pub(crate) note: String,
}

impl Row {
    /// A figure and its reference, judged.
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

    /// The same with a note.
    pub(crate) fn with_note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// How far ours is from the reference, as people read it.
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
            Self::AtLeast => ours >= reference,
            Self::AtMost => ours <= reference,
            Self::Between(low, high) => (low..=high).contains(&ours),
        }
    }

    /// As people read it.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Relative(share) => format!("{}%", (share * 1000.0).round() / 10.0),
            Self::Absolute(most) => format!("{most}"),
            Self::AtLeast => "at least".into(),
            Self::AtMost => "at most".into(),
            Self::Between(low, high) => format!("{low:.2} to {high:.2}"),
        }
    }

    /// The kind, and the number that goes with it.
    fn parts(self, reference: f64) -> (&'static str, f64) {
        match self {
            Self::Relative(share) => ("relative", share),
            Self::Absolute(most) => ("absolute", most),
            Self::AtLeast => ("at-least", 0.0),
            Self::AtMost => ("at-most", 0.0),
            Self::Between(low, high) => ("between", (high - reference).max(reference - low)),
        }
    }

    /// Lowest and highest figure that is accepted.
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
