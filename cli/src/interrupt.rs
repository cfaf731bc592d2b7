//! Turns Ctrl-C, SIGTERM and SIGHUP into a flag, so that a command can take down what it has built.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use farhop_run::device::signals::Signals;
use rustix::event::{PollFd, PollFlags, poll};

/// The first signal that came; 0 before.
static CAME: AtomicU8 = AtomicU8::new(0);
/// Signals within this time after the first have no effect of their own; a later one ends the
/// program.
const PATIENCE: Duration = Duration::from_secs(2);

/// Turns SIGINT, SIGTERM and SIGHUP into the flag. Another signal more than `PATIENCE` later ends
/// the program at once, even if it hangs. Starts a thread, so call it after this process is
/// isolated and before it has other threads. The signals are blocked from here on, and child
/// processes inherit that: a child that is to react to Ctrl-C needs them unblocked.
pub(crate) fn watch() {
    // Without it the signals end the program, as by default.
    let Ok(signals) = Signals::take() else { return };
    std::thread::spawn(move || {
        let mut first = None;
        loop {
            // Whatever poll returns, look for signals.
            let _ = poll(&mut [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)], None);
            let Ok(Some(signal)) = signals.poll() else { continue };
            let _ = CAME.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                std::process::exit(exit_status().into());
            }
        }
    });
}

/// Whether a signal has come.
pub(crate) fn has_come() -> bool {
    CAME.load(Ordering::Relaxed) != 0
}

/// The exit status of an interrupted program, as in a shell: 128 plus the number of the signal. If
/// there was no signal, as when the user declines a question, that of SIGINT.
pub(crate) fn exit_status() -> u8 {
    const INTERRUPT: u8 = 2;
    let signal = match CAME.load(Ordering::Relaxed) {
        0 => INTERRUPT,
        signal => signal,
    };
    128 + signal
}
