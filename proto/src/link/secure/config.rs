//! What a scenario may say of keys and sealing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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
    /// When a first message of a handshake must bring a cookie.
    #[serde(skip_serializing_if = "CookieUse::is_default")]
    pub cookie: CookieUse,
}

/// When a first message of a handshake must bring a cookie: a round trip more, and not a
/// computation for recordings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CookieUse {
    /// When more come than are followed by a session.
    #[default]
    UnderLoad,
    /// From the first on.
    Always,
}

impl CookieUse {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl SecurityConfig {
    /// Whether frames are protected at all.
    pub fn is_on(&self) -> bool {
        self.mode != SecurityMode::Off
    }

    /// Whether bodies of frames are authenticated and not encrypted.
    pub fn is_readable(&self) -> bool {
        self.mode == SecurityMode::AuthenticateOnly
    }

    /// The shared bytes, if there are any.
    ///
    /// Fails if they are not 32 bytes in base64 (RFC 4648, section 4).
    pub fn psk_bytes(&self) -> Result<Option<[u8; 32]>, String> {
        let Some(text) = &self.psk else { return Ok(None) };
        let bytes = STANDARD.decode(text.trim()).map_err(|error| error.to_string())?;
        let length = bytes.len();
        bytes.try_into().map(Some).map_err(|_| format!("{length} bytes, not 32"))
    }

    /// What two nodes must have in common, in one byte.
    pub(super) fn code(&self) -> u8 {
        (self.mode as u8) << 4 | self.cipher as u8
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
    #[serde(rename = "chacha20-poly1305")]
    ChaCha20Poly1305,
    /// AES-128-GCM: faster where the processor has instructions for it.
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
}
