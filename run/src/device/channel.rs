//! A pair of devices connected in memory, for tests.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use farhop_proto::base::{
    AccessCategory, Duration, Frame, FrameDone, FrameOutcome, FrameUp, Instant, ReceivedFrame, Room,
};

use super::{BATCH, Device, DeviceSpec, DeviceStatus};

/// Most frames on their way.
const FRAMES: usize = 64;

/// Frames on their way in one direction.
type Queue = Rc<RefCell<VecDeque<FrameUp>>>;

/// One end of a pair.
#[derive(Debug)]
pub struct Channel {
    spec: DeviceSpec,
    incoming: Queue,
    outgoing: Queue,
    /// One byte for each frame, to wake the other end.
    bell: UnixStream,
    frames_received: u64,
}

/// Two connected devices.
///
/// Fails if the process has no file descriptors left.
pub fn pair(first: DeviceSpec, second: DeviceSpec) -> io::Result<(Channel, Channel)> {
    let (there, back) = (Queue::default(), Queue::default());
    let (a, b) = UnixStream::pair()?;
    let end = |spec, incoming: &Queue, outgoing: &Queue, bell: UnixStream| {
        bell.set_nonblocking(true)?;
        let (incoming, outgoing) = (incoming.clone(), outgoing.clone());
        Ok::<_, io::Error>(Channel { spec, incoming, outgoing, bell, frames_received: 0 })
    };
    Ok((end(first, &back, &there, a)?, end(second, &there, &back, b)?))
}

impl Device for Channel {
    fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<bool> {
        let mut rung = [0; BATCH];
        let count = match self.bell.read(&mut rung) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.frames_received += count as u64;
        out.extend(self.incoming.borrow_mut().drain(..count));
        Ok(count == BATCH)
    }

    fn room(&self, _now: Instant, _access: AccessCategory) -> Room {
        Room::units(FRAMES.saturating_sub(self.outgoing.borrow().len()))
    }

    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<Option<Frame>> {
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
        // The limit of frames keeps this from filling the socket.
        self.bell.write_all(&[0])?;
        out.push(FrameUp::Done(FrameDone {
            id: frame.id,
            outcome: FrameOutcome::Sent,
            attempts: 1,
            air_time: Duration::ZERO,
        }));
        Ok(None)
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
