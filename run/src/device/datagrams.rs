//! Sends and receives many UDP datagrams with one system call, as trains that the kernel segments
//! (UDP GSO) and joins (UDP GRO).
//!
//! A train is one buffer with datagrams of one length; the last may be shorter. If the kernel or
//! the path supports no trains, the datagrams are sent one by one.

use std::io::{self, IoSlice};
use std::mem::{self, size_of};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};

use socket2::{SockAddr, SockAddrStorage};

/// Number of buffers in a [`Datagrams::receive`], and their length: no train is longer.
const BUFFERS: usize = 8;
const BUFFER_BYTES: usize = 1 << 16;
/// Space for one control message with a number, in bytes.
const CONTROL_BYTES: usize = 64;
/// Limits of a train to be sent: what one IP packet can carry, and what kernels accept.
pub(super) const TRAIN_BYTES: usize = 65_000;
pub(super) const TRAIN_DATAGRAMS: usize = 64;
/// Size of the kernel's receive buffer, in bytes, if permitted: two blocks and more.
const RECEIVE_BYTES: usize = 4 << 20;

/// A control buffer, aligned as the kernel wants it.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
struct Control([u8; CONTROL_BYTES]);

/// A socket that sends and receives trains.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: UdpSocket,
    buffers: Vec<u8>,
    /// The longest datagram that may go in a train: longer ones were refused.
    longest: usize,
}

/// Datagrams that the kernel received from one sender.
pub(super) struct Train<'a> {
    /// Address of the sender.
    pub(super) from: Option<SocketAddr>,
    bytes: &'a [u8],
    each: usize,
}

impl<'a> Train<'a> {
    /// Its datagrams.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks(self.each.max(1))
    }
}

impl Datagrams {
    /// Makes the socket non-blocking, and sets it up for trains.
    ///
    /// Fails if that is not possible.
    pub(super) fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let all = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BYTES);
        if all.is_err() {
            // Without the privilege to exceed the system's limit, as much as the limit allows.
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
        }
        // A kernel without UDP GRO joins nothing.
        let _ = set_gro(&socket);
        let buffers = vec![0; BUFFERS * BUFFER_BYTES];
        Ok(Self { socket, buffers, longest: usize::MAX })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Passes what was received to `take`, as far as the buffers reach. Returns whether all buffers
    /// were needed.
    ///
    /// Fails with any error of the socket except `WouldBlock`.
    pub(super) fn receive(&mut self, mut take: impl FnMut(Train<'_>)) -> io::Result<bool> {
        let mut names: [SockAddrStorage; BUFFERS] =
            std::array::from_fn(|_| SockAddrStorage::zeroed());
        let mut controls = [Control([0; CONTROL_BYTES]); BUFFERS];
        // SAFETY: both are plain data of the C library, for which zeros are a value.
        let (mut slices, mut heads): ([libc::iovec; BUFFERS], [libc::mmsghdr; BUFFERS]) =
            unsafe { (mem::zeroed(), mem::zeroed()) };
        for (index, buffer) in self.buffers.chunks_mut(BUFFER_BYTES).enumerate() {
            slices[index] =
                libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let head = &mut heads[index].msg_hdr;
            head.msg_name = (&raw mut names[index]).cast();
            head.msg_namelen = size_of::<SockAddrStorage>() as libc::socklen_t;
            head.msg_iov = &raw mut slices[index];
            head.msg_iovlen = 1;
            head.msg_control = (&raw mut controls[index]).cast();
            head.msg_controllen = CONTROL_BYTES as _;
        }
        // SAFETY: each head points to a name, a slice and a control buffer of its own that outlive
        // the call, with their lengths; so do the slices to parts of the buffer.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                heads.as_mut_ptr(),
                BUFFERS as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) };
        }
        let count = count as usize;
        for ((index, head), name) in heads.iter().take(count).enumerate().zip(names) {
            let length = (head.msg_len as usize).min(BUFFER_BYTES);
            let start = index * BUFFER_BYTES;
            let bytes = &self.buffers[start..start + length];
            // SAFETY: the kernel wrote a name of this length there.
            let from = unsafe { SockAddr::new(name, head.msg_hdr.msg_namelen) };
            let each = segment(&head.msg_hdr).unwrap_or(length);
            take(Train { from: from.as_socket(), bytes, each });
        }
        Ok(count == BUFFERS)
    }

    /// Sends datagrams of `each` bytes, whose bytes are `parts`; the last may be shorter.
    ///
    /// Fails if the socket accepts nothing now (`WouldBlock`: none was sent), or refuses a
    /// datagram.
    pub(super) fn send(
        &mut self,
        to: &SockAddr,
        parts: &[IoSlice<'_>],
        each: usize,
    ) -> io::Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length <= each {
            return self.send_once(to, parts, None);
        }
        let mut is_refused_whole = false;
        if each <= self.longest {
            match self.send_once(to, parts, Some(each as u16)) {
                Err(error) if is_refused(&error) => is_refused_whole = true,
                outcome => return outcome,
            }
        }
        let mut all = Vec::with_capacity(length);
        parts.iter().for_each(|part| all.extend_from_slice(part));
        self.send_each(to, &all, each)?;
        if is_refused_whole {
            // It was not that there is no way to send anything, as when an address is gone.
            self.longest = each.saturating_sub(1);
        }
        Ok(())
    }

    /// Sends datagrams one by one.
    fn send_each(&self, to: &SockAddr, bytes: &[u8], each: usize) -> io::Result<()> {
        for (index, datagram) in bytes.chunks(each).enumerate() {
            match self.send_once(to, &[IoSlice::new(datagram)], None) {
                // Those that were sent must not be sent again: the rest is lost, as with a full
                // queue.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && index > 0 => break,
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn send_once(&self, to: &SockAddr, parts: &[IoSlice<'_>], each: Option<u16>) -> io::Result<()> {
        let mut control = Control([0; CONTROL_BYTES]);
        // SAFETY: plain data of the C library, for which zeros are a value.
        let mut head: libc::msghdr = unsafe { mem::zeroed() };
        head.msg_name = to.as_ptr().cast_mut().cast();
        head.msg_namelen = to.len();
        head.msg_iov = parts.as_ptr().cast_mut().cast();
        head.msg_iovlen = parts.len() as _;
        if let Some(each) = each {
            head.msg_control = (&raw mut control).cast();
            // SAFETY: `CMSG_SPACE` only computes; the control buffer is longer than one message
            // with a number, so that the first header and its data lie within it.
            unsafe {
                head.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as _;
                let message = libc::CMSG_FIRSTHDR(&raw const head);
                (*message).cmsg_level = libc::SOL_UDP;
                (*message).cmsg_type = libc::UDP_SEGMENT;
                (*message).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
                libc::CMSG_DATA(message).cast::<u16>().write_unaligned(each);
            }
        }
        // SAFETY: the head points to a name, to slices (an `IoSlice` is an `iovec`) and to a
        // control buffer that outlive the call, and that it only reads.
        let sent =
            unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const head, libc::MSG_DONTWAIT) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Whether an error means that such datagrams cannot be sent as a train here.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO))
}

fn set_gro(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: pointer and length are those of a live number.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_GRO,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The length of the datagrams of which a received message consists.
fn segment(head: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel wrote whole control messages into a live buffer of that length.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(&raw const *head);
        while !message.is_null() {
            if (*message).cmsg_level == libc::SOL_UDP && (*message).cmsg_type == libc::UDP_GRO {
                let each = libc::CMSG_DATA(message).cast::<libc::c_int>().read_unaligned();
                return usize::try_from(each).ok().filter(|each| *each > 0);
            }
            message = libc::CMSG_NXTHDR(&raw const *head, message);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Datagrams, Datagrams, SockAddr) {
        let socket = || UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (near, far) = (socket(), socket());
        let to = far.local_addr().expect("it is bound").into();
        let make = |socket| Datagrams::new(socket).expect("a socket");
        (make(near), make(far), to)
    }

    fn all(socket: &mut Datagrams) -> Vec<Vec<u8>> {
        let mut came = Vec::new();
        for _ in 0..1_000 {
            let take = |train: Train<'_>| came.extend(train.datagrams().map(<[u8]>::to_vec));
            socket.receive(take).expect("a socket");
            if !came.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
        came
    }

    #[test]
    fn a_train_comes_as_the_datagrams_that_it_was_made_of() {
        let (mut near, mut far, to) = pair();
        let sent: Vec<Vec<u8>> = (0..20).map(|n| vec![n; if n < 19 { 700 } else { 5 }]).collect();
        let parts: Vec<IoSlice<'_>> = sent.iter().map(|one| IoSlice::new(one)).collect();
        near.send(&to, &parts, 700).expect("it is sent");
        assert_eq!(all(&mut far), sent);
    }

    #[test]
    fn what_is_too_long_for_a_train_goes_one_by_one() {
        let (mut near, mut far, to) = pair();
        near.longest = 100;
        near.send(&to, &[IoSlice::new(&[1; 500]), IoSlice::new(&[2; 300])], 500).expect("sent");
        let mut came = all(&mut far);
        while came.len() < 2 {
            came.extend(all(&mut far));
        }
        assert_eq!(came, [vec![1; 500], vec![2; 300]]);
    }
}
