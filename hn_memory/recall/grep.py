"""Selection by a pattern: the work limit, which records match, and what each takes of the budget (section 8).

The gates, the order and the receipt are recall's. What passes every gate is eligible, and is searched; what does
not match is withheld as `no-match`. The work is counted before anything is searched: the instructions of the
pattern times what all eligible records weigh. Of the budget a match takes the JSON of its whole `data`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence

from hn_memory.errors import HnError
from hn_memory.protocol.projection import Context
from hn_memory.protocol.query import NormalRequest
from hn_memory.protocol.searchable import take_texts
from hn_memory.recall.gates import NO_MATCH
from hn_memory.recall.pattern import Pattern
from hn_memory.recall.select import Selection
from hn_memory.repository.world import RepositoryWorld

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


WORK_LIMIT: Final = 67_108_864
"""Instructions times bytes that one search may take (section 8)."""

_SMALLEST: Final = 3
"""Instructions of the smallest pattern."""

_AT_ONCE: Final = 1 << 20
"""Bytes of payloads that are searched together, so that the memory stays flat."""


class PatternSelection(Selection):
    """A selection whose matches are the eligible records that a pattern is found in.

    Raises:
        HnError `work-limit`: the eligible records together are too much for this pattern.
    """

    _NEED = "(SELECT need FROM struck WHERE struck.n = memory.n)"

    def __init__(
        self,
        connection: sqlite3.Connection,
        request: NormalRequest,
        context: Context,
        world: RepositoryWorld,
        pattern: Pattern,
    ) -> None:
        super().__init__(connection, request, context, world)
        weight = self._weight()
        if pattern.instructions * weight > WORK_LIMIT:
            raise too_much_work(pattern.instructions, weight, self.passing)
        self._hear(pattern, WORK_LIMIT - pattern.instructions * weight)
        self._keep(_search(pattern, self._eligible()))

    def _weight(self) -> int:
        (weight,) = self._db.execute(
            f"SELECT coalesce(sum(searched), 0) FROM memory WHERE 1 {self._conditions()}"
        ).fetchone()
        return int(weight)

    def _eligible(self) -> Iterator[tuple[int, bytes]]:
        # A generator, so that the query begins when it is read: no table may change under it.
        yield from self._db.execute(
            f"SELECT n, data FROM memory CROSS JOIN payload USING(n) WHERE 1 {self._conditions()}"
        )

    def _payload(self, n: int) -> tuple[int, bytes]:
        (data,) = self._db.execute("SELECT data FROM payload WHERE n = ?", (n,)).fetchone()
        return n, data

    def _keep(self, hits: Iterable[tuple[int, int]]) -> None:
        """Let only these match, given by row number and bytes of `data`."""
        self._table("struck", "n INTEGER PRIMARY KEY, need INTEGER NOT NULL")
        # Read to the end before anything is written, so that no table changes under the query.
        found = list(hits)
        self._db.executemany("INSERT INTO struck VALUES(?,?)", found)
        self._narrow = "struck"
        self.matched = len(found)
        if self.passing > self.matched:
            self.withheld[NO_MATCH] += self.passing - self.matched

    def _hear(self, pattern: Pattern, left: int) -> None:
        """Which of the withheld records would match, so that only those are called out.

        They are searched in the order of their IDs for as long as the rest of the work limit lasts; what it does
        not last for is called out, since it may match.
        """
        self._unheard = super()._called_out()
        rows = self._db.execute(
            f"SELECT n, (SELECT searched FROM memory WHERE memory.n = found.n) FROM ({self._unheard}) AS found "
            "ORDER BY id"
        ).fetchall()
        affordable: list[int] = []
        heard: list[int] = []
        for n, weight in rows:
            left -= pattern.instructions * weight
            (affordable if left >= 0 else heard).append(n)
        heard += (n for n, _ in _search(pattern, map(self._payload, affordable)))
        self._table("heard", "n INTEGER PRIMARY KEY")
        self._db.executemany("INSERT INTO heard VALUES(?)", [(n,) for n in heard])

    def _called_out(self) -> str:
        return f"SELECT n, id, code FROM ({self._unheard}) WHERE n IN (SELECT n FROM heard)"


def _search(pattern: Pattern, payloads: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, int]]:
    """The row numbers of matching records with the bytes of their `data`."""
    batch: list[tuple[int, bytes]] = []
    held = 0
    for row in payloads:
        batch.append(row)
        held += len(row[1])
        if held >= _AT_ONCE:
            yield from _search_batch(pattern, batch)
            batch, held = [], 0
    yield from _search_batch(pattern, batch)


def _search_batch(pattern: Pattern, batch: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, int]]:
    try:
        haystacks = []
        for _, payload in batch:
            if payload.isascii() and b"\\" not in payload:
                # Every text stands in it as it is, so that only candidates need to be taken apart.
                haystacks.append(payload[payload.index(b'"content":"') :])
            else:
                haystacks.append(pattern.haystack(take_texts(payload).texts))
        taken: dict[int, int] = {}

        def texts_of(at: int) -> list[bytes]:
            texts, taken[at] = take_texts(batch[at][1])
            return texts

        for at in pattern.sift(haystacks, texts_of):
            yield batch[at][0], taken[at]
    except ValueError:
        raise HnError("index-corrupt", "a stored memory is not what its ID says") from None


def too_much_work(instructions: int, weight: int, records: int) -> HnError:
    """The refusal of a search that would take more than the work limit."""
    hint = (
        f"Narrow the records to {WORK_LIMIT // instructions} bytes with --topic, --kind, --path, --actor or "
        "another filter"
    )
    if WORK_LIMIT // weight >= _SMALLEST:
        hint += f", or write a pattern of at most {WORK_LIMIT // weight} instructions"
    return HnError(
        "work-limit",
        f"too much to search: {instructions} instructions of the pattern x {weight} bytes in {records} "
        f"{'record' if records == 1 else 'records'} = {instructions * weight}, limit {WORK_LIMIT}",
        hint=f"{hint}.",
        field="pattern",
    )
