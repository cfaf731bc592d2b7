//! A line that moves while something takes longer than two seconds. Where there is no terminal, a
//! line now and then, so that a log shows how far it is.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Steps of a bar from its begin to its end.
const STEPS: u64 = 1_000;

/// What is done before this shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often it is told how far it is, where there is no terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// From its first fraction on it is not looked so long how fast a bar fills: what was finished
/// before, and the first bytes of a file, are there at once.
const SETTLING: Duration = Duration::from_secs(1);
/// What must be done after that before it can be told how long the rest takes.
const TELLING: f64 = 0.01;

/// Prints a line on standard error. Where that cannot be written nobody can be told, and what is
/// being done goes on: `eprintln!` would panic.
pub(crate) fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A bar that fills.
pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
    can_show: bool,
    pace: Mutex<Option<Pace>>,
    told: Mutex<Told>,
}

/// What was last told where there is no terminal: the step, and when.
#[derive(Clone, Copy)]
struct Told(u64, Instant);

impl Told {
    /// Whether a step is to be told now. Nothing is told twice.
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
    /// Since when it is looked, and what was done then.
    from: (Instant, f64),
    /// When it last moved, and what was done then.
    moved: (Instant, f64),
    /// How often it has moved since it is looked.
    steps: u32,
}

impl Pace {
    fn begin(now: Instant, done: f64) -> Self {
        Self { begun: now, from: (now, done), moved: (now, done), steps: 0 }
    }

    /// Time until all is done, if it can be told. It runs out evenly between two steps, and is
    /// longer only where one takes longer than those before it.
    fn left(&mut self, now: Instant, done: f64) -> Option<Duration> {
        if done < self.moved.1 / 2.0 {
            // The next of what is done one after the other.
            *self = Self::begin(now, done);
        }
        // Of threads that tell at the same time an earlier one may come later.
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
    /// A bar that shows itself if this takes long.
    pub(crate) fn start(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::hidden());
        let style = "{msg:<44} [{bar:30}] {percent:>3}% {prefix} left";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
        bar.set_message(what.to_owned());
        bar.set_prefix("?");
        let can_show = std::io::stderr().is_terminal();
        let (started, pace) = (Instant::now(), Mutex::new(None));
        Self { bar, started, can_show, pace, told: Mutex::new(Told(0, started)) }
    }

    /// Says what is being done.
    pub(crate) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.show();
    }

    /// Fills the bar up to a fraction.
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

    /// Says how much is done of what has no end yet: `what` tells it, and another `done` is news.
    pub(crate) fn count(&self, what: &str, done: u64) {
        self.say(what);
        self.log(done, || what.to_owned());
    }

    /// Tells of a step now and then, where there is no terminal.
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

    /// Does something that prints on standard output, with the bar out of its way.
    pub(crate) fn beside<T>(&self, act: impl FnOnce() -> T) -> T {
        self.bar.suspend(act)
    }

    /// Takes the bar away.
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
        // A tenth in ten seconds.
        let left = pace.left(at(10_900), 0.6).expect("it can be told").as_secs_f64();
        assert!((left - 40.0).abs() < 0.01, "{left}");
        // The same after another second; and where nothing moves for long it takes longer.
        let left = pace.left(at(11_900), 0.6).expect("it can be told").as_secs_f64();
        assert!((left - 39.0).abs() < 0.01, "{left}");
        let left = pace.left(at(40_900), 0.6).expect("it can be told").as_secs_f64();
        assert!((left - 110.0).abs() < 0.01, "{left}");
        // Of two threads the later one has told already.
        let again = pace.left(at(40_900), 0.599).expect("it can be told").as_secs_f64();
        assert_eq!(again, left);
        // The next file.
        assert_eq!(pace.left(at(60_000), 0.0), None);
        let left = pace.left(at(62_000), 0.5).expect("it can be told").as_secs_f64();
        assert!((left - 2.0).abs() < 0.01, "{left}");
    }
}
