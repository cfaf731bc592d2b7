//! The identity of a node: its key pair, its public key as one line, its fingerprint.
//!
//! A node has an Ed25519 key (RFC 8032), which can sign. The X25519 key of the Noise handshake is
//! the same key on the other form of the curve (RFC 7748, section 4.1), so that one line identifies
//! both.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use curve25519_dalek::MontgomeryPoint;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use ring::digest::{SHA256, digest};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the line of a public key begins with: its type and version.
pub const LINE_PREFIX: &str = "fh1-";
/// Length of the checksum after the key in its line, in bytes; it detects typing errors.
const CHECK_BYTES: usize = 3;

/// Length of a signature, in bytes.
pub const SIGNATURE_BYTES: usize = 64;

/// The key pair of a node.
pub struct Identity {
    signing: SigningKey,
    public: PublicKey,
}

impl Identity {
    /// The key pair that follows from 32 secret bytes of a good random source.
    pub fn from_secret(secret: [u8; 32]) -> Self {
        let signing = SigningKey::from_bytes(&secret);
        let public = PublicKey(signing.verifying_key().to_bytes());
        Self { signing, public }
    }

    /// The 32 secret bytes of the key pair.
    pub fn secret(&self) -> [u8; 32] {
        self.signing.to_bytes()
    }

    /// The public key.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Signs a message (RFC 8032). The message must say what it is for, so that a signature of one
    /// protocol is not valid in another.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.signing.sign(message).to_bytes()
    }

    /// The X25519 private key of the Noise handshake.
    pub(crate) fn dh_private(&self) -> [u8; 32] {
        self.signing.to_scalar_bytes()
    }

    /// The secret that only the holders of the two private keys can compute (X25519).
    pub(crate) fn agree(&self, other: &PublicKey) -> [u8; 32] {
        MontgomeryPoint(other.dh()).mul_clamped(self.dh_private()).to_bytes()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.public.fingerprint())
    }
}

/// The public key of a node: a valid Ed25519 point.
///
/// As a line it is `fh1-`, then the key and a checksum in base64 (RFC 4648, section 5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// The 32 bytes.
    pub fn bytes(&self) -> [u8; 32] {
        self.0
    }

    /// Sixteen hexadecimal digits of its SHA-256, in groups: enough to compare keys by eye.
    pub fn fingerprint(&self) -> String {
        let hash = digest(&SHA256, &self.0);
        let group = |pair: &[u8]| format!("{:02x}{:02x}", pair[0], pair[1]);
        hash.as_ref()[..8].chunks(2).map(group).collect::<Vec<_>>().join("-")
    }

    /// Whether the holder of the key signed a message. Of several encodings that could pass for a
    /// signature, only one is accepted (RFC 8032 as in `verify_strict`).
    pub fn has_signed(&self, message: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> bool {
        let key = VerifyingKey::from_bytes(&self.0).expect("checked where it was made");
        key.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }

    /// The X25519 public key of the Noise handshake.
    pub(crate) fn dh(&self) -> [u8; 32] {
        let key = VerifyingKey::from_bytes(&self.0).expect("checked where it was made");
        key.to_montgomery().to_bytes()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.0.to_vec();
        bytes.extend_from_slice(&digest(&SHA256, &self.0).as_ref()[..CHECK_BYTES]);
        write!(f, "{LINE_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Why a text is not the line of a public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// It does not have the prefix of a key.
    Prefix,
    /// It was made by a later version of farhop.
    Version,
    /// Characters are missing or surplus, or are not base64.
    Length,
    /// The checksum does not match: a typing error.
    Checksum,
    /// Not a point of the curve, or one for which everybody can sign.
    Weak,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prefix => "not a public key: it begins with fh1-, as `farhop keys` prints it",
            Self::Version => "a key of a newer farhop: this one knows keys that begin with fh1-",
            Self::Length => "cut short, or with signs that no key has: copy the whole line",
            Self::Checksum => "the checksum does not match: a sign was mistyped or is missing",
            Self::Weak => "no key that a node can have",
        })
    }
}

impl std::error::Error for KeyError {}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(line: &str) -> Result<Self, KeyError> {
        let Some(text) = line.trim().strip_prefix(LINE_PREFIX) else {
            let is_newer = line.trim().strip_prefix("fh").is_some_and(|rest| {
                rest.starts_with(|digit: char| digit.is_ascii_digit()) && rest.contains('-')
            });
            return Err(if is_newer { KeyError::Version } else { KeyError::Prefix });
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| KeyError::Length)?;
        if bytes.len() != 32 + CHECK_BYTES {
            return Err(KeyError::Length);
        }
        let (key, check) = bytes.split_at(32);
        if digest(&SHA256, key).as_ref()[..CHECK_BYTES] != *check {
            return Err(KeyError::Checksum);
        }
        let key: [u8; 32] = key.try_into().expect("split at 32");
        match VerifyingKey::from_bytes(&key) {
            Ok(point) if !point.is_weak() => Ok(Self(key)),
            _ => Err(KeyError::Weak),
        }
    }
}

impl Serialize for PublicKey {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let line = String::deserialize(deserializer)?;
        line.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for PublicKey {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PublicKey".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "The public key of a node, as `farhop keys` prints it.",
            "pattern": "^fh1-[A-Za-z0-9_-]{47}$"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(byte: u8) -> Identity {
        Identity::from_secret([byte; 32])
    }

    #[test]
    fn a_key_is_the_one_of_rfc_8032() {
        // Section 7.1, test 1.
        let secret: Vec<u8> = (0..64)
            .step_by(2)
            .map(|at| {
                let hex = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
                u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits")
            })
            .collect();
        let identity = Identity::from_secret(secret.try_into().expect("32 bytes"));
        assert_eq!(identity.public().bytes()[..4], [0xd7, 0x5a, 0x98, 0x01]);
        let line = identity.public().to_string();
        assert_eq!(line.len(), 51, "{line}");
        assert_eq!(line.parse(), Ok(identity.public()));
    }

    #[test]
    fn a_signature_holds_for_its_message_and_key_alone() {
        let (a, b) = (identity(1), identity(2));
        let signature = a.sign(b"a message");
        assert!(a.public().has_signed(b"a message", &signature));
        assert!(!a.public().has_signed(b"a massage", &signature));
        assert!(!b.public().has_signed(b"a message", &signature));
        let mut other = signature;
        other[40] ^= 1;
        assert!(!a.public().has_signed(b"a message", &other));
    }

    #[test]
    fn two_nodes_agree_and_a_third_does_not() {
        let (a, b, c) = (identity(1), identity(2), identity(3));
        assert_eq!(a.agree(&b.public()), b.agree(&a.public()));
        assert_ne!(a.agree(&b.public()), c.agree(&a.public()));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let line = identity(7).public().to_string();
        let parse = |text: &str| text.parse::<PublicKey>().expect_err("a bad line");
        assert_eq!(parse("hello"), KeyError::Prefix);
        assert_eq!(parse(&line.replace("fh1-", "fh2-")), KeyError::Version);
        assert_eq!(parse(&line[..40]), KeyError::Length);
        let other = if line.as_bytes()[10] == b'A' { "B" } else { "A" };
        let mut typo = line.clone();
        typo.replace_range(10..11, other);
        assert_eq!(parse(&typo), KeyError::Checksum);
        let mut weak = [0; 35];
        weak[0] = 1;
        let check = digest(&SHA256, &weak[..32]).as_ref()[..3].to_vec();
        weak[32..].copy_from_slice(&check);
        assert_eq!(parse(&format!("fh1-{}", URL_SAFE_NO_PAD.encode(weak))), KeyError::Weak);
    }
}
