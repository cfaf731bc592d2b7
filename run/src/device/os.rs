//! Requests to Linux that a process with deadlines makes, apart from devices.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Priority under `SCHED_FIFO`: above ordinary processes, below the kernel's own threads.
const PRIORITY: i32 = 50;

/// Asks for punctual wake-ups: timers without slack, and `SCHED_FIFO` if permitted. Returns whether
/// it is.
///
/// The caller must sleep between its deadlines: a realtime process that spins is stopped by the
/// kernel for 50 ms of every second.
pub fn ask_for_punctuality() -> bool {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the pointer is to a live `sched_param`; 0 stands for the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// Makes this thread an ordinary one, even if it was started by a realtime thread.
pub fn be_like_others() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above. Lowering the priority is always permitted.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) };
}

/// Makes this thread run only when nothing else wants to. Returns whether that worked.
pub fn yield_to_all() -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) == 0 }
}

/// Descriptors that a daemon with many sockets may need.
const DESCRIPTORS: u64 = 1 << 16;

/// Raises the limit of descriptors as far as is permitted: on many systems it is lower at first
/// than the number of sockets that a daemon offers.
pub fn ask_for_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < most) {
        // Without this there are fewer sockets.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit });
    }
}

/// Processor time and memory of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// User and system time, in seconds.
    pub cpu_s: f64,
    /// Largest resident memory, in kB.
    pub memory_kb: u64,
}

/// What this process has used so far.
pub fn usage() -> Usage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live `rusage`, which all-zero bytes are too.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let secs = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Usage { cpu_s: secs(usage.ru_utime) + secs(usage.ru_stime), memory_kb: usage.ru_maxrss as u64 }
}

/// Makes the kernel kill this process when its parent dies, so that nothing outlives a lab.
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have died before the call.
    let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
    if now == parent { Ok(()) } else { Err(io::Error::other("the parent process is gone")) }
}

/// Moves this process into new namespaces.
///
/// Must be called before the process has other threads.
pub fn unshare(namespaces: rustix::thread::UnshareFlags) -> io::Result<()> {
    // SAFETY: the callers ask for namespaces alone (never `CLONE_FILES` or `CLONE_FS` of a process
    // with threads), which changes nothing that Rust relies on.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }.map_err(Into::into)
}

/// Segments that a TCP socket has retransmitted, from `TCP_INFO`.
pub fn tcp_retransmissions(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut info = std::mem::MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: pointer and length are those of a live `tcp_info`, which all-zero bytes are too.
    let info = unsafe {
        let got = libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast::<libc::c_void>(),
            &raw mut length,
        );
        (got == 0).then(|| info.assume_init())
    }?;
    Some(u64::from(info.tcpi_total_retrans))
}

/// The kernel's cookie of the network namespace in which a socket was made. No other namespace gets
/// it until the machine is restarted. `None` before Linux 5.14.
pub fn namespace_cookie(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut cookie = 0_u64;
    let mut length = size_of::<u64>() as libc::socklen_t;
    // SAFETY: pointer and length are those of a live `u64`.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast::<libc::c_void>(),
            &raw mut length,
        )
    };
    (got == 0).then_some(cookie)
}
