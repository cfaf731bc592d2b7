//! A progress bar for whatever takes longer than two seconds. Without a terminal it prints a line
//! now and then instead, so that a log shows the progress.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Steps of a bar from start to end.
const STEPS: u64 = 1_000;

/// A bar appears only after this time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Least time between two lines without a terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Time after the first fraction that is left out of the estimate: what was finished before, and
/// the first bytes of a file, arrive at once.
const SETTLING: Duration = Duration::from_secs(1);
/// Fraction that must be done after that before the remaining time is estimated.
const TELLING: f64 = 0.01;

/// Prints a line on standard error. An error is ignored, because there is nobody to tell and the
/// work goes on; `eprintln!` would panic.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A progress bar.
pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
    can_show: bool,
    pace: Mutex<Option<Pace>>,
    told: Mutex<Told>,
}

/// The last step that was logged without a terminal, and when.
#[derive(Clone, Copy)]
struct Told(u64, Instant);

impl Told {
    /// Whether to log a step now. A step is not logged twice in a row.
    fn is_due(&mut self, now: Instant, step: u64) -> bool {
        let is_due = step != self.0 && now >= self.1 + TELL_EVERY;
        if is_due {
            *self = Self(step, now);
        }
        is_due
    }
}

/// How fast a bar fills.
#[derive(Clone, Copy)]
struct Pace {
    begun: Instant,
    /// When the measurement began, and the fraction done then.
    from: (Instant, f64),
    /// When the bar last moved, and the fraction done then.
    moved: (Instant, f64),
    /// How often the bar has moved since the measurement began.
    steps: u32,
}

impl Pace {
    fn begin(now: Instant, done: f64) -> Self {
        Self { begun: now, from: (now, done), moved: (now, done), steps: 0 }
    }

    /// Estimated time until all is done, or `None` while it is too early to tell. It counts down
    /// evenly between two steps, and grows only if a step takes longer than the average one before.
    fn left(&mut self, now: Instant, done: f64) -> Option<Duration> {
        if done < self.moved.1 / 2.0 {
            // Much less than before: the next of several jobs has begun.
            *self = Self::begin(now, done);
        }
        // Several threads report, so an older fraction may arrive later.
        let done = done.max(self.moved.1);
        if now < self.begun + SETTLING {
            (self.from, self.moved, self.steps) = ((now, done), (now, done), 0);
        } else if done > self.moved.1 {
            (self.moved, self.steps) = ((now, done), self.steps + 1);
        }
        let ((since, before), (moved, _)) = (self.from, self.moved);
        let share = done - before;
        (share >= TELLING && self.steps > 0).then(|| {
            let (took, waits) = (moved - since, now - moved);
            let usual = waits.min(took / self.steps);
            let all = (took + waits - usual).mul_f64((1.0 - done) / share);
            all.saturating_sub(usual)
        })
    }
}

impl Bar {
    /// Creates a bar, which appears once the work has taken long.
    pub(crate) fn start(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::hidden());
        // The text has what the rest leaves of the terminal's width.
        let style = "{wide_msg} [{bar:24}] {percent:>3}% {prefix} left";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
        bar.set_message(what.to_owned());
        bar.set_prefix("?");
        let can_show = std::io::stderr().is_terminal();
        let (started, pace) = (Instant::now(), Mutex::new(None));
        Self { bar, started, can_show, pace, told: Mutex::new(Told(0, started)) }
    }

    /// Sets the text that says what is being done.
    pub(crate) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.show();
    }

    /// Sets the fraction that is done.
    pub(crate) fn fill(&self, fraction: f64) {
        let (now, done) = (Instant::now(), fraction.clamp(0.0, 1.0));
        if let Ok(mut pace) = self.pace.lock() {
            let left = pace.get_or_insert_with(|| Pace::begin(now, done)).left(now, done);
            let text = left.map_or("?".into(), |left| format!("{:#}", HumanDuration(left)));
            self.bar.set_prefix(text);
        }
        let step = (done * STEPS as f64) as u64;
        self.bar.set_position(step);
        self.show();
        self.log(step, || {
            let (what, percent) = (self.bar.message(), step * 100 / STEPS);
            format!("{what}: {percent}%, {} left", self.bar.prefix())
        });
    }

    /// Shows progress towards an unknown end: `what` is the text, logged again when `done` has
    /// changed.
    pub(crate) fn count(&self, what: &str, done: u64) {
        self.say(what);
        self.log(done, || what.to_owned());
    }

    /// Logs a step now and then, where there is no terminal.
    fn log(&self, step: u64, text: impl FnOnce() -> String) {
        let now = Instant::now();
        if !self.can_show && self.told.lock().is_ok_and(|mut told| told.is_due(now, step)) {
            tell(&text());
        }
    }

    fn show(&self) {
        if self.can_show && self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// Prints a line above the bar.
    pub(crate) fn line(&self, text: &str) {
        if self.bar.is_hidden() {
            tell(text);
        } else {
            self.bar.println(text);
        }
    }

    /// Runs `act`, which prints on standard output, with the bar hidden meanwhile.
    pub(crate) fn beside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }

    /// Removes the bar.
    pub(crate) fn end(self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_hears_every_ten_seconds_of_what_has_moved() {
        let start = Instant::now();
        let mut told = Told(0, start);
        let mut is_due =
            |seconds: u64, step| told.is_due(start + Duration::from_secs(seconds), step);
        let heard = [(1, 5), (9, 50), (10, 60), (11, 70), (25, 60), (26, 80), (60, 80), (61, 90)];
        let heard = heard.map(|(seconds, step)| is_due(seconds, step));
        assert_eq!(heard, [false, false, true, false, false, true, false, true]);
    }

    #[test]
    fn what_was_there_at_once_does_not_say_how_long_the_rest_takes() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut pace = Pace::begin(start, 0.5);
        assert_eq!(pace.left(at(1), 0.5), None);
        assert_eq!(pace.left(at(900), 0.5), None);
        // A tenth takes ten seconds.
        let left = pace.left(at(10_900), 0.6).expect("it can be told").as_secs_f64();
        assert!((left - 40.0).abs() < 0.01, "{left}");
        // A second later it counts down; if nothing moves for long, the estimate grows.
        let left = pace.left(at(11_900), 0.6).expect("it can be told").as_secs_f64();
        assert!((left - 39.0).abs() < 0.01, "{left}");
        let left = pace.left(at(40_900), 0.6).expect("it can be told").as_secs_f64();
        assert!((left - 110.0).abs() < 0.01, "{left}");
        // A slower thread reports an older fraction.
        let again = pace.left(at(40_900), 0.599).expect("it can be told").as_secs_f64();
        assert_eq!(again, left);
        // The next file.
        assert_eq!(pace.left(at(60_000), 0.0), None);
        let left = pace.left(at(62_000), 0.5).expect("it can be told").as_secs_f64();
        assert!((left - 2.0).abs() < 0.01, "{left}");
    }
}
