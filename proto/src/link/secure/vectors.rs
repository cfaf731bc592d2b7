//! The test vectors of `docs/wire.md`: made again from their inputs, and compared.

use super::noise::{Handshakes, Pair, derive};
use super::session::{Key, OwnBroadcast, Session, UnitKey};
use super::*;
use crate::base::EtherType;
use crate::wire::harq;
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

#[test]
fn units_of_a_packet_are_as_written_down() {
    let cipher = Cipher::ChaCha20Poly1305;
    let key = [5; 32];
    let body = [0x45, 0, 0, 20];
    for (name, is_readable) in [("cut.chacha20", false), ("cut.readable", true)] {
        let header = Header { kind: Kind::Cut, is_readable, epoch: 7, counter: 2 };
        check(name, &Key::new(cipher, &key).seal(&header, A, Some(B), &body));
    }
    check("unit.key", &derive(&key, "unit"));
    let sealed = Key::new(cipher, &key).seal(
        &Header { kind: Kind::Cut, is_readable: false, epoch: 7, counter: 2 },
        A,
        Some(B),
        &body,
    );
    // The second of two units of 14 bytes, and no parity.
    let unit = harq::Unit {
        is_first: true,
        burst: 9,
        block: 8,
        back: 1,
        index: 1,
        k: 2,
        left: 0,
        pad: 0,
        protocol: EtherType::IPV4,
    };
    let unit = harq::encode_unit(0x0102, &unit, &sealed[14..]);
    check("unit", &UnitKey::new(&key).close(7, A, B, &unit));
    let report = harq::Report { burst: 9, came: 1, needs: 1, lacks: 1 };
    let feedback = harq::encode_feedback(0x0102, &[report]);
    check("unit.feedback", &UnitKey::new(&[6; 32]).close(9, B, A, &feedback));
    let probe = harq::encode_probe(0x0102, &harq::Probe { burst: 10, base: 8, asks: 9 });
    check("unit.probe", &UnitKey::new(&key).close(7, A, B, &probe));
}
