"""Signatures, whichever module of `cryptography` makes the keys."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hn_memory.protocol import signing

SEED = bytes(range(32))


@pytest.fixture(params=["inner", "public"])
def makers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    remembered = (signing._makers, signing._loaded, signing._private)
    for function in remembered:
        function.cache_clear()
    if request.param == "public":
        monkeypatch.setitem(sys.modules, "cryptography.hazmat.bindings._rust", None)
    yield request.param
    for function in remembered:
        function.cache_clear()


def test_signatures_are_those_of_the_public_module(makers: str) -> None:
    theirs = Ed25519PrivateKey.from_private_bytes(SEED)
    public = theirs.public_key().public_bytes_raw()
    assert signing.public_key_of(SEED) == public
    assert signing.sign(SEED, b"said") == theirs.sign(b"said")
    assert signing.verify(public, theirs.sign(b"said"), b"said")
    # Of the public module it is a class method, of the inner one a function.
    assert inspect.ismethod(signing._makers()[0]) == (makers == "public")


def test_what_does_not_verify_is_false(makers: str) -> None:
    public, signature = signing.public_key_of(SEED), signing.sign(SEED, b"said")
    for key, signed, payload in (
        (public, signature, b"other"),
        (public, signature[:-1] + b"\0", b"said"),
        (public, signature[:-1], b"said"),
        (public, b"", b"said"),
        (public[:-1], signature, b"said"),
        (b"\xff" * 32, signature, b"said"),
    ):
        assert signing.verify(key, signed, payload) is False
