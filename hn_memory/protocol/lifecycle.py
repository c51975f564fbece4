"""Relationships and the lifecycles that follow from them (section 5), over a whole verified set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hn_memory.protocol.projection import Dependency, Edges, SourceMemory, lifecycle_dependency, lifecycle_state
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Relationship(NamedTuple):
    """A supersede, retract or challenge whose target is a record it may speak about."""

    memory_id: str
    stream: str
    actor: str
    operation: str
    target_id: str

    def document(self) -> dict[str, Any]:
        return {
            "memoryId": self.memory_id,
            "stream": self.stream,
            "actor": self.actor,
            "operation": self.operation,
            "targetId": self.target_id,
        }

    def order(self) -> tuple[str, str, str]:
        """The sort key of section 7."""
        return (self.target_id, self.operation, self.memory_id)


class Diagnostic(NamedTuple):
    """A relationship that counts for nothing, and why: `self-target`, `wrong-target-kind`, `actor-mismatch`."""

    memory_id: str
    operation: str
    target_id: str
    code: str

    def document(self) -> dict[str, Any]:
        return {
            "memoryId": self.memory_id,
            "operation": self.operation,
            "targetId": self.target_id,
            "code": self.code,
        }


class Lifecycles(NamedTuple):
    """All relationships of a verified set, judged; independent of any query."""

    edges: Mapping[str, Edges]
    relationships: Sequence[Relationship]
    diagnostics: Sequence[Diagnostic]
    dependencies: Sequence[Dependency]
    orphans: frozenset[str]
    """Superseding records whose target is unknown."""

    def edges_of(self, memory_id: str) -> Edges:
        """The relationships that count for a record."""
        return self.edges.get(memory_id) or Edges()

    def state(self, memory_id: str) -> str:
        """The lifecycle of a record: the first rule of section 5 that holds."""
        edges = self.edges.get(memory_id)
        return lifecycle_state(
            memory_id in self.orphans,
            len(edges.retractions) if edges else 0,
            len(edges.successors) if edges else 0,
        )


def judge_relationship(
    memory_id: str, operation: str, actor: str, target_id: str, target_is_record: bool | None, target_actor: str | None
) -> str:
    """What a supersede, retract or challenge amounts to.

    Args:
        target_is_record: None when the target is not in the verified set.

    Returns:
        `valid`, `target-unavailable`, or the code of a diagnostic.
    """
    if target_id == memory_id:
        return "self-target"
    if target_is_record is None:
        return "target-unavailable"
    if not target_is_record:
        return "wrong-target-kind"
    if operation != "challenge" and actor != target_actor:
        return "actor-mismatch"
    return "valid"


def judge_lifecycles(memories: Mapping[str, SourceMemory]) -> Lifecycles:
    """Judge every relationship of a verified set."""
    edges: dict[str, Edges] = {}
    relationships: list[Relationship] = []
    diagnostics: list[Diagnostic] = []
    dependencies: list[Dependency] = []
    orphans: set[str] = set()
    for memory in memories.values():
        envelope = memory.envelope
        if envelope.target is None:
            continue
        target = memories.get(envelope.target)
        verdict = judge_relationship(
            memory.id,
            envelope.operation,
            envelope.actor,
            envelope.target,
            None if target is None else target.envelope.record is not None,
            None if target is None else target.envelope.actor,
        )
        if verdict == "target-unavailable":
            dependencies.append(lifecycle_dependency(memory))
            if envelope.operation == "supersede":
                orphans.add(memory.id)
        elif verdict == "valid":
            relationships.append(
                Relationship(memory.id, envelope.stream, envelope.actor, envelope.operation, envelope.target)
            )
        else:
            diagnostics.append(Diagnostic(memory.id, envelope.operation, envelope.target, verdict))
    relationships.sort(key=Relationship.order)
    for relationship in relationships:
        target_edges = edges.setdefault(relationship.target_id, Edges())
        {
            "supersede": target_edges.successors,
            "retract": target_edges.retractions,
            "challenge": target_edges.challengers,
        }[relationship.operation].append(relationship.memory_id)
    diagnostics.sort(key=lambda item: (item.target_id, item.operation, item.memory_id))
    dependencies.sort(key=Dependency.order)
    return Lifecycles(edges, relationships, diagnostics, dependencies, frozenset(orphans))
