//! Where nodes stand: the area, layouts that stand for many nodes, and positions.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place in metres; in a file `[x, y]` or `[x, y, z]`.
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

/// The area that nodes stand in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AreaConfig {
    /// Its width and height, in metres.
    pub size_m: [f64; 2],
    /// Whether its opposite edges are one (a torus), so that no node stands at an edge.
    #[serde(default)]
    pub wrap: bool,
}

/// Many nodes at once. They are numbered after those of `[[node]]`, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum LayoutConfig {
    /// A straight line to the right, `name1` to `nameN`.
    Chain(ChainLayout),
    /// Rows of equal length, from bottom to top: `nameROW-COLUMN`, both from 1.
    Grid(GridLayout),
    /// A circle, evenly filled: `name1` to `nameN`.
    Circle(CircleLayout),
    /// Uniformly random places in a rectangle: `name1` to `nameN`.
    Random(RandomLayout),
    /// Names and places from a file.
    File(FileLayout),
}

/// Nodes in a straight line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainLayout {
    /// What the names of its nodes begin with.
    pub name: String,
    /// Nodes.
    pub count: u64,
    /// Distance between neighbours, in metres.
    pub spacing_m: f64,
    /// Place of the first node.
    #[serde(default)]
    pub origin_m: Position,
}

/// Nodes in rows and columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GridLayout {
    /// What the names of its nodes begin with.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Nodes in each row.
    pub columns: u64,
    /// Distance between neighbours in a row and in a column, in metres.
    pub spacing_m: f64,
    /// Place of the first node.
    #[serde(default)]
    pub origin_m: Position,
}

/// Nodes on a circle.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CircleLayout {
    /// What the names of its nodes begin with.
    pub name: String,
    /// Nodes.
    pub count: u64,
    /// Radius, in metres.
    pub radius_m: f64,
    /// Its centre.
    #[serde(default)]
    pub origin_m: Position,
}

/// Nodes at random places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RandomLayout {
    /// What the names of its nodes begin with.
    pub name: String,
    /// Nodes.
    pub count: u64,
    /// Width and height of the rectangle, in metres; that of `[area]` if it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub area_m: Option<[f64; 2]>,
    /// Corner of the rectangle with the smallest coordinates.
    #[serde(default)]
    pub origin_m: Position,
    /// Seed of the draws. Places do not change with the seed of the run.
    #[serde(default = "one")]
    pub seed: u64,
    /// What draws.
    #[serde(default)]
    pub generator: Generator,
}

/// A generator of random places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Generator {
    /// The generator of all other draws (PCG).
    #[default]
    Pcg,
    /// A linear congruential generator that other simulators can repeat in two lines:
    /// x = 6364136223846793005 x + 1442695040888963407 modulo 2^64 from the seed, the first 8
    /// values skipped, each value the upper 53 bits as a fraction; x, then y of each node. Random
    /// flows after it draw their ends from the same sequence.
    Lcg,
}

/// Nodes from a file: lines of `name,x,y` or `name,x,y,z` in metres. Empty lines, lines that begin
/// with `#`, and a first line that begins with `name,` are passed over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileLayout {
    /// Name of the layout; its nodes have the names that the file gives them.
    pub name: String,
    /// The file, from the folder of the scenario.
    pub file: String,
    /// What is in the file, once somebody who may read files has filled it in.
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
