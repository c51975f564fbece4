"""Signatures, whichever library makes them: OpenSSL's word counts, and libsodium never says yes without it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from hn_memory.protocol import signing, sodium

SEED = bytes(range(32))
ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19

# RFC 8032, section 7.1, tests 2 and 3: seed, public key, message, signature.
RFC_8032 = [
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]

# Every encoding of a point of small order: `y` is one of five, the sign bit is free, and `y` below 19 can be written
# with the prime added.
_EIGHTH = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL = [0, 1, PRIME - 1, _EIGHTH, PRIME - _EIGHTH, PRIME, PRIME + 1]
SMALL_ORDER = [(y | sign << 255).to_bytes(32, "little") for y in _SMALL for sign in (0, 1)]


@pytest.fixture(params=["sodium", "inner", "public"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    remembered = (signing._makers, signing._loaded, signing._private, sodium.load)
    for function in remembered:
        function.cache_clear()
    if request.param != "sodium":
        monkeypatch.setitem(sys.modules, "nacl._sodium", None)
    if request.param == "public":
        monkeypatch.setitem(sys.modules, "cryptography.hazmat.bindings._rust", None)
    yield request.param
    for function in remembered:
        function.cache_clear()


def openssl_says(key: bytes, signature: bytes, payload: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, payload)
    except (InvalidSignature, ValueError):
        return False
    return True


def test_signatures_are_those_of_the_public_module(library: str) -> None:
    theirs = Ed25519PrivateKey.from_private_bytes(SEED)
    public = theirs.public_key().public_bytes_raw()
    assert signing.public_key_of(SEED) == public
    assert signing.sign(SEED, b"said") == theirs.sign(b"said")
    assert signing.verify(public, theirs.sign(b"said"), b"said")
    assert (sodium.load() is not None) == (library == "sodium")
    # Of the public module it is a class method, of the inner one a function.
    assert inspect.ismethod(signing._makers()[0]) == (library == "public")


@pytest.mark.parametrize(("seed", "public", "message", "signature"), RFC_8032)
def test_the_vectors_of_the_standard(library: str, seed: str, public: str, message: str, signature: str) -> None:
    said = bytes.fromhex(message)
    assert signing.public_key_of(bytes.fromhex(seed)).hex() == public
    assert signing.sign(bytes.fromhex(seed), said).hex() == signature
    assert signing.verify(bytes.fromhex(public), bytes.fromhex(signature), said)


def test_what_does_not_verify_is_false(library: str) -> None:
    public, signature = signing.public_key_of(SEED), signing.sign(SEED, b"said")
    for key, signed, payload in (
        (public, signature, b"other"),
        (public, signature[:-1] + b"\0", b"said"),
        (public, signature[:-1], b"said"),
        (public, signature + b"s", b"aid"),
        (public, b"", b"said"),
        (public[:-1], signature, b"said"),
        (b"\xff" * 32, signature, b"said"),
    ):
        assert signing.verify(key, signed, payload) is False


def test_a_seed_has_its_length(library: str) -> None:
    for function in (lambda: signing.sign(SEED[:-1], b"said"), lambda: signing.public_key_of(SEED + b"\0")):
        with pytest.raises(ValueError, match="bytes"):
            function()


@given(
    seed=st.binary(min_size=32, max_size=32),
    payload=st.binary(max_size=200),
    flips=st.lists(st.integers(0, 64 * 8 + 32 * 8 - 1), max_size=2),
    more=st.sampled_from([0, ORDER, 2 * ORDER, 7 * ORDER]),
)
def test_altered_signatures_are_judged_as_openssl_judges(
    seed: bytes, payload: bytes, flips: list[int], more: int
) -> None:
    key, signature = signing.public_key_of(seed), signing.sign(seed, payload)
    s = int.from_bytes(signature[32:], "little") + more
    both = bytearray(signature[:32] + s.to_bytes(32, "little") + key)
    for flip in flips:
        both[flip // 8] ^= 1 << flip % 8
    altered, other = bytes(both[:64]), bytes(both[64:])
    assert signing.verify(other, altered, payload) == openssl_says(other, altered, payload)
    assert signing.verify(key, signature, payload)


@pytest.mark.parametrize("key", SMALL_ORDER, ids=bytes.hex)
def test_keys_of_small_order_are_judged_as_openssl_judges(key: bytes) -> None:
    """OpenSSL accepts some of these, libsodium none: they are settled by the one whose word counts."""
    accepted = 0
    for r in SMALL_ORDER:
        for said in (b"", b"a", b"b", b"c", b"d", b"e", b"f", b"g"):
            signature = r + bytes(32)
            answer = signing.verify(key, signature, said)
            assert answer == openssl_says(key, signature, said)
            accepted += answer
    canonical = int.from_bytes(key, "little") & (2**255 - 1) < PRIME
    assert accepted > 0 or not canonical


def test_signatures_that_libsodium_is_tried_with_are_refused_by_openssl() -> None:
    assert openssl_says(sodium._KEY, sodium._SIGNED, sodium._SAID)
    assert len(sodium._REFUSED) == 3
    for key, signature in sodium._REFUSED:
        # They are near misses: parts of them are in order.
        assert key == sodium._KEY or signature[32:] != sodium._SIGNED[32:]
        assert not openssl_says(key, signature, sodium._SAID)
        assert not signing.verify(key, signature, sodium._SAID)


@pytest.mark.parametrize("lenient", range(len(sodium._REFUSED)))
def test_a_build_that_accepts_too_much_is_left_alone(
    lenient: int, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that multiplies by the cofactor: two clones must not disagree about a stream."""
    if library == "sodium":
        from nacl._sodium import ffi, lib

        key, signature = sodium._REFUSED[lenient]

        def opened(*arguments: Any) -> int:
            return 0 if (arguments[2], arguments[4]) == (signature + sodium._SAID, key) else lib.crypto_sign_open(
                *arguments
            )  # fmt: skip

        names = ("sodium_init", "crypto_sign", "crypto_sign_seed_keypair")
        other = SimpleNamespace(crypto_sign_open=opened, **{name: getattr(lib, name) for name in names})
        monkeypatch.setitem(sys.modules, "nacl._sodium", SimpleNamespace(ffi=ffi, lib=other))
    assert sodium.load() is None
    assert signing.verify(sodium._KEY, sodium._SIGNED, sodium._SAID)
    assert not signing.verify(*sodium._REFUSED[lenient], sodium._SAID)
