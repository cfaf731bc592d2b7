//! What a scenario may say of keys and sealing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::secure::SEAL_BYTES;

/// How frames are protected: a table, or `"off"` for reproductions.
///
/// Daemons encrypt where a scenario says nothing. The simulator seals frames only where the
/// scenario says how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityConfig {
    /// What is done to frames.
    pub mode: SecurityMode,
    /// With what.
    pub cipher: Cipher,
    /// 32 bytes in base64 that all nodes share, besides their keys: against whoever can compute
    /// one day what keys hide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psk: Option<String>,
}

impl SecurityConfig {
    /// Whether frames are protected at all.
    pub fn is_on(&self) -> bool {
        self.mode != SecurityMode::Off
    }

    /// Bytes that it adds to each frame.
    pub fn seal_bytes(&self) -> usize {
        if self.is_on() { SEAL_BYTES } else { 0 }
    }
}

/// What is done to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecurityMode {
    /// Authenticated and encrypted.
    #[default]
    Encrypt,
    /// Authenticated, but readable by everybody, as amateur radio demands.
    AuthenticateOnly,
    /// Neither: for reproductions.
    Off,
}

/// The authenticated encryption of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cipher {
    /// ChaCha20-Poly1305 (RFC 8439): fast on every processor.
    #[default]
    ChaCha20Poly1305,
    /// AES-128-GCM: faster where the processor has instructions for it.
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
}
