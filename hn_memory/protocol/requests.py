"""The machine request of `record`, `supersede` and `handoff` (`--input`, section 7), strict version 0."""

from __future__ import annotations

from collections.abc import Mapping

from hn_memory.errors import UsageError
from hn_memory.protocol import limits
from hn_memory.protocol.record import (
    Anchor,
    Applicability,
    Handoff,
    read_anchor,
    read_applicability,
    read_handoff,
)
from hn_memory.protocol.strictjson import Reader, loads
from hn_memory.protocol.unicode import lower, trim
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RecordRequest(NamedTuple):
    """What a machine asks to have recorded. `anchor` and `applicability` may be left to the caller's context
    where `read_record_request` was told so."""

    kind: str
    content: str
    anchor: Anchor | None
    applicability: Applicability | None
    topics: tuple[str, ...]
    evidence: tuple[str, ...]
    attempt_outcome: str | None
    handoff: Handoff | None
    actor: str | None
    stream: str | None


def read_record_request(data: bytes, *, context_optional: bool = False, kind: str | None = None) -> RecordRequest:
    """A record request from strict JSON.

    Args:
        context_optional: anchor and applicability may be absent (`handoff` supplies them by flags).
        kind: the kind that the command writes; the field may then be absent, and must match if it is there.

    Raises:
        UsageError `request-invalid`, naming the field.
    """
    if len(data) > limits.REQUEST_BYTES:
        raise UsageError("request-invalid", f"the request has more than {limits.REQUEST_BYTES} bytes")
    reader = Reader("request-invalid")
    required = ["version", "content", "topics", "evidence"]
    optional = ["attemptOutcome", "handoff", "actor", "stream"]
    (optional if context_optional else required).extend(("anchor", "applicability"))
    (required if kind is None else optional).append("kind")
    fields = reader.object(loads(data, "request-invalid", "record request"), "", tuple(required), tuple(optional))
    if reader.integer(fields["version"], "version") != 0:
        reader.fail("version must be 0", "version")

    def text(name: str) -> str | None:
        return reader.text(fields[name], name) if name in fields else None

    stated = text("kind")
    if kind is not None and stated not in (None, kind):
        reader.fail(f"kind must be {kind} here", "kind")
    return RecordRequest(
        kind=stated or kind or "",
        content=reader.text(fields["content"], "content"),
        anchor=_anchor(reader, fields),
        applicability=(
            read_applicability(reader, fields["applicability"], "applicability") if "applicability" in fields else None
        ),
        topics=normal_topics(reader.texts(fields["topics"], "topics")),
        evidence=tuple(reader.texts(fields["evidence"], "evidence")),
        attempt_outcome=text("attemptOutcome"),
        handoff=read_handoff(reader, fields["handoff"], "handoff") if "handoff" in fields else None,
        actor=text("actor"),
        stream=text("stream"),
    )


def normal_topics(topics: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Topics trimmed, lowercased, sorted and unique, as they are signed."""
    return tuple(sorted({lower(trim(topic)) for topic in topics}))


def _anchor(reader: Reader, fields: Mapping[str, Any]) -> Anchor | None:
    if "anchor" not in fields:
        return None
    anchor = read_anchor(reader, fields["anchor"], "anchor")
    paths = tuple(sorted(anchor.paths, key=lambda pair: pair.path))
    return Anchor(anchor.commit, paths, anchor.subject)
