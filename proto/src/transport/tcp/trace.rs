//! Trace events of a connection.

use serde::Serialize;

use super::Tcp;
use super::congestion::NO_THRESHOLD;
use super::sender::State;
use crate::base::Cx;

/// A decision, for the trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum TcpEvent {
    /// The congestion window, its threshold or the state of recovery changed.
    Window {
        /// Local port.
        port: u16,
        state: State,
        /// Segments.
        cwnd: u32,
        /// Segments; none before the first loss.
        ssthresh: Option<u32>,
        /// Segments in flight.
        flight: u32,
        /// Smoothed round-trip time, in milliseconds.
        srtt_ms: f64,
    },
}

impl Tcp {
    /// Emits an event if the window or the state has changed since `before`.
    pub(super) fn trace_window(&self, cx: &mut Cx<'_>, before: (State, u32, u32)) {
        let (state, cwnd, ssthresh) = self.window_state();
        if (state, cwnd, ssthresh) != before {
            cx.emit(|| TcpEvent::Window {
                port: self.end.local.port(),
                state,
                cwnd,
                ssthresh: (ssthresh != NO_THRESHOLD).then_some(ssthresh),
                flight: self.sender.board.in_flight(),
                srtt_ms: self.srtt().as_secs_f64() * 1e3,
            });
        }
    }

    /// The values whose changes are traced: state, window and threshold.
    pub(super) fn window_state(&self) -> (State, u32, u32) {
        let window = self.sender.window;
        (self.sender.state, window.cwnd, window.ssthresh)
    }
}
