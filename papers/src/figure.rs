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

/// A line of points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What it is.
    pub name: String,
    /// Whether it was published; else it is ours.
    pub published: bool,
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
        Self {
            name: name.into(),
            published: false,
            points: points.into_iter().map(point).collect(),
        }
    }

    /// Published.
    pub fn published(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let point = |(x, y)| Point { x, y, deviation: 0.0 };
        Self { name: name.into(), published: true, points: points.into_iter().map(point).collect() }
    }
}

/// What stands along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis(pub String);

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of its file, without an ending.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Along the bottom.
    pub x: Axis,
    /// Along the side.
    pub y: Axis,
    /// What is in it.
    pub series: Vec<Series>,
}

impl Figure {
    /// A chart with the words of its axes.
    pub fn new(name: &str, title: &str, x: &str, y: &str, series: Vec<Series>) -> Self {
        let axis = |text: &str| Axis(text.to_owned());
        Self { name: name.into(), title: title.into(), x: axis(x), y: axis(y), series }
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
