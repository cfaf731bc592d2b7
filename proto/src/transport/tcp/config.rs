//! What one TCP connection is built from: settings, and the names of its end.

use std::net::SocketAddrV4;

use crate::base::{Duration, FlowId, NodeId};

/// How lost segments are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// By time, with tail loss probes and proportional rate reduction, as Linux 6 does it
    /// (RFC 8985, RFC 6937).
    RackTlp,
    /// As Linux 6 does it without SACK.
    LinuxReno,
    /// By the count of selectively acknowledged segments (RFC 6675).
    Rfc6675,
    /// By the count of duplicate acknowledgements, without SACK (RFC 6582).
    NewReno,
}

/// How the window grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681.
    #[default]
    Reno,
    /// RFC 9438, as Linux does it.
    Cubic,
    /// Westwood+ (Grieco and Mascolo 2004), as Linux does it.
    Westwood,
}

/// What one acknowledgement counts for when the window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// The segments that it acknowledges (RFC 3465; Linux today).
    Segments,
    /// One (RFC 5681, 3.1 without byte counting; systems before 2013).
    Acks,
}

/// When data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedAck {
    /// In-order segments per acknowledgement.
    pub segments: u32,
    /// How long fewer segments wait at first.
    pub min: Duration,
    /// How long they wait at most, when data comes slowly.
    pub max: Duration,
    /// Acknowledgements at the start, and after a gap, that are not delayed.
    pub quick: u32,
    /// Longest time that acknowledgements behind a hole are held together, after the third
    /// (Linux since 4.18); zero sends each.
    pub compression: Duration,
    /// How much later than that the host's timer fires (`tcp_comp_sack_slack_ns`): an idle host
    /// sets its clock to the end of the slack.
    pub compression_slack: Duration,
}

/// The tick that a host's timers are counted in; zero for timers that are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick(pub Duration);

/// Ticks from which on a timer of Linux stands in the next, coarser level of its wheel
/// (`kernel/time/timer.c`, `LVL_START`).
const WHEEL_LEVEL: u64 = 63;
/// By what the levels of the wheel differ, in span and in grain.
const WHEEL_STEP: u64 = 8;

impl Tick {
    /// How long a timer of this wait takes in the mean: whole ticks, and as it never fires early,
    /// half a grain of the wheel until the next begins. The grain is a tick for short waits; from
    /// 63 ticks on it is 8, and so on. Nobody cascades timers to finer levels.
    pub(super) fn round(self, wait: Duration) -> Duration {
        let tick = self.0.as_nanos();
        if tick == 0 {
            return wait;
        }
        let ticks = wait.as_nanos().div_ceil(tick);
        let (mut span, mut grain) = (WHEEL_LEVEL, tick);
        while ticks >= span && span <= u64::MAX / WHEEL_STEP {
            (span, grain) = (span * WHEEL_STEP, grain * WHEEL_STEP);
        }
        Duration::from_nanos(ticks * tick + grain / 2)
    }
}

/// Settings of one connection end.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Payload of a full segment, in bytes.
    pub mss: usize,
    /// Timestamps option (RFC 7323).
    pub timestamps: bool,
    /// SACK option (RFC 2018); without it the recovery is NewReno, Linux's or the RFC's.
    pub sack: bool,
    /// Explicit congestion notification (RFC 3168) is offered and accepted.
    pub ecn: bool,
    /// How lost segments are found.
    pub recovery: Recovery,
    /// How the window grows.
    pub congestion: Congestion,
    /// What one acknowledgement counts for.
    pub counting: Counting,
    /// Initial window, in segments.
    pub initial_window: u32,
    /// Greatest congestion window, in segments.
    pub max_window: u32,
    /// Spurious time-outs are found (RFC 5682) and undone, as are other needless reductions.
    pub undo: bool,
    /// The time-out is computed as Linux does it, else after RFC 6298.
    pub linux_timers: bool,
    /// The tick of the host's timers.
    pub tick: Tick,
    /// The least retransmission time-out; as Linux computes it, the least that it lies above the
    /// smoothed round-trip time.
    pub min_rto: Duration,
    /// Retransmission time-out before the first measurement.
    pub initial_rto: Duration,
    /// The greatest retransmission time-out.
    pub max_rto: Duration,
    /// Time-outs in a row after which the connection fails.
    pub retries: u32,
    /// Time-outs of the handshake after which it fails.
    pub syn_retries: u32,
    /// When data is acknowledged.
    pub delayed_ack: DelayedAck,
    /// Receive window, in bytes.
    pub window_bytes: u64,
    /// Bytes that the send buffer holds, sent or not.
    pub send_buffer_bytes: u64,
    /// Bytes not yet sent that the send buffer holds.
    pub unsent_bytes: u64,
    /// This end closes when the peer has, once it has sent what it was given.
    pub close_with_peer: bool,
}

impl TcpConfig {
    /// Linux 6 with `net.ipv4.tcp_congestion_control=reno` on an MTU of 1,500 bytes.
    pub fn linux() -> Self {
        Self {
            mss: 1_448,
            timestamps: true,
            sack: true,
            ecn: false,
            recovery: Recovery::RackTlp,
            congestion: Congestion::Reno,
            counting: Counting::Segments,
            initial_window: 10,
            max_window: u32::MAX,
            linux_timers: true,
            // CONFIG_HZ=250.
            tick: Tick(Duration::from_millis(4)),
            undo: true,
            min_rto: Duration::from_millis(200),
            initial_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(120),
            retries: 15,
            syn_retries: 6,
            delayed_ack: DelayedAck {
                segments: 2,
                min: Duration::from_millis(40),
                max: Duration::from_millis(200),
                quick: 16,
                compression: Duration::from_millis(1),
                compression_slack: Duration::from_micros(100),
            },
            window_bytes: 6 << 20,
            send_buffer_bytes: 4 << 20,
            unsent_bytes: 128 << 10,
            close_with_peer: true,
        }
    }

    /// TCP as the published systems met it: SACK after RFC 6675, the initial window of RFC 3390,
    /// a window of 64 KB, no probes and no undo.
    pub fn classic() -> Self {
        Self {
            recovery: Recovery::Rfc6675,
            counting: Counting::Acks,
            initial_window: 3,
            linux_timers: false,
            tick: Tick::default(),
            undo: false,
            initial_rto: Duration::from_secs(3),
            delayed_ack: DelayedAck {
                quick: 0,
                compression: Duration::ZERO,
                compression_slack: Duration::ZERO,
                ..Self::linux().delayed_ack
            },
            window_bytes: 65_535,
            send_buffer_bytes: 128 << 10,
            unsent_bytes: 64 << 10,
            ..Self::linux()
        }
    }

    /// What ns-3 studies of chains use: NewReno without options, an acknowledgement for each
    /// segment, the initial window of 2, buffers of 65,535 bytes, a time-out of 1 s at least.
    pub fn ns3() -> Self {
        Self {
            mss: 1_000,
            timestamps: false,
            sack: false,
            recovery: Recovery::NewReno,
            initial_window: 2,
            min_rto: Duration::from_secs(1),
            delayed_ack: DelayedAck { segments: 1, ..Self::classic().delayed_ack },
            send_buffer_bytes: 65_535,
            unsent_bytes: 65_535,
            ..Self::classic()
        }
    }

    /// The recovery in use when the peer does, or does not, permit SACK.
    pub(super) fn recovery_with(&self, sack: bool) -> Recovery {
        match self.recovery {
            recovery if sack => recovery,
            Recovery::RackTlp | Recovery::LinuxReno => Recovery::LinuxReno,
            Recovery::Rfc6675 | Recovery::NewReno => Recovery::NewReno,
        }
    }
}

/// The names of one end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEnd {
    /// The flow, as messages of this end name it.
    pub flow: FlowId,
    /// The node of the peer.
    pub to: NodeId,
    /// Own address and port.
    pub local: SocketAddrV4,
    /// Address and port of the peer.
    pub remote: SocketAddrV4,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_of_linux_is_later_the_longer_it_runs() {
        let tick = Tick(Duration::from_millis(4));
        let late = |wait_ms: u64| {
            let wait = Duration::from_millis(wait_ms);
            tick.round(wait).saturating_sub(wait).as_nanos() / 1_000_000
        };
        assert_eq!([late(40), late(248)], [2, 2], "half a tick of 4 ms");
        assert_eq!([late(252), late(2_012)], [16, 16], "half a grain of 32 ms");
        assert_eq!([late(2_016), late(16_000)], [128, 128], "half a grain of 256 ms");
        assert_eq!(Tick::default().round(Duration::from_millis(7)), Duration::from_millis(7));
    }
}
