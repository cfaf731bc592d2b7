//! The discrete-event simulator: runs a scenario in virtual time.

mod air;
mod air_time;
mod apps;
mod capture;
mod clock;
mod decisions;
mod host;
mod hostile;
mod keys;
mod losses;
mod mac;
mod many;
mod measure;
mod mobility;
mod report;
mod run;
mod slots;
mod traffic;
mod world;

pub use air::medium_config;
pub use air_time::LinkTimes;
pub use many::{Finished, Many};
pub use measure::{add_rejected, flow_name, node_report, transport_name};
pub use report::*;
pub use run::{Progress, RunError, RunOptions, refusal, run};
