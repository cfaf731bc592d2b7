//! The stack: configuration, the closed set of protocols per role, and their composition.

mod config;
mod plan;
mod problems;
mod scenario;

pub use config::*;
pub use plan::{Hop, NodePlan, Plan, RadioPlan};
pub use problems::Problem;
pub use scenario::*;
