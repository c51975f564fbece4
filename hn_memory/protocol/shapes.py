"""What projection needs to know, as protocols: for type checkers, which alone read this."""

from __future__ import annotations

from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from hn_memory.protocol.projection import Edges
else:
    Protocol = object


class PathLike(Protocol):
    """A path and the blob it is bound to."""

    @property
    def path(self) -> str: ...
    @property
    def blob(self) -> str: ...


class AnchorLike(Protocol):
    """What projection needs of an anchor."""

    @property
    def commit(self) -> str: ...
    @property
    def paths(self) -> Sequence[PathLike]: ...
    @property
    def subject(self) -> str | None: ...
    def document(self) -> dict[str, Any]:
        """The JSON value in canonical field order."""


class ApplicabilityLike(Protocol):
    """What projection needs of an applicability."""

    @property
    def mode(self) -> str: ...


class RecordLike(Protocol):
    """What projection needs of a record: a `record.Record`, or a view of a verified payload."""

    @property
    def kind(self) -> str: ...
    @property
    def content(self) -> str: ...
    @property
    def anchor(self) -> AnchorLike: ...
    @property
    def applicability(self) -> ApplicabilityLike: ...
    @property
    def evidence(self) -> Sequence[str]: ...
    def document(self, *, sort_evidence: bool = False) -> dict[str, Any]:
        """The JSON value in canonical field order."""


class EnvelopeLike(Protocol):
    """What projection needs of an envelope: an `envelope.Envelope`, or a view of a verified payload."""

    @property
    def operation(self) -> str: ...
    @property
    def actor(self) -> str: ...
    @property
    def actor_name(self) -> str: ...
    @property
    def stream(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def timestamp(self) -> str: ...
    @property
    def record(self) -> RecordLike | None: ...
    @property
    def target(self) -> str | None: ...
    @property
    def reason(self) -> str | None: ...
    def document(self, *, with_record: bool = True) -> dict[str, Any]:
        """The JSON value in canonical field order; `show` leaves the record out."""


class LifecycleLike(Protocol):
    """The lifecycles of the records that a projection looks at."""

    def state(self, memory_id: str) -> str:
        """The lifecycle of a record."""

    def edges_of(self, memory_id: str) -> Edges:
        """The relationships that count for a record."""


class World(Protocol):
    """What projection asks of the object store, about one query commit.

    Answers describe the store as it is now and never cause a fetch.
    """

    def anchor_state(self, anchor: AnchorLike) -> str | None:
        """None when the anchor's commit exists, is a commit, and every path pair holds there; else
        `anchor-missing` or `anchor-invalid`."""

    def query_exists(self) -> bool:
        """Is the query commit here?"""

    def ancestry(self, commit: str) -> bool | str:
        """Is `commit` the query commit or an ancestor? A missing commit's ID when that is undecided."""

    def object_exists(self, oid: str) -> bool:
        """Does an object of any type exist under this full ID?"""

    def event_accepted(self, event_id: str) -> bool:
        """Is it a verified event (`sha256:<hex>`)?"""
