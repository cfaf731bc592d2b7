//! Configuration of keys and sealing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::secure::SEAL_BYTES;

/// How frames are protected: a table, or `"off"` for reproductions of papers.
///
/// By default daemons encrypt frames; the simulator seals frames only if the scenario contains
/// this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SecurityConfig {
    /// Whether frames are encrypted or only authenticated.
    pub mode: SecurityMode,
    /// The authenticated encryption that is used.
    pub cipher: Cipher,
    /// A pre-shared key of all nodes, in addition to their own keys: 32 bytes in base64. It
    /// protects recorded frames even if the nodes' own keys can be broken one day. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psk: Option<String>,
    /// When the first message of a handshake must contain a cookie.
    #[serde(skip_serializing_if = "CookieUse::is_default")]
    pub cookie: CookieUse,
}

/// When the first message of a handshake must contain a cookie. A cookie costs an additional round
/// trip, but saves the computations for recorded messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CookieUse {
    /// When many first messages arrive that no session follows.
    #[default]
    UnderLoad,
    /// Always.
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

    /// Whether the bodies of frames are authenticated but not encrypted.
    pub fn is_readable(&self) -> bool {
        self.mode == SecurityMode::AuthenticateOnly
    }

    /// The pre-shared key, if there is one.
    ///
    /// Fails if it is not 32 bytes in base64 (RFC 4648, section 4).
    pub fn psk_bytes(&self) -> Result<Option<[u8; 32]>, String> {
        let Some(text) = &self.psk else { return Ok(None) };
        let bytes = STANDARD.decode(text.trim()).map_err(|error| error.to_string())?;
        let length = bytes.len();
        bytes.try_into().map(Some).map_err(|_| format!("{length} bytes, not 32"))
    }

    /// The settings that two nodes must have in common, as one byte.
    pub(super) fn code(&self) -> u8 {
        (self.mode as u8) << 4 | self.cipher as u8
    }

    /// Bytes that sealing adds to each frame.
    pub fn seal_bytes(&self) -> usize {
        if self.is_on() { SEAL_BYTES } else { 0 }
    }
}

/// Whether frames are encrypted or only authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SecurityMode {
    /// Authenticated and encrypted.
    #[default]
    Encrypt,
    /// Authenticated, but readable by everybody, as amateur radio requires.
    AuthenticateOnly,
    /// Neither; for reproductions of papers.
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
    /// AES-128-GCM: faster if the processor has instructions for it.
    #[serde(rename = "aes-128-gcm")]
    Aes128Gcm,
}
