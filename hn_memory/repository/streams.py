"""Reading memory streams out of a repository: which sources there are, and what their commits hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

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
from hn_memory.repository.base import Repository, TreeEntry, parse_tree
from hn_memory.values import NamedTuple, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hn_memory.protocol.chain import StreamCommit, StreamEntry

_BATCH = 512

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
        if not walked and known(commit):
            stop = commit
            break
        walked.append(make(Walked, (commit, tree, parents)))
        if parents and known(parents[0]):
            # What it says is known, so it need not be read.
            stop = parents[0]
            break
    walked.reverse()
    return walked, stop


def read_walked(
    repository: Repository, walked: Iterable[Walked], known: Mapping[str, tuple[str, int]] | None = None
) -> Iterator[StreamCommit]:
    """What walked commits hold, in their order, read in batches.

    Args:
        known: types and sizes (bytes) of objects, where the caller has them already and need not ask again.
    """
    pending = iter(walked)
    while batch := list(islice(pending, _BATCH)):
        yield from _read_batch(repository, batch, known or {})


def read_stream(repository: Repository, tip: str) -> Iterator[StreamCommit]:
    """The commits of a stream, oldest first, from the root up to `tip`."""
    yield from read_walked(repository, walk_stream(repository, tip, lambda _: False)[0])


def _read_batch(
    repository: Repository, batch: list[Walked], known: Mapping[str, tuple[str, int]]
) -> Iterator[StreamCommit]:
    from hn_memory.protocol.chain import StreamCommit, StreamEntry

    ordinary: dict[str, tuple[str, str]] = {}
    others: dict[str, list[TreeEntry]] = {}
    length = repository.oid_length
    for oid, kind, data in repository.read(dict.fromkeys(tree for _, tree, _ in batch)):
        if kind == "tree":
            files = _two_files(data, length // 2)
            if files is None:
                others[oid] = parse_tree(data, length)
            else:
                ordinary[oid] = files
    allowed = _allowed(ordinary.values(), others.values())
    headers, blobs = repository.read_within(allowed, known)
    for commit, tree, parents in batch:
        files = ordinary.get(tree)
        if files is not None:
            memory, signature = blobs.get(files[0]), blobs.get(files[1])
            if memory is not None and signature is not None:
                first = make(StreamEntry, (FILE_MODE, MEMORY_FILE, len(memory), memory))
                second = make(StreamEntry, (FILE_MODE, SIGNATURE_FILE, len(signature), signature))
                yield make(StreamCommit, (commit, parents, (first, second)))
                continue
            entries = [TreeEntry(FILE_MODE, name, oid) for name, oid in zip(_LIMITS, files, strict=True)]
        elif tree in others:
            entries = others[tree]
        else:
            yield StreamCommit(commit, parents, None)
            continue
        yield StreamCommit(commit, parents, tuple(_entry(entry, headers, blobs, StreamEntry) for entry in entries))


def _allowed(ordinary: Iterable[tuple[str, str]], others: Iterable[list[TreeEntry]]) -> dict[str, int]:
    """The blobs that commits name as their files, and how many bytes of each are worth reading.

    Commits of several streams are read together, and one may name as its signature what is another's memory: of
    what different files allow, the most counts. Whether a file is too large for what it is, is judged later.
    """
    memory_limit, signature_limit = _LIMITS.values()
    allowed: dict[str, int] = {}
    for memory, signature in ordinary:
        allowed[memory] = memory_limit
        allowed.setdefault(signature, signature_limit)
    for entries in others:
        for entry in entries:
            if entry.mode == FILE_MODE and entry.name in _LIMITS:
                allowed[entry.oid] = max(allowed.get(entry.oid, 0), _LIMITS[entry.name])
    return allowed


def _two_files(data: bytes, raw: int) -> tuple[str, str] | None:
    """The blobs in the one shape that the tree of a memory commit has, without looking at every byte of it.

    Args:
        raw: bytes of an object ID.
    """
    middle = len(_FIRST) + raw
    if len(data) == middle + len(_SECOND) + raw and data.startswith(_FIRST) and data.startswith(_SECOND, middle):
        return data[len(_FIRST) : middle].hex(), data[middle + len(_SECOND) :].hex()
    return None


def _entry(
    entry: TreeEntry, headers: Mapping[str, tuple[str, int]], blobs: dict[str, bytes], make: type[StreamEntry]
) -> StreamEntry:
    data = blobs.get(entry.oid)
    if data is not None:
        return make(entry.mode, entry.name.decode(), len(data), data)
    header = headers.get(entry.oid)
    return make(entry.mode, entry.name.decode(errors="backslashreplace"), None if header is None else header[1], None)
