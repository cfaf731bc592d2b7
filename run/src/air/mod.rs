//! The emulated air: the radio model of the simulator, paced by the monotonic clock.
//!
//! Each radio of a lab is one end of a veth pair whose other end is here. What crosses it is what
//! crosses between a daemon and a card in monitor mode: frames to be injected one way, received
//! frames and status echoes the other, with the radiotap headers that Linux writes.
//!
//! The model's time of a frame is the kernel's time of its arrival on the veth, not the time at
//! which this process woke up for it: all that has come is put in order of those times, and the
//! model is run from one to the next. A late wake-up delays what the daemons hear, but not what
//! happens on the air, unless it lasts so long that the model has already passed the frame's time;
//! that is counted.

mod attach;
mod driver;
mod hostile;
mod paced;
mod port;

pub use attach::Attachment;
pub use driver::{Air, AirOptions, AirStatus, RadioEnd};
pub use hostile::HostileStats;
pub use paced::{Change, Fault};
pub use port::{AttachSpec, AttachStats};
