//! A line that moves while something takes longer than two seconds; on a terminal only.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Steps of a bar from its begin to its end.
const STEPS: u64 = 1_000;

/// A bar that fills.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar, or nothing where standard error is no terminal.
    pub(crate) fn start(what: &str) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(STEPS);
        let style = "{msg:<44} [{bar:30}] {percent:>3}% {eta} left";
        bar.set_style(ProgressStyle::with_template(style).expect("a valid template"));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Says what is being done.
    pub(crate) fn say(&self, what: &str) {
        self.0.set_message(what.to_owned());
    }

    /// Fills the bar up to a fraction.
    pub(crate) fn fill(&self, fraction: f64) {
        self.0.set_position((fraction.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }

    /// Prints a line above the bar.
    pub(crate) fn line(&self, text: &str) {
        if self.0.is_hidden() {
            eprintln!("{text}");
        } else {
            self.0.println(text);
        }
    }

    /// Takes the bar away.
    pub(crate) fn end(self) {
        self.0.finish_and_clear();
    }
}
