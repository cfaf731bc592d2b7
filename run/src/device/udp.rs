//! UDP datagrams to neighbours at known addresses; broadcast goes to each of them.

use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use farhop_proto::base::{Frame, FrameUp, Instant, NodeId, Room};

use super::monitor::unsent;
use super::tunnel::Tunnel;
use super::{BATCH, Device, DeviceSpec, DeviceStatus, FRAME_BYTES, named};

/// A UDP socket that stands for a radio.
#[derive(Debug)]
pub struct Udp {
    tunnel: Tunnel,
    socket: UdpSocket,
    bound: SocketAddr,
    peers: BTreeMap<NodeId, SocketAddr>,
    buffer: Vec<u8>,
    out: Vec<u8>,
}

impl Udp {
    /// Binds the socket.
    ///
    /// Fails if the address is not one of this host or its port is taken.
    pub fn open(
        bind: SocketAddr,
        peers: BTreeMap<NodeId, SocketAddr>,
        spec: DeviceSpec,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(bind).map_err(|error| named(error, &bind.to_string()))?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            tunnel: Tunnel::build(spec),
            bound: socket.local_addr()?,
            socket,
            peers,
            buffer: vec![0; FRAME_BYTES],
            out: Vec::with_capacity(FRAME_BYTES),
        })
    }

    /// Sends what is in `out`; `None` that the buffer is full. A peer that is not there is no
    /// error of ours.
    fn transmit(&mut self, to: Option<NodeId>) -> Option<()> {
        let known = self.peers.iter().filter(|(node, _)| to.is_none_or(|to| to == **node));
        let mut unknown = true;
        for (_, address) in known {
            unknown = false;
            match self.socket.send_to(&self.out, address) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(_) => self.tunnel.count("unreachable"),
                Ok(_) => {}
            }
        }
        if unknown {
            self.tunnel.count("no-address");
        }
        Some(())
    }
}

impl Device for Udp {
    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<()> {
        for _ in 0..BATCH {
            let (length, from) = match self.socket.recv_from(&mut self.buffer) {
                Ok(received) => received,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An earlier datagram found nobody: the peer is not up.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(named(error, &self.bound.to_string())),
            };
            if self.peers.values().any(|peer| *peer == from) {
                let now = self.tunnel.spec.clock.now();
                out.extend(self.tunnel.take(&self.buffer[..length], now));
            } else {
                self.tunnel.count("stranger");
            }
        }
        Ok(())
    }

    fn room(&self, now: Instant) -> Room {
        self.tunnel.gate.room(now)
    }

    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<()> {
        self.out.clear();
        self.tunnel.put(&mut self.out, &frame);
        let now = self.tunnel.spec.clock.now();
        if !self.tunnel.gate.is_in_time(now, &frame) {
            out.push(unsent(&frame));
        } else if self.transmit(frame.to).is_some() {
            let (after, guard) = (self.tunnel.spec.clock.now(), self.tunnel.spec.guard);
            self.tunnel.gate.on_sent(after, &frame, 0, guard);
        } else {
            self.tunnel.gate.on_full(now);
            out.push(unsent(&frame));
        }
        Ok(())
    }

    fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.tunnel.gate.poll_timeout(now)
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<FrameUp>) {
        while let Some(done) = self.tunnel.gate.poll_done(now) {
            out.push(FrameUp::Done(done));
        }
    }

    fn status(&self) -> DeviceStatus {
        self.tunnel.status("udp", self.bound.to_string())
    }
}
