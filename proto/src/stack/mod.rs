//! The stack: configuration, the closed set of protocols per role, and their composition.

mod any;
mod config;
mod ends;
mod flows;
mod loss_trace;
mod notes;
mod plan;
mod problems;
mod scenario;
mod space;
#[expect(clippy::module_inception, reason = "it is the thing that the folder is named after")]
mod stack;

pub use any::{AnyLink, AnyRouting, AnyTransport};
pub use config::*;
pub use flows::{Flows, FlowsStats};
pub use loss_trace::{Fate, LossTrace, TRACE_END, TRACE_HEADER, TraceError};
pub use plan::{Hop, NodePlan, Plan, RadioPlan};
pub use problems::Problem;
pub use scenario::*;
pub use space::{Heard, PathLoss, Site, Space, Thresholds, gaussian};
pub use stack::{Stack, StackStatus};
