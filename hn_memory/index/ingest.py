"""From commits to what the index stores of them: verified once, here, and taken apart.

Verification is the expensive part of a cold start, so large runs of commits are spread over all cores:
workers read, verify and take apart; the caller links the results into chains, which is cheap and in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from hn_memory.errors import HnError
from hn_memory.protocol.chain import StreamCommit, read_files
from hn_memory.protocol.envelope import Envelope
from hn_memory.protocol.hashing import sha256
from hn_memory.protocol.memory import verify_memory
from hn_memory.protocol.searchable import weigh, written_size
from hn_memory.protocol.unicode import term_text
from hn_memory.repository.streams import Walked, read_walked
from hn_memory.values import NamedTuple, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from hn_memory.repository.base import Repository

PARALLEL_FROM: Final = 2048
"""Commits below which starting workers costs more than it saves."""


_PORTION: Final = 256
"""Commits that are held at a time."""


class Entry(NamedTuple):
    """A verified memory as the index stores it. `text` is where its query terms are found (`term_text`); `searched` is
    what searching it with a pattern costs (`protocol.searchable`), `same` the beginning of the content's digest."""

    commit: str
    parents: tuple[str, ...]
    id: str
    payload: bytes
    operation: str
    actor: str
    stream: str
    sequence: int
    previous: str | None
    timestamp: str
    target: str | None
    kind: str | None = None
    anchor: str = ""
    subject: str | None = None
    mode: str = ""
    paths: tuple[tuple[str, str], ...] = ()
    topics: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    size: int = 0
    text: str = ""
    searched: int = 0
    same: int = 0


class Refused(NamedTuple):
    """A commit that does not verify, and why."""

    commit: str
    code: str
    message: str


def digest_key(digest: bytes) -> int:
    """The first eight bytes of a digest as a number that SQLite can hold."""
    return int.from_bytes(digest[:8], "big", signed=True)


def take_apart(commit: str, parents: tuple[str, ...], memory_id: str, envelope: Envelope, payload: bytes) -> Entry:
    """An entry from a verified envelope."""
    record = envelope.record
    common = (
        commit, parents, memory_id, payload, envelope.operation, envelope.actor, envelope.stream,
        envelope.sequence, envelope.previous, envelope.timestamp, envelope.target,
    )  # fmt: skip
    if record is None:
        return Entry(*common)
    anchor, content, topics = record.anchor, record.content, record.topics
    fields = (
        *common, record.kind, anchor.commit, anchor.subject, record.applicability.mode,
        tuple((pair.path, pair.blob) for pair in anchor.paths) if anchor.paths else (),
        topics, record.evidence, written_size(payload), term_text((content, *topics)), weigh(record),
        digest_key(sha256(content.encode()).digest()),
    )  # fmt: skip
    return make(Entry, fields)


def verify_commit(commit: StreamCommit) -> Entry | Refused:
    """Everything about one commit that can be judged without its neighbours."""
    try:
        payload, signature = read_files(commit)
        memory = verify_memory(payload, signature)
    except HnError as error:
        return Refused(commit.commit, error.code, error.message)
    return take_apart(commit.commit, commit.parents, memory.id, memory.envelope, payload)


def is_readable(repository: Repository, head: str, broken: str | None) -> bool:
    """Can a stream be walked, or, where a commit broke it, that commit be read with all that it holds?"""
    try:
        if broken is None:
            deque(repository.parents(head), maxlen=0)
            return True
        (step,) = islice(repository.parents(broken), 1)
        (entry,) = _verify_chunk(repository, [Walked(*step)])
    except HnError:
        return False
    return not isinstance(entry, Refused) or entry.code not in ("object-missing", "object-corrupt")


def verify_walked(repository: Repository, walked: Sequence[Walked]) -> Iterator[Entry | Refused]:
    """One answer for each walked commit, in their order; spread over all cores when there are many.

    The commits need not be of one stream: each is judged alone.
    """
    if len(walked) >= PARALLEL_FROM and repository.backend != "fake":
        # For a few commits not even the module is worth loading.
        from hn_memory.repository import workers

        if workers.worker_count() > 1:
            yield from workers.spread(
                repository.layout, walked, _verify_chunk, (Entry, Refused), refusal=Refused, prefer="libgit2"
            )
            return
    for at in range(0, len(walked), _PORTION):
        yield from _verify_chunk(repository, walked[at : at + _PORTION])


def _verify_chunk(repository: Repository, chunk: Sequence[Walked]) -> list[Entry | Refused]:
    try:
        return [verify_commit(commit) for commit in read_walked(repository, chunk)]
    except HnError as error:
        if len(chunk) == 1:
            return [Refused(chunk[0].commit, error.code, error.message)]
    # The store refused one object (a damaged one): find out whose it is.
    return [answer for one in chunk for answer in _verify_chunk(repository, [one])]
