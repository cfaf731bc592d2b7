//! Counters, trace events and the status of the layer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::config::{Cipher, SecurityMode};
use crate::base::PublicKey;
use crate::base::{Duration, Name, NodeId};

/// Why a frame was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The frame is not sealed.
    Clear,
    /// The frame is not one that farhop makes.
    Malformed,
    /// The frame has another version of the format.
    OtherVersion,
    /// The sender is a node of which no key is trusted.
    NotTrusted,
    /// The key is unknown here.
    NoKey,
    /// The tag does not match.
    Forged,
    /// The frame was received before.
    Replayed,
    /// A handshake message that its alleged sender did not make.
    HandshakeForged,
    /// A handshake message that was received before, or that answers nothing.
    HandshakeReplayed,
    /// More handshakes than this node answers.
    HandshakeLimited,
    /// The other node has another mode or cipher.
    OtherMode,
}

impl Reason {
    const ALL: [(Self, &'static str); 11] = [
        (Self::Clear, "clear"),
        (Self::Malformed, "malformed"),
        (Self::OtherVersion, "other-version"),
        (Self::NotTrusted, "not-trusted"),
        (Self::NoKey, "no-key"),
        (Self::Forged, "forged"),
        (Self::Replayed, "replayed"),
        (Self::HandshakeForged, "handshake-forged"),
        (Self::HandshakeReplayed, "handshake-replayed"),
        (Self::HandshakeLimited, "handshake-limited"),
        (Self::OtherMode, "other-mode"),
    ];
}

/// Rejected frames by reason.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rejected([u64; Reason::ALL.len()]);

impl Rejected {
    pub(super) fn count(&mut self, reason: Reason) {
        self.0[reason as usize] += 1;
    }

    /// The reasons with a count above 0, by name.
    pub(super) fn named(&self) -> BTreeMap<Name, u64> {
        let counted = Reason::ALL.iter().map(|(reason, name)| (*name, self.0[*reason as usize]));
        counted.filter(|(_, count)| *count > 0).map(|(name, count)| (name.into(), count)).collect()
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }
}

/// How the protection of a neighbour's frames differs from ours, so that neither node accepts the
/// other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// It seals its frames, but security is off here.
    Sealed,
    /// It does not seal its frames, but security is on here.
    Clear,
    /// It has another mode or cipher.
    Mode,
}

impl Difference {
    /// The difference as text, to follow the name of the neighbour.
    pub fn words(self) -> &'static str {
        match self {
            Self::Sealed => "sends sealed frames, and security is off here",
            Self::Clear => "sends frames without security, and it is on here",
            Self::Mode => "has another security mode or cipher than is set here",
        }
    }
}

impl Reason {
    /// The difference that a rejection shows, if any.
    pub(super) fn difference(self) -> Option<Difference> {
        match self {
            Self::Clear => Some(Difference::Clear),
            Self::OtherMode => Some(Difference::Mode),
            _ => None,
        }
    }
}

/// Counters over all neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) sealed: u64,
    pub(super) opened: u64,
    pub(super) tagged: u64,
    pub(super) units: u64,
    pub(super) not_sealed: u64,
    pub(super) overheard: u64,
    pub(super) handshakes_begun: u64,
    pub(super) handshakes_answered: u64,
    pub(super) handshakes_done: u64,
    pub(super) cookies_sent: u64,
    pub(super) sessions_expired: u64,
}

/// How frames are protected, and which were rejected.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SecurityStatus {
    /// Whether frames are encrypted or only authenticated.
    pub mode: SecurityMode,
    /// The cipher in use.
    pub cipher: Cipher,
    /// Fingerprint of this node's own key.
    pub fingerprint: String,
    /// Neighbours.
    pub peers: Vec<SecurePeerStatus>,
    /// Rejected frames of all senders, by reason.
    pub rejected: BTreeMap<Name, u64>,
    /// Counters by name; `opened` counts the frames that were accepted.
    pub counters: BTreeMap<Name, u64>,
}

/// Status of one neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SecurePeerStatus {
    /// The neighbour.
    pub node: NodeId,
    /// Its key; none if no key of it is trusted.
    pub key: Option<PublicKey>,
    /// How long session keys have been shared with it; none while there are none.
    pub since: Option<Duration>,
    /// Time since the last completed handshake.
    pub last_handshake: Option<Duration>,
    /// Frames sealed for it.
    pub sealed: u64,
    /// Frames of it that were opened.
    pub opened: u64,
    /// Rejected frames that claimed to be from it, by reason.
    pub rejected: BTreeMap<Name, u64>,
    /// How its security differs from ours, as shown by frames that claim to be from it; none while
    /// keys are shared with it, because then both are configured alike.
    pub differs: Option<Difference>,
}

/// Events for the trace.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum SecureEvent {
    /// Keys are now shared with a neighbour.
    KeysAgreed {
        /// The neighbour.
        with: NodeId,
        /// Whether we began the handshake.
        is_initiator: bool,
    },
    /// The keys shared with a neighbour have expired, and there are no others.
    KeysExpired {
        /// The neighbour.
        with: NodeId,
    },
}
