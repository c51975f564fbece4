"""Bringing the index up to the refs: read and verify what is new, drop what is no longer reachable.

A commit's rows exist exactly as long as some source's chain holds it. `link.live` counts the sources; when
the last one goes (a rewind, a deletion) the rows go too, and their text with them.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from hn_memory.errors import HnError
from hn_memory.index.lifecycles import Lifecycles
from hn_memory.index.schema import INDEXES, JUDGED_INDEXES
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from hn_memory.index.ingest import Entry, Refused
    from hn_memory.protocol.chain import ChainHead
    from hn_memory.repository.base import Repository
    from hn_memory.repository.streams import Source, Walked

Progress = Callable[[str, int, int], None]
"""Called with a phase (`read`, `verify`, `link`), how many are done and how many there are."""

BATCH: Final = 1024
"""Verified commits that are stored together."""


class Walk(NamedTuple):
    """Commits of a source that the index does not know yet, oldest first, and the known one below them."""

    commits: list[Walked]
    stop: str | None


def _rounds(moved: Iterable[Source]) -> list[list[Source]]:
    """Sources of one stream in different rounds, so that the second finds what the first brought in."""
    rounds: list[list[Source]] = []
    seen: dict[tuple[str, str], int] = {}
    for source in moved:
        stream = (source.name.actor, source.name.stream)
        at = seen.get(stream, 0)
        seen[stream] = at + 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(source)
    return rounds


def _broken(cause: HnError, commit: str | None, position: int) -> HnError:
    # Streams that do not hold are rare, and nobody else should load what says so.
    from hn_memory.repository.scan import BrokenStreamError

    return BrokenStreamError(cause, commit, position)


class Updater(Lifecycles):
    """Applies changes of sources to the tables, inside a transaction of the caller's."""

    def __init__(
        self, connection: sqlite3.Connection, repository: Repository, progress: Progress | None = None
    ) -> None:
        super().__init__(connection, repository)
        self._progress = progress

    def build(self, sources: Iterable[Source], stored: Callable[[], None]) -> None:
        """Take in sources where there are only empty tables, and make their indexes.

        Args:
            stored: called when nearly all that will be is in the tables.
        """
        rounds = _rounds(sources)
        # Streams share no memory: each names its stream. So in the first round nothing is met twice, nothing
        # need be looked for, and what the indexes are for is wanted only after it.
        self._all_new = True
        for group in rounds[:1]:
            self._take_in(group, self._write_counts)
        self._all_new = False
        stored()
        self._touched.clear()
        self._targets.clear()
        self._make_indexes(INDEXES)
        self._settle_from_nothing()
        self._make_indexes(JUDGED_INDEXES)
        for group in rounds[1:]:
            self._take_in(group, self._settle)
        self._resolve_unknown_paths()
        self._sweep()

    def apply(self, moved: Iterable[Source], gone: Iterable[tuple[str, int | None]]) -> None:
        """Take in moved sources, drop gone ones, and settle the lifecycles that this touches."""
        for group in _rounds(moved):
            # Settled source by source, so that undoing a broken one undoes nothing else.
            self._take_in(group, self._settle)
        for ref, tip in gone:
            self._shift(tip, None)
            self._db.execute("DELETE FROM source WHERE ref = ?", (ref,))
            self._settle()
        self._resolve_unknown_paths()
        self._sweep()

    def _take_in(self, group: Sequence[Source], settle: Callable[[], None]) -> None:
        """Sources of different streams, settled one by one."""
        from hn_memory.index.ingest import verify_walked

        walks = [self._walk(source) for source in group]
        # All streams in one run, so that many short ones use all cores as one long one does.
        entries = verify_walked(
            self._repository, [commit for walk in walks if not isinstance(walk, HnError) for commit in walk.commits]
        )
        for source, walk in zip(group, walks, strict=True):
            if isinstance(walk, Walk) and walk.stop is not None and not self._has_link(walk.stop):
                # Another source let go of the commit that this walk had ended at.
                deque(islice(entries, len(walk.commits)), maxlen=0)
                again = self._walk(source)
                commits = [] if isinstance(again, HnError) else again.commits
                self._move(source, again, verify_walked(self._repository, commits))
            else:
                self._move(source, walk, entries)
            settle()

    def append(self, source: Source, entries: Sequence[Entry]) -> None:
        """Take in memories that this process signed itself, where the index knows the stream up to them.

        Elsewhere nothing happens: the next reader verifies what is between.
        """
        row = self._db.execute("SELECT head, tip FROM source WHERE ref = ?", (source.name.ref,)).fetchone()
        head, tip = (None, None) if row is None else row
        if entries[0].parents != (() if head is None else (head,)) or (head is not None and tip is None):
            return
        self._store_source(source, self._insert(entries, tip))
        self._settle()
        self._sweep()

    def _make_indexes(self, statements: str) -> None:
        for statement in statements.strip().splitlines():
            self._db.execute(statement)

    # -- sources ------------------------------------------------------------------------------------------

    def _walk(self, source: Source) -> Walk | HnError:
        """The commits of a source that the index does not know, or why they cannot be walked."""
        from hn_memory.repository.streams import walk_stream

        if source.invalid is not None:
            return HnError("source-symbolic", source.invalid)
        row = self._db.execute(
            "SELECT s FROM stream JOIN actor USING(a) WHERE actor.id = ? AND stream.id = ?",
            (source.name.actor, source.name.stream),
        ).fetchone()

        def known(commit: str) -> bool:
            if row is None:
                return False
            found = self._db.execute("SELECT 1 FROM link WHERE oid = ? AND s = ?", (bytes.fromhex(commit), row[0]))
            return found.fetchone() is not None

        try:
            walked, stop = walk_stream(self._repository, source.head, known)
        except HnError as error:
            return _broken(error, None, 0)
        if not walked and stop is None:
            return HnError("object-missing", "the ref names no commit that is here")
        return Walk(walked, stop)

    def _move(self, source: Source, walk: Walk | HnError, entries: Iterator[Entry | Refused]) -> None:
        row = self._db.execute("SELECT tip FROM source WHERE ref = ?", (source.name.ref,)).fetchone()
        old = None if row is None else row[0]
        try:
            if isinstance(walk, HnError):
                raise walk
            tip = self._advance(source, old, walk, islice(entries, len(walk.commits)))
        except HnError as error:
            from hn_memory.repository.scan import BrokenStreamError

            self._shift(old, None)
            broken = error.as_source(source.name.ref) if isinstance(error, BrokenStreamError) else None
            self._db.execute(
                "INSERT OR REPLACE INTO source(ref, head, code, reason, broken, position) VALUES(?,?,?,?,?,?)",
                (
                    source.name.ref, source.head, error.code, broken.reason if broken else error.message,
                    broken.commit if broken else None, broken.sequence if broken else None,
                ),
            )  # fmt: skip
            return
        self._store_source(source, tip)

    def _store_source(self, source: Source, tip: int | None) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO source(ref, head, tip) VALUES(?,?,?)", (source.name.ref, source.head, tip)
        )

    def _advance(self, source: Source, old: int | None, walk: Walk, entries: Iterator[Entry | Refused]) -> int:
        """Verify what is new on a source and move its hold on the chain; its new tip."""
        from hn_memory.index.ingest import Refused
        from hn_memory.protocol.chain import StreamChain

        stop = walk.stop
        base = None if stop is None else self._link_of(stop)
        chain = StreamChain(source.name.actor, source.name.stream, None if stop is None else self._head_of(stop))
        start = 0 if chain.head is None else chain.head.sequence
        batch: list[Entry] = []
        position, commit = start, None
        # A single batch is stored after all of it was looked at, so that nothing can be to undo.
        undoable = len(walk.commits) > BATCH
        if undoable:
            self._db.execute("SAVEPOINT advance")
        try:
            tip = base
            for entry in entries:
                commit = entry.commit
                if isinstance(entry, Refused):
                    raise HnError(entry.code, entry.message)
                chain.link(entry.commit, entry.parents, entry.id, entry)
                position += 1
                batch.append(entry)
                if len(batch) == BATCH:
                    tip = self._insert(batch, tip)
                    batch = []
                    if self._progress is not None:
                        self._progress("verify", position - start, len(walk.commits))
            tip = self._insert(batch, tip)
        except HnError as error:
            if undoable:
                self._db.execute("ROLLBACK TO advance")
                self._db.execute("RELEASE advance")
                self._forget_ids()
            # What this stream has left in the run is not looked at, but taken, for the next stream's sake.
            deque(entries, maxlen=0)
            raise _broken(error, commit, position + 1) from None
        if undoable:
            self._db.execute("RELEASE advance")
        # The rows just inserted are held already; below them the hold moves from the old tip to the base.
        self._shift(old, base)
        if tip is None:
            raise HnError("object-missing", "the ref names no commit that is here")
        return tip

    def _has_link(self, commit: str) -> bool:
        found = self._db.execute("SELECT 1 FROM link WHERE oid = ?", (bytes.fromhex(commit),))
        return found.fetchone() is not None

    def _link_of(self, commit: str) -> int:
        row = self._db.execute("SELECT c FROM link WHERE oid = ?", (bytes.fromhex(commit),)).fetchone()
        return int(row[0])

    def _head_of(self, commit: str) -> ChainHead:
        from hn_memory.protocol.chain import ChainHead

        sequence, memory_id = self._db.execute(
            "SELECT link.sequence, memory.id FROM link JOIN memory USING(n) WHERE link.oid = ?",
            (bytes.fromhex(commit),),
        ).fetchone()
        return ChainHead(sequence, "sha256:" + memory_id.hex(), commit)

    def _shift(self, old: int | None, new: int | None) -> None:
        """Move one source's hold from the chain of `old` to the chain of `new`."""
        db = self._db

        def place(c: int | None) -> tuple[int, int | None]:
            if c is None:
                return 0, None
            sequence, parent = db.execute("SELECT sequence, parent FROM link WHERE c = ?", (c,)).fetchone()
            return sequence, parent

        at_old, at_new = place(old), place(new)
        released: list[int] = []
        while old != new:
            if new is not None and at_new[0] >= at_old[0]:
                db.execute("UPDATE link SET live = live + 1 WHERE c = ?", (new,))
                new = at_new[1]
                at_new = place(new)
            elif old is not None:
                db.execute("UPDATE link SET live = live - 1 WHERE c = ?", (old,))
                released.append(old)
                old = at_old[1]
                at_old = place(old)
        self._drop(released)
