"""What passes between the server and a provider: records, what changes them, questions and answers.

Content and attributes are the caller's; ids of records are the provider's; `written_by` and times are stamped by
the server and the provider and are never read from a request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

CORE_TYPES: Final = ("episode", "fact", "note", "procedure", "link")
PRIVILEGES: Final = ("read", "write", "create", "delete")
PRINCIPAL_KINDS: Final = ("harness", "credential", "person", "group")
SIGNALS: Final = ("query", "text", "filters")
UNTRUSTED: Final = "untrusted"

Status = Literal["active", "superseded", "forgotten"]


@dataclass(frozen=True, slots=True)
class Author:
    """Who wrote a version: a principal (`harness`, `person`, ...), `consolidator`, or `actor` for a signer."""

    kind: str
    id: str

    def document(self) -> dict[str, str]:
        """The `written_by` of a record."""
        return {"kind": self.kind, "id": self.id}


@dataclass(frozen=True, slots=True)
class Reference:
    """A pointer to a record, wherever it is kept. `rel` is the writer's word for the relation."""

    memory_id: str
    record_id: str
    rel: str = "related"


@dataclass(frozen=True, slots=True)
class FileReference:
    """Content that is a file. `version` is opaque and changes with the bytes."""

    id: str
    name: str
    bytes: int
    media_type: str
    version: str

    def document(self) -> dict[str, Any]:
        """The `file` of a record's content."""
        return {
            "id": self.id,
            "name": self.name,
            "bytes": self.bytes,
            "media_type": self.media_type,
            "version": self.version,
        }


Content = str | FileReference


@dataclass(frozen=True, slots=True)
class Draft:
    """A record as a caller states it. Times are RFC 3339 texts."""

    content: Content
    type: str = "fact"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    valid_from: str | None = None
    valid_to: str | None = None


@dataclass(frozen=True, slots=True)
class Patch:
    """What a revision changes: the fields of `Draft` that it names; the others stay as they are."""

    fields: Mapping[str, Any]

    def on(self, version: Version) -> Draft:
        """The next version's draft."""
        kept = {name: getattr(version, name) for name in Draft.__slots__}
        return Draft(**(kept | dict(self.fields)))


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one record, with its status as the reader asked for it.

    `number` starts at 1; `supersedes` is the number it replaced, None on the first. `written_at` and
    `invalidated_at` are RFC 3339 texts.
    """

    memory_id: str
    record_id: str
    number: int
    type: str
    content: Content
    attributes: Mapping[str, Any]
    references: tuple[Reference, ...]
    valid_from: str | None
    valid_to: str | None
    written_at: str
    written_by: Author
    status: Status = "active"
    invalidated_at: str | None = None

    @property
    def supersedes(self) -> int | None:
        """The number of the version that this one replaced."""
        return None if self.number == 1 else self.number - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """What a listing takes: `as_of` in nanoseconds since 1970, inclusive; `forgotten` records too or not."""

    types: frozenset[str] = frozenset()
    as_of: int | None = None
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a listing; `next` is where the following page starts, None on the last."""

    versions: list[Version]
    next: str | None


@dataclass(frozen=True, slots=True)
class Question:
    """A recall of one memory. `filters` is a parsed condition (`filters.Condition`) or None."""

    selection: Selection = Selection()
    query: str | None = None
    text: str | None = None
    filters: Any = None
    limit: int = 8


@dataclass(frozen=True, slots=True)
class Hit:
    """A result, its score (None where no signal ranks) and the signals that produced it."""

    version: Version
    score: float | None
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recalled:
    """The results, best first; what was asked and not done; does the provider judge that nothing answers?"""

    hits: list[Hit]
    degraded: tuple[str, ...] = ()
    abstain: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """What a free query answers: columns, rows of JSON values, and the bounds that were met, as `degraded` has them."""

    columns: tuple[str, ...]
    rows: list[list[Any]]
    degraded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """What a consolidation does to a record, as long as its latest version is this one and has this status.

    `draft` is the next version, which also brings a forgotten record back; None forgets the record.
    """

    record_id: str
    number: int
    draft: Draft | None = None
    status: Status = "active"


@dataclass(frozen=True, slots=True)
class Erased:
    """Record ids that are gone from every read, and those of them of which copies may be left elsewhere."""

    erased: tuple[str, ...]
    unreachable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a memory holds: active records, and the last write (ms since 1970, 0 where there was none)."""

    count: int
    written_ms: int
