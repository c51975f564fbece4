"""What every use case works in: a repository, its keys, its index, and the time. Nothing is global."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from hn_memory.errors import UsageError
from hn_memory.repository.base import Repository
from hn_memory.repository.clock import Clock, system_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from typing import Any, TypeVar

    from hn_memory.index.ingest import Entry
    from hn_memory.index.store import Index
    from hn_memory.index.update import Progress
    from hn_memory.index.words import Stemmer
    from hn_memory.protocol.chain import ChainHead
    from hn_memory.repository.keyring import Keyring
    from hn_memory.repository.streams import InvalidSource
    from hn_memory.repository.writer import Appended
    from hn_memory.service.embedders import Embedder

    T = TypeVar("T")

_FEW = 16
"""Records appended at once of which it is said that others say the same."""


class Environment:
    """One open repository and what goes with it.

    Attributes:
        actor: act as this identity instead of the active one.
        notices: lines for people (stderr) that no result carries.
        progress: told how far a long verification has come.
        embedder: what search has started to make vectors with, and the settings that it was started for.
        stemmer: what search has brought words to their stems with.
        known_tips: heads of local streams that this process verified or wrote, by ref.
    """

    __slots__ = (
        "_index",
        "_keyring",
        "_pending",
        "_read",
        "actor",
        "clock",
        "embedder",
        "known_tips",
        "notices",
        "progress",
        "repository",
        "stemmer",
    )

    def __init__(
        self,
        repository: Repository,
        actor: str | None = None,
        clock: Clock = system_clock,
        progress: Progress | None = None,
    ) -> None:
        self.repository = repository
        self.actor = actor
        self.clock = clock
        self.progress = progress
        self.notices: list[str] = []
        self.known_tips: dict[str, ChainHead] = {}
        self.embedder: tuple[dict[str, str], Embedder] | None = None
        self.stemmer: Stemmer | None = None
        self._index: Index | None = None
        self._keyring: Keyring | None = None
        self._pending: list[Appended] = []
        self._read: dict[str, tuple[tuple[int, int, int] | None, Any]] = {}

    @property
    def keyring(self) -> Keyring:
        """The identities of this clone; reading memories needs none."""
        if self._keyring is None:
            from hn_memory.repository.keyring import Keyring

            self._keyring = Keyring(self.repository.layout.common_dir, self.actor)
        return self._keyring

    def unchanged(self, name: str, read: Callable[[], T]) -> T:
        """What `read` makes of a private file, asked again only when the file is another or was changed.

        Args:
            name: relative to `hn/`; the file may be absent.
        """
        try:
            status = os.lstat(f"{self.repository.layout.common}/hn/{name}")
            mark = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        except OSError:
            mark = None
        known = self._read.get(name)
        if known is not None and known[0] == mark:
            value: T = known[1]
            return value
        value = read()
        self._read[name] = (mark, value)
        return value

    def index(self, meanwhile: Callable[[], None] | None = None) -> Index:
        """The verified index, brought up to the refs as they are now.

        Args:
            meanwhile: done while a changed index is brought to the disk, if it has to be.
        """
        if self._pending:
            self._flush()
        index = self.open_index().refresh(meanwhile)
        self.note_index(index)
        return index

    def remember(self, appended: Sequence[Appended]) -> None:
        """Keep what was just appended for the index; it is told before it is read, or at the end."""
        last = appended[-1]
        from hn_memory.protocol.chain import ChainHead

        self.known_tips[last.ref] = ChainHead(last.envelope.sequence, last.memory_id, last.commit)
        self._pending += appended

    def settle(self, limit: int) -> None:
        """Tell the index now if more than `limit` memories wait for it: a process that stays must not pile them up."""
        if len(self._pending) > limit:
            self._flush()

    def _flush(self) -> None:
        """Tell the index what this process appended, so that nobody verifies it again."""
        from hn_memory.index.ingest import take_apart
        from hn_memory.protocol.identifiers import parse_source_ref
        from hn_memory.repository.streams import Source

        pending, self._pending = self._pending, []
        streams: dict[str, list[Appended]] = {}
        for one in pending:
            streams.setdefault(one.ref, []).append(one)
        for ref, group in streams.items():
            name = parse_source_ref(ref)
            if name is not None:
                entries = [
                    take_apart(one.commit, one.parents, one.memory_id, one.envelope, one.payload) for one in group
                ]
                self.open_index().absorb(Source(name, group[-1].commit), entries)
                if len(entries) <= _FEW:
                    self._note_same(entries)

    def _note_same(self, entries: Sequence[Entry]) -> None:
        """Mention active records that said the same before, where the index is at hand and knows."""
        from hn_memory.index.lookup import same_content

        for entry in entries:
            if entry.kind is None:
                continue
            other = self.open_index().peek(lambda db, entry=entry: same_content(db, entry.same, entry.id))  # type: ignore[misc]
            if other is not None:
                self.notices.append(
                    f"an active record says exactly the same: {other}; `hn memory duplicates` lists such records"
                )

    def open_index(self) -> Index:
        """The index as it was left; `refresh` it before reading."""
        if self._index is None:
            from hn_memory.index.store import Index

            self._index = Index(self.repository, self.progress)
        return self._index

    def query(self, index: Index, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Ask an index that was refreshed, and say so when it was found damaged on the way."""
        before = (index.state, index.detail)
        answer = index.query(ask)
        if (index.state, index.detail) != before:
            self.note_index(index)
        return answer

    def note_index(self, index: Index) -> None:
        """Say in one line what became of an index that was not simply there."""
        if index.state == "rebuilt" and index.heads:
            self.notices.append(f"the index was rebuilt from the signed commits: {index.detail}")
        elif index.state == "memory":
            self.notices.append(f"answered without the index file: {index.detail}")

    def note_invalid(self, invalid: list[InvalidSource]) -> None:
        """Name every source that is left out."""
        self.notices += [f"left out {source.ref}: {source.reason}" for source in invalid]

    def close(self) -> None:
        """Release the index and the repository."""
        if self._pending:
            self._flush()
        if self.embedder is not None:
            self.embedder[1].close()
        if self._index is not None:
            self._index.close()
        self.repository.close()


def seconds_of(variable: str, default: float, most: int) -> float:
    """A time limit that an environment variable sets, in seconds.

    Raises:
        UsageError `timeout-invalid`: it is no number, or not more than 0 and at most `most`.
    """
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= most:
        raise UsageError(
            "timeout-invalid", f"{variable} must be seconds, more than 0 and at most {most}", field=variable
        )
    return seconds
