//! Devices: a stack sends and receives its frames through them.
//!
//! | device | what it carries | time of arrival from | room by |
//! |---|---|---|---|
//! | [`monitor`] | 802.11 with radiotap headers | the radio | transmit status, or air time |
//! | [`ethernet`] | an EtherType of its own, over AF_PACKET | the kernel | air time |
//! | [`udp`] | datagrams to known addresses | the daemon | its queue, or air time |
//! | [`tun`] | IP packets of the host | | |
//!
//! `monitor` is for cards in monitor mode and for the emulated air. A daemon wraps each device in a
//! [`lasting::Lasting`], which opens it again after its interface was gone.

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
pub(crate) use clock::{arrived, time_of_start, timespec};
pub use gate::{GateStats, TxGate};
pub use packet::{Arrival, FRAME_BYTES, PacketSocket};

/// Most frames that a device takes in at one time, so that a flood cannot starve the rest.
pub const BATCH: usize = 64;
/// How many frames in a row without a transmit status mean that a card reports none.
const UNANSWERED: u64 = 100;

/// A radio, as the daemon uses it.
pub trait Device {
    /// Descriptor to wait on until something was received.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Appends what was received to `out`: at most [`BATCH`] frames, or a few trains of them. What
    /// is no frame of ours is counted. Returns whether that used up its share of a turn.
    ///
    /// Fails if the interface is gone.
    fn receive(&mut self, out: &mut Vec<FrameUp>) -> io::Result<bool>;

    /// Whether its interface is gone. A device that only receives would not notice by itself.
    fn is_gone(&self) -> bool {
        false
    }

    /// The antenna that received a frame in this turn; 0 if unknown.
    fn antenna(&self, _frame: &ReceivedFrame) -> u8 {
        0
    }

    /// How much the device would accept now for an access category.
    fn room(&self, now: Instant, access: AccessCategory) -> Room;

    /// Hands a frame over, if it would end before its deadline when sent now. Otherwise it ends in
    /// `out` as late, and as too long if the device never accepts frames of its length. A frame
    /// that the device does not accept now is returned, to be offered again once there is room.
    ///
    /// Fails if the interface is gone.
    fn send(&mut self, frame: Frame, out: &mut Vec<FrameUp>) -> io::Result<Option<Frame>>;

    /// Sends frames that it has gathered: a turn is over.
    fn flush(&mut self) {}

    /// When [`Device::handle_timeout`] is next due.
    fn poll_timeout(&self, now: Instant) -> Option<Instant>;

    /// Reports frames as done that must have been sent by now, judging by time.
    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<FrameUp>);

    /// State and counters of the device.
    fn status(&self) -> DeviceStatus;
}

/// How to set up a device.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// The node that it belongs to.
    pub node: NodeId,
    /// The radio that it implements.
    pub radio: RadioSpec,
    /// Guard of the node's slots, to tell whether a frame left outside its slot.
    pub guard: Duration,
    /// Whether the radio reports the transmit status of each frame.
    pub transmit_status: bool,
    /// Most transmissions of a frame that does not say how many.
    pub attempts: u8,
    /// Length of the longest expected frame, in bytes after LLC/SNAP.
    pub longest: usize,
    /// The node's clock.
    pub clock: Clock,
}

impl DeviceSpec {
    /// The address of this device in frames: a node and one of its radios.
    pub(crate) fn station(&self) -> (NodeId, RadioId) {
        (self.node, self.radio.id)
    }
}

/// State and counters of a device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceStatus {
    /// `"monitor"`, `"ethernet"` or `"udp"`.
    pub kind: &'static str,
    /// Interface or address.
    pub name: String,
    /// Whether the interface is gone. It is opened again once it is back.
    pub is_gone: bool,
    /// How many times the interface was gone.
    pub times_gone: u64,
    /// What it supports: `transmit_status`, `hardware_timestamps`.
    pub capabilities: BTreeMap<&'static str, bool>,
    /// Frames received for this node or overheard.
    pub frames_received: u64,
    /// Frames with the radio's own time stamp.
    pub hardware_stamps: u64,
    /// How many times the radio's clock jumped.
    pub clock_jumps: u64,
    /// Counters of sent frames.
    pub sent: GateStats,
    /// MTU of its interface in bytes, if it has one.
    pub mtu: Option<usize>,
    /// Whether its interface is up, if it has one.
    pub is_up: Option<bool>,
    /// Sender of the last datagram whose address is that of no neighbour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_stranger: Option<SocketAddr>,
    /// Received frames that were dropped, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Errors of the operating system, by kind: frames that could not be sent, and `receiving`.
    pub failed: BTreeMap<&'static str, u64>,
}

impl DeviceStatus {
    /// Whether the card seems to report no transmit status, though it is taken to do so: then each
    /// frame waits until it is given up.
    pub(crate) fn lacks_echoes(&self) -> bool {
        let heard = self.sent.echoes + self.sent.echoes_late;
        heard == 0 && self.sent.echoes_missing >= UNANSWERED
    }

    /// The same, with the counters from before it was opened again.
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

/// An error with the name of what it concerns.
pub(crate) fn named(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// The event for a frame that was not sent.
pub(crate) fn unsent(frame: &Frame, outcome: FrameOutcome) -> FrameUp {
    FrameUp::Done(FrameDone { id: frame.id, outcome, attempts: 0, air_time: Duration::ZERO })
}

/// Why a frame with the number of this node is dropped: another radio of this node sent it, or it
/// is as if this radio had, and so somebody else uses the number.
fn of_own_node(sender: RadioId, own: RadioId) -> &'static str {
    if sender == own { "own-name" } else { "own-radio" }
}

/// Whether an interface refused a frame because it is longer than the MTU.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// The counter of errors in receiving.
pub(crate) const RECEIVING: &str = "receiving";

/// The counter for an error that may be temporary: the interface is down, or refused this one
/// frame.
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
