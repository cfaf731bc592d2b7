//! Discrete events: a scenario in virtual time.

mod apps;
mod capture;
mod clock;
mod losses;
mod mac;
mod many;
mod measure;
mod report;
mod run;
mod traffic;
mod world;

pub use many::{Finished, Many};
pub use measure::{air_report, flow_name, link_report, node_report, transport_name};
pub use report::*;
pub use run::{RunError, RunOptions, run};
pub use world::medium_config;
