"""Reading memory streams out of a repository: which sources there are, and what their commits hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from hn_memory.errors import HnError
from hn_memory.protocol.chain import FILE_LIMITS, FILE_MODE, StreamCommit, StreamEntry
from hn_memory.protocol.identifiers import LOCAL_PREFIX, REMOTES_PREFIX, SourceName, parse_source_ref
from hn_memory.repository.base import ObjectInfo, Repository, TreeEntry, parse_tree

_BATCH = 512


@dataclass(frozen=True, slots=True)
class Source:
    """A memory ref with a well-formed name. `invalid` says why it is not read at all, or is None."""

    name: SourceName
    head: str
    invalid: str | None = None


@dataclass(frozen=True, slots=True)
class InvalidSource:
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


def read_stream(repository: Repository, tip: str, stop: str | None = None) -> Iterator[StreamCommit]:
    """The commits of a stream, oldest first, from after `stop` (or the root) up to `tip`.

    First parents are followed; whether more parents may stand there is the verifier's business.

    Raises:
        HnError `object-missing`: a commit on the way is not here, or is no commit.
    """
    walked = list(repository.parents(tip, stop))
    walked.reverse()
    pending = iter(walked)
    while batch := list(islice(pending, _BATCH)):
        yield from _read_batch(repository, batch)


def read_commit(repository: Repository, oid: str) -> StreamCommit:
    """One memory commit alone.

    Raises:
        HnError `object-missing`.
    """
    for commit, tree, parents in repository.parents(oid):
        return next(_read_batch(repository, [(commit, tree, parents)]))
    raise HnError("object-missing", f"commit {oid} is not in the object store")


def _read_batch(repository: Repository, batch: list[tuple[str, str, tuple[str, ...]]]) -> Iterator[StreamCommit]:
    trees: dict[str, list[TreeEntry]] = {}
    for oid, kind, data in repository.read(dict.fromkeys(tree for _, tree, _ in batch)):
        if kind == "tree":
            trees[oid] = parse_tree(data, repository.oid_length)
    limits = {
        entry.oid: FILE_LIMITS[entry.name.decode()]
        for entries in trees.values()
        for entry in entries
        if entry.mode == FILE_MODE and entry.name.decode(errors="replace") in FILE_LIMITS
    }
    infos = repository.info(limits)
    wanted = [
        oid for oid in limits if oid not in infos or (infos[oid].type == "blob" and infos[oid].size <= limits[oid])
    ]
    # An absent object is asked for all the same: in a partial clone Git may fetch it.
    blobs = {oid: data for oid, kind, data in repository.read(wanted) if kind == "blob"}
    for commit, tree, parents in batch:
        if tree not in trees:
            raise HnError("object-missing", f"the tree of commit {commit} is not in the object store")
        yield StreamCommit(commit, parents, tuple(_entry(entry, infos, blobs) for entry in trees[tree]))


def _entry(entry: TreeEntry, infos: Mapping[str, ObjectInfo], blobs: dict[str, bytes]) -> StreamEntry:
    data = blobs.get(entry.oid)
    info = infos.get(entry.oid)
    size = len(data) if data is not None else (info.size if info is not None else None)
    return StreamEntry(entry.mode, entry.name.decode(errors="backslashreplace"), size, data)
