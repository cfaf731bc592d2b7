//! Test tools: a pair of layers over a lossy pipe, oracles, generators.

#![forbid(unsafe_code)]

mod clock;
pub mod fuzz;
mod host;
mod network;
mod oracle;
pub mod oracles;
mod pair;
mod scenario;
pub mod swarm;

pub use clock::Clock;
pub use host::skip;
pub use network::{FrameLoss, Make, Network, Span, keep_waiting};
pub use oracle::Ledger;
pub use pair::{Loss, OnAir, Pair, PairConfig, Source};
pub use scenario::scenario;
