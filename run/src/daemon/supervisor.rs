//! Reports to the service manager that started the daemon (sd_notify(3)). Without a socket in
//! `NOTIFY_SOCKET` it reports nothing.

use sd_notify::{NotifyState, notify};

/// The daemon is up, and answers requests.
pub(super) fn tell_ready(node: &str, devices: &[String]) {
    let status = format!("node {node} is up on {}", devices.join(", "));
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}

/// The daemon is about to end.
pub(super) fn tell_stopping(node: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(&format!("node {node} goes down"))]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = notify(states) {
        tracing::warn!("the service manager is not told how this daemon is: {error}");
    }
}
