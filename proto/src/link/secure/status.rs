//! What is counted, and what is told of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::config::{Cipher, SecurityMode};
use crate::base::PublicKey;
use crate::base::{Duration, Name, NodeId};

/// Why a frame was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// Not sealed at all.
    Clear,
    /// No frame that farhop makes.
    Malformed,
    /// Of another version of the format.
    OtherVersion,
    /// From a node of which no key is trusted.
    NotTrusted,
    /// Under a key that is unknown here.
    NoKey,
    /// The tag does not match.
    Forged,
    /// It came before.
    Replayed,
    /// A handshake message that its sender did not make.
    HandshakeForged,
    /// A handshake message that came before, or that answers nothing.
    HandshakeReplayed,
    /// More handshakes than are answered.
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

    /// Those that were counted, by name.
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

/// How the frames of a neighbour are protected otherwise than here, so that neither hears the
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// It seals its frames, and security is off here.
    Sealed,
    /// Its frames are not sealed, and here they are.
    Clear,
    /// It has another mode or cipher.
    Mode,
}

impl Difference {
    /// What stands behind the name of the neighbour.
    pub fn words(self) -> &'static str {
        match self {
            Self::Sealed => "sends sealed frames, and security is off here",
            Self::Clear => "sends frames without security, and it is on here",
            Self::Mode => "has another security mode or cipher than is set here",
        }
    }
}

impl Reason {
    /// How the neighbour's security differs, if a frame is rejected for that.
    pub(super) fn difference(self) -> Option<Difference> {
        match self {
            Self::Clear => Some(Difference::Clear),
            Self::OtherMode => Some(Difference::Mode),
            _ => None,
        }
    }
}

/// What is counted over all neighbours.
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

/// How frames are protected, and what was not believed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SecurityStatus {
    /// What is done to frames.
    pub mode: SecurityMode,
    /// With what.
    pub cipher: Cipher,
    /// Fingerprint of our own key.
    pub fingerprint: String,
    /// Neighbours.
    pub peers: Vec<SecurePeerStatus>,
    /// Rejected frames of everybody, by reason.
    pub rejected: BTreeMap<Name, u64>,
    /// Counters by name; `opened` are frames that were believed.
    pub counters: BTreeMap<Name, u64>,
}

/// What is known of one neighbour.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SecurePeerStatus {
    /// The neighbour.
    pub node: NodeId,
    /// Its key; nothing if none is trusted.
    pub key: Option<PublicKey>,
    /// How long the keys of frames have been shared; nothing while there are none.
    pub since: Option<Duration>,
    /// How long ago the last handshake ended well.
    pub last_handshake: Option<Duration>,
    /// Frames sealed for it.
    pub sealed: u64,
    /// Frames of it that were believed.
    pub opened: u64,
    /// Rejected frames that said they were its, by reason.
    pub rejected: BTreeMap<Name, u64>,
    /// How its security differs from ours, as far as frames that say they are its tell that;
    /// nothing while keys are shared with it, for then it speaks as we do.
    pub differs: Option<Difference>,
}

/// A decision, for traces.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum SecureEvent {
    /// Keys are shared with a neighbour from now on.
    KeysAgreed {
        /// The neighbour.
        with: NodeId,
        /// Whether we began.
        is_initiator: bool,
    },
    /// Keys of a neighbour are no longer used, and no others are there.
    KeysExpired {
        /// The neighbour.
        with: NodeId,
    },
}
