//! What a target draws, as data: whoever writes the page turns it into pictures.

use crate::estimate::Estimate;

/// One point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where it stands.
    pub x: f64,
    /// Its height.
    pub y: f64,
    /// Half the length of its error bar: a standard deviation over seeds; 0 for none.
    pub deviation: f64,
}

/// Where the points of a series come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// They are ours.
    Ours,
    /// They were published.
    Published,
    /// They were computed for what was published without numbers, with another model than ours.
    Computed,
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// The series of ours that it is to be compared with, by its name; its own name if it is ours.
    pub curve: String,
    /// Whether a line joins its points.
    pub joined: bool,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

impl Series {
    /// Ours.
    pub fn ours(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, Estimate)>,
    ) -> Self {
        let point = |(x, y): (f64, Estimate)| Point { x, y: y.mean, deviation: y.deviation };
        Self::of(name.into(), Source::Ours, points.into_iter().map(point))
    }

    /// Ours, one for each name that stands along the axis.
    pub fn named(name: impl Into<String>, values: impl IntoIterator<Item = Estimate>) -> Self {
        Self::ours(name, values.into_iter().enumerate().map(|(index, it)| (index as f64, it)))
    }

    /// Published, of the series of ours with this name.
    pub fn published(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let point = |(x, y)| Point { x, y, deviation: 0.0 };
        Self::of(name.into(), Source::Published, points.into_iter().map(point))
    }

    /// Computed, of the series of ours with this name.
    pub fn computed(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { source: Source::Computed, ..Self::published(name, points) }
    }

    fn of(name: String, source: Source, points: impl Iterator<Item = Point>) -> Self {
        Self { curve: name.clone(), name, source, joined: true, points: points.collect() }
    }

    /// The same, to be compared with a series of another name.
    pub fn beside(self, curve: impl Into<String>) -> Self {
        Self { curve: curve.into(), ..self }
    }

    /// The same without a line: points that do not follow from one another.
    pub fn scattered(self) -> Self {
        Self { joined: false, ..self }
    }
}

/// What stands along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis(pub String);

/// What the places of a figure are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// Numbers to which 0 belongs.
    FromZero,
    /// Whole numbers of which 0 is none: ranks, counts of hops or flows.
    Counts,
    /// Sizes in bytes, by their logarithm.
    Sizes,
    /// Names, the first of which stands at 0; nothing joins what stands at them.
    Names(Vec<String>),
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of its file, without an ending.
    pub name: String,
    /// The target, and what is shown of it.
    pub title: String,
    /// Along the bottom.
    pub x: Axis,
    /// What the places along the bottom are.
    pub places: Places,
    /// Along the side.
    pub y: Axis,
    /// What is in it.
    pub series: Vec<Series>,
}

impl Figure {
    /// A chart of a target with the words of its axes, over numbers to which 0 belongs.
    pub fn new(target: &str, title: &str, x: &str, y: &str, series: Vec<Series>) -> Self {
        let axis = |text: &str| Axis(text.to_owned());
        let title = format!("{target}: {title}");
        let places = Places::FromZero;
        Self { name: target.into(), title, x: axis(x), places, y: axis(y), series }
    }

    /// The same over other places.
    pub fn over(self, places: Places) -> Self {
        Self { places, ..self }
    }

    /// The same over names.
    pub fn over_names(self, names: &[&str]) -> Self {
        self.over(Places::Names(names.iter().map(|name| (*name).to_owned()).collect()))
    }

    /// The same as a further one of its target, in a file of another name.
    pub fn further(self, what: &str) -> Self {
        Self { name: format!("{}-{what}", self.name), ..self }
    }
}

/// Numbers in rows and columns, the first row and the first column being words.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// What has to be known to read it.
    pub note: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_figure_has_the_title_of_its_target_and_a_file_of_its_own() {
        let figure = || Figure::new("H-F1", "gain", "", "gain", Vec::new());
        let further = figure().further("gain");
        assert_eq!((figure().name.as_str(), further.name.as_str()), ("H-F1", "H-F1-gain"));
        assert_eq!(further.title, "H-F1: gain");
    }

    #[test]
    fn what_is_named_stands_at_the_places_of_the_names() {
        let series = Series::named("goodput", [3.0, 4.0].map(Estimate::exact));
        let places: Vec<f64> = series.points.iter().map(|point| point.x).collect();
        assert_eq!(places, [0.0, 1.0]);
    }
}
