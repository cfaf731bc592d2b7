//! Keys of one direction, and sessions: the keys of both directions that two nodes share for a
//! while.

use bytes::{Bytes, BytesMut};
use ring::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use ring::hmac;

use super::config::Cipher;
use super::noise::derive;
use super::window::{WINDOW, Window};
use crate::base::{Duration, Instant, NodeId};
use crate::wire::secure::{
    HEADER_BYTES, Header, SEAL_BYTES, TAG_BYTES, UNIT, UNIT_HEADER_BYTES, UNIT_SEAL_BYTES,
    UNIT_TAG_BYTES, ends,
};

/// How long a key is used before its owners agree on the next one.
pub(super) const REKEY_AFTER: Duration = Duration::from_secs(120);
/// How much later the responder asks for the next session than the initiator.
pub(super) const GRACE: Duration = Duration::from_secs(10);
/// After this time a key is not used any more.
pub(super) const EXPIRES_AFTER: Duration = Duration::from_secs(180);
/// How long a new session is trusted without a frame of the neighbour under its keys. The neighbour
/// may have dropped it, because it has answered other first messages meanwhile.
const DOUBT: Duration = Duration::from_secs(2);
/// Most frames under one key.
pub(super) const FRAMES: u64 = 1 << 32;

/// A key of one direction.
pub(super) struct Key(LessSafeKey);

impl Key {
    /// The key from 32 secret bytes.
    pub(super) fn new(cipher: Cipher, secret: &[u8; 32]) -> Self {
        let (algorithm, bytes) = match cipher {
            Cipher::ChaCha20Poly1305 => (&CHACHA20_POLY1305, &secret[..]),
            Cipher::Aes128Gcm => (&AES_128_GCM, &secret[..16]),
        };
        let key = UnboundKey::new(algorithm, bytes).expect("a key of the algorithm's length");
        Self(LessSafeKey::new(key))
    }

    /// Seals a frame with this header and body.
    pub(super) fn seal(
        &self,
        header: &Header,
        from: NodeId,
        to: Option<NodeId>,
        body: &[u8],
    ) -> Bytes {
        let mut out = Vec::with_capacity(body.len() + SEAL_BYTES);
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(body);
        let head = known(&out, from, to);
        let nonce = nonce(header.counter);
        let sealed = if header.is_readable {
            let known = [&head[..], body].concat();
            self.0.seal_in_place_separate_tag(nonce, Aad::from(&known[..]), &mut [])
        } else {
            let body = &mut out[HEADER_BYTES..];
            self.0.seal_in_place_separate_tag(nonce, Aad::from(&head[..]), body)
        };
        out.extend_from_slice(sealed.expect("a body that fits into a frame").as_ref());
        out.into()
    }

    /// The body of a sealed frame, whose header was decoded from it; `None` if the frame does not
    /// authenticate.
    pub(super) fn open(
        &self,
        header: &Header,
        from: NodeId,
        to: Option<NodeId>,
        frame: Bytes,
    ) -> Option<Bytes> {
        let head = known(&frame, from, to);
        let nonce = nonce(header.counter);
        let end = frame.len().checked_sub(TAG_BYTES).filter(|end| *end >= HEADER_BYTES)?;
        if header.is_readable {
            let known = [&head[..], &frame[HEADER_BYTES..end]].concat();
            let mut tag = [0; TAG_BYTES];
            tag.copy_from_slice(&frame[end..]);
            self.0.open_in_place(nonce, Aad::from(&known[..]), &mut tag).ok()?;
            return Some(frame.slice(HEADER_BYTES..end));
        }
        // Copied if somebody else still holds the bytes.
        let mut frame = frame.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
        let body = &mut frame[HEADER_BYTES..];
        self.0.open_in_place(nonce, Aad::from(&head[..]), body).ok()?;
        Some(frame.freeze().slice(HEADER_BYTES..end))
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// The associated data besides the body: the header, and the sender and receiver of the frame.
fn known(frame: &[u8], from: NodeId, to: Option<NodeId>) -> [u8; HEADER_BYTES + 4] {
    let mut known = [0; HEADER_BYTES + 4];
    known[..HEADER_BYTES].copy_from_slice(&frame[..HEADER_BYTES]);
    known[HEADER_BYTES..].copy_from_slice(&ends(from, to));
    known
}

/// A key of one direction for the tags of units.
pub(super) struct UnitKey(hmac::Key);

impl UnitKey {
    /// The unit key that is derived from the secret of a frame key.
    pub(super) fn new(secret: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &derive(secret, "unit")))
    }

    fn tag(&self, from: NodeId, to: NodeId, unit: &[u8]) -> [u8; UNIT_TAG_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&ends(from, Some(to)));
        context.update(unit);
        let tag = context.sign();
        *tag.as_ref().first_chunk().expect("an HMAC is longer")
    }

    /// A unit with its tag; `epoch` is the receiver's number of the key.
    pub(super) fn close(&self, epoch: u8, from: NodeId, to: NodeId, body: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(body.len() + UNIT_SEAL_BYTES);
        out.extend_from_slice(&[UNIT, epoch]);
        out.extend_from_slice(body);
        let tag = self.tag(from, to, &out);
        out.extend_from_slice(&tag);
        out.into()
    }

    /// The body of a unit; `None` if its tag does not match.
    fn open(&self, from: NodeId, to: NodeId, unit: &Bytes) -> Option<Bytes> {
        let end = unit.len().checked_sub(UNIT_TAG_BYTES).filter(|end| *end >= UNIT_HEADER_BYTES)?;
        let tag = self.tag(from, to, &unit[..end]);
        // Compares all bytes, so that the time does not depend on where they differ.
        let differs = tag.iter().zip(&unit[end..]).fold(0, |all, (a, b)| all | (a ^ b));
        (differs == 0).then(|| unit.slice(UNIT_HEADER_BYTES..end))
    }
}

impl std::fmt::Debug for UnitKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UnitKey")
    }
}

/// The keys that two nodes share for a while.
#[derive(Debug)]
pub(super) struct Session {
    /// Epoch that we assigned to the key under which the neighbour sends.
    pub(super) ours: u8,
    /// Epoch that the neighbour assigned to the key under which we send.
    pub(super) theirs: u8,
    send: Key,
    receive: Key,
    /// For units that we send, and for units that we receive.
    units: [UnitKey; 2],
    sent: u64,
    window: Window,
    pub(super) born: Instant,
    /// Whether we began the handshake.
    pub(super) is_initiator: bool,
    /// Whether a frame of the neighbour was opened.
    is_used: bool,
}

/// Why a frame under a known key is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disbelief {
    /// The tag does not match.
    Forged,
    /// Its counter was received before, or is too old to tell.
    Replayed,
}

impl Session {
    pub(super) fn new(
        cipher: Cipher,
        (ours, theirs): (u8, u8),
        (send, receive): (&[u8; 32], &[u8; 32]),
        born: Instant,
        is_initiator: bool,
    ) -> Self {
        Self {
            ours,
            theirs,
            send: Key::new(cipher, send),
            receive: Key::new(cipher, receive),
            units: [send, receive].map(UnitKey::new),
            sent: 0,
            window: Window::starting_at(0),
            born,
            is_initiator,
            is_used: false,
        }
    }

    /// When it becomes doubtful that the neighbour has it.
    pub(super) fn doubtful_at(&self) -> Instant {
        if self.is_used { Instant::MAX } else { self.born + DOUBT }
    }

    /// When we ask for the next session.
    pub(super) fn rekey_at(&self) -> Instant {
        let grace = if self.is_initiator { Duration::ZERO } else { GRACE };
        if self.sent >= FRAMES { self.born } else { self.born + REKEY_AFTER + grace }
    }

    /// When it is not used any more.
    pub(super) fn expires_at(&self) -> Instant {
        self.born + EXPIRES_AFTER
    }

    /// Seals a body for the neighbour; sets the epoch and counter of `header`.
    pub(super) fn seal(&mut self, header: Header, from: NodeId, to: NodeId, body: &[u8]) -> Bytes {
        let header = Header { epoch: self.theirs, counter: self.sent, ..header };
        self.sent += 1;
        self.send.seal(&header, from, Some(to), body)
    }

    /// Adds a tag to a unit for the neighbour.
    pub(super) fn close_unit(&self, from: NodeId, to: NodeId, body: &[u8]) -> Bytes {
        self.units[0].close(self.theirs, from, to, body)
    }

    /// The body of a unit of the neighbour; none if its tag does not match. It may be a replay.
    pub(super) fn open_unit(&self, from: NodeId, to: NodeId, unit: &Bytes) -> Option<Bytes> {
        self.units[1].open(from, to, unit)
    }

    /// Opens a frame of the neighbour.
    pub(super) fn open(
        &mut self,
        header: &Header,
        from: NodeId,
        to: NodeId,
        frame: Bytes,
    ) -> Result<Bytes, Disbelief> {
        let body = open(&self.receive, &mut self.window, header, (from, Some(to)), frame)?;
        self.is_used = true;
        Ok(body)
    }
}

fn open(
    key: &Key,
    window: &mut Window,
    header: &Header,
    (from, to): (NodeId, Option<NodeId>),
    frame: Bytes,
) -> Result<Bytes, Disbelief> {
    if !window.is_new(header.counter) {
        return Err(Disbelief::Replayed);
    }
    let body = key.open(header, from, to, frame).ok_or(Disbelief::Forged)?;
    window.insert(header.counter);
    Ok(body)
}

/// The key under which this node seals broadcasts.
#[derive(Debug)]
pub(super) struct OwnBroadcast {
    pub(super) epoch: u8,
    pub(super) secret: [u8; 32],
    pub(super) sent: u64,
    pub(super) born: Instant,
    key: Key,
}

impl OwnBroadcast {
    pub(super) fn new(cipher: Cipher, epoch: u8, secret: [u8; 32], born: Instant) -> Self {
        Self { epoch, secret, sent: 0, born, key: Key::new(cipher, &secret) }
    }

    /// Seals a body for all; sets the epoch and counter of `header`.
    pub(super) fn seal(&mut self, header: Header, from: NodeId, body: &[u8]) -> Bytes {
        let header = Header { epoch: self.epoch, counter: self.sent, ..header };
        self.sent += 1;
        self.key.seal(&header, from, None, body)
    }
}

/// The order of statements about keys: by the session in which they were made, identified by when
/// it was agreed on here, and by the counter of the frame. Later ones count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SaidAt {
    pub(super) session: Instant,
    pub(super) counter: u64,
}

/// The key under which a neighbour seals broadcasts.
#[derive(Debug)]
pub(super) struct TheirBroadcast {
    pub(super) epoch: u8,
    /// When the neighbour last told it.
    pub(super) said: SaidAt,
    secret: [u8; 32],
    key: Key,
    window: Window,
    /// Where the window was when the present session was agreed on.
    mark: u64,
}

impl TheirBroadcast {
    /// The key, for frames with counters of at least `first`.
    pub(super) fn new(
        cipher: Cipher,
        epoch: u8,
        secret: &[u8; 32],
        (first, said): (u64, SaidAt),
    ) -> Self {
        let (key, window) = (Key::new(cipher, secret), Window::starting_at(first));
        Self { epoch, said, secret: *secret, key, window, mark: first }
    }

    /// A session was agreed on: what the neighbour sends from now on has higher counters than all
    /// that came before.
    pub(super) fn on_session(&mut self) {
        self.mark = self.window.next();
    }

    /// Whether it is this key. If the neighbour tells it again, its window is kept.
    pub(super) fn is(&self, epoch: u8, secret: &[u8; 32]) -> bool {
        self.epoch == epoch && self.secret == *secret
    }

    /// The neighbour tells the key again, for frames with counters of at least `first`. If it says
    /// so in a new session, and they would have been too old already when that began, another owner
    /// of the key has sent one with a counter far ahead in its name: then the window begins anew.
    pub(super) fn on_told_again(&mut self, first: u64, when: SaidAt) {
        if when.session > self.said.session && first + WINDOW < self.mark {
            self.window = Window::starting_at(first);
        }
        self.said = when;
    }

    /// Opens a broadcast.
    pub(super) fn open(
        &mut self,
        header: &Header,
        from: NodeId,
        frame: Bytes,
    ) -> Result<Bytes, Disbelief> {
        open(&self.key, &mut self.window, header, (from, None), frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::secure::Kind;

    fn pair(cipher: Cipher) -> (Session, Session) {
        let (there, back) = (&[1; 32], &[2; 32]);
        let a = Session::new(cipher, (10, 20), (there, back), Instant::ZERO, true);
        let b = Session::new(cipher, (20, 10), (back, there), Instant::ZERO, false);
        (a, b)
    }

    fn header(is_readable: bool) -> Header {
        Header { kind: Kind::Link, is_readable, epoch: 0, counter: 0 }
    }

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    #[test]
    fn what_one_seals_the_other_opens_once() {
        for cipher in [Cipher::ChaCha20Poly1305, Cipher::Aes128Gcm] {
            for is_readable in [false, true] {
                let (mut a, mut b) = pair(cipher);
                let frame = a.seal(header(is_readable), A, B, b"a frame of the link");
                assert_eq!(frame.len(), 19 + SEAL_BYTES);
                let is_clear = frame.windows(5).any(|part| part == b"frame");
                assert_eq!(is_clear, is_readable);
                let head = Header::decode(&frame).expect("a frame");
                let body = b.open(&head, A, B, frame.clone());
                assert_eq!(body.as_deref(), Ok(&b"a frame of the link"[..]));
                assert_eq!(b.open(&head, A, B, frame), Err(Disbelief::Replayed));
            }
        }
    }

    #[test]
    fn no_bit_of_a_unit_and_none_of_its_ends_can_be_changed() {
        let (a, b) = pair(Cipher::ChaCha20Poly1305);
        let unit = a.close_unit(A, B, b"unit");
        assert_eq!((&unit[..2], unit.len()), (&[UNIT, 20][..], 4 + UNIT_SEAL_BYTES));
        for at in 0..unit.len() * 8 {
            let mut changed = unit.to_vec();
            changed[at / 8] ^= 1 << (at % 8);
            assert_eq!(b.open_unit(A, B, &changed.into()), None, "{at}");
        }
        assert_eq!(b.open_unit(NodeId(3), B, &unit), None);
        assert_eq!(b.open_unit(A, NodeId(3), &unit), None);
        assert_eq!(a.open_unit(A, B, &unit), None, "sent back");
        assert_eq!(b.open_unit(A, B, &unit.slice(..5)), None);
        assert_eq!(b.open_unit(A, B, &unit).as_deref(), Some(&b"unit"[..]));
    }

    #[test]
    fn no_bit_of_a_frame_and_none_of_its_ends_can_be_changed() {
        for is_readable in [false, true] {
            let (mut a, mut b) = pair(Cipher::ChaCha20Poly1305);
            let frame = a.seal(header(is_readable), A, B, b"body");
            for at in 0..frame.len() * 8 {
                let mut changed = frame.to_vec();
                changed[at / 8] ^= 1 << (at % 8);
                let Ok(head) = Header::decode(&changed) else { continue };
                assert_eq!(b.open(&head, A, B, changed.into()), Err(Disbelief::Forged), "{at}");
            }
            let head = Header::decode(&frame).expect("a frame");
            assert_eq!(b.open(&head, NodeId(3), B, frame.clone()), Err(Disbelief::Forged));
            assert_eq!(b.open(&head, A, NodeId(3), frame.clone()), Err(Disbelief::Forged));
            assert!(b.open(&head, A, B, frame).is_ok());
        }
    }
}
