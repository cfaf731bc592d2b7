//! The handshake: Noise IK (revision 34, section 7.5), and what is checked before it costs
//! anything (after WireGuard, Donenfeld 2017, sections 5.3 and 5.4.4 to 5.4.7).
//!
//! ```text
//! init      version and kind, epoch, Noise message [mode], HMAC, HMAC under the cookie or zeros
//! response  version and kind, epoch, Noise message [mode, epoch, frame of the link], HMAC
//! cookie    version and kind, epoch, nonce, sealed cookie
//! ```
//!
//! This differs from WireGuard because nodes know each other's keys beforehand. The HMACs and the
//! cookie are under keys that follow from both static keys, so that nobody else can make a node
//! compute, answer, or accept a cookie. Freshness comes from the cookie and from what is sealed
//! afterwards, never from a clock.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::hmac;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::types::{Cipher as NoiseCipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

use crate::base::NodeId;
use crate::base::{Identity, PublicKey};
use crate::wire::secure::{HANDSHAKE_HEADER_BYTES, Header, Kind, TAG_BYTES, ends};

/// Length of an HMAC, in bytes.
pub(super) const MAC_BYTES: usize = 32;
/// Length of a cookie, in bytes.
pub(super) const COOKIE_BYTES: usize = 32;
/// Length of a first message, in bytes.
pub(super) const INIT_BYTES: usize =
    HANDSHAKE_HEADER_BYTES + 32 + (32 + TAG_BYTES) + (1 + TAG_BYTES) + 2 * MAC_BYTES;
/// Length of an answer, in bytes, without the frame of the link in it.
pub(super) const RESPONSE_BYTES: usize = HANDSHAKE_HEADER_BYTES + 32 + (2 + TAG_BYTES) + MAC_BYTES;
/// Length of a cookie message, in bytes.
pub(super) const COOKIE_MESSAGE_BYTES: usize =
    HANDSHAKE_HEADER_BYTES + NONCE_LEN + COOKIE_BYTES + TAG_BYTES;

/// A cookie: a proof that its bearer hears the node that issued it.
pub(super) type Cookie = [u8; COOKIE_BYTES];
/// The pre-shared key: all nodes share it in addition to their own keys.
pub(super) type Psk = [u8; 32];

/// The keys that two nodes can derive from their static keys alone.
pub(super) struct Pair {
    mac: hmac::Key,
    cookie: LessSafeKey,
}

struct Bytes32;

impl KeyType for Bytes32 {
    fn len(&self) -> usize {
        32
    }
}

/// Derives a key for one purpose from a secret.
pub(super) fn derive(secret: &[u8], what: &str) -> [u8; 32] {
    let mut out = [0; 32];
    let secret = Salt::new(HKDF_SHA256, b"farhop 1").extract(secret);
    let filled = secret.expand(&[what.as_bytes()], Bytes32).and_then(|key| key.fill(&mut out));
    filled.expect("32 bytes are not too many");
    out
}

impl Pair {
    /// The keys that this node shares with the owner of another key.
    pub(super) fn new(us: &Identity, other: &PublicKey, psk: Option<&Psk>) -> Self {
        let mut shared = us.agree(other).to_vec();
        shared.extend_from_slice(psk.map_or(&[], |psk| &psk[..]));
        let cookie = derive(&shared, "cookie");
        let cookie = UnboundKey::new(&CHACHA20_POLY1305, &cookie).expect("32 bytes");
        Self {
            mac: hmac::Key::new(hmac::HMAC_SHA256, &derive(&shared, "mac")),
            cookie: LessSafeKey::new(cookie),
        }
    }

    fn context(&self, ends: [u8; 4], message: &[u8]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.mac);
        context.update(&ends);
        context.update(message);
        context
    }

    /// Appends the HMAC of a message from one node to another.
    fn append_mac(&self, ends: [u8; 4], message: &mut Vec<u8>) {
        let mac = self.context(ends, message).sign();
        message.extend_from_slice(mac.as_ref());
    }

    /// Whether the first `length` bytes of a message are followed by their HMAC.
    fn is_theirs(&self, ends: [u8; 4], message: &[u8], length: usize) -> bool {
        let (body, mac) = message.split_at(length);
        let signed = [&ends[..], body].concat();
        hmac::verify(&self.mac, &signed, &mac[..MAC_BYTES]).is_ok()
    }

    /// Seals a cookie for the sender of the first message with this HMAC.
    pub(super) fn seal_cookie(
        &self,
        cookie: &Cookie,
        (epoch, mac): (u8, &[u8; MAC_BYTES]),
        rng: &mut ChaCha20Rng,
    ) -> Vec<u8> {
        let mut nonce = [0; NONCE_LEN];
        rng.fill_bytes(&mut nonce);
        let mut sealed = cookie.to_vec();
        self.cookie
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(mac),
                &mut sealed,
            )
            .expect("a cookie is short");
        let header = Header { kind: Kind::Cookie, is_readable: false, epoch, counter: 0 };
        [&header.encode_short()[..], &nonce, &sealed].concat()
    }

    /// The cookie in a cookie message; `None` if it does not answer the first message with this
    /// HMAC.
    pub(super) fn open_cookie(&self, message: &[u8], mac: &[u8; MAC_BYTES]) -> Option<Cookie> {
        if message.len() != COOKIE_MESSAGE_BYTES {
            return None;
        }
        let (nonce, sealed) = message[HANDSHAKE_HEADER_BYTES..].split_at(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let cookie = self.cookie.open_in_place(nonce, Aad::from(mac), &mut sealed).ok()?;
        Some((&*cookie).try_into().expect("checked by its length"))
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair")
    }
}

/// Noise draws its ephemeral keys from our generator.
struct Seeded([u8; 32]);

struct Drawn(ChaCha20Rng);

impl Random for Drawn {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill_bytes(out);
        Ok(())
    }
}

impl CryptoResolver for Seeded {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Drawn(ChaCha20Rng::from_seed(self.0))))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn NoiseCipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

/// The keys of both directions: from initiator to responder, and back.
pub(super) type Split = ([u8; 32], [u8; 32]);

/// Everything needed for handshakes with one node.
pub(super) struct Handshakes<'a> {
    /// This node.
    pub(super) us: (NodeId, &'a Identity),
    /// The other node.
    pub(super) other: (NodeId, &'a PublicKey),
    /// The keys that both can derive.
    pub(super) pair: &'a Pair,
    /// The pre-shared key.
    pub(super) psk: Option<&'a Psk>,
    /// The configuration that both nodes must have in common.
    pub(super) mode: u8,
}

/// Why a handshake message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It was not made by the node that it claims to be from.
    Forged,
    /// The other node has another configuration.
    Mode,
}

impl Handshakes<'_> {
    fn builder(&self, is_ours: bool, seed: [u8; 32]) -> HandshakeState {
        let name = match self.psk {
            None => "Noise_IK_25519_ChaChaPoly_BLAKE2s",
            Some(_) => "Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s",
        };
        let private = self.us.1.dh_private();
        let other = self.other.1.dh();
        let ends = if is_ours { self.there() } else { self.back() };
        let prologue = [&b"farhop 1"[..], &ends].concat();
        let known = "names, keys and lengths that Noise knows";
        let mut builder =
            Builder::with_resolver(name.parse().expect(known), Box::new(Seeded(seed)))
                .prologue(&prologue)
                .and_then(|builder| builder.local_private_key(&private))
                .expect(known);
        if let Some(psk) = self.psk {
            builder = builder.psk(2, psk).expect(known);
        }
        if is_ours {
            builder = builder.remote_public_key(&other).expect(known);
        }
        let state = if is_ours { builder.build_initiator() } else { builder.build_responder() };
        state.expect(known)
    }

    fn there(&self) -> [u8; 4] {
        ends(self.us.0, Some(self.other.0))
    }

    fn back(&self) -> [u8; 4] {
        ends(self.other.0, Some(self.us.0))
    }

    /// A first message, and the state with which its answer is read. `seed` is random and must not
    /// be used twice.
    pub(super) fn init(
        &self,
        epoch: u8,
        cookie: Option<&Cookie>,
        seed: [u8; 32],
    ) -> (Vec<u8>, HandshakeState) {
        let mut state = self.builder(true, seed);
        let header = Header { kind: Kind::Init, is_readable: false, epoch, counter: 0 };
        let mut message = header.encode_short().to_vec();
        write(&mut state, &[self.mode], &mut message);
        self.pair.append_mac(self.there(), &mut message);
        let second = cookie.map(|cookie| cookie_mac(cookie, &message));
        message.extend_from_slice(second.as_ref().map_or(&[0; MAC_BYTES], |mac| mac));
        (message, state)
    }

    /// The first HMAC of a first message; `None` if the other node did not make the message. It may
    /// be a recording.
    pub(super) fn init_mac(&self, message: &[u8]) -> Option<[u8; MAC_BYTES]> {
        let length = INIT_BYTES - 2 * MAC_BYTES;
        if message.len() != INIT_BYTES || !self.pair.is_theirs(self.back(), message, length) {
            return None;
        }
        Some(message[length..length + MAC_BYTES].try_into().expect("its length"))
    }

    /// Reads a first message. Returns the state with which it is answered. `seed` is random and
    /// must not be used twice.
    pub(super) fn read_init(
        &self,
        message: &[u8],
        seed: [u8; 32],
    ) -> Result<HandshakeState, Refusal> {
        let mut state = self.builder(false, seed);
        let mut payload = [0; INIT_BYTES];
        let noise = &message[HANDSHAKE_HEADER_BYTES..INIT_BYTES - 2 * MAC_BYTES];
        let length = state.read_message(noise, &mut payload).map_err(|_| Refusal::Forged)?;
        if state.get_remote_static() != Some(&self.other.1.dh()[..]) {
            return Err(Refusal::Forged);
        }
        if payload[..length] != [self.mode] {
            return Err(Refusal::Mode);
        }
        Ok(state)
    }

    /// The answer to a first message, containing a frame of the link; and the keys.
    pub(super) fn response(
        &self,
        state: &mut HandshakeState,
        (theirs, ours): (u8, u8),
        frame: &[u8],
    ) -> (Vec<u8>, Split) {
        let header = Header { kind: Kind::Response, is_readable: false, epoch: theirs, counter: 0 };
        let mut message = header.encode_short().to_vec();
        write(state, &[&[self.mode, ours], frame].concat(), &mut message);
        self.pair.append_mac(self.there(), &mut message);
        (message, state.dangerously_get_raw_split())
    }

    /// Reads an answer. Returns the other node's epoch for our key, the keys, and the frame of its
    /// link.
    pub(super) fn read_response(
        &self,
        state: &mut HandshakeState,
        message: &[u8],
    ) -> Result<(u8, Split, Vec<u8>), Refusal> {
        let noise_end = message.len() - MAC_BYTES;
        let mut payload = vec![0; message.len()];
        let noise = &message[HANDSHAKE_HEADER_BYTES..noise_end];
        let length = state.read_message(noise, &mut payload).map_err(|_| Refusal::Forged)?;
        let [mode, theirs, frame @ ..] = &payload[..length] else { return Err(Refusal::Forged) };
        if *mode != self.mode {
            return Err(Refusal::Mode);
        }
        Ok((*theirs, state.dangerously_get_raw_split(), frame.to_vec()))
    }

    /// Whether an answer was made by the other node.
    pub(super) fn is_their_response(&self, message: &[u8]) -> bool {
        message.len() >= RESPONSE_BYTES
            && self.pair.is_theirs(self.back(), message, message.len() - MAC_BYTES)
    }
}

/// Whether a first message ends with the HMAC under a cookie.
pub(super) fn has_cookie(message: &[u8], cookie: &Cookie) -> bool {
    let (signed, mac) = message.split_at(INIT_BYTES - MAC_BYTES);
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, cookie), signed, mac).is_ok()
}

fn cookie_mac(cookie: &Cookie, message: &[u8]) -> [u8; MAC_BYTES] {
    let mac = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, cookie), message);
    mac.as_ref().try_into().expect("its length")
}

/// The cookie of a node, derived from a secret.
pub(super) fn cookie_of(secret: &[u8; 32], node: NodeId) -> Cookie {
    cookie_mac(secret, &node.0.to_be_bytes())
}

fn write(state: &mut HandshakeState, payload: &[u8], message: &mut Vec<u8>) {
    let mut buffer = vec![0; payload.len() + 128];
    let length = state.write_message(payload, &mut buffer).expect("our turn, and room");
    message.extend_from_slice(&buffer[..length]);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct End {
        node: NodeId,
        identity: Identity,
    }

    fn end(node: u16) -> End {
        End { node: NodeId(node), identity: Identity::from_secret([node as u8; 32]) }
    }

    /// What `us` does in a handshake with `other`.
    fn with<R>(
        us: &End,
        other: &End,
        psk: Option<&Psk>,
        act: impl FnOnce(&Handshakes<'_>) -> R,
    ) -> R {
        let key = other.identity.public();
        let pair = Pair::new(&us.identity, &key, psk);
        let us = (us.node, &us.identity);
        act(&Handshakes { us, other: (other.node, &key), pair: &pair, psk, mode: 1 })
    }

    fn rng() -> ChaCha20Rng {
        ChaCha20Rng::from_seed([9; 32])
    }

    #[test]
    fn two_nodes_agree_on_keys_in_one_round_trip() {
        let (a, b) = (end(1), end(2));
        for psk in [None, Some(&[7; 32])] {
            let (init, mut state) = with(&a, &b, psk, |ours| ours.init(3, None, [8; 32]));
            assert_eq!(init.len(), INIT_BYTES);
            let (response, there) = with(&b, &a, psk, |theirs| {
                assert!(theirs.init_mac(&init).is_some());
                let mut answering = theirs.read_init(&init, [6; 32]).expect("an honest message");
                theirs.response(&mut answering, (3, 200), b"stamp")
            });
            assert_eq!(response.len(), RESPONSE_BYTES + 5);
            let (epoch, here, frame) = with(&a, &b, psk, |ours| {
                assert!(ours.is_their_response(&response));
                ours.read_response(&mut state, &response).expect("an honest answer")
            });
            assert_eq!((epoch, &frame[..]), (200, &b"stamp"[..]));
            assert_eq!(here, there);
            assert_ne!(here.0, here.1);
        }
    }

    #[test]
    fn a_stranger_and_a_reflection_do_not_pass_the_hmac() {
        let (a, b, mallory) = (end(1), end(2), end(3));
        let (honest, _) = with(&a, &b, None, |ours| ours.init(3, None, [8; 32]));
        let forged = End { node: a.node, identity: Identity::from_secret([66; 32]) };
        let (init, _) = with(&forged, &b, None, |ours| ours.init(3, None, [8; 32]));
        with(&b, &a, None, |ours| assert_eq!(ours.init_mac(&init), None));
        with(&a, &b, None, |ours| assert_eq!(ours.init_mac(&honest), None, "reflected"));
        with(&mallory, &a, None, |ours| assert_eq!(ours.init_mac(&honest), None));
        with(&b, &a, Some(&[1; 32]), |ours| assert_eq!(ours.init_mac(&honest), None, "no psk"));
        with(&b, &a, None, |ours| assert_eq!(ours.init_mac(&honest[..90]), None));
    }

    #[test]
    fn a_cookie_answers_one_message_and_opens_the_next() {
        let (a, b) = (end(1), end(2));
        let mut rng = rng();
        let (init, _) = with(&a, &b, None, |ours| ours.init(3, None, [8; 32]));
        let cookie = cookie_of(&[5; 32], a.node);
        assert!(!has_cookie(&init, &cookie));
        let message = with(&b, &a, None, |theirs| {
            let mac = theirs.init_mac(&init).expect("an honest message");
            theirs.pair.seal_cookie(&cookie, (3, &mac), &mut rng)
        });
        assert_eq!(message.len(), COOKIE_MESSAGE_BYTES);
        with(&a, &b, None, |ours| {
            let mac = &init[INIT_BYTES - 64..][..32];
            let opened = ours.pair.open_cookie(&message, mac.try_into().expect("32 bytes"));
            assert_eq!(opened, Some(cookie));
            assert_eq!(ours.pair.open_cookie(&message, &[0; 32]), None, "another message's");
            let (second, _) = ours.init(4, Some(&cookie), [7; 32]);
            assert!(has_cookie(&second, &cookie) && !has_cookie(&second, &[1; 32]));
        });
    }

    #[test]
    fn a_node_with_another_setting_is_told_apart_from_a_forger() {
        let (a, b) = (end(1), end(2));
        let (init, _) = with(&a, &b, None, |ours| ours.init(3, None, [8; 32]));
        let key = a.identity.public();
        let pair = Pair::new(&b.identity, &key, None);
        let other = (a.node, &key);
        let theirs =
            Handshakes { us: (b.node, &b.identity), other, pair: &pair, psk: None, mode: 2 };
        assert_eq!(theirs.read_init(&init, [6; 32]).err(), Some(Refusal::Mode));
    }
}
