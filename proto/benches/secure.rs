//! What sealing and opening a frame costs beside the AEAD alone: frames of 1,440 bytes.
//!
//! `cargo bench -p farhop-proto --bench secure`: the layer's rate should be 80% of the library's
//! or more with ChaCha20-Poly1305, 65% with AES-128-GCM.

use std::sync::Arc;

use bytes::Bytes;
use divan::counter::BytesCount;
use farhop_proto::base::Identity;
use farhop_proto::base::{
    Bitrate, Cover, Cx, EtherType, FlowId, Frame, FrameDown, FrameUp, Instant, Layer, NodeId,
    RadioId, ReceivedFrame, Room, TxOptions, UnitId,
};
use farhop_proto::link::PeerSpec;
use farhop_proto::link::secure::{Cipher, Secure, SecureSpec, SecurityConfig};
use ring::aead::{AES_128_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

const BYTES: usize = 1_440;
const CIPHERS: [Cipher; 2] = [Cipher::ChaCha20Poly1305, Cipher::Aes128Gcm];

fn main() {
    divan::main();
}

fn node(id: u16, other: u16, cipher: Cipher) -> Secure {
    Secure::build(SecureSpec {
        node: NodeId(id),
        identity: Identity::from_secret([id as u8; 32]),
        entropy: [id as u8; 32],
        config: SecurityConfig { cipher, ..SecurityConfig::default() },
        peers: vec![PeerSpec { node: NodeId(other), radio: RadioId(0) }],
        keys: Arc::new([(NodeId(other), Identity::from_secret([other as u8; 32]).public())].into()),
    })
}

fn frame(to: u16, flow: FlowId, payload: Bytes) -> Frame {
    Frame {
        id: UnitId(1),
        radio: RadioId(0),
        to: Some(NodeId(to)),
        flow,
        protocol: EtherType::FARHOP,
        payload,
        options: TxOptions::default(),
    }
}

fn received(from: u16, to: u16, payload: Bytes) -> FrameUp {
    FrameUp::Received(ReceivedFrame {
        radio: RadioId(0),
        from: NodeId(from),
        to: Some(NodeId(to)),
        protocol: EtherType::SEALED,
        payload,
        started: Instant::ZERO,
        rate: Bitrate::from_mbps(11.0),
        signal: None,
        bits: 0,
    })
}

fn seal(secure: &mut Secure, frame: Frame) -> Bytes {
    let mut cx = Cx::new(Instant::ZERO);
    secure.handle_tx(&mut cx, FrameDown::Frame(frame));
    match secure.poll_tx(&mut cx, &|_| Room::UNLIMITED) {
        Some(FrameDown::Frame(frame)) => frame.payload,
        _ => panic!("a frame was not sealed"),
    }
}

fn open(secure: &mut Secure, event: FrameUp) -> Option<FrameUp> {
    let mut cx = Cx::new(Instant::ZERO);
    secure.handle_rx(&mut cx, event);
    secure.poll_rx(&mut cx)
}

/// Nodes 1 and 2, which share keys.
fn pair(cipher: Cipher) -> (Secure, Secure) {
    let (mut a, mut b) = (node(1, 2, cipher), node(2, 1, cipher));
    a.handle_timeout(&mut Cx::new(Instant::ZERO));
    b.handle_timeout(&mut Cx::new(Instant::ZERO));
    for _ in 0..3 {
        let there = seal(&mut a, frame(2, FlowId::CONTROL, Bytes::new()));
        open(&mut b, received(1, 2, there));
        let back = seal(&mut b, frame(1, FlowId::CONTROL, Bytes::new()));
        open(&mut a, received(2, 1, back));
    }
    while a.poll_rx(&mut Cx::new(Instant::ZERO)).is_some() {}
    while b.poll_rx(&mut Cx::new(Instant::ZERO)).is_some() {}
    (a, b)
}

fn library(cipher: Cipher) -> LessSafeKey {
    let algorithm: &'static Algorithm = match cipher {
        Cipher::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        Cipher::Aes128Gcm => &AES_128_GCM,
    };
    LessSafeKey::new(UnboundKey::new(algorithm, &[7; 32][..algorithm.key_len()]).expect("a key"))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[divan::bench(args = CIPHERS)]
fn seal_by_the_library(bencher: divan::Bencher<'_, '_>, cipher: Cipher) {
    let (key, mut body) = (library(cipher), vec![1; BYTES]);
    bencher.counter(BytesCount::new(BYTES)).bench_local(|| {
        key.seal_in_place_separate_tag(nonce(), Aad::from(&[2; 12]), &mut body).expect("a tag")
    });
}

#[divan::bench(args = CIPHERS)]
fn seal_by_the_layer(bencher: divan::Bencher<'_, '_>, cipher: Cipher) {
    let (mut a, _) = pair(cipher);
    let body = Bytes::from(vec![1; BYTES]);
    bencher
        .counter(BytesCount::new(BYTES))
        .bench_local(|| seal(&mut a, frame(2, FlowId(0), body.clone())));
}

#[divan::bench(args = CIPHERS)]
fn open_by_the_library(bencher: divan::Bencher<'_, '_>, cipher: Cipher) {
    let key = library(cipher);
    let mut sealed = vec![1; BYTES];
    key.seal_in_place_append_tag(nonce(), Aad::from(&[2; 12]), &mut sealed).expect("a tag");
    bencher.counter(BytesCount::new(BYTES)).with_inputs(|| sealed.clone()).bench_local_values(
        |mut sealed| {
            key.open_in_place(nonce(), Aad::from(&[2; 12]), &mut sealed).expect("its tag");
            sealed
        },
    );
}

#[divan::bench(args = CIPHERS)]
fn open_by_the_layer(bencher: divan::Bencher<'_, '_>, cipher: Cipher) {
    let (mut a, mut b) = pair(cipher);
    let body = Bytes::from(vec![1; BYTES]);
    bencher
        .counter(BytesCount::new(BYTES))
        .with_inputs(|| received(1, 2, seal(&mut a, frame(2, FlowId(0), body.clone()))))
        .bench_local_values(|event| open(&mut b, event).expect("what was sealed"));
}

/// A unit of a packet of 1,064 bytes in 20, with its header.
const UNIT_BYTES: usize = 72;

fn unit() -> Frame {
    let options = TxOptions { cover: Cover::Tagged, ..TxOptions::default() };
    Frame { options, ..frame(2, FlowId(0), Bytes::from(vec![1; UNIT_BYTES])) }
}

#[divan::bench]
fn tag_a_unit(bencher: divan::Bencher<'_, '_>) {
    let (mut a, _) = pair(Cipher::ChaCha20Poly1305);
    bencher
        .counter(BytesCount::new(UNIT_BYTES))
        .with_inputs(unit)
        .bench_local_values(|unit| seal(&mut a, unit));
}

#[divan::bench]
fn check_a_unit(bencher: divan::Bencher<'_, '_>) {
    let (mut a, mut b) = pair(Cipher::ChaCha20Poly1305);
    bencher
        .counter(BytesCount::new(UNIT_BYTES))
        .with_inputs(|| received(1, 2, seal(&mut a, unit())))
        .bench_local_values(|event| open(&mut b, event).expect("what was tagged"));
}
