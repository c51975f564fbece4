"""Verifying streams in the quarantine, many at a time and on all cores (steps 4 and 6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from hn_memory.errors import HnError
from hn_memory.protocol.chain import ChainHead, StreamChain, StreamCommit, read_files
from hn_memory.protocol.identifiers import memory_id
from hn_memory.protocol.memory import verify_memory
from hn_memory.repository import workers
from hn_memory.repository.base import Repository
from hn_memory.repository.streams import Walked, read_walked
from hn_memory.values import NamedTuple, make

if TYPE_CHECKING:
    from hn_memory.index.update import Progress

PARALLEL_FROM: Final = 1024
"""Commits below which starting workers costs more than it saves."""

_EVERY = 256


class Entry(NamedTuple):
    """What is needed of one verified memory to link it, and to look after its anchor."""

    commit: str
    parents: tuple[str, ...]
    id: str
    actor: str
    stream: str
    sequence: int
    previous: str | None
    anchor: str | None


class Refused(NamedTuple):
    """A commit that does not verify, and why."""

    commit: str
    code: str
    message: str


class Part(NamedTuple):
    """New commits of one stream, oldest first, on top of a link that was verified before."""

    actor: str
    stream: str
    base: ChainHead | None
    walked: Sequence[Walked]


class Verified:
    """What verification made of a part.

    Attributes:
        head: the last link that holds; the whole part when there is no `error`.
        links: the links of the part, oldest first.
        anchors: memory ID and anchor commit of every record in it.
        error: the rule that does not hold, with the place.
    """

    __slots__ = ("anchors", "error", "head", "links")

    def __init__(self, base: ChainHead | None) -> None:
        self.head = base
        self.links: list[ChainHead] = []
        self.anchors: list[tuple[str, str]] = []
        self.error: HnError | None = None


def verify_parts(
    repository: Repository,
    parts: Sequence[Part],
    progress: Progress | None = None,
    sizes: Mapping[str, tuple[str, int]] | None = None,
) -> list[Verified]:
    """Verify parts as one long run of commits, so that many short streams use all cores, too.

    Args:
        sizes: types and sizes (bytes) of objects, as far as they are known.
    """
    total = sum(len(part.walked) for part in parts)
    try:
        entries = verify_walked(repository, [item for part in parts for item in part.walked], sizes)
        return [_link(part, counted) for part, counted in _dealt(parts, _told(entries, total, progress))]
    except (HnError, ValueError):
        # Something cannot even be read: find out whose it is.
        return [_alone(repository, part, sizes) for part in parts]


def verify_walked(
    repository: Repository, walked: Sequence[Walked], sizes: Mapping[str, tuple[str, int]] | None = None
) -> Iterator[Entry | Refused]:
    """Entries of walked commits, in their order; spread over all cores when there are many."""
    if len(walked) < PARALLEL_FROM or workers.worker_count() < 2:
        for commit in read_walked(repository, walked, sizes):
            yield _verify_commit(commit)
        return

    def work(repository: Repository, chunk: Sequence[Walked]) -> list[Entry | Refused]:
        return [_verify_commit(commit) for commit in read_walked(repository, chunk, sizes)]

    # A fetched pack is full of deltas, which Git takes apart several times faster than libgit2.
    yield from workers.spread(repository.layout, walked, work, (Entry, Refused), refusal=Refused, prefer="git")


def memory_id_at(repository: Repository, commit: str) -> str | None:
    """The memory ID in a commit that was verified before; None when it is not here any more."""
    try:
        entry = repository.entries(commit, ["memory.json"])["memory.json"]
    except HnError:
        return None
    if entry is None:
        return None
    return next((memory_id(data) for _, kind, data in repository.read([entry.oid]) if kind == "blob"), None)


def _told(entries: Iterator[Entry | Refused], total: int, progress: Progress | None) -> Iterator[Entry | Refused]:
    for done, entry in enumerate(entries):
        if progress is not None and done % _EVERY == 0:
            progress("verify", done, total)
        yield entry
    if progress is not None and total:
        progress("verify", total, total)


def _dealt(
    parts: Sequence[Part], entries: Iterator[Entry | Refused]
) -> Iterator[tuple[Part, Iterable[Entry | Refused]]]:
    for part in parts:
        yield part, [next(entries) for _ in part.walked]


def _alone(repository: Repository, part: Part, sizes: Mapping[str, tuple[str, int]] | None) -> Verified:
    try:
        return _link(part, list(verify_walked(repository, part.walked, sizes)))
    except HnError as error:
        cause = error
    except ValueError:
        cause = HnError("tree-malformed", "a tree among the commits is malformed")
    broken = Verified(part.base)
    broken.error = cause
    return broken


def _link(part: Part, entries: Iterable[Entry | Refused]) -> Verified:
    result = Verified(part.base)
    chain = StreamChain(part.actor, part.stream, part.base)
    for entry in entries:
        try:
            if isinstance(entry, Refused):
                raise HnError(entry.code, entry.message)
            chain.link(entry.commit, entry.parents, entry.id, entry)
        except HnError as error:
            position = (result.head.sequence if result.head else 0) + 1
            result.error = HnError(error.code, f"{error.message} (commit {entry.commit[:12]}, position {position})")
            return result
        result.head = chain.head
        if chain.head is not None:
            result.links.append(chain.head)
        if entry.anchor is not None:
            result.anchors.append((entry.id, entry.anchor))
    return result


def _verify_commit(commit: StreamCommit) -> Entry | Refused:
    """Everything about one commit that can be judged without its neighbours."""
    try:
        memory = verify_memory(*read_files(commit))
    except HnError as error:
        return Refused(commit.commit, error.code, error.message)
    envelope = memory.envelope
    anchor = None if envelope.record is None else envelope.record.anchor.commit
    fields = (
        commit.commit, commit.parents, memory.id, envelope.actor, envelope.stream, envelope.sequence,
        envelope.previous, anchor,
    )  # fmt: skip
    return make(Entry, fields)
