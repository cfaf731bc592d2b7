//! Devices: what a stack's frames leave by and come from.
//!
//! | device | carries | time of arrival | room |
//! |---|---|---|---|
//! | [`monitor`] | radiotap and 802.11, as a card in monitor mode or the emulated air takes it | the radio's | transmit status, or air time |
//! | [`ethernet`] | an own EtherType over AF_PACKET | the kernel's | air time |
//! | [`udp`] | datagrams to known addresses | the kernel's | any, or air time |
//! | [`tun`] | IP packets of the host | | |
//!
//! A daemon has each of them in a [`lasting::Lasting`], which opens it again after its interface
//! was away.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use farhop_proto::base::{
    AccessCategory, Duration, Frame, FrameDone, FrameOutcome, FrameUp, Instant, NodeId, RadioId,
    RadioSpec, ReceivedFrame, Room,
};
use serde::Serialize;

pub mod card;
pub mod channel;
mod clock;
mod datagrams;
pub mod ethernet;
mod gate;
pub mod interface;
pub mod lasting;
pub mod monitor;
pub mod os;
mod packet;
pub mod signals;
pub mod tun;
mod tunnel;
pub mod udp;

pub use clock::{Clock, StampFilter};
pub(crate) use clock::{OtherClocks, arrived, other_clocks, timespec};
pub use gate::{GateStats, TxGate};
pub use packet::{Arrival, FRAME_BYTES, PacketSocket};

/// Frames that a device takes in at one time, so that a flood cannot starve the rest.
pub const BATCH: usize = 64;

/// A radio as the daemon sees it.
pub trait Device {
    /// What to wait on until something has come.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Takes in what has come, at most [`BATCH`] frames, or a few trains of them. Whatever is not a
    /// frame of ours is counted.
    ///
    /// Fails if the interface is gone.
    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<()>;

    /// Whether its interface is gone, which one that only receives does not notice.
    fn is_gone(&self) -> bool {
        false
    }

    /// By which antenna a frame came that was just received; 0 where that is not known.
    fn antenna(&self, _frame: &ReceivedFrame) -> u8 {
        0
    }

    /// What would be taken now of an access category.
    fn room(&self, now: Instant, access: AccessCategory) -> Room;

    /// Hands a frame over, if it still ends before its deadline by the clock of this moment; one
    /// that does not, or that the device does not take now, comes back in `out` as late, one that
    /// it never takes as too long.
    ///
    /// Fails if the interface is gone.
    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<()>;

    /// Lets go of frames that it took and has only gathered: a turn is over.
    fn flush(&mut self) {}

    /// When [`Device::handle_timeout`] is next due.
    fn poll_timeout(&self, now: Instant) -> Option<Instant>;

    /// Gives back frames that are through as far as time can tell.
    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<FrameUp>);

    /// What the device did.
    fn status(&self) -> DeviceStatus;
}

/// What a device is to be.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// The node that it belongs to.
    pub node: NodeId,
    /// The radio that it stands for.
    pub radio: RadioSpec,
    /// Guard of the slots above, to tell when a frame left outside its slot.
    pub guard: Duration,
    /// Whether the radio reports the end of each frame.
    pub transmit_status: bool,
    /// Most transmissions of a frame that does not say.
    pub attempts: u8,
    /// Bytes behind LLC/SNAP of the longest frame that is expected.
    pub longest: usize,
    /// The node's clock.
    pub clock: Clock,
}

impl DeviceSpec {
    /// The end of frames that this device has: a node and one of its radios.
    pub(crate) fn station(&self) -> (NodeId, RadioId) {
        (self.node, self.radio.id)
    }
}

/// What a device did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceStatus {
    /// `"monitor"`, `"ethernet"` or `"udp"`.
    pub kind: &'static str,
    /// Interface or address.
    pub name: String,
    /// Whether the interface is gone: it is opened again when it is back.
    pub is_gone: bool,
    /// Times that it went away.
    pub times_gone: u64,
    /// What it gives: transmit status, hardware time stamps.
    pub capabilities: BTreeMap<&'static str, bool>,
    /// Frames received for this node or overheard.
    pub frames_received: u64,
    /// Frames with a time stamp of the radio.
    pub hardware_stamps: u64,
    /// Times that the radio's clock was found to be set.
    pub clock_jumps: u64,
    /// What was sent.
    pub sent: GateStats,
    /// What its interface takes in one frame, in bytes, where it has one.
    pub mtu: Option<usize>,
    /// Whether its interface is up, where it has one.
    pub is_up: Option<bool>,
    /// Who sent the last datagram that came from the address of no neighbour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_stranger: Option<SocketAddr>,
    /// What came and was no frame for us, by kind.
    pub dropped: BTreeMap<&'static str, u64>,
    /// What the system refused, by kind: frames of ours that were not sent, and `receiving`.
    pub failed: BTreeMap<&'static str, u64>,
}

impl DeviceStatus {
    /// The same with what the device did before it was opened anew.
    pub(crate) fn after(mut self, earlier: &Self) -> Self {
        self.frames_received += earlier.frames_received;
        self.hardware_stamps += earlier.hardware_stamps;
        self.clock_jumps += earlier.clock_jumps;
        self.sent.add(&earlier.sent);
        for (all, earlier) in
            [(&mut self.dropped, &earlier.dropped), (&mut self.failed, &earlier.failed)]
        {
            for (kind, times) in earlier {
                *all.entry(kind).or_default() += times;
            }
        }
        self
    }
}

/// Counts by kind without allocating once a kind is known.
pub(crate) fn count(counters: &mut BTreeMap<&'static str, u64>, kind: &'static str) {
    *counters.entry(kind).or_default() += 1;
}

/// An error that names what it happened to.
pub(crate) fn named(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// A frame that was not sent.
pub(crate) fn unsent(frame: &Frame, outcome: FrameOutcome) -> FrameUp {
    FrameUp::Done(FrameDone { id: frame.id, outcome, attempts: 0, air_time: Duration::ZERO })
}

/// Whether an interface refused a frame because it takes none that are so long.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// What is counted where the system gives nothing that came.
pub(crate) const RECEIVING: &str = "receiving";

/// What to count for an error that may pass by itself: the interface is down for now, or refused
/// this one frame.
///
/// Fails with the error if the interface is gone.
pub(crate) fn passing(error: io::Error, interface: &str) -> io::Result<&'static str> {
    match error.raw_os_error() {
        Some(libc::ENETDOWN) => Ok("interface-down"),
        Some(libc::ENXIO | libc::ENODEV | libc::EBADF | libc::ENOTSOCK) | None => {
            Err(named(error, interface))
        }
        Some(_) => Ok("interface-error"),
    }
}
