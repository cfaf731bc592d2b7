//! What comes in episodes, each of which is told of once.

use farhop_proto::base::{Duration, Instant};

/// What has not come for so long has ended, and is told of when it comes again.
const PAUSE: Duration = Duration::from_secs(60);

/// Something that is counted.
#[derive(Debug, Default)]
pub(super) struct Episodes {
    before: u64,
    last: Option<Instant>,
}

impl Episodes {
    /// Takes how often it has come so far. Returns whether an episode begins with that.
    pub(super) fn begins(&mut self, now: Instant, count: Option<&u64>) -> bool {
        let count = count.copied().unwrap_or(0);
        if count <= std::mem::replace(&mut self.before, count) {
            return false;
        }
        self.last.replace(now).is_none_or(|last| now.since(last) > PAUSE)
    }
}
