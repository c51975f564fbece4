"""Reading memory streams out of a repository: which sources there are, and what their commits hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.identifiers import (
    FILE_MODE,
    LOCAL_PREFIX,
    MEMORY_FILE,
    REMOTES_PREFIX,
    SIGNATURE_FILE,
    SourceName,
    parse_source_ref,
)
from hn_memory.repository.base import ObjectInfo, Repository, TreeEntry, parse_tree
from hn_memory.values import NamedTuple

if TYPE_CHECKING:
    from hn_memory.protocol.chain import StreamCommit, StreamEntry

_BATCH = 512

_MEMORY_NAME, _SIGNATURE_NAME = MEMORY_FILE.encode(), SIGNATURE_FILE.encode()
_LIMITS = {name.encode(): limit for name, limit in limits.FILE_BYTES.items()}
_FIRST = f"{FILE_MODE} {MEMORY_FILE}\0".encode()
_SECOND = f"{FILE_MODE} {SIGNATURE_FILE}\0".encode()


class Source(NamedTuple):
    """A memory ref with a well-formed name. `invalid` says why it is not read at all, or is None."""

    name: SourceName
    head: str
    invalid: str | None = None


class InvalidSource(NamedTuple):
    """A source that does not hold, and why. `commit` is the one that broke it, where one did."""

    ref: str
    reason: str
    code: str
    commit: str | None = None
    sequence: int | None = None


def list_sources(repository: Repository) -> tuple[list[Source], list[InvalidSource]]:
    """All memory sources, sorted by ref, and the refs in our namespace whose names are malformed."""
    sources: list[Source] = []
    invalid: list[InvalidSource] = []
    for ref in repository.refs(LOCAL_PREFIX, REMOTES_PREFIX):
        try:
            name = parse_source_ref(ref.name)
        except HnError as error:
            invalid.append(InvalidSource(shown_name(ref.name), error.message, error.code))
            continue
        if name is None:
            continue
        if ref.target is None:
            # The fingerprint covers every well-named source; a symbolic one has no head of its own.
            sources.append(Source(name, shown_name(ref.symbolic or ""), "a memory ref must not be symbolic"))
        else:
            sources.append(Source(name, ref.target))
    return sources, invalid


def shown_name(name: str) -> str:
    """A ref name as text: Git allows any bytes in one, and a report or a fingerprint cannot hold them."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


class Walked(NamedTuple):
    """A commit as walking meets it: its tree and parents are known, its content is not."""

    commit: str
    tree: str
    parents: tuple[str, ...]


def walk_stream(repository: Repository, tip: str, known: Callable[[str], bool]) -> tuple[list[Walked], str | None]:
    """Commits from the first after a known one (or the root) up to `tip`, oldest first, and the known one.

    First parents are followed; whether more parents may stand there is the verifier's business.

    Raises:
        NotFoundError `object-missing`: a commit on the way is not here, or is no commit.
    """
    walked: list[Walked] = []
    stop: str | None = None
    for commit, tree, parents in repository.parents(tip):
        if known(commit):
            stop = commit
            break
        walked.append(Walked(commit, tree, parents))
    walked.reverse()
    return walked, stop


def read_walked(repository: Repository, walked: Iterable[Walked]) -> Iterator[StreamCommit]:
    """What walked commits hold, in their order, read in batches."""
    pending = iter(walked)
    while batch := list(islice(pending, _BATCH)):
        yield from _read_batch(repository, batch)


def read_stream(repository: Repository, tip: str) -> Iterator[StreamCommit]:
    """The commits of a stream, oldest first, from the root up to `tip`."""
    yield from read_walked(repository, walk_stream(repository, tip, lambda _: False)[0])


def _read_batch(repository: Repository, batch: list[Walked]) -> Iterator[StreamCommit]:
    from hn_memory.protocol.chain import StreamCommit, StreamEntry

    trees: dict[str, list[TreeEntry]] = {}
    for oid, kind, data in repository.read(dict.fromkeys(tree for _, tree, _ in batch)):
        if kind == "tree":
            trees[oid] = _parse_tree(data, repository.oid_length)
    sizes = {
        entry.oid: _LIMITS[entry.name]
        for entries in trees.values()
        for entry in entries
        if entry.mode == FILE_MODE and entry.name in _LIMITS
    }
    infos = repository.info(sizes)
    wanted = [oid for oid in sizes if oid not in infos or (infos[oid].type == "blob" and infos[oid].size <= sizes[oid])]
    # An absent object is asked for all the same: in a partial clone Git may fetch it.
    blobs = {oid: data for oid, kind, data in repository.read(wanted) if kind == "blob"}
    for commit, tree, parents in batch:
        if tree not in trees:
            yield StreamCommit(commit, parents, None)
        else:
            yield StreamCommit(
                commit, parents, tuple(_entry(entry, infos, blobs, StreamEntry) for entry in trees[tree])
            )


def _parse_tree(data: bytes, oid_length: int) -> list[TreeEntry]:
    """`parse_tree`, with a short way for the one shape that the tree of a memory commit has."""
    raw = oid_length // 2
    middle = len(_FIRST) + raw
    if len(data) == middle + len(_SECOND) + raw and data.startswith(_FIRST) and data.startswith(_SECOND, middle):
        return [
            TreeEntry(FILE_MODE, _MEMORY_NAME, data[len(_FIRST) : middle].hex()),
            TreeEntry(FILE_MODE, _SIGNATURE_NAME, data[middle + len(_SECOND) :].hex()),
        ]
    return parse_tree(data, oid_length)


def _entry(
    entry: TreeEntry, infos: Mapping[str, ObjectInfo], blobs: dict[str, bytes], make: type[StreamEntry]
) -> StreamEntry:
    data = blobs.get(entry.oid)
    if data is not None:
        return make(entry.mode, entry.name.decode(), len(data), data)
    info = infos.get(entry.oid)
    return make(entry.mode, entry.name.decode(errors="backslashreplace"), None if info is None else info.size, None)
