//! Settings of one TCP connection end, and its addresses.

use std::net::SocketAddrV4;

use crate::base::{Duration, FlowId, Instant, NodeId};

/// How lost segments are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// By time, with tail loss probes and proportional rate reduction, as in Linux 6 (RFC 8985, RFC
    /// 6937).
    RackTlp,
    /// As in Linux 6 without SACK.
    LinuxReno,
    /// By the count of selectively acknowledged segments (RFC 6675).
    Rfc6675,
    /// By the count of duplicate acknowledgements, without SACK (RFC 6582).
    NewReno,
}

/// How the congestion window grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Congestion {
    /// RFC 5681.
    #[default]
    Reno,
    /// RFC 9438, as in Linux.
    Cubic,
    /// Westwood+ (Grieco and Mascolo 2004), as in Linux.
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
    /// How long fewer segments wait for an acknowledgement at first.
    pub min: Duration,
    /// How long they wait at most, when data arrives slowly.
    pub max: Duration,
    /// Acknowledgements that are not delayed, at the start and after a gap.
    pub quick: u32,
    /// An in-order segment with PSH is acknowledged at once, because the application takes it,
    /// unless data is being answered with data (Linux).
    pub push: bool,
    /// Longest time that acknowledgements while a hole is open are held together, after the third
    /// (Linux since 4.18); zero sends each.
    pub compression: Duration,
    /// How much later than that the host's timer fires (`tcp_comp_sack_slack_ns`): an idle host
    /// sets its clock to the end of the slack.
    pub compression_slack: Duration,
    /// Segments that arrive together are acknowledged as if each had arrived alone, as by a kernel
    /// that does not merge received segments (Linux before 2.6.29).
    pub singly: bool,
}

/// The tick in which a host's timers are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// From one tick to the next; zero for exact timers.
    pub length: Duration,
    /// How long the host's ticks had been running at time zero.
    pub phase: Duration,
}

/// A timer of Linux of this many ticks or more is in the next, coarser level of the timer wheel
/// (`kernel/time/timer.c`, `LVL_START`).
const WHEEL_LEVEL: u64 = 63;
/// Factor between the levels of the wheel, in span and in granularity.
const WHEEL_STEP: u64 = 8;
/// The ticks of hosts differ by up to this many: more than the granularity of any wait in use.
const PHASES: u64 = 4_096;

impl Tick {
    /// Ticks of this length, with a phase that depends on the host's address.
    pub(super) fn of_host(self, address: u32) -> Self {
        let span = u128::from(self.length.as_nanos() * PHASES);
        // Any hash will do: multiplication mixes upwards, and the upper half is taken.
        let mixed = u64::from(address).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Self { phase: Duration::from_nanos(((span * u128::from(mixed)) >> 32) as u64), ..self }
    }

    /// A time in whole ticks, rounded up (`usecs_to_jiffies`).
    pub(super) fn whole(self, time: Duration) -> Duration {
        let tick = self.length.as_nanos();
        if tick == 0 {
            return time;
        }
        Duration::from_nanos(time.as_nanos().div_ceil(tick) * tick)
    }

    /// When the current tick began (`tcp_jiffies32`).
    pub(super) fn begin(self, now: Instant) -> Instant {
        let tick = self.length.as_nanos();
        if tick == 0 {
            return now;
        }
        let passed = (now.as_nanos() + self.phase.as_nanos()) % tick;
        Instant::from_nanos(now.as_nanos().saturating_sub(passed))
    }

    /// When a timer fires that is set now. It counts whole ticks from the current one. As it never
    /// fires early, it fires at the first later step of its level of the wheel. The step is a tick
    /// for short waits, 8 ticks for waits of 63 ticks or more, and so on, because timers do not
    /// move to finer levels later. So a wait that was set by a timer lasts a tick longer than asked
    /// for, and others half a tick on average.
    pub(super) fn due(self, now: Instant, wait: Duration) -> Instant {
        let tick = self.length.as_nanos();
        if tick == 0 {
            return now + wait;
        }
        let ticks = wait.as_nanos().div_ceil(tick);
        let (mut span, mut grain) = (WHEEL_LEVEL, 1);
        while ticks >= span && span <= u64::MAX / WHEEL_STEP {
            (span, grain) = (span * WHEEL_STEP, grain * WHEEL_STEP);
        }
        let expires = (now.as_nanos() + self.phase.as_nanos()) / tick + ticks;
        let fires = (expires / grain + 1) * grain;
        Instant::from_nanos(fires * tick - self.phase.as_nanos())
    }
}

/// Settings of one connection end.
#[derive(Clone, Debug, PartialEq)]
pub struct TcpConfig {
    /// Payload of a full segment, in bytes.
    pub mss: usize,
    /// Timestamps option (RFC 7323).
    pub timestamps: bool,
    /// SACK option (RFC 2018). Without it, recovery is NewReno, that of Linux or of RFC 6582.
    pub sack: bool,
    /// Whether explicit congestion notification (RFC 3168) is offered and accepted.
    pub ecn: bool,
    /// How lost segments are detected.
    pub recovery: Recovery,
    /// How the congestion window grows.
    pub congestion: Congestion,
    /// What one acknowledgement counts for.
    pub counting: Counting,
    /// Initial window, in segments.
    pub initial_window: u32,
    /// Largest congestion window, in segments.
    pub max_window: u32,
    /// Whether spurious time-outs (RFC 5682) and other needless reductions are detected and undone.
    pub undo: bool,
    /// Whether the retransmission time-out is computed as in Linux, or by RFC 6298.
    pub linux_timers: bool,
    /// The tick of the host's timers.
    pub tick: Tick,
    /// Least retransmission time-out. Where it is computed as in Linux: how far it is at least
    /// above the smoothed round-trip time.
    pub min_rto: Duration,
    /// Retransmission time-out before the first measurement.
    pub initial_rto: Duration,
    /// Largest retransmission time-out.
    pub max_rto: Duration,
    /// Time-outs in a row after which the connection fails.
    pub retries: u32,
    /// Time-outs of the handshake after which the connection fails, not counting those of
    /// `syn_linear`.
    pub syn_retries: u32,
    /// After this many first time-outs of its SYN, the end that opens the connection waits no
    /// longer than before (`net.ipv4.tcp_syn_linear_timeouts`, Linux since 6.5); then each wait is
    /// twice the last.
    pub syn_linear: u32,
    /// When data is acknowledged.
    pub delayed_ack: DelayedAck,
    /// Receive window, in bytes.
    pub window_bytes: u64,
    /// Bytes that the send buffer holds, sent or not. If it grows, the largest size.
    pub send_buffer_bytes: u64,
    /// Whether the send buffer begins small and grows with the congestion window, as in Linux.
    pub send_buffer_grows: bool,
    /// Unsent bytes that the send buffer holds.
    pub unsent_bytes: u64,
    /// Whether this end closes when the peer has closed, once it has sent what it was given.
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
            tick: Tick { length: Duration::from_millis(4), phase: Duration::ZERO },
            undo: true,
            min_rto: Duration::from_millis(200),
            initial_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(120),
            retries: 15,
            syn_retries: 6,
            syn_linear: 4,
            delayed_ack: DelayedAck {
                segments: 2,
                min: Duration::from_millis(40),
                max: Duration::from_millis(200),
                quick: 16,
                push: true,
                compression: Duration::from_millis(1),
                compression_slack: Duration::from_micros(100),
                singly: false,
            },
            window_bytes: 6 << 20,
            send_buffer_bytes: 4 << 20,
            send_buffer_grows: true,
            unsent_bytes: 128 << 10,
            close_with_peer: true,
        }
    }

    /// TCP as in the systems of the papers: SACK by RFC 6675, the initial window of RFC 3390, a
    /// window of 64 KB, no probes and no undo.
    pub fn classic() -> Self {
        Self {
            recovery: Recovery::Rfc6675,
            counting: Counting::Acks,
            initial_window: 3,
            linux_timers: false,
            tick: Tick::default(),
            undo: false,
            initial_rto: Duration::from_secs(3),
            syn_linear: 0,
            delayed_ack: DelayedAck {
                quick: 0,
                push: false,
                compression: Duration::ZERO,
                compression_slack: Duration::ZERO,
                ..Self::linux().delayed_ack
            },
            window_bytes: 65_535,
            send_buffer_bytes: 128 << 10,
            send_buffer_grows: false,
            unsent_bytes: 64 << 10,
            ..Self::linux()
        }
    }

    /// TCP of ns-3 studies of chains: NewReno without options, an acknowledgement for each segment,
    /// an initial window of 2, buffers of 65,535 bytes, and a time-out of at least 1 s.
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

    /// The recovery that is used if the peer permits SACK, or if it does not.
    pub(super) fn recovery_with(&self, sack: bool) -> Recovery {
        match self.recovery {
            recovery if sack => recovery,
            Recovery::RackTlp | Recovery::LinuxReno => Recovery::LinuxReno,
            Recovery::Rfc6675 | Recovery::NewReno => Recovery::NewReno,
        }
    }
}

/// The addresses of one end of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEnd {
    /// The flow, as the messages of this end name it.
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

    fn linux() -> Tick {
        TcpConfig::linux().tick
    }

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_timer_of_linux_fires_with_a_tick_and_never_early() {
        let due = |now_ms, wait_ms| linux().due(at_ms(now_ms), Duration::from_millis(wait_ms));
        assert_eq!([due(0, 40), due(3, 40), due(4, 40)], [at_ms(44), at_ms(44), at_ms(48)]);
        assert_eq!(due(1, 37), at_ms(44), "ten ticks, rounded up");
    }

    #[test]
    fn a_timer_of_linux_is_coarser_the_longer_it_runs() {
        let late = |wait_ms: u64| {
            let waits = (0..256).map(|ms| {
                let now = at_ms(1_000 + ms);
                linux().due(now, Duration::from_millis(wait_ms)).since(now).as_nanos()
            });
            let waits: Vec<u64> = waits.map(|nanos| nanos / 1_000_000 - wait_ms).collect();
            (*waits.iter().min().expect("waits"), *waits.iter().max().expect("waits"))
        };
        assert_eq!([late(40), late(248)], [(1, 4); 2], "a tick of 4 ms");
        assert_eq!([late(252), late(2_012)], [(1, 32); 2], "a grain of 32 ms");
        assert_eq!([late(2_016), late(16_000)], [(1, 256); 2], "a grain of 256 ms");
    }

    #[test]
    fn exact_timers_have_no_tick_and_hosts_differ_in_theirs() {
        let seven = Duration::from_millis(7);
        assert_eq!(Tick::default().due(at_ms(5), seven), at_ms(12));
        assert_eq!(Tick::default().of_host(9).due(at_ms(5), seven), at_ms(12));
        let dues: Vec<Instant> =
            (1..=20).map(|host| linux().of_host(host).due(at_ms(5), seven)).collect();
        assert!(dues.iter().all(|due| (at_ms(12)..=at_ms(17)).contains(due)), "{dues:?}");
        assert!(dues.iter().min() < dues.iter().max());
    }

    #[test]
    fn ticks_of_hosts_began_at_different_times_within_the_span() {
        let tick = Tick { length: Duration::from_millis(4), phase: Duration::ZERO };
        let hosts = [0x0a42_0001_u32, 0x0a42_0002, 0xffff_ffff, 0];
        let phases: std::collections::BTreeSet<_> =
            hosts.iter().map(|host| tick.of_host(*host).phase).collect();
        assert_eq!(phases.len(), hosts.len());
        assert!(phases.iter().all(|phase| *phase < tick.length * PHASES));
    }
}
