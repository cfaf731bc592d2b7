//! Trace events: decisions of the layers, as values that are serialised to JSON lines.

use super::time::Instant;

/// A place for trace events.
pub trait Trace {
    /// Takes one event that happened at `now` on the node's own clock.
    fn record(&mut self, now: Instant, event: &dyn erased_serde::Serialize);
}
