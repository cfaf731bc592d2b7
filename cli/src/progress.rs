//! A line that moves while something takes longer than two seconds; on a terminal only.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Steps of a bar from its begin to its end.
const STEPS: u64 = 1_000;

/// What is done before this shows no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar that fills.
pub(crate) struct Bar {
    bar: ProgressBar,
    started: Instant,
    can_show: bool,
}

impl Bar {
    /// A bar that shows itself if this takes long, and never where standard error is no terminal.
    pub(crate) fn start(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::hidden());
        let style = "{msg:<44} [{bar:30}] {percent:>3}% {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
        bar.set_message(what.to_owned());
        Self { bar, started: Instant::now(), can_show: std::io::stderr().is_terminal() }
    }

    /// Says what is being done.
    pub(crate) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.show();
    }

    /// Fills the bar up to a fraction.
    pub(crate) fn fill(&self, fraction: f64) {
        self.bar.set_position((fraction.clamp(0.0, 1.0) * STEPS as f64) as u64);
        self.show();
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
            eprintln!("{text}");
        } else {
            self.bar.println(text);
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(self) {
        self.bar.finish_and_clear();
    }
}
