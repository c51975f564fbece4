"""libsodium's Ed25519: the same curve in half of OpenSSL's time, and loaded in a quarter of it.

What counts as a valid signature is what OpenSSL (and the Go standard library) accept: the canonical `s`, and `R`
compared byte for byte, without a cofactor. libsodium accepts less: keys and `R` of small order it refuses, and keys
in a form that is not canonical. So its yes is a yes, and its no is a question to OpenSSL (`signing`). A build that
says yes where OpenSSL says no - an old one that takes any `s`, a coming one that multiplies by the cofactor - would
let two clones disagree about a stream: each process tries `_REFUSED` first and leaves libsodium alone if it accepts.
"""

from __future__ import annotations

from functools import cache, lru_cache

from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

KEY_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 64
_SECRET_BYTES: Final = 64
_ORDER: Final = 2**252 + 27742317777372353535851937790883648493

_SAID: Final = b"hn"
_KEY: Final = bytes.fromhex("d3525b2e1a7ad939783e0e99e4d4175f8a3c883b479ac3a7e77b9fc14a1c8409")
_SIGNED: Final = bytes.fromhex(
    "9d14f3c0035ebaed2c167059e4224e8cd6f37c922e5fd128ca89a388d9766ae7"
    "b3ac6c2e200a1df34845318aae719b8f94be35a8a83648ee2c69395ec6d9b80f"
)
_TORSION_KEY: Final = bytes.fromhex("48651cc1d9086a1f905821348076e4bfe8acebc357dd8369f579a3f8fabfe3b5")
_REFUSED: Final = (
    # `s` plus the order of the group: the same signature in other bytes.
    (_KEY, _SIGNED[:32] + (int.from_bytes(_SIGNED[32:], "little") + _ORDER).to_bytes(32, "little")),
    # `R` with a point of order eight added, `s` made for it: equal only up to the cofactor.
    (
        _KEY,
        bytes.fromhex(
            "e051b464e5a91e0d7cd53907701704fb13b9c05e8a1b4697f9b4f9887ef91e42"
            "468cc75d80f0abc28b12b69ba496699b1c18c9887f3808c943cfb4caa1f3c300"
        ),
    ),
    # The same with the point added to the key.
    (
        _TORSION_KEY,
        bytes.fromhex(
            "d49208ac6ef9d61a9a0b6876cd77f7b17f13c28061eb7ca27e6ac2281edc7f1b"
            "bf1d8bb2a34534c20dfe24327ddee0f251cad49a2d1ab8a0a305d6da6cbb9705"
        ),
    ),
)  # fmt: skip


class Sodium(NamedTuple):
    """What this project asks of the library. Keys and seeds have 32 bytes, signatures 64."""

    verify: Callable[[bytes, bytes, bytes], bool]
    """Public key, signature, payload. False says no more than that somebody else must be asked."""

    sign: Callable[[bytes, bytes], bytes]
    """Seed, payload: the signature, which RFC 8032 leaves no choice in."""

    public_key_of: Callable[[bytes], bytes]
    """Seed: the public key that belongs to it."""


@cache
def load() -> Sodium | None:
    """The library, where it is here and to be relied on, else None.

    The public modules of PyNaCl hand everything on to an inner one and take ten times as long to load. Where the
    inner one is not as it was, the caller does without.
    """
    try:
        from nacl._sodium import ffi, lib  # type: ignore[import-not-found, import-untyped, unused-ignore]

        sodium = _bound(ffi, lib)
        for key, signature in _REFUSED:
            if sodium.verify(key, signature, _SAID):
                return None
        return sodium if sodium.verify(_KEY, _SIGNED, _SAID) else None
    except (ImportError, AttributeError, TypeError, OSError):
        return None


def _bound(ffi: Any, lib: Any) -> Sodium:
    if lib.sodium_init() < 0:
        raise OSError("libsodium finds no source of randomness")
    nothing = ffi.NULL
    opened, signed = lib.crypto_sign_open, lib.crypto_sign

    def verify(public_key: bytes, signature: bytes, payload: bytes) -> bool:
        if len(public_key) != KEY_BYTES or len(signature) != _SIGNATURE_BYTES:
            return False
        whole = signature + payload
        # The message is not wanted a second time: nowhere to copy it to.
        return bool(opened(nothing, nothing, whole, len(whole), public_key) == 0)

    @lru_cache(maxsize=8)
    def pair(seed: bytes) -> tuple[Any, Any]:
        if len(seed) != KEY_BYTES:
            raise ValueError(f"an Ed25519 seed has {KEY_BYTES} bytes")
        public, secret = ffi.new("unsigned char[]", KEY_BYTES), ffi.new("unsigned char[]", _SECRET_BYTES)
        lib.crypto_sign_seed_keypair(public, secret, seed)
        return public, secret

    def sign(seed: bytes, payload: bytes) -> bytes:
        whole = ffi.new("unsigned char[]", _SIGNATURE_BYTES + len(payload))
        signed(whole, nothing, payload, len(payload), pair(seed)[1])
        return bytes(ffi.buffer(whole, _SIGNATURE_BYTES))

    def public_key_of(seed: bytes) -> bytes:
        return bytes(ffi.buffer(pair(seed)[0], KEY_BYTES))

    return Sodium(verify, sign, public_key_of)
