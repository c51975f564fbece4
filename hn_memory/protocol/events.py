"""Collaboration events (`hn/0`) as far as memory needs them: which event IDs count as evidence (section 5)."""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol.identifiers import fingerprint, is_actor_id, memory_id
from hn_memory.protocol.signing import KEY_BYTES, decode_base64, decode_signature, verify
from hn_memory.protocol.strictjson import loads

EVENT_PROTOCOL = "hn/0"
EVENT_FILE = "event.json"


def verify_event(payload: bytes, signature_file: bytes, actor: str) -> str | None:
    """The event ID when the event was signed by the actor that its ref names, else None.

    Only `protocol`, `actor` and `publicKey` are looked at; the rest of an event is not our business.
    """
    try:
        event = loads(payload, "event-invalid", EVENT_FILE, usage=False, everywhere=False)
        signature = decode_signature(signature_file)
    except HnError:
        return None
    if not isinstance(event, dict) or event.get("protocol") != EVENT_PROTOCOL:
        return None
    stated, public_key = event.get("actor"), event.get("publicKey")
    if not isinstance(stated, str) or not isinstance(public_key, str) or not is_actor_id(stated):
        return None
    key = decode_base64(public_key, KEY_BYTES)
    if key is None or stated != actor or fingerprint(key) != actor or not verify(key, signature, payload):
        return None
    return memory_id(payload)
