#!/usr/bin/env python3
"""The vectors of docs/wire.md by another hand: Python and the `cryptography` package, from the text
of that document alone. Nothing of farhop runs here. Exit status 1 if one does not come out."""

import base64
import hashlib
import hmac
import pathlib
import re
import sys

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/wire.md"
A, B, ALL = b"\0\1", b"\0\2", b"\xff\xff"
PRIME = 2**255 - 19
MAC = 32


def vectors():
    """The lines `name = value` of the document."""
    return dict(re.findall(r"^([a-z0-9.-]+) = (\S+)$", DOCUMENT.read_text(), re.MULTILINE))


def scalar(seed):
    """The X25519 secret that belongs to an Ed25519 seed (RFC 8032, section 5.1.5)."""
    return X25519PrivateKey.from_private_bytes(hashlib.sha512(seed).digest()[:32])


def raw(secret):
    """The bytes of the public key of a secret one."""
    return secret.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def ed25519(seed):
    return raw(Ed25519PrivateKey.from_private_bytes(seed))


def montgomery(point):
    """The same point for X25519 (RFC 7748, section 4.1)."""
    y = int.from_bytes(point, "little") & (2**255 - 1)
    return ((1 + y) * pow(1 - y, -1, PRIME) % PRIME).to_bytes(32, "little")


def agree(secret, public):
    return secret.exchange(X25519PublicKey.from_public_bytes(public))


class Responder:
    """Noise_IK_25519_ChaChaPoly_BLAKE2s as far as its first message (Noise, revision 34)."""

    def __init__(self, prologue, secret, public):
        name = b"Noise_IK_25519_ChaChaPoly_BLAKE2s"
        self.hash = self.chain = hashlib.blake2s(name).digest()
        self.secret = secret
        self.mix_hash(prologue)
        self.mix_hash(public)

    def mix_hash(self, data):
        self.hash = hashlib.blake2s(self.hash + data).digest()

    def mix_key(self, shared):
        def code(key, data):
            return hmac.new(key, data, hashlib.blake2s).digest()

        temporary = code(self.chain, shared)
        self.chain = code(temporary, b"\1")
        return code(temporary, self.chain + b"\2")

    def decrypt(self, key, sealed):
        plain = ChaCha20Poly1305(key).decrypt(bytes(12), sealed, self.hash)
        self.mix_hash(sealed)
        return plain

    def read(self, message):
        """The initiator's static key and the payload."""
        ephemeral, static, payload = message[:32], message[32:80], message[80:]
        self.mix_hash(ephemeral)
        static = self.decrypt(self.mix_key(agree(self.secret, ephemeral)), static)
        payload = self.decrypt(self.mix_key(agree(self.secret, static)), payload)
        return static, payload


def opened(frame, sender, receiver, key, cipher):
    """The body of a sealed or readable frame."""
    header, rest = frame[:8], frame[8:]
    nonce = bytes(4) + (b"\0\0" + header[2:8])
    bound = header + sender + receiver
    aead = AESGCM(key[:16]) if cipher == "aes128" else ChaCha20Poly1305(key)
    if header[0] & 0x0F < 12:
        return aead.decrypt(nonce, rest, bound)
    body, tag = rest[:-16], rest[-16:]
    aead.decrypt(nonce, tag, bound + body)
    return body


def handshake(line, seed_a, seed_b, check):
    """Authentication of both messages, and what the first one says."""
    key_b = montgomery(ed25519(seed_b))
    shared = agree(scalar(seed_a), key_b)
    check("ab.shared", shared == bytes.fromhex(line["ab.shared"]))
    expand = HKDF(hashes.SHA256(), 32, b"farhop 1", b"mac")
    pair = expand.derive(shared)
    init, response = (bytes.fromhex(line[name]) for name in ("init", "response"))

    def code(data):
        return hmac.new(pair, data, hashlib.sha256).digest()

    said = init[: -2 * MAC]
    check("init, first HMAC", init[-2 * MAC : -MAC] == code(A + B + said))
    check("init, second HMAC", init[-MAC:] == bytes(MAC))
    check("response, HMAC", response[-MAC:] == code(B + A + response[:-MAC]))
    check("init, header", init[:2] == b"\x10\7" and response[:2] == b"\x11\7")
    responder = Responder(b"farhop 1" + A + B, scalar(seed_b), key_b)
    static, payload = responder.read(said[2:])
    check("init, static key", static == bytes.fromhex(line["a.x25519"]))
    check("init, payload", payload == b"\0")


def frames(line, check):
    key, text = b"\5" * 32, b"a frame of the link"
    for name, header, to, body in [
        ("sealed.chacha20", "1407000000000001", B, text),
        ("sealed.aes128", "1407000000000001", B, text),
        ("readable.chacha20", "1c07000000000001", B, text),
        ("sealed.to-all", "16c8000000000000", ALL, text),
        ("sealed.counter", "1501010203040506", B, bytes.fromhex("45000014")),
    ]:
        frame = bytes.fromhex(line[name])
        cipher = "aes128" if name == "sealed.aes128" else "chacha20"
        check(name, frame.hex().startswith(header) and opened(frame, A, to, key, cipher) == body)
        forged = frame[:9] + bytes([frame[9] ^ 1]) + frame[10:]
        try:
            opened(forged, A, to, key, cipher)
        except InvalidTag:
            continue
        check(f"{name} with a bit changed", False)


def units(line, check):
    """A packet that is cut, the tags of its units, and what is said of them."""
    key, back = b"\5" * 32, b"\6" * 32
    body = bytes.fromhex("45000014")
    cut = bytes.fromhex(line["cut.chacha20"])
    check("cut.chacha20", cut[:8].hex() == "1907000000000002")
    check("cut.chacha20, body", opened(cut, A, B, key, "chacha20") == body)
    readable = bytes.fromhex(line["cut.readable"])
    check("cut.readable", readable[:12].hex() == "1a0700000000000245000014")
    tag = ChaCha20Poly1305(key).encrypt(bytes(11) + b"\2", b"", readable[:8] + A + B + body)
    check("cut.readable, tag", readable[12:] == tag)

    def tagged(name, secret, epoch, ends, frame):
        """Whether a frame is that of the document, with its tag."""
        derived = HKDF(hashes.SHA256(), 32, b"farhop 1", b"unit").derive(secret)
        whole = bytes([0x18, epoch]) + bytes.fromhex(frame)
        code = hmac.new(derived, ends + whole, hashlib.sha256).digest()
        check(name, bytes.fromhex(line[name]) == whole + code[:4])
        return derived

    header = "11" + "0102" + "00000009" + "00000008" + "0001" + "0102000004"
    derived = tagged("unit", key, 7, A + B, header + cut[14:].hex())
    check("unit.key", derived == bytes.fromhex(line["unit.key"]))
    tagged("unit.probe", key, 7, A + B, "1301020000000a0000000800000009")
    tagged("unit.feedback", back, 9, B + A, "14010200000009010100000001")


def topology(line, check):
    message = bytes.fromhex(line["topology"])
    said, signature = message[:-64], message[-64:]
    signed = b"farhop olsr tc 1" + said[:8] + b"\0\0" + said[10:]
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(line["a.ed25519"]))

    def is_valid(data):
        try:
            key.verify(signature, data)
        except InvalidSignature:
            return False
        return True

    neighbours = "0a420002ff8000000a420003ff800000"
    fields = "d4e700680a420001ff00000700050800" + neighbours + "0000000000000028"
    check("topology, fields", said.hex() == fields)
    check("topology, signature", is_valid(signed))
    check("topology with a bit changed", not is_valid(signed[:-1] + bytes([signed[-1] ^ 1])))


def main():
    line, wrong, count = vectors(), [], 0

    def check(name, is_so):
        nonlocal count
        count += 1
        if not is_so:
            wrong.append(name)

    seed_a, seed_b = bytes.fromhex(line["a.secret"]), b"\2" * 32
    point = ed25519(seed_a)
    check("a.ed25519", point == bytes.fromhex(line["a.ed25519"]))
    check("a.x25519", montgomery(point) == bytes.fromhex(line["a.x25519"]))
    check("a.x25519 from the secret", raw(scalar(seed_a)) == bytes.fromhex(line["a.x25519"]))
    digest = hashlib.sha256(point).digest()
    text = base64.urlsafe_b64encode(point + digest[:3]).rstrip(b"=").decode()
    check("a.line", line["a.line"] == "fh1-" + text)
    fingerprint = digest[:8].hex()
    groups = "-".join(fingerprint[at : at + 4] for at in range(0, 16, 4))
    check("a.fingerprint", line["a.fingerprint"] == groups)
    handshake(line, seed_a, seed_b, check)
    frames(line, check)
    units(line, check)
    topology(line, check)
    print(f"docs/wire.md: {count} checks, wrong: {', '.join(wrong) or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
