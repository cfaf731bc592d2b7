//! What theory predicts for a network, and what must hold in one, derived independently of the code
//! that is checked against it.

mod bianchi;
pub mod edca;
mod slots;

pub use bianchi::{Bianchi, Saturation};
pub use slots::{Fault, SlotOracle, Why};
