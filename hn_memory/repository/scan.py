"""Reading and verifying every source from its first commit: the answer that needs no cache."""

from __future__ import annotations

from collections.abc import Callable

from hn_memory.errors import HnError
from hn_memory.protocol.chain import ChainHead, StreamChain
from hn_memory.protocol.projection import SourceMemory
from hn_memory.repository.base import Repository
from hn_memory.repository.streams import InvalidSource, Source, list_sources, read_stream


class VerifiedSet:
    """The memories of all valid sources, by memory ID, and what was left out.

    `heads` maps every source with a well-formed name, valid or not, to its head: what the fingerprint covers.
    """

    __slots__ = ("heads", "invalid", "memories", "tips", "valid")

    def __init__(self) -> None:
        self.memories: dict[str, SourceMemory] = {}
        self.valid: list[Source] = []
        self.tips: dict[str, ChainHead] = {}
        self.invalid: list[InvalidSource] = []
        self.heads: dict[str, str] = {}

    @property
    def local(self) -> int:
        """How many valid local sources there are."""
        return sum(source.name.remote is None for source in self.valid)

    @property
    def accepted(self) -> int:
        """How many valid sources accepted from remotes there are."""
        return len(self.valid) - self.local


def verify_source(repository: Repository, source: Source) -> tuple[list[SourceMemory], ChainHead]:
    """All memories of one source, oldest first, and its verified tip.

    Raises:
        BrokenStreamError: a commit does not hold.
    """
    chain = StreamChain(source.name.actor, source.name.stream)
    memories: list[SourceMemory] = []
    commit: str | None = None
    try:
        for item in read_stream(repository, source.head):
            commit = item.commit
            memory = chain.accept(item)
            memories.append(SourceMemory(memory.id, item.commit, memory.envelope))
        if chain.head is None:
            raise HnError("object-missing", "the ref names no commit that is here")
    except HnError as error:
        raise BrokenStreamError(error, commit, len(memories) + 1) from None
    return memories, chain.head


class BrokenStreamError(HnError):
    """A source that does not verify: the rule, and where."""

    def __init__(self, cause: HnError, commit: str | None, sequence: int) -> None:
        super().__init__(cause.code, cause.message, field=cause.field)
        self.commit = commit
        self.sequence = sequence

    def as_source(self, ref: str) -> InvalidSource:
        """The same as a value for reports."""
        where = f" (commit {self.commit[:12]}, position {self.sequence})" if self.commit else ""
        return InvalidSource(ref, self.message + where, self.code, self.commit, self.sequence)


def scan(repository: Repository, progress: Callable[[str], None] | None = None) -> VerifiedSet:
    """Verify all sources; a bad one is left out and named, and never hides the others."""
    result = VerifiedSet()
    sources, result.invalid = list_sources(repository)
    for source in sources:
        ref = source.name.ref
        result.heads[ref] = source.head
        if progress is not None:
            progress(ref)
        if source.invalid is not None:
            result.invalid.append(InvalidSource(ref, source.invalid, "source-symbolic"))
            continue
        try:
            memories, tip = verify_source(repository, source)
        except BrokenStreamError as error:
            result.invalid.append(error.as_source(ref))
            continue
        result.valid.append(source)
        result.tips[ref] = tip
        for memory in memories:
            known = result.memories.get(memory.id)
            if known is None or memory.commit < known.commit:
                result.memories[memory.id] = memory
    result.invalid.sort(key=lambda item: item.ref)
    return result
