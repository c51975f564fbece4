"""Selection over a verified set held in memory: project, pass the gates, count what each withholds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hn_memory.protocol.projection import (
    Context,
    Lifecycles,
    Row,
    SourceMemory,
    project_one,
    sort_rows,
)
from hn_memory.protocol.query import NormalRequest
from hn_memory.protocol.record import Anchor
from hn_memory.recall.gates import FILTERED, first_failure, passes_filters
from hn_memory.repository.world import RepositoryWorld


@dataclass(frozen=True, slots=True)
class Callout:
    """A withheld record whose silence would mislead: `branching`, or superseded by something retracted."""

    memory_id: str
    code: str
    successors: tuple[str, ...]


@dataclass(slots=True)
class Selection:
    """Matches in recall's order, and what was withheld under which reason."""

    matches: list[Row] = field(default_factory=list)
    withheld: Counter[str] = field(default_factory=Counter)
    callouts: list[Callout] = field(default_factory=list)

    @property
    def considered(self) -> int:
        """Records looked at: the matches and everything withheld."""
        return len(self.matches) + self.withheld.total()


def prepare_world(world: RepositoryWorld, memories: Iterable[SourceMemory]) -> None:
    """Let a world ask in bulk what the projection of these records will need."""
    anchors: dict[Anchor, None] = {}
    descendants: dict[str, None] = {}
    objects: dict[str, None] = {}
    for memory in memories:
        record = memory.envelope.record
        if record is None:
            continue
        anchors[record.anchor] = None
        if record.applicability.mode == "descendants":
            descendants[record.anchor.commit] = None
        objects.update((item[4:], None) for item in record.evidence if item.startswith("git:"))
    world.prepare(anchors, descendants, objects)


def select(
    memories: Mapping[str, SourceMemory],
    lifecycles: Lifecycles,
    context: Context,
    world: RepositoryWorld,
    request: NormalRequest,
) -> Selection:
    """Matches and counts of a request over a whole verified set."""
    result = Selection()
    candidates: list[SourceMemory] = []
    for memory in memories.values():
        record = memory.envelope.record
        if record is None:
            continue
        if passes_filters(record, memory.envelope.actor, request):
            candidates.append(memory)
        else:
            result.withheld[FILTERED] += 1
    prepare_world(world, candidates)
    for memory in candidates:
        row = project_one(memories, lifecycles, context, memory)
        if row is None:
            continue
        reason = first_failure(row, request)
        if reason is None:
            result.matches.append(row)
            continue
        result.withheld[reason] += 1
        callout = judge_callout(row, reason, lifecycles)
        if callout is not None:
            result.callouts.append(callout)
    sort_rows(result.matches)
    result.callouts.sort(key=lambda item: item.memory_id)
    return result


def judge_callout(row: Row, reason: str, lifecycles: Lifecycles) -> Callout | None:
    """The callout of a row withheld for its lifecycle, where its silence would read as agreement."""
    successors = tuple(row.edges.successors)
    if reason == "branching":
        return Callout(row.memory.id, "branching", successors)
    if reason == "superseded" and all(lifecycles.state(successor) == "retracted" for successor in successors):
        return Callout(row.memory.id, "successor-retracted", successors)
    return None
