"""The identity file (section 10): who an actor is, and the seed with which it signs.

A reader accepts a file only when all of this holds:

1. at most `IDENTITY_BYTES` of UTF-8, one JSON object, exactly the six fields, none twice;
2. `version` is 1 and `lifecycle` is `available`;
3. `name` obeys the rules of an envelope's `actorName` (section 4);
4. `publicKey` and `privateKey` are canonical unpadded base64 of 32 and 64 bytes;
5. `privateKey` is the seed followed by `publicKey`, and that public key is the one the seed makes;
6. `actor` is the fingerprint of `publicKey`.

White space and the order of fields are free on reading; writing gives one form only. No message, hint or
`repr` of this module holds key material.
"""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol.canonical import encode_indented
from hn_memory.protocol.envelope import check_actor_name
from hn_memory.protocol.identifiers import fingerprint, is_actor_id
from hn_memory.protocol.signing import KEY_BYTES, decode_base64, encode_base64, public_key_of
from hn_memory.protocol.strictjson import Reader, loads
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn


IDENTITY_VERSION: Final = 1
LIFECYCLE: Final = "available"
# The longest legal name written wholly in \uXXXX escapes is 1,536 bytes; the rest is generous white space.
IDENTITY_BYTES: Final = 16_384

_CODE: Final = "identity-invalid"
_FIELDS: Final = ("version", "actor", "name", "publicKey", "privateKey", "lifecycle")


class Identity(NamedTuple):
    """One actor of this repository: its ID, its name and its Ed25519 key as raw bytes.

    `seed` is the secret half (32 bytes); it is left out of `repr`.
    """

    actor: str
    name: str
    public_key: bytes
    seed: bytes

    def __repr__(self) -> str:
        return f"Identity(actor={self.actor!r}, name={self.name!r}, public_key={self.public_key!r})"


def new_identity(name: str, seed: bytes) -> Identity:
    """The identity that a 32-byte random seed makes.

    Raises:
        HnError `identity-invalid`: the name breaks the rules of `actorName`, or the seed has another length.
    """
    _check_name(name)
    if len(seed) != KEY_BYTES:
        _refuse(f"a seed has {KEY_BYTES} bytes", "seed")
    public_key = public_key_of(seed)
    return Identity(fingerprint(public_key), name, public_key, seed)


def decode_identity(data: bytes) -> Identity:
    """Read an identity file.

    Raises:
        HnError `identity-invalid`: `field` and the message name the field at fault.
    """
    if len(data) > IDENTITY_BYTES:
        _refuse(f"an identity file has at most {IDENTITY_BYTES} bytes", None)
    fields = _fields(data)
    reader = Reader(_CODE, usage=False)
    if reader.integer(fields["version"], "version") != IDENTITY_VERSION:
        _refuse(f"version is not {IDENTITY_VERSION}", "version")
    if reader.text(fields["lifecycle"], "lifecycle") != LIFECYCLE:
        _refuse(f"lifecycle is not {LIFECYCLE}", "lifecycle")
    public_key = decode_base64(reader.text(fields["publicKey"], "publicKey"), KEY_BYTES)
    if public_key is None:
        _refuse("publicKey is not canonical unpadded base64 of 32 bytes", "publicKey")
    private_key = decode_base64(reader.text(fields["privateKey"], "privateKey"), 2 * KEY_BYTES)
    if private_key is None:
        _refuse("privateKey is not canonical unpadded base64 of 64 bytes", "privateKey")
    if private_key[KEY_BYTES:] != public_key:
        _refuse("privateKey does not end with publicKey", "privateKey")
    identity = Identity(
        actor=reader.text(fields["actor"], "actor"),
        name=reader.text(fields["name"], "name"),
        public_key=public_key,
        seed=private_key[:KEY_BYTES],
    )
    check_identity(identity)
    return identity


def encode_identity(identity: Identity) -> bytes:
    """The exact bytes of an identity file: two-space indent, fields in the order of the format, a newline.

    Raises:
        HnError `identity-invalid`: the parts do not belong together (rules 3, 5 and 6).
    """
    check_identity(identity)
    document = {
        "version": IDENTITY_VERSION,
        "actor": identity.actor,
        "name": identity.name,
        "publicKey": encode_base64(identity.public_key),
        "privateKey": encode_base64(identity.seed + identity.public_key),
        "lifecycle": LIFECYCLE,
    }
    return encode_indented(document)


def public_document(identity: Identity) -> dict[str, Any]:
    """What may be shown of an identity: every field of the file but `privateKey`."""
    return {
        "version": IDENTITY_VERSION,
        "actor": identity.actor,
        "name": identity.name,
        "publicKey": encode_base64(identity.public_key),
        "lifecycle": LIFECYCLE,
    }


def check_identity(identity: Identity) -> None:
    """Name, key pair and fingerprint (rules 3, 5 and 6).

    Raises:
        HnError `identity-invalid`.
    """
    _check_name(identity.name)
    if len(identity.seed) != KEY_BYTES or public_key_of(identity.seed) != identity.public_key:
        _refuse("privateKey does not belong to publicKey", "privateKey")
    if not is_actor_id(identity.actor):
        _refuse("actor is not 64 lower-case hex digits", "actor")
    if fingerprint(identity.public_key) != identity.actor:
        _refuse("actor is not the fingerprint of publicKey", "actor")


def _fields(data: bytes) -> dict[str, Any]:
    try:
        value = loads(data, _CODE, "identity file", usage=False)
    except HnError as error:
        if error.field is None or error.field in _FIELDS:
            raise
        _refuse("identity file has an unknown field twice", None)
    if not isinstance(value, dict):
        _refuse("identity file is not a JSON object", None)
    for name in value:
        if name not in _FIELDS:
            _refuse_unknown(name)
    for name in _FIELDS:
        if name not in value:
            _refuse(f"missing field {name}", name)
    return value


def _refuse_unknown(name: str) -> NoReturn:
    # A short word is safe to repeat; a seed has 43 characters and must not reach a message even as a name.
    if len(name) <= 32 and name.isascii() and name.isidentifier():
        _refuse(f"unknown field {name}", name)
    _refuse("identity file has an unknown field", None)


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as error:
        _refuse(f"name holds a lone surrogate at character {error.start}", "name")
    try:
        check_actor_name(name, "name")
    except HnError as error:
        _refuse(f"name: {error.message}", "name")


def _refuse(message: str, where: str | None) -> NoReturn:
    raise HnError(_CODE, message, field=where) from None
