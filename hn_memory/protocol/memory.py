"""One verified memory: exact bytes whose signature holds."""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol.envelope import Envelope, decode_envelope, key_bytes
from hn_memory.protocol.identifiers import memory_id
from hn_memory.protocol.signing import RAW_SIGNATURE_BYTES, verify
from hn_memory.values import NamedTuple, make


class VerifiedMemory(NamedTuple):
    """A memory whose bytes are canonical, whose rules hold and whose signature was made by its actor's key."""

    id: str
    envelope: Envelope


def verify_memory(payload: bytes, signature: bytes) -> VerifiedMemory:
    """Verify the exact bytes of a `memory.json` against 64 raw signature bytes.

    Raises:
        HnError `memory-invalid`: the bytes break a rule of the format.
        HnError `signature-malformed`: the signature is not 64 bytes.
        HnError `signature-invalid`: the signature does not hold.
    """
    if len(signature) != RAW_SIGNATURE_BYTES:
        raise HnError("signature-malformed", f"a signature has {RAW_SIGNATURE_BYTES} bytes, not {len(signature)}")
    envelope = decode_envelope(payload)
    key = key_bytes(envelope.public_key)
    if key is None or not verify(key, signature, payload):
        raise HnError("signature-invalid", "the signature does not hold for these bytes and this key")
    return make(VerifiedMemory, (memory_id(payload), envelope))
