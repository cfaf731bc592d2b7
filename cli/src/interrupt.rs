//! Ctrl-C and SIGTERM as a flag, so that what was built is taken down.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// For so long whoever wants an end leaves the program time for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a shell says of a program that Ctrl-C has ended.
const BY_SIGNAL: i32 = 130;

/// Turns SIGINT, SIGTERM and SIGHUP into the flag; another one some time later ends the program on
/// the spot, with whatever it hangs in. It starts a thread: to be called after this process is
/// isolated.
pub(crate) fn watch() {
    let first = OnceLock::new();
    // A second call finds the handler set, which is what it wants.
    let _ = ctrlc::set_handler(move || {
        INTERRUPTED.store(true, Ordering::Relaxed);
        if first.get_or_init(Instant::now).elapsed() > PATIENCE {
            std::process::exit(BY_SIGNAL);
        }
    });
}

/// Whether somebody wants an end.
pub(crate) fn has_come() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
