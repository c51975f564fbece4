"""One stream as the records it makes: versions, what closed them, what is erased, and the words of what is active.

A view is fed the verified memories of a stream in order. How they add up:

1. a `record` is version 1 of a new record; its id is made of its memory ID;
2. a `supersede` of a record's latest version is its next version; it also brings a forgotten record back;
3. a `retract` of a record's latest version forgets it; with the reason `erased` or `deleted` the record is in no
   answer any more, at no instant;
4. a `retract` or `supersede` of a record's latest version that the actor wrote in another stream (`heed`) forgets it
   as of then;
5. any other statement about this stream's records changes nothing, and a `supersede` whose target is elsewhere is a
   record of its own.

A version stands from its own time to the time of what closed it, both as signed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from hn_memory.protocol.chain import ChainHead
from hn_memory.service.keeping import Held
from hn_memory.uhp.hn.elsewhere import Closing
from hn_memory.uhp.hn.trailers import split
from hn_memory.uhp.instants import parse_instant
from hn_memory.uhp.ranking import WordIndex
from hn_memory.uhp.values import Author, Content, Draft, FileReference, Selection, Status, Version

FORGOTTEN: Final = "forgotten"
ERASED: Final = "erased"
DELETED: Final = "deleted"
_GONE: Final = frozenset({ERASED, DELETED})

_ID_DIGITS: Final = 32


def record_id(memory_id: str) -> str:
    """The record whose first version a memory is."""
    return "hrec_" + memory_id[7 : 7 + _ID_DIGITS]


@dataclass(slots=True)
class Kept:
    """A version as it was signed, and what closed it: the next version, or a retraction."""

    memory: str
    draft: Draft
    author: Author
    written: str
    at: int
    closed: str | None = None
    closed_at: int | None = None
    forgotten: bool = False


@dataclass(slots=True)
class Chain:
    """One record: its place among the records of the stream, and its versions. `now` is the last one, once asked."""

    id: str
    place: int
    versions: list[Kept] = field(default_factory=list)
    gone: bool = False
    erased: bool = False
    now: Version | None = None


def searched(content: Content, draft: Draft) -> str:
    """The text of a record that words are looked for in: the content (a file's name) and its attributes' texts."""
    text = content.name if isinstance(content, FileReference) else content
    words = [value for value in draft.attributes.values() if isinstance(value, str)]
    return "\n".join([text, *words])


class View:
    """The records of one stream up to a link of it. In a `foreign` one nothing is read as trailers."""

    def __init__(self, memory: str, *, foreign: bool = False) -> None:
        self.memory = memory
        self.head: ChainHead | None = None
        self.actor_name = ""
        self._foreign = foreign
        self.words: WordIndex[str] = WordIndex()
        self.active = 0
        self.heeded = 0
        self.written_ms = 0
        self._chains: dict[str, Chain] = {}
        self._order: list[Chain] = []
        self._places: list[int] = []
        self._place = 0
        self._owners: dict[str, Chain] = {}
        self._did: dict[str, tuple[int, int]] = {}

    # -- taking in ----------------------------------------------------------------------------------------

    def extend(self, memories: Iterable[Held], head: ChainHead) -> None:
        """Take in what follows; `head` is the link of the last of them."""
        for held in memories:
            self._take(held)
        self.head = head

    def _take(self, held: Held) -> None:
        envelope = held.envelope
        at = parse_instant(envelope.timestamp) or 0
        self.actor_name = envelope.actor_name
        self.written_ms = max(self.written_ms, at // 1_000_000)
        target = self._owners.get(envelope.target) if envelope.target is not None else None
        latest = None if target is None else target.versions[-1]
        current = latest is not None and latest.memory == envelope.target
        if envelope.record is None:
            if envelope.operation == "retract" and current and target is not None:
                self._close(target, envelope.timestamp, at, envelope.reason or "")
                self._owners[held.id] = target
                self._did[held.id] = (len(target.versions) - 1, at)
            return
        stated = None if self._foreign else split(envelope.record.content)
        if stated is None:
            draft = Draft(envelope.record.content, f"x.hn.{envelope.record.kind}")
            author = Author("actor", envelope.actor)
        else:
            draft, author = stated.draft, stated.author
        kept = Kept(held.id, draft, author, envelope.timestamp, at)
        if target is None or latest is None or not current:
            self._place += 1
            target = Chain(record_id(held.id), self._place)
            self._chains[target.id] = target
            self._order.append(target)
            self._places.append(self._place)
            self.active += 1
        else:
            if latest.forgotten:
                self.active += not target.gone
            else:
                latest.closed, latest.closed_at = envelope.timestamp, at
        target.versions.append(kept)
        target.now = None
        self._owners[held.id] = target
        self._did[held.id] = (len(target.versions) - 1, at)
        if not target.gone:
            self.words.add(target.id, searched(draft.content, draft))

    def heed(self, closings: Sequence[Closing]) -> None:
        """Take in what is said elsewhere: all of it, of which what was heeded before is passed over."""
        for closing in closings[self.heeded :]:
            chain = self._owners.get(closing.target)
            if chain is not None and chain.versions[-1].memory == closing.target:
                self._close(chain, closing.written, closing.at, closing.reason)
        self.heeded = len(closings)

    def _close(self, chain: Chain, closed: str, at: int, reason: str) -> None:
        latest = chain.versions[-1]
        if not latest.forgotten:
            latest.closed, latest.closed_at, latest.forgotten = closed, at, True
            self.active -= not chain.gone
        chain.now = None
        chain.gone = chain.gone or reason in _GONE
        chain.erased = chain.erased or reason == ERASED
        self.words.remove(chain.id)

    # -- answering ----------------------------------------------------------------------------------------

    def chain(self, record: str) -> Chain | None:
        """A record that is here and not erased."""
        found = self._chains.get(record)
        return None if found is None or found.gone else found

    def holds(self, record: str, number: int) -> bool:
        """Is this version of a record here, and the record not erased?"""
        chain = self.chain(record)
        return chain is not None and number <= len(chain.versions)

    def to_erase(self, records: Iterable[str]) -> list[Chain]:
        """Records by their ids that are here or were erased already."""
        chains = (self._chains.get(record) for record in dict.fromkeys(records))
        return [chain for chain in chains if chain is not None and (chain.erased or not chain.gone)]

    def latest(self, chain: Chain) -> Version:
        """The last version as it stands now."""
        if chain.now is None:
            chain.now = self._version(chain, len(chain.versions) - 1, None)
        return chain.now

    def at(self, chain: Chain, as_of: int | None) -> Version | None:
        """The version that stood at an instant, None before the first."""
        if as_of is None:
            return self.latest(chain)
        for number in range(len(chain.versions) - 1, -1, -1):
            if chain.versions[number].at <= as_of:
                return self._version(chain, number, as_of)
        return None

    def history(self, chain: Chain) -> list[Version]:
        """All versions, oldest first."""
        return [self._version(chain, number, None) for number in range(len(chain.versions))]

    def written(self, memories: Iterable[str]) -> list[Version] | None:
        """The versions that memories of this stream wrote or closed, as of then; None if one of them is not here."""
        found: list[Version] = []
        for memory in memories:
            chain = self._owners.get(memory)
            if chain is None:
                return None
            found.append(self._version(chain, *self._did[memory]))
        return found

    def select(self, selection: Selection, after: int = 0) -> Iterator[tuple[int, Version]]:
        """Latest versions in order of first writing, after a place, with their places."""
        for chain in self._order[bisect_right(self._places, after) :]:
            if chain.gone:
                continue
            version = self.at(chain, selection.as_of)
            if version is None or (version.status == "forgotten" and not selection.forgotten):
                continue
            if not selection.types or version.type in selection.types:
                yield chain.place, version

    def everything(self) -> list[Version]:
        """All versions of all records that are not erased."""
        return [version for chain in self._order if not chain.gone for version in self.history(chain)]

    def newest(self) -> Iterator[Version]:
        """Active records, the last written first."""
        chains = [chain for chain in self._order if not chain.gone and not chain.versions[-1].forgotten]
        chains.sort(key=lambda chain: (chain.versions[-1].at, chain.place), reverse=True)
        for chain in chains:
            yield self.latest(chain)

    def open_chains(self) -> list[Chain]:
        """Records that are neither forgotten nor erased."""
        return [chain for chain in self._order if not chain.gone and not chain.versions[-1].forgotten]

    def _version(self, chain: Chain, at: int, as_of: int | None) -> Version:
        """A version as it stands now, or as it stood at an instant when it was the last one."""
        kept = chain.versions[at]
        last = as_of is not None or at == len(chain.versions) - 1
        closed = kept.closed if as_of is None or (kept.closed_at is not None and kept.closed_at <= as_of) else None
        status: Status = "active"
        if closed is not None:
            status = "forgotten" if last and kept.forgotten else "superseded"
        draft = kept.draft
        return Version(
            memory_id=self.memory,
            record_id=chain.id,
            number=at + 1,
            type=draft.type,
            content=draft.content,
            attributes=draft.attributes,
            references=draft.references,
            valid_from=draft.valid_from,
            valid_to=draft.valid_to,
            written_at=kept.written,
            written_by=kept.author,
            status=status,
            invalidated_at=closed,
        )
