"""Verifying every source from its first commit with no cache at all, on all cores where there is much.

The answer is that of `repository.scan.scan`, without the memories themselves and with the refs that Git lists nowhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from hn_memory.errors import HnError
from hn_memory.index.ingest import Entry, Refused, verify_walked
from hn_memory.protocol.chain import ChainHead, StreamChain
from hn_memory.repository.base import Repository
from hn_memory.repository.scan import BrokenStreamError, unlisted
from hn_memory.repository.streams import InvalidSource, Source, Walked, list_sources, walk_stream
from hn_memory.values import NamedTuple


class VerifiedSources(NamedTuple):
    """The sources that hold with their verified tips by ref, their memory IDs, and what was left out."""

    valid: list[Source]
    tips: dict[str, ChainHead]
    memory_ids: set[str]
    invalid: list[InvalidSource]


def verify_sources(repository: Repository) -> VerifiedSources:
    """Verify all sources; a bad one is named, and never hides the others."""
    sources, invalid = list_sources(repository)
    result = VerifiedSources([], {}, set(), invalid)
    walks: list[tuple[Source, list[Walked]]] = []
    for source in sources:
        if source.invalid is not None:
            invalid.append(InvalidSource(source.name.ref, source.invalid, "source-symbolic"))
            continue
        try:
            walks.append((source, walk_stream(repository, source.head, lambda _: False)[0]))
        except HnError as error:
            invalid.append(BrokenStreamError(error, None, 1).as_source(source.name.ref))
    # All streams in one run, so that many short ones use all cores as one long one does.
    entries = verify_walked(repository, [commit for _, walked in walks for commit in walked])
    for source, walked in walks:
        part = islice(entries, len(walked))
        try:
            ids, tip = _link(source, part)
        except BrokenStreamError as error:
            invalid.append(error.as_source(source.name.ref))
            # The next source starts at its own first commit.
            deque(part, maxlen=0)
            continue
        result.valid.append(source)
        result.tips[source.name.ref] = tip
        result.memory_ids.update(ids)
    invalid += unlisted(repository)
    invalid.sort(key=lambda item: item.ref)
    return result


def _link(source: Source, entries: Iterator[Entry | Refused]) -> tuple[list[str], ChainHead]:
    chain = StreamChain(source.name.actor, source.name.stream)
    ids: list[str] = []
    commit: str | None = None
    try:
        for entry in entries:
            commit = entry.commit
            if isinstance(entry, Refused):
                raise HnError(entry.code, entry.message)
            chain.link(entry.commit, entry.parents, entry.id, entry)
            ids.append(entry.id)
        if chain.head is None:
            raise HnError("object-missing", "the ref names no commit that is here")
    except HnError as error:
        raise BrokenStreamError(error, commit, len(ids) + 1) from None
    return ids, chain.head
