"""Reading memory streams out of a repository: which sources there are, and what their commits hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.identifiers import FILE_MODE, LOCAL_PREFIX, REMOTES_PREFIX, SourceName, parse_source_ref
from hn_memory.repository.base import ObjectInfo, Repository, TreeEntry, parse_tree

if TYPE_CHECKING:
    from hn_memory.protocol.chain import StreamCommit, StreamEntry

_BATCH = 512


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
            invalid.append(InvalidSource(ref.name, error.message, error.code))
            continue
        if name is None:
            continue
        if ref.target is None:
            # The fingerprint covers every well-named source; a symbolic one has no head of its own.
            sources.append(Source(name, ref.symbolic or "", "a memory ref must not be symbolic"))
        else:
            sources.append(Source(name, ref.target))
    return sources, invalid


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
    """What walked commits hold, in their order, read in batches.

    Raises:
        HnError `object-missing`: a tree is not here.
    """
    pending = iter(walked)
    while batch := list(islice(pending, _BATCH)):
        yield from _read_batch(repository, batch)


def read_stream(repository: Repository, tip: str) -> Iterator[StreamCommit]:
    """The commits of a stream, oldest first, from the root up to `tip`."""
    yield from read_walked(repository, walk_stream(repository, tip, lambda _: False)[0])


def _read_batch(repository: Repository, batch: list[Walked]) -> Iterator[StreamCommit]:
    from hn_memory.protocol.chain import StreamCommit

    trees: dict[str, list[TreeEntry]] = {}
    for oid, kind, data in repository.read(dict.fromkeys(tree for _, tree, _ in batch)):
        if kind == "tree":
            trees[oid] = parse_tree(data, repository.oid_length)
    sizes = {
        entry.oid: limits.FILE_BYTES[entry.name.decode()]
        for entries in trees.values()
        for entry in entries
        if entry.mode == FILE_MODE and entry.name.decode(errors="replace") in limits.FILE_BYTES
    }
    infos = repository.info(sizes)
    wanted = [oid for oid in sizes if oid not in infos or (infos[oid].type == "blob" and infos[oid].size <= sizes[oid])]
    # An absent object is asked for all the same: in a partial clone Git may fetch it.
    blobs = {oid: data for oid, kind, data in repository.read(wanted) if kind == "blob"}
    for commit, tree, parents in batch:
        if tree not in trees:
            raise HnError("object-missing", f"the tree of commit {commit} is not in the object store")
        yield StreamCommit(commit, parents, tuple(_entry(entry, infos, blobs) for entry in trees[tree]))


def _entry(entry: TreeEntry, infos: Mapping[str, ObjectInfo], blobs: dict[str, bytes]) -> StreamEntry:
    from hn_memory.protocol.chain import StreamEntry

    data = blobs.get(entry.oid)
    info = infos.get(entry.oid)
    size = len(data) if data is not None else (info.size if info is not None else None)
    return StreamEntry(entry.mode, entry.name.decode(errors="backslashreplace"), size, data)
