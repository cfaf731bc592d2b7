//! The figures of targets as data; whoever writes the page draws them.

use crate::estimate::Estimate;

/// One point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Position along the x axis.
    pub x: f64,
    /// Position along the y axis.
    pub y: f64,
    /// Half the length of its error bar: one standard deviation over seeds; 0 for none.
    pub deviation: f64,
}

/// Where the points of a series come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// We measured them.
    Ours,
    /// They were published.
    Published,
    /// They were computed with another model than ours, as the paper printed no numbers.
    Computed,
}

/// A series of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Where it comes from.
    pub source: Source,
    /// Name of the series of ours to compare it with; its own name if it is ours.
    pub curve: String,
    /// Whether a line joins its points.
    pub joined: bool,
    /// Its points, from left to right.
    pub points: Vec<Point>,
}

impl Series {
    /// A series of our own.
    pub fn ours(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, Estimate)>,
    ) -> Self {
        let point = |(x, y): (f64, Estimate)| Point { x, y: y.mean, deviation: y.deviation };
        Self::of(name.into(), Source::Ours, points.into_iter().map(point))
    }

    /// A series of our own with one point for each name along the axis.
    pub fn named(name: impl Into<String>, values: impl IntoIterator<Item = Estimate>) -> Self {
        Self::ours(name, values.into_iter().enumerate().map(|(index, it)| (index as f64, it)))
    }

    /// A published series, to be compared with our series of the same name.
    pub fn published(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let point = |(x, y)| Point { x, y, deviation: 0.0 };
        Self::of(name.into(), Source::Published, points.into_iter().map(point))
    }

    /// A computed series, to be compared with our series of the same name.
    pub fn computed(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { source: Source::Computed, ..Self::published(name, points) }
    }

    fn of(name: String, source: Source, points: impl Iterator<Item = Point>) -> Self {
        Self { curve: name.clone(), name, source, joined: true, points: points.collect() }
    }

    /// To be compared with a series of another name instead.
    pub fn beside(self, curve: impl Into<String>) -> Self {
        Self { curve: curve.into(), ..self }
    }

    /// Without a line, for points that do not depend on each other.
    pub fn scattered(self) -> Self {
        Self { joined: false, ..self }
    }
}

/// The label of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis(pub String);

/// The kind of x axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Places {
    /// Numbers, starting at 0.
    FromZero,
    /// Integers from 1 on: ranks, counts of hops or flows.
    Counts,
    /// Sizes in bytes on a logarithmic scale.
    Sizes,
    /// Names, from position 0 on; their points are not joined by lines.
    Names(Vec<String>),
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of its file, without extension.
    pub name: String,
    /// The target and a title.
    pub title: String,
    /// Label of the x axis.
    pub x: Axis,
    /// Kind of the x axis.
    pub places: Places,
    /// Label of the y axis.
    pub y: Axis,
    /// Its series.
    pub series: Vec<Series>,
}

impl Figure {
    /// A chart of a target with the labels of its axes, whose x axis starts at 0.
    pub fn new(target: &str, title: &str, x: &str, y: &str, series: Vec<Series>) -> Self {
        let axis = |text: &str| Axis(text.to_owned());
        let title = format!("{target}: {title}");
        let places = Places::FromZero;
        Self { name: target.into(), title, x: axis(x), places, y: axis(y), series }
    }

    /// With another kind of x axis.
    pub fn over(self, places: Places) -> Self {
        Self { places, ..self }
    }

    /// With names along the x axis.
    pub fn over_names(self, names: &[&str]) -> Self {
        self.over(Places::Names(names.iter().map(|name| (*name).to_owned()).collect()))
    }

    /// As a further figure of the same target, in its own file.
    pub fn further(self, what: &str) -> Self {
        Self { name: format!("{}-{what}", self.name), ..self }
    }
}

/// A table of numbers, with words in its head and its first column.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Names of the columns.
    pub head: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// What a reader has to know.
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
