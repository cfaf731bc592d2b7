//! The test vectors of `docs/wire.md`: made again from their inputs, and compared.

use super::noise::{Handshakes, Pair};
use super::session::{Key, OwnBroadcast, Session};
use super::*;
use crate::wire::secure::{Header, Kind};

const DOCUMENT: &str = include_str!("../../../../docs/wire.md");

/// The value behind `name = ` in a block of vectors.
fn documented(name: &str) -> &'static str {
    let found = DOCUMENT.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = "));
    found.unwrap_or_else(|| panic!("docs/wire.md has no vector '{name}'"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[track_caller]
fn check(name: &str, bytes: &[u8]) {
    assert_eq!(documented(name), hex(bytes), "{name}");
}

const A: NodeId = NodeId(1);
const B: NodeId = NodeId(2);

#[test]
fn keys_are_as_written_down() {
    let a = Identity::from_secret([1; 32]);
    check("a.secret", &a.secret());
    check("a.ed25519", &a.public().bytes());
    check("a.x25519", &a.public().dh());
    assert_eq!(documented("a.line"), a.public().to_string());
    assert_eq!(documented("a.fingerprint"), a.public().fingerprint());
    let b = Identity::from_secret([2; 32]);
    assert_eq!(documented("b.line"), b.public().to_string());
    check("ab.shared", &a.agree(&b.public()));
}

#[test]
fn a_handshake_is_as_written_down() {
    let (a, b) = (Identity::from_secret([1; 32]), Identity::from_secret([2; 32]));
    let (key_a, key_b) = (a.public(), b.public());
    let pairs = (Pair::new(&a, &key_b, None), Pair::new(&b, &key_a, None));
    let here = Handshakes { us: (A, &a), other: (B, &key_b), pair: &pairs.0, psk: None, mode: 0 };
    let there = Handshakes { us: (B, &b), other: (A, &key_a), pair: &pairs.1, psk: None, mode: 0 };
    let (init, mut begun) = here.init(7, None, [3; 32]);
    check("init", &init);
    let mut answering = there.read_init(&init, [4; 32]).expect("what was just made");
    let (response, keys) = there.response(&mut answering, (7, 9), b"frame of the link");
    check("response", &response);
    check("key.ab", &keys.0);
    check("key.ba", &keys.1);
    let read = here.read_response(&mut begun, &response).expect("what was just made");
    assert_eq!(read, (9, keys, b"frame of the link".to_vec()));
}

#[test]
fn sealed_frames_are_as_written_down() {
    let (ab, ba) = ([5; 32], [6; 32]);
    let body = b"a frame of the link";
    for (name, cipher, is_readable) in [
        ("sealed.chacha20", Cipher::ChaCha20Poly1305, false),
        ("sealed.aes128", Cipher::Aes128Gcm, false),
        ("readable.chacha20", Cipher::ChaCha20Poly1305, true),
    ] {
        let mut session = Session::new(cipher, (9, 7), (&ab, &ba), Instant::ZERO, true);
        let header = Header { kind: Kind::Link, is_readable, epoch: 0, counter: 0 };
        session.seal(header, A, B, b"the first");
        check(name, &session.seal(header, A, B, body));
    }
    let cipher = Cipher::ChaCha20Poly1305;
    let mut own = OwnBroadcast::new(cipher, 200, ab, Instant::ZERO);
    let header = Header { kind: Kind::LinkToAll, is_readable: false, epoch: 0, counter: 0 };
    check("sealed.to-all", &own.seal(header, A, body));
    // A key by itself, at a counter that uses all its bytes.
    let header =
        Header { kind: Kind::Packet, is_readable: false, epoch: 1, counter: 0x0102_0304_0506 };
    check("sealed.counter", &Key::new(cipher, &ab).seal(&header, A, Some(B), &[0x45, 0, 0, 20]));
}
