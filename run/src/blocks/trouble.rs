//! Logs that nothing can be stored. Many blocks a second may fail, but the log says so only from
//! time to time.

use std::time::{Duration, Instant};

/// Time between two such lines of the log.
const LINE: Duration = Duration::from_mins(1);
/// How long there must have been no error for the trouble to be over. Some changes need no space
/// and succeed in between. It is longer than the time after which blocks are tried again.
const CALM: Duration = Duration::from_secs(20);

/// Why nothing can be stored, and what was logged about it.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    why: Option<String>,
    /// When something last could not be stored.
    failed: Option<Instant>,
    /// When that was last logged.
    told: Option<Instant>,
    /// Whether the end of the trouble is to be logged.
    is_open: bool,
    /// Whether `why` has changed since it was last asked for.
    has_news: bool,
}

impl Trouble {
    /// Something could not be stored; `is_consequence` says that this only follows from an earlier
    /// error. Returns a line for the log.
    pub(super) fn on_failed(
        &mut self,
        now: Instant,
        error: &impl std::fmt::Display,
        is_consequence: bool,
    ) -> Option<String> {
        self.failed = Some(now);
        // A consequence of another error does not say what is wrong.
        if self.why.is_none() || !is_consequence {
            let why = Some(error.to_string());
            self.has_news |= self.why != why;
            self.why = why;
        }
        if self.told.is_some_and(|told| now.duration_since(told) < LINE) {
            return None;
        }
        (self.told, self.is_open) = (Some(now), true);
        let why = self.why.as_deref().unwrap_or_default();
        Some(format!("blocks cannot be kept, and those are not acknowledged: {why}"))
    }

    /// Everything could be stored. Returns a line for the log.
    pub(super) fn on_kept(&mut self, now: Instant) -> Option<&'static str> {
        self.failed.take_if(|failed| now.duration_since(*failed) >= CALM)?;
        (self.why, self.has_news) = (None, true);
        std::mem::take(&mut self.is_open).then_some("all that comes is kept and acknowledged again")
    }

    /// Whether the trouble is not over yet.
    pub(super) fn is_on(&self) -> bool {
        self.failed.is_some()
    }

    /// Why nothing can be stored, if that changed since this was last asked.
    pub(super) fn news(&mut self) -> Option<Option<String>> {
        std::mem::take(&mut self.has_news).then(|| self.why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_full_for_long_is_told_once_a_minute_and_at_its_end() {
        let (mut trouble, start) = (Trouble::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let mut said = Vec::new();
        // Every other change needs no room.
        for ms in (0..130_000).step_by(10) {
            let line = match ms % 20 {
                0 => trouble.on_failed(at(ms), &"no storage space", false),
                _ => trouble.on_kept(at(ms)).map(str::to_owned),
            };
            said.extend(line.map(|line| (ms, line)));
        }
        let why = "blocks cannot be kept, and those are not acknowledged: no storage space";
        let lines = [0, 60_000, 120_000].map(|ms| (ms, why.to_owned()));
        assert_eq!(said, lines);
        assert_eq!(trouble.news(), Some(Some("no storage space".into())));
        assert_eq!(trouble.on_kept(at(140_000)), None, "it may not be over");
        assert_eq!((trouble.is_on(), trouble.news()), (true, None));
        assert!(trouble.on_kept(at(150_000)).is_some());
        assert_eq!((trouble.is_on(), trouble.news()), (false, Some(None)));
        assert_eq!(trouble.on_kept(at(160_000)), None);
    }

    #[test]
    fn what_follows_from_an_error_does_not_hide_it() {
        let (mut trouble, now) = (Trouble::default(), Instant::now());
        assert!(trouble.on_failed(now, &"after it", true).is_some(), "better than nothing");
        trouble.on_failed(now, &"no storage space", false);
        trouble.on_failed(now, &"after it", true);
        assert_eq!(trouble.news(), Some(Some("no storage space".into())));
    }
}
