//! Keys: every frame authenticated, and encrypted unless the rules of the band forbid it.

mod config;
mod identity;

pub use config::{Cipher, SecurityConfig, SecurityMode};
pub use identity::{Identity, KeyError, LINE_PREFIX, PublicKey};
