"""The forms of identifiers (section 1): what counts as a memory, stream, actor, object, evidence or subject.

Predicates answer whether a text has a form; `require_*` return the text or raise `HnError` with the field.
Full IDs are demanded wherever an ID carries trust; only `memory_prefix` accepts less.
"""

from __future__ import annotations

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol import limits
from hn_memory.protocol.hashing import sha256
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


EVIDENCE_TYPES: Final = ("git", "event", "memory")
SUBJECT_TYPES: Final = ("issue", "proposal", "event", "policy", "pipeline", "run")
KINDS: Final = ("assumption", "attempt", "decision", "handoff", "observation", "verification")
OPERATIONS: Final = ("record", "supersede", "retract", "challenge")

ABSENT: Final = "absent"
"""What a path anchor says of a path that is not there (section 3)."""

MEMORY_FILE: Final = "memory.json"
SIGNATURE_FILE: Final = "signature"
FILE_MODE: Final = "100644"
"""What the tree of a memory commit holds (section 2)."""

LOCAL_PREFIX: Final = "refs/hn/memory/"
REMOTES_PREFIX: Final = "refs/hn/remotes/"

# Without regular expressions: compiling them would take longer than a short command has.
_WITHOUT_HEX: Final = str.maketrans("", "", "0123456789abcdef")
_NAME_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789-"
_REMOTE: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-."


def _is_hex(text: str, *lengths: int) -> bool:
    return len(text) in lengths and not text.translate(_WITHOUT_HEX)


def is_digest(text: str) -> bool:
    """`sha256:` and 64 hexadecimal digits: the form of memory and stream IDs."""
    return text.startswith("sha256:") and _is_hex(text[7:], 64)


def is_actor_id(text: str) -> bool:
    """64 lower-case hexadecimal digits, no prefix."""
    return _is_hex(text, 64)


def is_object_id(text: str) -> bool:
    """A full Git object ID of either object format."""
    return _is_hex(text, 40, 64)


def is_evidence(text: str) -> bool:
    """Typed evidence: `git:`, `event:sha256:` or `memory:sha256:`."""
    kind, _, name = text.partition(":")
    return is_object_id(name) if kind == "git" else kind in ("event", "memory") and is_digest(name)


def is_subject(text: str) -> bool:
    """A typed subject, one of the six types."""
    kind, _, name = text.partition(":")
    return kind in SUBJECT_TYPES and is_digest(name)


def is_token(text: str, max_bytes: int) -> bool:
    """A reason or outcome token within its size."""
    return (
        0 < len(text) <= max_bytes
        and not text.strip(_NAME_CHARACTERS)
        and not text.startswith("-")
        and not text.endswith("-")
    )


def is_remote_name(text: str) -> bool:
    """A remote name as section 1 allows it; it becomes a ref component."""
    return (
        0 < len(text) <= limits.REMOTE_NAME_CHARACTERS
        and not text.strip(_REMOTE)
        and text[0] not in "-."
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
    digits = text.removeprefix("sha256:")
    if not _is_hex(digits, *range(limits.ID_PREFIX_DIGITS, 65)):
        raise UsageError(
            "id-invalid",
            f"a memory ID is at least {limits.ID_PREFIX_DIGITS} lower-case hex digits, with or without sha256:",
            field="id",
        )
    return digits


def fingerprint(public_key: bytes) -> str:
    """The actor ID of a raw 32-byte Ed25519 public key."""
    return sha256(public_key).hexdigest()


def memory_id(payload: bytes) -> str:
    """The memory ID of the exact bytes of a `memory.json`."""
    return "sha256:" + sha256(payload).hexdigest()


def derived_stream(actor: str, label: str) -> str:
    """A stream ID derived from its owner and a label; `default` gives the actor's default stream."""
    text = f"hn-memory-stream-v0\0{actor}\0{label}".encode()
    return "sha256:" + sha256(text).hexdigest()


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
    parts = ref.split("/")
    if ref.startswith(LOCAL_PREFIX):
        if len(parts) == 5 and _is_hex(parts[3], 64) and _is_hex(parts[4], 64):
            return SourceName(ref, None, parts[3], "sha256:" + parts[4])
        raise HnError("source-malformed", "ref name is not refs/hn/memory/<actor>/<stream>")
    if len(parts) < 6 or parts[4] != "memory" or not ref.startswith(REMOTES_PREFIX):
        return None
    if len(parts) == 7 and _is_hex(parts[5], 64) and _is_hex(parts[6], 64):
        if not is_remote_name(parts[3]):
            raise HnError("source-malformed", "ref name holds a malformed remote name")
        return SourceName(ref, parts[3], parts[5], "sha256:" + parts[6])
    raise HnError("source-malformed", "ref name is not refs/hn/remotes/<remote>/memory/<actor>/<stream>")
