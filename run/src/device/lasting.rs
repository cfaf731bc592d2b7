//! A device that outlives its interface. When a card was unplugged or its driver reloaded, the
//! device is opened again once the interface is back. Until then its radio has no room, and the
//! node continues with its other radios.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use farhop_proto::base::{
    AccessCategory, Duration, Frame, FrameOutcome, FrameUp, Instant, ReceivedFrame, Room,
};
use rustix::event::{EventfdFlags, eventfd};

use super::{Clock, Device, DeviceStatus, unsent};

/// How often to look for an interface that is gone, or whether it is gone.
const LOOK: Duration = Duration::from_secs(1);

/// Opens a device, for the first time or again.
pub type Open = Box<dyn FnMut() -> io::Result<Box<dyn Device>>>;

/// The device, and how to open it again.
pub struct Lasting {
    clock: Clock,
    open: Open,
    /// `None` while the interface is gone.
    device: Option<Box<dyn Device>>,
    /// Status of the device when the interface last was gone, with all earlier counters.
    done: DeviceStatus,
    /// When to look at the interface again.
    look_at: Instant,
    times_gone: u64,
    /// A descriptor that is never readable.
    never: OwnedFd,
}

impl Lasting {
    /// Opens the device.
    ///
    /// Fails if it cannot be opened: only an interface that was there once is waited for.
    pub fn open(clock: Clock, mut open: Open) -> io::Result<Self> {
        let (device, done) = (Some(open()?), DeviceStatus::default());
        let never = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self { clock, open, device, done, look_at: clock.now() + LOOK, times_gone: 0, never })
    }

    /// Handles the loss of the interface: frames that it has end, with unknown outcome.
    fn lose(&mut self, why: &dyn fmt::Display, out: &mut Vec<FrameUp>) {
        let Some(mut device) = self.device.take() else { return };
        tracing::warn!("{why}: its radio is silent until the interface is back");
        device.handle_timeout(Instant::MAX, out);
        self.look_at = self.clock.now() + LOOK;
        self.done = device.status().after(&self.done);
        self.times_gone += 1;
    }
}

impl Device for Lasting {
    fn fd(&self) -> BorrowedFd<'_> {
        match &self.device {
            Some(device) => device.fd(),
            None => self.never.as_fd(),
        }
    }

    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<bool> {
        let Some(device) = &mut self.device else { return Ok(false) };
        match device.receive(out) {
            Ok(has_more) => Ok(has_more),
            Err(error) => {
                self.lose(&error, out);
                Ok(false)
            }
        }
    }

    fn antenna(&self, frame: &ReceivedFrame) -> u8 {
        self.device.as_ref().map_or(0, |device| device.antenna(frame))
    }

    fn is_gone(&self) -> bool {
        self.device.is_none()
    }

    fn room(&self, now: Instant, access: AccessCategory) -> Room {
        self.device.as_ref().map_or(Room::NONE, |device| device.room(now, access))
    }

    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<Option<Frame>> {
        let late = unsent(&frame, FrameOutcome::Late);
        let Some(device) = &mut self.device else {
            out.push(late);
            return Ok(None);
        };
        device.send(frame, out).or_else(|error| {
            out.push(late);
            self.lose(&error, out);
            Ok(None)
        })
    }

    fn flush(&mut self) {
        if let Some(device) = &mut self.device {
            device.flush();
        }
    }

    fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        match &self.device {
            Some(device) => device.poll_timeout(now).into_iter().chain([self.look_at]).min(),
            None => Some(self.look_at),
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<FrameUp>) {
        let is_due = self.look_at <= now;
        if is_due {
            self.look_at = now + LOOK;
        }
        match &mut self.device {
            Some(device) if is_due && device.is_gone() => {
                let name = device.status().name;
                self.lose(&format!("{name} is gone"), out);
            }
            Some(device) => device.handle_timeout(now, out),
            None if is_due => match (self.open)() {
                Ok(device) => {
                    tracing::info!("{} is back", self.done.name);
                    self.device = Some(device);
                }
                Err(error) => tracing::debug!("{error}"),
            },
            None => {}
        }
    }

    fn status(&self) -> DeviceStatus {
        let is_gone = self.device.is_none();
        let status = match &self.device {
            Some(device) => device.status().after(&self.done),
            None => self.done.clone(),
        };
        DeviceStatus { is_gone, times_gone: self.times_gone, ..status }
    }
}

#[cfg(test)]
mod tests {
    use super::super::GateStats;
    use super::*;
    use bytes::Bytes;
    use farhop_proto::base::{EtherType, FlowId, FrameDone, NodeId, RadioId, TxOptions, UnitId};
    use std::cell::Cell;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;

    /// A card whose interface can disappear, and that has frames outstanding.
    struct Card {
        is_there: Rc<Cell<bool>>,
        bell: UnixStream,
        under_way: Vec<UnitId>,
        frames_sent: u64,
    }

    fn done(id: UnitId, outcome: FrameOutcome) -> FrameUp {
        FrameUp::Done(FrameDone { id, outcome, attempts: 0, air_time: Duration::ZERO })
    }

    impl Card {
        fn check(&self) -> io::Result<()> {
            let gone = || io::Error::from_raw_os_error(libc::ENXIO);
            if self.is_there.get() { Ok(()) } else { Err(gone()) }
        }
    }

    impl Device for Card {
        fn fd(&self) -> BorrowedFd<'_> {
            self.bell.as_fd()
        }

        fn receive(&mut self, _out: &mut Vec<FrameUp>) -> io::Result<bool> {
            self.check().map(|()| false)
        }

        fn is_gone(&self) -> bool {
            !self.is_there.get()
        }

        fn room(&self, _now: Instant, _access: AccessCategory) -> Room {
            Room::units(1)
        }

        fn send(&mut self, frame: Frame, _out: &mut Vec<FrameUp>) -> io::Result<Option<Frame>> {
            self.check()?;
            self.under_way.push(frame.id);
            self.frames_sent += 1;
            Ok(None)
        }

        fn poll_timeout(&self, _now: Instant) -> Option<Instant> {
            None
        }

        fn handle_timeout(&mut self, now: Instant, out: &mut Vec<FrameUp>) {
            if now == Instant::MAX {
                out.extend(self.under_way.drain(..).map(|id| done(id, FrameOutcome::Unknown)));
            }
        }

        fn status(&self) -> DeviceStatus {
            let sent = GateStats { frames_sent: self.frames_sent, ..GateStats::default() };
            let dropped = [("clear", self.frames_sent)].into();
            DeviceStatus { name: "card".into(), sent, dropped, ..DeviceStatus::default() }
        }
    }

    /// Opens the card while its interface exists.
    fn card(is_there: &Rc<Cell<bool>>) -> Open {
        let is_there = is_there.clone();
        Box::new(move || {
            if !is_there.get() {
                return Err(io::Error::from_raw_os_error(libc::ENODEV));
            }
            let (bell, _) = UnixStream::pair()?;
            let (is_there, under_way) = (is_there.clone(), Vec::new());
            Ok(Box::new(Card { is_there, bell, under_way, frames_sent: 0 }))
        })
    }

    fn frame(id: u64) -> Frame {
        Frame {
            id: UnitId(id),
            radio: RadioId(0),
            to: Some(NodeId(2)),
            flow: FlowId(0),
            protocol: EtherType::FARHOP,
            payload: Bytes::new(),
            options: TxOptions::default(),
        }
    }

    fn ended(out: &mut Vec<FrameUp>) -> Vec<(u64, FrameOutcome)> {
        let ended = out.drain(..).map(|event| match event {
            FrameUp::Done(done) => (done.id.0, done.outcome),
            _ => panic!("nothing came"),
        });
        ended.collect()
    }

    #[test]
    fn what_goes_away_is_opened_again_when_it_is_back() {
        let is_there = Rc::new(Cell::new(true));
        let clock = Clock::start();
        let mut device = Lasting::open(clock, card(&is_there)).expect("it is there");
        let mut out = Vec::new();
        device.send(frame(1), &mut out).expect("it is there");
        is_there.set(false);
        device.send(frame(2), &mut out).expect("the daemon goes on");
        assert_eq!(ended(&mut out), [(2, FrameOutcome::Late), (1, FrameOutcome::Unknown)]);
        device.receive(&mut out).expect("the daemon goes on");
        assert!(
            device.room(clock.now(), AccessCategory::default()).is_none()
                && device.status().is_gone
        );
        assert_eq!(device.status().name, "card");
        let due = device.poll_timeout(clock.now()).expect("it is looked for");
        assert!(due > clock.now() && due <= clock.now() + LOOK);
        device.handle_timeout(due, &mut out);
        assert!(device.status().is_gone, "it is not there yet");
        is_there.set(true);
        device.handle_timeout(due, &mut out);
        assert!(device.status().is_gone, "it is looked for once in a second");
        device.handle_timeout(due + LOOK, &mut out);
        let status = device.status();
        assert_eq!((status.is_gone, status.times_gone), (false, 1));
        device.send(frame(3), &mut out).expect("it is there");
        assert!(!device.room(clock.now(), AccessCategory::default()).is_none() && out.is_empty());
        let status = device.status();
        assert_eq!((status.sent.frames_sent, status.dropped["clear"]), (2, 2), "of both lives");
    }

    #[test]
    fn a_radio_that_only_receives_notices_too() {
        let is_there = Rc::new(Cell::new(true));
        let clock = Clock::start();
        let mut device = Lasting::open(clock, card(&is_there)).expect("it is there");
        is_there.set(false);
        let due = device.poll_timeout(clock.now()).expect("it is looked at");
        device.handle_timeout(due, &mut Vec::new());
        assert!(device.status().is_gone);
    }

    #[test]
    fn what_was_never_there_is_an_error() {
        let is_there = Rc::new(Cell::new(false));
        assert!(Lasting::open(Clock::start(), card(&is_there)).is_err());
    }
}
