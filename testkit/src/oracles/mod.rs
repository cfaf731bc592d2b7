//! What theory says of a network, and what must hold in one, worked out apart from the code that
//! is held against it.

mod bianchi;
pub mod edca;
mod slots;

pub use bianchi::{Bianchi, Saturation};
pub use slots::{Fault, SlotOracle, Why};
