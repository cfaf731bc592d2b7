//! What theory says of a network, worked out apart from the code that is held against it.

mod bianchi;
pub mod edca;

pub use bianchi::{Bianchi, Saturation};
