//! Sealed frames.

/// Bytes that sealing adds to a frame: the header, and the tag behind the body.
pub const SEAL_BYTES: usize = 24;
