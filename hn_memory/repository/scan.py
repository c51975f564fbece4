"""Reading and verifying every source from its first commit: the answer that needs no cache."""

from __future__ import annotations

import os
from collections.abc import Callable

from hn_memory.errors import HnError
from hn_memory.protocol.chain import ChainHead, StreamChain
from hn_memory.protocol.identifiers import LOCAL_PREFIX, REMOTES_PREFIX
from hn_memory.protocol.projection import SourceMemory
from hn_memory.repository.base import Repository
from hn_memory.repository.streams import InvalidSource, Source, list_sources, read_stream, shown_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path


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


def unlisted(repository: Repository) -> list[InvalidSource]:
    """Memory refs that Git passes over where it lists refs, so that a stream could vanish in silence.

    These are symbolic refs whose end does not exist, and files without an object ID, as a crash of the machine
    leaves them. Only refs that are files can be so.
    """
    layout = repository.layout
    if layout.ref_format != "files":
        return []
    found: list[InvalidSource] = []
    listed = {ref.name for ref in repository.refs(LOCAL_PREFIX, REMOTES_PREFIX)}
    for name in _files(layout.common_dir, LOCAL_PREFIX) + _files(layout.common_dir, REMOTES_PREFIX):
        if name in listed or name.endswith(".lock") or not _is_memory(name):
            continue
        ref = repository.ref(name)
        if ref is not None and ref.symbolic is not None:
            reason = f"a symbolic ref to {shown_name(ref.symbolic)}, which does not exist"
            found.append(InvalidSource(shown_name(name), reason, "source-symbolic"))
        elif ref is None and (layout.common_dir / name).is_file():
            found.append(InvalidSource(shown_name(name), "its file holds no object ID", "source-broken"))
    return found


def _files(top: Path, prefix: str) -> list[str]:
    """Names of all files below a directory of refs."""
    return [
        os.path.relpath(os.path.join(where, name), top)  # noqa: PTH118
        for where, _, names in os.walk(top / prefix)
        for name in sorted(names)
    ]


def _is_memory(name: str) -> bool:
    return name.startswith(LOCAL_PREFIX) or name.split("/")[4:5] == ["memory"]
