//! A pair of devices joined in memory: the test double of all others.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use farhop_proto::base::{
    Duration, Frame, FrameDone, FrameOutcome, FrameUp, Instant, ReceivedFrame, Room,
};

use super::{Device, DeviceSpec, DeviceStatus};

/// Frames on their way from one end to the other.
type Queue = Rc<RefCell<VecDeque<FrameUp>>>;

/// One end of a pair.
#[derive(Debug)]
pub struct Channel {
    spec: DeviceSpec,
    incoming: Queue,
    outgoing: Queue,
    fd: OwnedFd,
    frames_received: u64,
}

/// Two devices that hear each other.
///
/// Fails if the process has no file descriptors left.
pub fn pair(first: DeviceSpec, second: DeviceSpec) -> io::Result<(Channel, Channel)> {
    let (there, back) = (Queue::default(), Queue::default());
    let (a, b) = std::os::unix::net::UnixStream::pair()?;
    let end =
        |spec, incoming: &Queue, outgoing: &Queue, fd: std::os::unix::net::UnixStream| Channel {
            spec,
            incoming: incoming.clone(),
            outgoing: outgoing.clone(),
            fd: fd.into(),
            frames_received: 0,
        };
    Ok((end(first, &back, &there, a), end(second, &there, &back, b)))
}

impl Device for Channel {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<()> {
        let before = out.len();
        out.extend(self.incoming.borrow_mut().drain(..));
        self.frames_received += (out.len() - before) as u64;
        Ok(())
    }

    fn room(&self, _now: Instant) -> Room {
        Room::units(64_usize.saturating_sub(self.outgoing.borrow().len()))
    }

    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<()> {
        let rate = self.spec.radio.rate;
        self.outgoing.borrow_mut().push_back(FrameUp::Received(ReceivedFrame {
            radio: frame.radio,
            from: self.spec.node,
            to: frame.to,
            protocol: frame.protocol,
            payload: frame.payload,
            started: self.spec.clock.now(),
            rate,
            signal: None,
            bits: 0,
        }));
        out.push(FrameUp::Done(FrameDone {
            id: frame.id,
            outcome: FrameOutcome::Sent,
            attempts: 1,
            air_time: Duration::ZERO,
        }));
        Ok(())
    }

    fn poll_timeout(&self, _now: Instant) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Vec<FrameUp>) {}

    fn status(&self) -> DeviceStatus {
        DeviceStatus {
            kind: "channel",
            name: "memory".into(),
            capabilities: BTreeMap::new(),
            frames_received: self.frames_received,
            ..DeviceStatus::default()
        }
    }
}
