//! What a process with deadlines asks of Linux beside devices.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Priority under `SCHED_FIFO`: above ordinary processes, below the kernel's own threads.
const PRIORITY: i32 = 50;

/// Asks for wake-ups on time: timers without slack, and `SCHED_FIFO` where it is allowed. Returns
/// whether it is.
///
/// The caller must sleep between its deadlines: a real-time process that spins is stopped by the
/// kernel for 50 ms of every second.
pub fn ask_for_punctuality() -> bool {
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let parameters = libc::sched_param { sched_priority: PRIORITY };
    // SAFETY: the pointer is to a live `sched_param`; 0 stands for the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) == 0 }
}

/// Has this thread run as ordinary processes do, whatever the one does that made it.
pub fn be_like_others() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above. That it may be less is never refused.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) };
}

/// Has this thread run only where nothing else wants to. Returns whether it does.
pub fn yield_to_all() -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) == 0 }
}

/// Descriptors that a process with sockets for programs may need.
const DESCRIPTORS: u64 = 1 << 16;

/// Has as many descriptors as are allowed without asking anybody: many systems begin with fewer
/// than a daemon gives sockets.
pub fn ask_for_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < most) {
        // Without them there are fewer sockets.
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

/// Has this process killed when its parent dies, so that nothing outlives a lab.
pub fn die_with_parent(parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // The parent may have died before the call.
    let now = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get() as u32);
    if now == parent { Ok(()) } else { Err(io::Error::other("the parent process is gone")) }
}

/// Gives this process namespaces of its own.
///
/// To be called before the process has other threads.
pub fn unshare(namespaces: rustix::thread::UnshareFlags) -> io::Result<()> {
    // SAFETY: the callers ask for namespaces alone (never `CLONE_FILES` or `CLONE_FS` of a process
    // with threads), which changes nothing that Rust relies on.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }.map_err(Into::into)
}

/// Segments that a TCP socket has sent again, as `TCP_INFO` tells it.
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

/// The kernel's cookie of the network namespace that a socket was made in: a number that no other
/// namespace gets until the machine starts anew. `None` before Linux 5.14.
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
