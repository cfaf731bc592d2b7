//! What is told of a disk on which nothing can be kept: many blocks a second may have no room, and
//! the log says so once in a while.

use std::time::{Duration, Instant};

/// Time between two lines of the log that say that it is so.
const LINE: Duration = Duration::from_mins(1);
/// After so long without an error it is over: some changes need no room, and there is none for
/// those between them. Longer than what waits is put off.
const CALM: Duration = Duration::from_secs(20);

/// Why nothing can be kept now, and what was told of it.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    why: Option<String>,
    /// When something could not be kept last.
    failed: Option<Instant>,
    /// When the log last said so.
    told: Option<Instant>,
    /// Whether it is to say as well that it is over.
    is_open: bool,
    /// Whether `why` is another than was asked for.
    has_news: bool,
}

impl Trouble {
    /// Something could not be kept, for a reason or as what follows from another error. Returns
    /// what the log is to say.
    pub(super) fn on_failed(
        &mut self,
        now: Instant,
        error: &impl std::fmt::Display,
        is_consequence: bool,
    ) -> Option<String> {
        self.failed = Some(now);
        // What follows from another error does not say what is wrong.
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

    /// All could be kept. Returns what the log is to say.
    pub(super) fn on_kept(&mut self, now: Instant) -> Option<&'static str> {
        self.failed.take_if(|failed| now.duration_since(*failed) >= CALM)?;
        (self.why, self.has_news) = (None, true);
        std::mem::take(&mut self.is_open).then_some("all that comes is kept and acknowledged again")
    }

    /// Whether it is so, or was a moment ago.
    pub(super) fn is_on(&self) -> bool {
        self.failed.is_some()
    }

    /// Why nothing can be kept, if that is another than it was when this was last asked for.
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
