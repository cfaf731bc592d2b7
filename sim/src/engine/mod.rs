//! Discrete events.

mod report;

pub use report::*;
