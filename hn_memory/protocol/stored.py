"""Views of payloads that were verified before, straight over their JSON.

Reading a page of memories back needs no second look at rules that held when they were verified, and no values
beyond the JSON that is there. The views have the attributes of `envelope.Envelope` and `record.Record` as far
as projection asks for them. Only for bytes whose digest is the memory ID they are stored under.
"""

from __future__ import annotations

from collections.abc import Sequence

from hn_memory.errors import HnError
from hn_memory.protocol.hashing import sha256
from hn_memory.protocol.jsonbytes import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class StoredPath:
    """A path pair of a stored anchor."""

    __slots__ = ("blob", "path")

    def __init__(self, fields: dict[str, str]) -> None:
        self.path = fields["path"]
        self.blob = fields["blob"]


class StoredAnchor:
    """The anchor of a stored record."""

    __slots__ = ("_fields", "commit", "paths", "subject")

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self.commit: str = fields["commit"]
        self.paths: Sequence[StoredPath] = [StoredPath(pair) for pair in fields.get("paths", ())]
        self.subject: str | None = fields.get("subject")

    def document(self) -> dict[str, Any]:
        return self._fields


class StoredApplicability:
    """The applicability of a stored record."""

    __slots__ = ("mode",)

    def __init__(self, fields: dict[str, str]) -> None:
        self.mode = fields["mode"]


class StoredRecord:
    """A record inside a verified payload. Canonical bytes have canonical field order, and so has its JSON."""

    __slots__ = ("_fields", "anchor", "applicability", "content", "evidence", "kind")

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self.kind: str = fields["kind"]
        self.content: str = fields["content"]
        self.anchor = StoredAnchor(fields["anchor"])
        self.applicability = StoredApplicability(fields["applicability"])
        self.evidence: Sequence[str] = fields["evidence"]

    def document(self, *, sort_evidence: bool = False) -> dict[str, Any]:
        return self._fields | {"evidence": sorted(self.evidence)} if sort_evidence else self._fields


class StoredEnvelope:
    """An envelope inside a verified payload."""

    __slots__ = (
        "_fields", "actor", "actor_name", "operation", "reason", "record", "sequence", "stream", "target", "timestamp",
    )  # fmt: skip

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self.operation: str = fields["operation"]
        self.actor: str = fields["actor"]
        self.actor_name: str = fields["actorName"]
        self.stream: str = fields["stream"]
        self.sequence: int = fields["sequence"]
        self.timestamp: str = fields["timestamp"]
        self.record = StoredRecord(fields["record"]) if "record" in fields else None
        self.target: str | None = fields.get("target")
        self.reason: str | None = fields.get("reason")

    def document(self, *, with_record: bool = True) -> dict[str, Any]:
        if with_record:
            return self._fields
        return {name: value for name, value in self._fields.items() if name != "record"}


def read_stored(raw_id: bytes, payload: bytes) -> StoredEnvelope:
    """The envelope in bytes that were verified under this memory ID (32 raw bytes).

    Raises:
        HnError `index-corrupt`: these are other bytes.
    """
    if sha256(payload).digest() != raw_id:
        raise HnError("index-corrupt", "a stored memory is not what its ID says")
    return StoredEnvelope(loads(payload))
