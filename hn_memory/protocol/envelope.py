"""The signed envelope: `memory.json` (sections 3 and 4).

The rules, in the order they are applied on reading:

1. at most 524,288 bytes, valid UTF-8, one JSON value of the known shape, no unknown or repeated field;
2. encoding what was read gives the very same bytes;
3. every rule of section 4 for the envelope, then for its record.

Writing applies 3 before it encodes, so no accepted byte differs between the two directions.
"""

from __future__ import annotations

from functools import lru_cache

from hn_memory.errors import HnError
from hn_memory.protocol import jsonbytes, limits
from hn_memory.protocol.canonical import encode
from hn_memory.protocol.identifiers import fingerprint, is_actor_id, is_digest, is_evidence, is_token
from hn_memory.protocol.record import Record, check_record, follows, read_record, record_document, record_in_order
from hn_memory.protocol.signing import KEY_BYTES, decode_base64
from hn_memory.protocol.strictjson import Reader, loads
from hn_memory.protocol.unicode import find_control, is_blank
from hn_memory.values import NamedTuple, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn


PROTOCOL: Final = "hn-memory/0"

_MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_REQUIRED: Final = (
    "protocol", "operation", "actor", "actorName", "publicKey", "stream", "sequence", "timestamp",
)  # fmt: skip
_OPTIONAL: Final = ("previous", "record", "target", "reason", "evidence")
_TEXTS: Final = ("protocol", "operation", "actor", "actorName", "publicKey", "stream", "timestamp")
_FIELDS: Final = _REQUIRED + _OPTIONAL

_PARTS: Final = {
    "record": ("record",),
    "supersede": ("record", "target"),
    "retract": ("target", "reason"),
    "challenge": ("target", "reason", "evidence"),
}
"""What each operation carries, of the fields that not all of them have."""


class Envelope(NamedTuple):
    """What one commit of a stream says, and who says it. `public_key` is the base64 text of the format."""

    operation: str
    actor: str
    actor_name: str
    public_key: str
    stream: str
    sequence: int
    timestamp: str
    previous: str | None = None
    record: Record | None = None
    target: str | None = None
    reason: str | None = None
    evidence: tuple[str, ...] = ()
    protocol: str = PROTOCOL

    def document(self, *, with_record: bool = True) -> dict[str, Any]:
        """The JSON value in canonical field order; `show` leaves the record out."""
        return envelope_document(self, with_record=with_record)


def envelope_document(envelope: Envelope, *, with_record: bool = True) -> dict[str, Any]:
    """The JSON value in canonical field order; `show` leaves the record out."""
    document: dict[str, Any] = {
        "protocol": envelope.protocol,
        "operation": envelope.operation,
        "actor": envelope.actor,
        "actorName": envelope.actor_name,
        "publicKey": envelope.public_key,
        "stream": envelope.stream,
        "sequence": envelope.sequence,
        "timestamp": envelope.timestamp,
    }
    if envelope.previous is not None:
        document["previous"] = envelope.previous
    if with_record and envelope.record is not None:
        document["record"] = record_document(envelope.record)
    if envelope.target is not None:
        document["target"] = envelope.target
    if envelope.reason is not None:
        document["reason"] = envelope.reason
    if envelope.evidence:
        document["evidence"] = list(envelope.evidence)
    return document


def encode_envelope(envelope: Envelope, *, record_checked: bool = False) -> bytes:
    """The canonical bytes that are signed and stored.

    Args:
        record_checked: `check_record` has let this record pass, and a record does not change.

    Raises:
        HnError `memory-invalid` or `text-invalid`: a rule of section 4 does not hold.
    """
    check_envelope(envelope, record_checked=record_checked)
    payload = encode(envelope_document(envelope))
    if len(payload) > limits.MEMORY_JSON_BYTES:
        _refuse(
            f"the memory has {len(payload)} bytes of JSON, at most {limits.MEMORY_JSON_BYTES} are allowed",
            "record.content",
        )
    return payload


def decode_envelope(payload: bytes) -> Envelope:
    """The envelope in the exact bytes of a `memory.json`.

    Raises:
        HnError `memory-invalid`: malformed, not canonical, or against a rule; the field is named.
    """
    if len(payload) > limits.MEMORY_JSON_BYTES:
        _refuse(f"memory.json has {len(payload)} bytes, at most {limits.MEMORY_JSON_BYTES} are allowed", None)
    if jsonbytes.are_many():
        from hn_memory.protocol.plainform import recognise

        fields = recognise(payload)
        if fields is not None:
            envelope = make(Envelope, fields)
            check_envelope(envelope)
            return envelope
    try:
        value = jsonbytes.loads(payload)
    except ValueError:
        loads(payload, "memory-invalid", "memory.json", usage=False)
        _refuse("memory.json is not one JSON value", None)
    envelope = _read(value)
    # Writing the value back shows white space, escapes and repeated fields (the parser keeps one of them);
    # with the order of its fields that is the same as encoding the envelope anew, at half the price.
    if encode(value) != payload or not _in_order(value):
        loads(payload, "memory-invalid", "memory.json", usage=False)
        _refuse("memory JSON is not canonical", None)
    check_envelope(envelope)
    return envelope


def _in_order(value: dict[str, Any]) -> bool:
    """Do the fields of a value that `_read` accepted stand in canonical order, and is none there for nothing?"""
    record = value.get("record")
    if value.get("evidence") == [] or not follows(tuple(value), _FIELDS):
        return False
    return record is None or record_in_order(record)


def _read(value: Any) -> Envelope:
    reader = Reader("memory-invalid", usage=False)
    fields = reader.object(value, "", _REQUIRED, _OPTIONAL)

    def text(name: str) -> str | None:
        return reader.text(fields[name], name) if name in fields else None

    protocol, operation, actor, actor_name, public_key, stream, timestamp = reader.fields(fields, "", _TEXTS)
    return Envelope(
        protocol=protocol,
        operation=operation,
        actor=actor,
        actor_name=actor_name,
        public_key=public_key,
        stream=stream,
        sequence=reader.integer(fields["sequence"], "sequence"),
        timestamp=timestamp,
        previous=text("previous"),
        record=read_record(reader, fields["record"], "record") if "record" in fields else None,
        target=text("target"),
        reason=text("reason"),
        evidence=tuple(reader.texts(fields["evidence"], "evidence")) if "evidence" in fields else (),
    )


# -- rules ------------------------------------------------------------------------------------------------


def _refuse(message: str, field: str | None) -> NoReturn:
    raise HnError("memory-invalid", message, field=field)


@lru_cache(maxsize=1024)
def key_bytes(public_key: str) -> bytes | None:
    """The raw key in the text of the format; None where it is no key's."""
    return decode_base64(public_key, KEY_BYTES)


@lru_cache(maxsize=1024)
def _key_fingerprint(public_key: str) -> str | None:
    raw = key_bytes(public_key)
    return None if raw is None else fingerprint(raw)


def check_actor_name(name: str, field: str) -> None:
    """The rules of `actorName`; identities hold to them as well.

    Raises:
        HnError `memory-invalid`.
    """
    if is_blank(name):
        _refuse("a name must not be blank", field)
    if len(name.encode(errors="surrogatepass")) > limits.ACTOR_NAME_BYTES:
        _refuse(f"a name has at most {limits.ACTOR_NAME_BYTES} bytes", field)
    if find_control(name) is not None:
        _refuse("a name must not hold control characters", field)


@lru_cache(maxsize=1024)
def _check_speaker(actor: str, name: str, public_key: str) -> None:
    """The rules for who speaks. Many memories share few speakers, and those that passed are remembered."""
    if not is_actor_id(actor):
        _refuse("actor is not 64 lower-case hex digits", "actor")
    check_actor_name(name, "actorName")
    owner = _key_fingerprint(public_key)
    if owner is None:
        _refuse("publicKey is not canonical unpadded base64 of 32 bytes", "publicKey")
    if owner != actor:
        _refuse("actor is not the fingerprint of publicKey", "actor")


_is_stream = lru_cache(maxsize=1024)(is_digest)


def is_timestamp(text: str) -> bool:
    """The timestamp rule of section 4."""
    # By hand: an expression for it would bring in `re`, which takes longer to load than one memory to verify.
    time, rest = text[10:19], text[19:]
    hour, minute, second = time[1:3], time[4:6], time[7:]
    if not text.isascii() or len(time) != 9 or not (hour + minute + second).isdigit():
        return False
    if time[0] != "T" or time[3] != ":" or time[6] != ":" or hour > "23" or minute > "59" or second > "59":
        return False
    return _is_date(text[:10]) and (rest == "Z" or _is_fraction_and_zone(rest))


@lru_cache(maxsize=1024)
def _is_date(text: str) -> bool:
    """A day of the calendar in ASCII. Many memories share few of them."""
    numbers = (text[:4], text[5:7], text[8:])
    if len(text) != 10 or text[4] != "-" or text[7] != "-" or not "".join(numbers).isdigit():
        return False
    year, month, day = map(int, numbers)
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= month <= 12 and 1 <= day <= _MONTH_DAYS[month - 1] + leap


def _is_fraction_and_zone(text: str) -> bool:
    zone = text
    if text.startswith("."):
        zone = text[1:].lstrip("0123456789")
        fraction = text[1 : len(text) - len(zone)]
        if not 1 <= len(fraction) <= 9 or fraction.endswith("0"):
            return False
    if zone == "Z":
        return True
    offset = (zone[1:3], zone[4:])
    if len(zone) != 6 or zone[0] not in "+-" or zone[3] != ":" or not "".join(offset).isdigit():
        return False
    hours, minutes = map(int, offset)
    return hours <= 24 and minutes <= 59 and (hours, minutes) != (0, 0)


def check_envelope(envelope: Envelope, *, record_checked: bool = False) -> None:
    """Every rule of section 4; those for the record alone not once more if they were `record_checked`.

    Raises:
        HnError `memory-invalid`, with the field.
    """
    if envelope.protocol != PROTOCOL:
        _refuse(f"protocol is not {PROTOCOL}", "protocol")
    _check_speaker(envelope.actor, envelope.actor_name, envelope.public_key)
    if not _is_stream(envelope.stream):
        _refuse("stream is not sha256: and 64 lower-case hex digits", "stream")
    if not 1 <= envelope.sequence <= limits.SEQUENCE_MAX:
        _refuse("sequence is out of range", "sequence")
    if envelope.sequence == 1:
        if envelope.previous is not None:
            _refuse("the first memory of a stream has no previous", "previous")
    elif envelope.previous is None or not is_digest(envelope.previous):
        _refuse("previous must be a memory ID after the first", "previous")
    if not is_timestamp(envelope.timestamp):
        _refuse("timestamp is not the RFC 3339 form of the format", "timestamp")
    _check_operation(envelope)
    if envelope.record is not None and not record_checked:
        check_record(envelope.record)


def _check_operation(envelope: Envelope) -> None:
    operation = envelope.operation
    allowed = _PARTS.get(operation)
    if allowed is None:
        _refuse("unknown operation", "operation")
    for name, value in (("record", envelope.record), ("target", envelope.target), ("reason", envelope.reason)):
        if (value is not None) != (name in allowed):
            _refuse(f"a {operation} {'needs' if value is None else 'has no'} {name}", name)
    if envelope.evidence and "evidence" not in allowed:
        _refuse(f"a {operation} has no evidence", "evidence")
    if envelope.target is not None and not is_digest(envelope.target):
        _refuse("target is not sha256: and 64 lower-case hex digits", "target")
    if envelope.reason is not None and not is_token(envelope.reason, limits.REASON_BYTES):
        _refuse(
            f"a reason is lower-case letters, digits and inner hyphens, at most {limits.REASON_BYTES}",
            "reason",
        )
    if len(envelope.evidence) > limits.EVIDENCE:
        _refuse(f"{len(envelope.evidence)} evidence IDs, at most {limits.EVIDENCE} are allowed", "evidence")
    for at, item in enumerate(envelope.evidence):
        if not is_evidence(item):
            _refuse(
                "evidence must be git:<full object ID>, event:sha256:<hex> or memory:sha256:<hex>",
                f"evidence[{at}]",
            )
    if len(set(envelope.evidence)) != len(envelope.evidence):
        _refuse("evidence IDs must be unique", "evidence")
