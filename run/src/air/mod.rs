//! The emulated air: the radio model of the simulator, paced by the clock since boot.
//!
//! Each radio of a lab is one end of a veth pair; the air has the other end. Over it passes what
//! passes between a daemon and a card in monitor mode: frames to be injected in one direction,
//! received frames and status echoes in the other, with the radiotap headers that Linux writes.
//!
//! The model uses the time at which the kernel received a frame on the veth, not the time at which
//! this process woke up for it: frames are sorted by these times, and the model runs from one to
//! the next. A late wake-up delays what the daemons hear, but not what happens on the air, unless
//! the model has already passed the frame's time; such frames are counted.

mod answers;
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
