"""Projection (section 5): what a verified set of memories means at one query commit.

Input is the verified set and an explicit context, nothing else: no clock, no arrival order, no network.
What the context needs to know of the object store is answered by a `World`, asked afresh by whoever
builds it. Five judgments stay apart: signature, lifecycle, applicability, evidence and trust.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from hn_memory.protocol.hashing import sha256
from hn_memory.protocol.policy import Policy
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from hn_memory.protocol.shapes import EnvelopeLike, LifecycleLike, RecordLike, World

LIFECYCLES: Final = ("active", "superseded", "retracted", "branching", "dependency-missing")
APPLICABILITIES: Final = ("applicable", "inapplicable", "anchor-missing", "anchor-invalid")
EVIDENCE_STATES: Final = ("resolved", "missing", "invalid")


class SourceMemory(NamedTuple):
    """A verified memory and the smallest commit ID that carries it."""

    id: str
    commit: str
    envelope: EnvelopeLike


class Dependency(NamedTuple):
    """Something a memory needs that is not here."""

    kind: str
    owner_id: str
    stream: str
    missing_id: str
    reason: str
    operation: str | None = None

    def document(self) -> dict[str, Any]:
        """The JSON value; `operation` stands only on `lifecycle-target`."""
        result: dict[str, Any] = {"kind": self.kind, "ownerId": self.owner_id, "stream": self.stream}
        if self.operation is not None:
            result["operation"] = self.operation
        result["missingId"] = self.missing_id
        result["reason"] = self.reason
        return result

    def order(self) -> tuple[str, ...]:
        """The sort key of section 7."""
        return (self.missing_id, self.kind, self.operation or "", self.owner_id, self.stream, self.reason)


class Edges:
    """The relationships that name one record, by what they do. Lists are sorted memory IDs."""

    __slots__ = ("challengers", "retractions", "successors")

    def __init__(self) -> None:
        self.successors: list[str] = []
        self.retractions: list[str] = []
        self.challengers: list[str] = []


def lifecycle_state(orphan: bool, retractions: int, successors: int) -> str:
    """The first lifecycle of section 5 that holds."""
    if orphan:
        return "dependency-missing"
    if retractions:
        return "retracted"
    if successors > 1:
        return "branching"
    return "superseded" if successors else "active"


def lifecycle_dependency(memory: SourceMemory) -> Dependency:
    """The dependency of a relationship whose target is unknown."""
    envelope = memory.envelope
    return Dependency(
        "lifecycle-target",
        memory.id,
        envelope.stream,
        envelope.target or "",
        "target-unavailable",
        envelope.operation,
    )


class Context(NamedTuple):
    """Where and how a projection looks: the query commit, an optional subject and path, policy and world."""

    commit: str
    policy: Policy
    world: World
    subject: str | None = None
    path: str | None = None


class Row(NamedTuple):
    """One projected record."""

    memory: SourceMemory
    record: RecordLike
    lifecycle: str
    edges: Edges
    applicability: str
    evidence: str
    evidence_details: tuple[dict[str, Any], ...]
    dependencies: tuple[Dependency, ...]
    trust: str

    def document(self, *, show: bool = False) -> dict[str, Any]:
        """The JSON value of section 7; `show` has no `signedTimestamp` and `dependencies`, and keeps the
        author's order of evidence."""
        envelope = self.memory.envelope
        result: dict[str, Any] = {"id": self.memory.id, "stream": envelope.stream, "actor": envelope.actor}
        if not show:
            result["signedTimestamp"] = envelope.timestamp
        result |= {
            "kind": self.record.kind,
            "contentDigest": content_digest(self.record.content),
            "anchor": self.record.anchor.document(),
            "signature": "valid",
            "lifecycle": self.lifecycle,
            "challengers": list(self.edges.challengers),
            "successors": list(self.edges.successors),
            "retractions": list(self.edges.retractions),
            "applicability": self.applicability,
            "evidence": self.evidence,
            "evidenceDetails": list(self.evidence_details),
        }
        if not show:
            result["dependencies"] = [dependency.document() for dependency in self.dependencies]
        result["trust"] = self.trust
        result["data"] = self.record.document(sort_evidence=not show)
        return result


def sort_rows(rows: list[Row]) -> None:
    """Section 7's order, in place: applicability, lifecycle, timestamp descending as text, memory ID."""
    rows.sort(key=lambda row: row.memory.id)
    rows.sort(key=lambda row: row.memory.envelope.timestamp, reverse=True)
    rows.sort(key=lambda row: (APPLICABILITIES.index(row.applicability), LIFECYCLES.index(row.lifecycle)))


def content_digest(content: str) -> str:
    """`sha256:` over the content's bytes."""
    return "sha256:" + sha256(content.encode()).hexdigest()


def project(
    memories: Mapping[str, SourceMemory],
    lifecycles: LifecycleLike,
    context: Context,
    selected: Iterable[str] | None = None,
) -> list[Row]:
    """Rows of the records of a verified set, or of the selected ones, unordered."""
    ids = memories.keys() if selected is None else selected
    return [
        row for memory_id in ids if (row := project_one(memories, lifecycles, context, memories[memory_id])) is not None
    ]


def project_one(
    memories: Container[str], lifecycles: LifecycleLike, context: Context, memory: SourceMemory
) -> Row | None:
    """The row of one memory; None when it is no record."""
    record = memory.envelope.record
    if record is None:
        return None
    dependencies: list[Dependency] = []
    lifecycle = lifecycles.state(memory.id)
    if lifecycle == "dependency-missing":
        dependencies.append(lifecycle_dependency(memory))
    applicability, missing = judge_applicability(memory, record, context)
    if missing is not None:
        dependencies.append(missing)
    evidence, details, absent = judge_evidence(memory, record.evidence, memories, context.world)
    dependencies.extend(absent)
    dependencies.sort(key=Dependency.order)
    return Row(
        memory=memory,
        record=record,
        lifecycle=lifecycle,
        edges=lifecycles.edges_of(memory.id),
        applicability=applicability,
        evidence=evidence,
        evidence_details=tuple(details),
        dependencies=tuple(dependencies),
        trust=context.policy.trust(memory.envelope.actor, record.kind),
    )


def judge_applicability(memory: SourceMemory, record: RecordLike, context: Context) -> tuple[str, Dependency | None]:
    """Applicability of a record, and the dependency that an `anchor-missing` names."""
    anchor = record.anchor
    state, missing = judge_site(
        context.world.anchor_state(anchor), anchor.commit, record.applicability.mode, anchor.subject, context
    )
    if state == "applicable" and context.path is not None and all(pair.path != context.path for pair in anchor.paths):
        state = "inapplicable"
    if missing is None:
        return state, None
    kind, missing_id, reason = missing
    return state, Dependency(kind, memory.id, memory.envelope.stream, missing_id, reason)


def judge_site(
    anchor_state: str | None, commit: str, mode: str, subject: str | None, context: Context
) -> tuple[str, tuple[str, str, str] | None]:
    """Applicability of whatever is anchored alike, the query's path aside, and kind, ID and reason of what is
    missing.

    Args:
        anchor_state: as `World.anchor_state` answers.
        subject: the anchor's subject, which is the applicability's too in mode `subject`.
    """
    if anchor_state == "anchor-missing":
        return anchor_state, ("anchor-commit", commit, "anchor-commit-unavailable")
    if anchor_state is not None:
        return anchor_state, None
    if not context.world.query_exists():
        return "anchor-missing", ("query-commit", context.commit, "query-commit-unavailable")
    if mode == "exact":
        applies = commit == context.commit
    elif mode == "descendants":
        answer = context.world.ancestry(commit)
        if isinstance(answer, str):
            return "anchor-missing", ("anchor-ancestry", answer, "ancestry-commit-unavailable")
        applies = answer
    else:
        applies = context.subject is not None
    if context.subject is not None and context.subject != subject:
        applies = False
    return ("applicable" if applies else "inapplicable"), None


_EVIDENCE_REASONS: Final = {
    "git": ("exact-object", "object-unavailable"),
    "event": ("accepted-event", "event-unavailable"),
    "memory": ("accepted-memory", "memory-unavailable"),
}


def judge_evidence(
    memory: SourceMemory, evidence: Sequence[str], memories: Container[str], world: World
) -> tuple[str, list[dict[str, Any]], list[Dependency]]:
    """The state of the whole, the details sorted by type and requested ID, and what is missing.

    Args:
        memories: answers `id in memories` for every verified memory, record or not.
    """
    details: list[dict[str, Any]] = []
    dependencies: list[Dependency] = []
    for item in sorted(evidence):
        kind, _, requested = item.partition(":")
        if kind == "git":
            found = world.object_exists(requested)
        elif kind == "event":
            found = world.event_accepted(requested)
        else:
            found = requested in memories
        reason = _EVIDENCE_REASONS[kind][0 if found else 1]
        details.append(
            {
                "type": kind,
                "requested": requested,
                "ownerId": memory.id,
                "status": "resolved" if found else "missing",
                "reason": reason,
            }
        )
        if not found:
            dependencies.append(Dependency(f"evidence-{kind}", memory.id, memory.envelope.stream, requested, reason))
    return ("missing" if dependencies else "resolved"), details, dependencies
