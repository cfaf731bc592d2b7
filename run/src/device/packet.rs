//! AF_PACKET sockets: raw frames of one interface, with the kernel's time of arrival.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration as StdDuration;

use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

/// Longest frame, in bytes: the largest MPDU of 802.11 with a long radiotap header.
pub const FRAME_BYTES: usize = 4096;
/// Size of the receive buffer, in bytes: some hundred frames.
const BUFFER_BYTES: usize = 1 << 20;

/// A raw socket on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    fd: OwnedFd,
}

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Its length in the buffer, in bytes.
    pub length: usize,
    /// When the kernel received it, by `CLOCK_REALTIME`.
    pub stamp: Option<StdDuration>,
    /// Whether it is a copy of a frame that another socket of this host sent.
    pub outgoing: bool,
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl PacketSocket {
    /// Opens a socket for frames of `protocol` (an EtherType), or for all if it is `None`.
    ///
    /// Fails without the right to open raw sockets, or if the interface does not exist.
    pub fn open(interface: &str, protocol: Option<u16>) -> io::Result<Self> {
        // Ask over another socket: closing a packet socket takes the kernel milliseconds.
        let any = UnixDatagram::unbound()?;
        let index = rustix::net::netdevice::name_to_index(&any, interface).map_err(|error| {
            io::Error::new(
                io::Error::from(error).kind(),
                format!("no interface '{interface}': {error}"),
            )
        })?;
        let protocol = protocol.unwrap_or(libc::ETH_P_ALL as u16).to_be();
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // No protocol until it is bound, so that frames of other interfaces do not arrive.
        // SAFETY: plain system call without pointers; the result is checked.
        let opened = checked(unsafe { libc::socket(libc::AF_PACKET, kind, 0) });
        let fd = opened.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => {
                let right = "run it as root, or with the capability CAP_NET_RAW";
                io::Error::new(error.kind(), format!("{interface}: no raw sockets: {right}"))
            }
            _ => error,
        })?;
        // SAFETY: `fd` was just opened and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let socket = Self { fd };
        socket.bind(index, protocol)?;
        socket.set_option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // A larger buffer is optional: the system limits it for all but root.
        if set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).is_err() {
            let _ = set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
        }
        Ok(socket)
    }

    /// Limits how much may wait in the device: a full buffer then means that there is no room.
    pub fn set_send_buffer(&self, bytes: i32) -> io::Result<()> {
        self.set_option(libc::SOL_SOCKET, libc::SO_SNDBUF, bytes)
    }

    fn bind(&self, index: u32, protocol: u16) -> io::Result<()> {
        // SAFETY: all-zero bytes are a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the pointer and the length are those of a live `sockaddr_ll`.
        let bound = unsafe {
            libc::bind(self.fd.as_raw_fd(), (&raw const address).cast::<libc::sockaddr>(), length)
        };
        checked(bound).map(drop)
    }

    /// Whether the interface is gone for good: a new one of the same name does not count.
    pub fn is_gone(&self) -> bool {
        // SAFETY: all-zero bytes are a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let place = (&raw mut address).cast::<libc::sockaddr>();
        // SAFETY: the pointers are to a live `sockaddr_ll` and to its length.
        let named = unsafe { libc::getsockname(self.fd.as_raw_fd(), place, &raw mut length) };
        named == 0 && address.sll_ifindex < 0
    }

    fn set_option(&self, level: i32, name: i32, value: libc::c_int) -> io::Result<()> {
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the pointer and the length are those of a live `c_int`.
        let set = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                name,
                (&raw const value).cast::<libc::c_void>(),
                length,
            )
        };
        checked(set).map(drop)
    }

    /// The next received frame; `None` if there is none.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        // SAFETY: all-zero bytes are a valid `sockaddr_ll` and a valid `msghdr`.
        let mut from: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: as above.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut control = [0_u64; 16];
        message.msg_name = (&raw mut from).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: every pointer in `message` is to a live buffer of the length beside it.
        let length = unsafe { libc::recvmsg(self.fd.as_raw_fd(), &raw mut message, 0) };
        if length < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
                _ => Err(error),
            };
        }
        Ok(Some(Arrival {
            length: length as usize,
            stamp: stamp(&message),
            outgoing: from.sll_pkttype == libc::PACKET_OUTGOING,
        }))
    }

    /// Hands a frame over. `false` means that the device accepts no more for now.
    pub fn send(&self, frame: &[u8]) -> io::Result<bool> {
        match rustix::net::send(&self.fd, frame, rustix::net::SendFlags::empty()) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NOBUFS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// The kernel's time stamp, from the control messages.
fn stamp(message: &libc::msghdr) -> Option<StdDuration> {
    // SAFETY: `message` was filled by `recvmsg`, and its control buffer is alive.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !header.is_null() {
        // SAFETY: a header that is not null lies inside the control buffer, and its data after it.
        let (level, kind, data) =
            unsafe { ((*header).cmsg_level, (*header).cmsg_type, libc::CMSG_DATA(header)) };
        if level == libc::SOL_SOCKET && kind == libc::SCM_TIMESTAMPNS {
            // SAFETY: the data of this control message is a `timespec`, perhaps not aligned.
            let time: libc::timespec = unsafe { std::ptr::read_unaligned(data.cast()) };
            return Some(StdDuration::new(time.tv_sec as u64, time.tv_nsec as u32));
        }
        // SAFETY: `header` lies inside the control buffer of `message`.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
