//! Ctrl-C and SIGTERM as a flag, so that what was built is taken down.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use farhop_run::device::signals::Signals;
use rustix::event::{PollFd, PollFlags, poll};

/// The first signal that came; 0 before.
static CAME: AtomicU8 = AtomicU8::new(0);
/// For so long whoever wants an end leaves the program time for it.
const PATIENCE: Duration = Duration::from_secs(2);

/// Turns SIGINT, SIGTERM and SIGHUP into the flag; another one some time later ends the program on
/// the spot, with whatever it hangs in. It starts a thread: to be called after this process is
/// isolated, and before it has others. The signals are blocked from here on, and programs that are
/// started inherit that: one that is to heed Ctrl-C has to be started with them free.
pub(crate) fn watch() {
    // Without it they end the program, as they do by themselves.
    let Ok(signals) = Signals::take() else { return };
    std::thread::spawn(move || {
        let mut first = None;
        loop {
            // Whatever it says, what has come is looked for.
            let _ = poll(&mut [PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN)], None);
            let Ok(Some(signal)) = signals.poll() else { continue };
            let _ = CAME.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                std::process::exit(exit_status().into());
            }
        }
    });
}

/// Whether somebody wants an end.
pub(crate) fn has_come() -> bool {
    CAME.load(Ordering::Relaxed) != 0
}

/// The exit status of a program that was interrupted: what a shell says of one that a signal ended,
/// which was Ctrl-C where somebody said so in another way.
pub(crate) fn exit_status() -> u8 {
    const INTERRUPT: u8 = 2;
    let signal = match CAME.load(Ordering::Relaxed) {
        0 => INTERRUPT,
        signal => signal,
    };
    128 + signal
}
