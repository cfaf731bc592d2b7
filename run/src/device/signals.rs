//! The signals that end a program, as a descriptor to wait on (signalfd), so that the program ends
//! between two steps: SIGTERM, SIGINT, and SIGHUP, as when a session closes.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The signals that end a program.
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes over SIGTERM and SIGINT, and SIGHUP unless it is ignored (`nohup`), for the calling
    /// thread and the threads that it starts, until this is dropped.
    ///
    /// Fails if the process has no file descriptors left.
    pub fn take() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut hangup = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: the pointers are to live values; `sigemptyset` initialises the first set before
        // it is used, `pthread_sigmask` fills the second, `sigaction` without a new action only
        // tells the old one, and zeros are a value of it; the result of `signalfd` is checked.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::sigaddset(set.as_mut_ptr(), libc::SIGINT);
            libc::sigaction(libc::SIGHUP, std::ptr::null(), hangup.as_mut_ptr());
            if hangup.assume_init_ref().sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(set.as_mut_ptr(), libc::SIGHUP);
            }
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = OwnedFd::from_raw_fd(fd);
            let error = libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            Ok(Self { fd, before: before.assume_init() })
        }
    }

    /// The number of a signal that has arrived, if one has.
    pub fn poll(&self) -> io::Result<Option<u8>> {
        let mut buffer = [0_u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.fd, &mut buffer) {
            // The number comes first (signalfd(2)), in four bytes, and is below 65.
            Ok(length) if length > 0 => {
                let number = u32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
                Ok(Some(number as u8))
            }
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Name of a signal that ends a program, for the log.
pub fn name(signal: u8) -> &'static str {
    match i32::from(signal) {
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        libc::SIGHUP => "SIGHUP, as when the session that started it closes,",
        _ => "a signal",
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Signals {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // One that came meanwhile, as when somebody is impatient, would end the process otherwise.
        while matches!(self.poll(), Ok(Some(_))) {}
        // SAFETY: `before` is the set that `pthread_sigmask` filled; the third pointer may be null.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}
