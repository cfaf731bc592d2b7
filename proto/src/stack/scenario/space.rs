//! Positions of nodes: the area, layouts of many nodes, and coordinates.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A position in metres; in a file `[x, y]` or `[x, y, z]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Position(#[schemars(schema_with = "two_or_three")] pub [f64; 3]);

fn two_or_three(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 3
    })
}

impl<'de> Deserialize<'de> for Position {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let numbers = Vec::<f64>::deserialize(deserializer)?;
        match *numbers.as_slice() {
            [x, y] => Ok(Self([x, y, 0.0])),
            [x, y, z] => Ok(Self([x, y, z])),
            _ => Err(serde::de::Error::invalid_length(numbers.len(), &"[x, y] or [x, y, z]")),
        }
    }
}

/// The area that the nodes are in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AreaConfig {
    /// Width and height, in metres.
    pub size_m: [f64; 2],
    /// Whether opposite edges join (a torus), so that no node is at an edge.
    #[serde(default)]
    pub wrap: bool,
}

/// A layout: many nodes at once. They are numbered after those of `[[node]]`, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum LayoutConfig {
    /// A straight line along the x axis: `name1` to `nameN`.
    Chain(ChainLayout),
    /// Rows of equal length, counted upwards: `nameROW-COLUMN`, both from 1.
    Grid(GridLayout),
    /// A circle with equal spacing: `name1` to `nameN`.
    Circle(CircleLayout),
    /// Uniformly random positions in a rectangle: `name1` to `nameN`.
    Random(RandomLayout),
    /// Names and positions from a file.
    File(FileLayout),
}

/// Nodes in a straight line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainLayout {
    /// Prefix of the names of its nodes.
    pub name: String,
    /// Number of nodes.
    pub count: u64,
    /// Distance between neighbours, in metres.
    pub spacing_m: f64,
    /// Position of the first node.
    #[serde(default)]
    pub origin_m: Position,
}

/// Nodes in rows and columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GridLayout {
    /// Prefix of the names of its nodes.
    pub name: String,
    /// Number of rows.
    pub rows: u64,
    /// Nodes in each row.
    pub columns: u64,
    /// Distance between neighbours in a row and in a column, in metres.
    pub spacing_m: f64,
    /// Position of the first node.
    #[serde(default)]
    pub origin_m: Position,
}

/// Nodes on a circle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CircleLayout {
    /// Prefix of the names of its nodes.
    pub name: String,
    /// Number of nodes.
    pub count: u64,
    /// Radius, in metres.
    pub radius_m: f64,
    /// Position of the centre.
    #[serde(default)]
    pub origin_m: Position,
}

/// Nodes at random positions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomLayout {
    /// Prefix of the names of its nodes.
    pub name: String,
    /// Number of nodes.
    pub count: u64,
    /// Width and height of the rectangle, in metres. Default: those of `[area]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area_m: Option<[f64; 2]>,
    /// Corner of the rectangle with the smallest coordinates.
    #[serde(default)]
    pub origin_m: Position,
    /// Seed of the draws. Positions do not depend on the seed of the run.
    #[serde(default = "one")]
    pub seed: u64,
    /// Generator of the draws.
    #[serde(default)]
    pub generator: Generator,
}

/// A generator of random positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Generator {
    /// The generator of all other draws (PCG).
    #[default]
    Pcg,
    /// A linear congruential generator that other simulators can repeat in two lines: x =
    /// 6364136223846793005 x + 1442695040888963407 modulo 2^64 from the seed, the first 8 values
    /// skipped; each value is the upper 53 bits as a fraction; x, then y of each node. Random flows
    /// in this layout draw their ends from the rest of the sequence.
    Lcg,
}

/// Nodes from a file with lines of `name,x,y` or `name,x,y,z` in metres. Empty lines, lines that
/// begin with `#`, and a first line that begins with `name,` are skipped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileLayout {
    /// Name of the layout; its nodes have the names that the file gives them.
    pub name: String,
    /// Path of the file, relative to the folder of the scenario, or absolute.
    pub file: String,
    /// Content of the file, filled in by whoever reads files.
    #[serde(skip)]
    pub text: Option<Arc<str>>,
}

fn one() -> u64 {
    1
}

impl LayoutConfig {
    /// The name of the layout.
    pub fn name(&self) -> &str {
        match self {
            Self::Chain(layout) => &layout.name,
            Self::Grid(layout) => &layout.name,
            Self::Circle(layout) => &layout.name,
            Self::Random(layout) => &layout.name,
            Self::File(layout) => &layout.name,
        }
    }
}
