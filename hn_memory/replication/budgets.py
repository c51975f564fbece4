"""Measuring what arrived against the budgets, before anything of it is parsed as a memory (step 3).

Sizes come from object headers. The common case is one comparison: when all that arrived fits the budgets of a
single stream, every stream fits. Otherwise each stream is measured by itself, from the sizes of its objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from hn_memory.errors import HnError
from hn_memory.protocol.identifiers import MEMORY_FILE, SIGNATURE_FILE
from hn_memory.protocol.selection import Budgets
from hn_memory.repository.base import ObjectType, Repository, parse_tree
from hn_memory.repository.reading import first_parents
from hn_memory.repository.streams import Walked
from hn_memory.values import NamedTuple

_TREES: Final = 1024
"""Trees whose entries are looked up together."""
_OURS: Final = frozenset({MEMORY_FILE.encode(), SIGNATURE_FILE.encode()})


class OverBudgetError(HnError):
    """A stream brings more than its budget allows."""

    def __init__(self, message: str) -> None:
        super().__init__("over-budget", message)


class Measured(NamedTuple):
    """What one stream brings beyond its accepted head."""

    events: int
    objects: int
    largest: int
    attachments: int
    total: int


def arrival_fits(sizes: Mapping[str, tuple[str, int]], budgets: Budgets) -> bool:
    """Does everything that arrived fit the budgets of one stream?"""
    return (
        len(sizes) <= budgets.max_objects
        and sum(size for _, size in sizes.values()) <= budgets.max_total_bytes
        and max((size for _, size in sizes.values()), default=0)
        <= min(budgets.max_object_bytes, budgets.max_attachment_bytes)
    )


def walk_bounded(
    repository: Repository,
    tip: str,
    stop: Callable[[str], bool],
    budgets: Budgets,
    sizes: Mapping[str, tuple[str, int]] | None = None,
) -> tuple[list[Walked], str | None]:
    """Commits from the first after a known one (or the root) up to `tip`, oldest first, and the known one.

    With `sizes`, no commit larger than `maxObjectBytes` is read.

    Raises:
        OverBudgetError: there are more than `maxEvents`.
        HnError: a commit on the way is not here.
    """
    walked: list[Walked] = []
    found: str | None = None

    def guarded(oids: Sequence[str]) -> Iterator[tuple[str, ObjectType, bytes]]:
        for oid in oids:
            _, size = (sizes or {}).get(oid, ("", 0))
            if size > budgets.max_object_bytes:
                raise OverBudgetError(f"{size} where {budgets.max_object_bytes} is allowed (maxObjectBytes)")
            yield from repository.read([oid])

    steps = repository.parents(tip) if sizes is None else first_parents(guarded, tip, None)
    for commit, tree, parents in steps:
        if stop(commit):
            found = commit
            break
        if len(walked) == budgets.max_events:
            raise OverBudgetError(f"more than {budgets.max_events} new commits (maxEvents)")
        walked.append(Walked(commit, tree, parents))
        if parents and stop(parents[0]):
            # Known already, so it need not be read.
            found = parents[0]
            break
    walked.reverse()
    return walked, found


def measure(
    repository: Repository,
    walked: Sequence[Walked],
    budgets: Budgets,
    arrived: Mapping[str, tuple[str, int]] | None = None,
) -> Measured:
    """Measure one stream object by object; no object is read before its size is known to be allowed.

    Args:
        arrived: type and size of objects where they are known already; the repository is asked for the others.

    Raises:
        OverBudgetError: naming the budget.
    """
    known = arrived or {}

    def sizes_of(oids: Iterable[str]) -> dict[str, int]:
        wanted = dict.fromkeys(oids)
        found = {oid: known[oid][1] for oid in wanted if oid in known}
        asked = repository.info(oid for oid in wanted if oid not in found)
        return found | {oid: info.size for oid, info in asked.items()}

    sizes = sizes_of(oid for item in walked for oid in (item.commit, item.tree))
    _check(len(walked), sizes, 0, budgets)
    blobs: dict[str, int] = {}
    attachments: set[str] = set()
    trees = iter(dict.fromkeys(item.tree for item in walked))
    while portion := list(islice(trees, _TREES)):
        named: dict[str, bool] = {}
        for _, kind, data in repository.read([tree for tree in portion if tree in sizes]):
            if kind != "tree":
                continue
            try:
                entries = parse_tree(data, repository.oid_length)
            except ValueError:
                continue  # verification says so
            for entry in entries:
                ours = entry.name in _OURS
                named[entry.oid] = named.get(entry.oid, True) and ours
        for oid, size in sizes_of(named).items():
            blobs[oid] = size
            if not named[oid]:
                attachments.add(oid)
    sizes |= blobs
    return _check(len(walked), sizes, sum(blobs[oid] for oid in attachments), budgets)


def _check(events: int, sizes: Mapping[str, int], attachments: int, budgets: Budgets) -> Measured:
    measured = Measured(events, len(sizes), max(sizes.values(), default=0), attachments, sum(sizes.values()))
    limits = (
        ("maxEvents", measured.events, budgets.max_events),
        ("maxObjects", measured.objects, budgets.max_objects),
        ("maxObjectBytes", measured.largest, budgets.max_object_bytes),
        ("maxAttachmentBytes", measured.attachments, budgets.max_attachment_bytes),
        ("maxTotalBytes", measured.total, budgets.max_total_bytes),
    )
    for name, value, bound in limits:
        if value > bound:
            raise OverBudgetError(f"{value} where {bound} is allowed ({name})")
    return measured
