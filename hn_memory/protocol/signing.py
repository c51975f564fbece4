"""Ed25519 over exact bytes, and the two base64 forms the format uses (sections 1, 2 and 4).

OpenSSL decides. Where libsodium is installed it is asked first, being twice as fast (`sodium` says why its yes is
OpenSSL's yes); what it does not accept goes to OpenSSL.
"""

from __future__ import annotations

import binascii
from functools import cache, lru_cache

from hn_memory.errors import HnError
from hn_memory.protocol import sodium

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_BYTES: Final = 32
RAW_SIGNATURE_BYTES: Final = 64


def encode_base64(data: bytes) -> str:
    """Standard base64 without padding."""
    return binascii.b2a_base64(data, newline=False).rstrip(b"=").decode("ascii")


def decode_base64(text: str, size: int) -> bytes | None:
    """The bytes of canonical unpadded base64 of exactly `size` bytes, else None.

    Canonical: unused bits are zero, no white space, no padding. Checked by encoding again.
    """
    try:
        # What this passes over (characters of no alphabet, surplus bits) does not come out of encoding again.
        data = binascii.a2b_base64(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError):
        return None
    return data if len(data) == size and encode_base64(data) == text else None


def encode_signature(signature: bytes) -> bytes:
    """The content of the `signature` file: unpadded base64, no newline."""
    return encode_base64(signature).encode("ascii")


def decode_signature(data: bytes) -> bytes:
    """The 64 raw bytes out of a `signature` file.

    Raises:
        HnError `signature-malformed`.
    """
    try:
        raw = decode_base64(data.decode("ascii"), RAW_SIGNATURE_BYTES)
    except UnicodeDecodeError:
        raw = None
    if raw is None:
        raise HnError("signature-malformed", "signature is not unpadded base64 of 64 bytes")
    return raw


@cache
def _makers() -> tuple[Callable[[bytes], Ed25519PublicKey], Callable[[bytes], Ed25519PrivateKey]]:
    """What makes public and private keys of raw bytes.

    The public module of these two hands the bytes on to an inner one and takes four times as long to load, for what
    else it brings along; a command that verifies one signature feels it. Where the inner one is not as it was, the
    public one serves.
    """
    try:
        from cryptography.hazmat.bindings._rust import openssl

        return openssl.ed25519.from_public_bytes, openssl.ed25519.from_private_bytes
    except (ImportError, AttributeError):
        from cryptography.hazmat.primitives.asymmetric import ed25519

        return ed25519.Ed25519PublicKey.from_public_bytes, ed25519.Ed25519PrivateKey.from_private_bytes


def expect_many() -> None:
    """Load now what verifies; processes forked off later share it."""
    if sodium.load() is None:
        _makers()


@lru_cache(maxsize=256)
def _loaded(public_key: bytes) -> Ed25519PublicKey:
    return _makers()[0](public_key)


def verify(public_key: bytes, signature: bytes, payload: bytes) -> bool:
    """True when `signature` (64 raw bytes) over `payload` was made by the key."""
    quick = sodium.load()
    if quick is not None and quick.verify(public_key, signature, payload):
        return True
    try:
        _loaded(public_key).verify(signature, payload)
    except ValueError:
        return False
    except Exception as error:
        from cryptography.exceptions import InvalidSignature

        if isinstance(error, InvalidSignature):
            return False
        raise
    return True


def sign(seed: bytes, payload: bytes) -> bytes:
    """The 64 raw signature bytes over `payload`."""
    quick = sodium.load()
    return quick.sign(seed, payload) if quick is not None else _private(seed).sign(payload)


def public_key_of(seed: bytes) -> bytes:
    """The raw public key that belongs to a 32-byte seed."""
    quick = sodium.load()
    return quick.public_key_of(seed) if quick is not None else _private(seed).public_key().public_bytes_raw()


@lru_cache(maxsize=8)
def _private(seed: bytes) -> Ed25519PrivateKey:
    return _makers()[1](seed)
