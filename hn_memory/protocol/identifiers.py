"""The forms of identifiers (section 1): what counts as a memory, stream, actor, object, evidence or subject.

Predicates answer whether a text has a form; `require_*` return the text or raise `HnError` with the field.
Full IDs are demanded wherever an ID carries trust; only `memory_prefix` accepts less.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, NamedTuple

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol import limits

EVIDENCE_TYPES: Final = ("git", "event", "memory")
SUBJECT_TYPES: Final = ("issue", "proposal", "event", "policy", "pipeline", "run")
KINDS: Final = ("assumption", "attempt", "decision", "handoff", "observation", "verification")
OPERATIONS: Final = ("record", "supersede", "retract", "challenge")

LOCAL_PREFIX: Final = "refs/hn/memory/"
REMOTES_PREFIX: Final = "refs/hn/remotes/"

_HEX = "[0-9a-f]"
_DIGEST = re.compile(f"sha256:{_HEX}{{64}}")
_ACTOR = re.compile(f"{_HEX}{{64}}")
_OID = re.compile(f"(?:{_HEX}{{40}}|{_HEX}{{64}})")
_EVIDENCE = re.compile(f"(?:git:(?:{_HEX}{{40}}|{_HEX}{{64}})|(?:event|memory):sha256:{_HEX}{{64}})")
_SUBJECT = re.compile(f"(?:{'|'.join(SUBJECT_TYPES)}):sha256:{_HEX}{{64}}")
_TOKEN = re.compile("[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_PREFIX = re.compile(f"(?:sha256:)?({_HEX}{{{limits.ID_PREFIX_DIGITS},64}})")
_LOCAL_REF = re.compile(f"refs/hn/memory/({_HEX}{{64}})/({_HEX}{{64}})")
_ACCEPTED_REF = re.compile(f"refs/hn/remotes/([^/]+)/memory/({_HEX}{{64}})/({_HEX}{{64}})")
_REMOTE = re.compile("[A-Za-z0-9_][A-Za-z0-9._-]*")


def is_digest(text: str) -> bool:
    """`sha256:` and 64 hexadecimal digits: the form of memory and stream IDs."""
    return _DIGEST.fullmatch(text) is not None


def is_actor_id(text: str) -> bool:
    """64 lower-case hexadecimal digits, no prefix."""
    return _ACTOR.fullmatch(text) is not None


def is_object_id(text: str) -> bool:
    """A full Git object ID of either object format."""
    return _OID.fullmatch(text) is not None


def is_evidence(text: str) -> bool:
    """Typed evidence: `git:`, `event:sha256:` or `memory:sha256:`."""
    return _EVIDENCE.fullmatch(text) is not None


def is_subject(text: str) -> bool:
    """A typed subject, one of the six types."""
    return _SUBJECT.fullmatch(text) is not None


def is_token(text: str, max_bytes: int) -> bool:
    """A reason or outcome token within its size."""
    return len(text) <= max_bytes and _TOKEN.fullmatch(text) is not None


def is_remote_name(text: str) -> bool:
    """A remote name as section 1 allows it; it becomes a ref component."""
    return (
        len(text) <= limits.REMOTE_NAME_CHARACTERS
        and _REMOTE.fullmatch(text) is not None
        and ".." not in text
        and not text.endswith((".", ".lock"))
    )


def require_digest(text: str, what: str, field: str) -> str:
    """A full `sha256:` ID or `UsageError id-invalid`."""
    if is_digest(text):
        return text
    raise UsageError(
        "id-invalid",
        f"{what} must be sha256: and 64 lower-case hex digits",
        hint="Use the full ID; `hn memory show` accepts a prefix and prints the full one.",
        field=field,
    )


def require_actor(text: str, field: str) -> str:
    """A full actor ID or `UsageError actor-invalid`."""
    if is_actor_id(text):
        return text
    raise UsageError(
        "actor-invalid",
        "an actor ID must be 64 lower-case hex digits without a prefix",
        hint="Use the full ID as `hn identity list` or a recalled row prints it.",
        field=field,
    )


def require_subject(text: str, field: str) -> str:
    """A typed subject or `UsageError subject-invalid`."""
    if is_subject(text):
        return text
    raise UsageError(
        "subject-invalid",
        "a subject must be a type, `:sha256:` and 64 lower-case hex digits",
        hint=f"Types: {', '.join(SUBJECT_TYPES)}.",
        field=field,
    )


def memory_prefix(text: str) -> str:
    """The hexadecimal digits of a full or abbreviated memory ID (`show` only).

    Raises:
        UsageError `id-invalid`: fewer than 8 digits, or something else altogether.
    """
    found = _PREFIX.fullmatch(text)
    if found is None:
        raise UsageError(
            "id-invalid",
            f"a memory ID is at least {limits.ID_PREFIX_DIGITS} lower-case hex digits, with or without sha256:",
            field="id",
        )
    return found[1]


def fingerprint(public_key: bytes) -> str:
    """The actor ID of a raw 32-byte Ed25519 public key."""
    return hashlib.sha256(public_key).hexdigest()


def memory_id(payload: bytes) -> str:
    """The memory ID of the exact bytes of a `memory.json`."""
    return "sha256:" + hashlib.sha256(payload).hexdigest()


def derived_stream(actor: str, label: str) -> str:
    """A stream ID derived from its owner and a label; `default` gives the actor's default stream."""
    text = f"hn-memory-stream-v0\0{actor}\0{label}".encode()
    return "sha256:" + hashlib.sha256(text).hexdigest()


class SourceName(NamedTuple):
    """A memory ref's name taken apart. `remote` is None for a local stream."""

    ref: str
    remote: str | None
    actor: str
    stream: str


def local_ref(actor: str, stream: str) -> str:
    """The ref of a local stream."""
    return f"{LOCAL_PREFIX}{actor}/{stream.removeprefix('sha256:')}"


def accepted_ref(remote: str, actor: str, stream: str) -> str:
    """The ref of a stream accepted from a remote."""
    return f"{REMOTES_PREFIX}{remote}/memory/{actor}/{stream.removeprefix('sha256:')}"


def parse_source_ref(ref: str) -> SourceName | None:
    """Take a memory ref apart (section 2).

    Returns:
        None for a ref that belongs to somebody else (below `refs/hn/remotes/` but no `memory/` namespace).

    Raises:
        HnError `source-malformed`: a ref in our namespace of any other shape.
    """
    found = _LOCAL_REF.fullmatch(ref)
    if found is not None:
        return SourceName(ref, None, found[1], "sha256:" + found[2])
    if ref.startswith(LOCAL_PREFIX):
        raise HnError("source-malformed", "ref name is not refs/hn/memory/<actor>/<stream>")
    found = _ACCEPTED_REF.fullmatch(ref)
    if found is not None:
        if not is_remote_name(found[1]):
            raise HnError("source-malformed", "ref name holds a malformed remote name")
        return SourceName(ref, found[1], found[2], "sha256:" + found[3])
    parts = ref.split("/")
    if len(parts) > 5 and parts[4] == "memory" and ref.startswith(REMOTES_PREFIX):
        raise HnError("source-malformed", "ref name is not refs/hn/remotes/<remote>/memory/<actor>/<stream>")
    return None
