//! Ctrl-C and SIGTERM as a flag, so that what was built is taken down.

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Turns SIGINT, SIGTERM and SIGHUP into the flag. It starts a thread: to be called after this
/// process is isolated.
pub(crate) fn watch() {
    // A second call finds the handler set, which is what it wants.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
}

/// Whether somebody wants an end.
pub(crate) fn has_come() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
