//! Events that come in episodes, each of which is logged once.

use farhop_proto::base::{Duration, Instant};

/// An episode has ended when nothing came for this long.
const PAUSE: Duration = Duration::from_secs(60);

/// A counter whose increases form episodes.
#[derive(Debug, Default)]
pub(super) struct Episodes {
    before: u64,
    last: Option<Instant>,
}

impl Episodes {
    /// Notes the counter's present value. Returns whether an episode begins with it.
    pub(super) fn begins(&mut self, now: Instant, count: Option<&u64>) -> bool {
        let count = count.copied().unwrap_or(0);
        if count <= std::mem::replace(&mut self.before, count) {
            return false;
        }
        self.last.replace(now).is_none_or(|last| now.since(last) > PAUSE)
    }
}
