"""Selection by a question: which records that pass every gate answer it, in which order (`recall.ranking`).

The gates, the page and the receipt are recall's. A match holds a word of the question, replaced a record that does, or
is near in meaning; what does not match is withheld as `no-match`. Everything is scored over row numbers
first; of the best ones alone more is read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from heapq import merge
from itertools import groupby

from hn_memory.index.lookup import successors
from hn_memory.index.searchtables import (
    beside,
    length_of,
    listed,
    marks,
    places_of,
    postings,
    read_corpus,
    stream_lengths,
)
from hn_memory.index.words import Stemmer, question_words
from hn_memory.protocol.projection import LIFECYCLES, Context
from hn_memory.protocol.query import NormalRequest
from hn_memory.recall.gates import NO_MATCH
from hn_memory.recall.ranking import (
    DIGITS,
    FRESHNESS,
    HERITAGE,
    POOL,
    REACH,
    Mode,
    context_weight,
    day_of,
    freshness,
    fuse,
    own_signal,
    rarity,
    saturation,
)
from hn_memory.recall.select import Match, Selection
from hn_memory.repository.world import RepositoryWorld
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


MOST_WORDS: Final = 256
"""Distinct words of a question that are looked for; the first ones of a longer text."""

_FEW: Final = 2_000
_TEXT_OF_PATH: Final = 0.1
"""What the text signal adds among records that concern a file equally."""

Nearness = Callable[[sqlite3.Connection, Callable[[set[int]], set[int]]], Mapping[int, float]]
"""Gives the meaning signal of records; it is handed the gates, as a function that keeps the row numbers that pass."""


class Hit(NamedTuple):
    """A match with its score and the signals that made it."""

    match: Match
    score: float
    text: float = 0.0
    meaning: float = 0.0
    path: float = 0.0
    fresh: bool = False


class RankedSelection(Selection):
    """A selection whose matches are ranked by a question.

    Args:
        question: any text; none of it is syntax.
        mode: which signals count.
        nearness: the meaning signal, for the modes that use it.
        concern: how much records concern a file, by row number; then only these match, and the question ranks those
            that concern it equally.
        stemmer: what questions before this one used, which knows many words.

    Attributes:
        words: the words that are looked for; `stems` are theirs, `stemmer` made them.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        request: NormalRequest,
        context: Context,
        world: RepositoryWorld,
        question: str,
        mode: Mode = "lexical",
        nearness: Nearness | None = None,
        concern: Mapping[int, float] | None = None,
        stemmer: Stemmer | None = None,
    ) -> None:
        super().__init__(connection, request, context, world)
        self._mode = mode
        self._everything = self.passing + sum(self.withheld.values())
        self.words = question_words(question)[:MOST_WORDS]
        self.stemmer = Stemmer() if stemmer is None else stemmer
        known = self.stemmer.stems(self.words)
        self.stems = tuple(dict.fromkeys(known[word] for word in self.words))
        self._lists: list[tuple[float, list[tuple[int, list[int]]]]] = []
        self._total = 0.0
        self._sums: list[float] = []
        held = self._score_text() if self.stems and mode != "meaning" else set()
        self._held = held
        self._heard: list[tuple[int]] | None = None
        if concern is not None:
            self._close = self._rank_concern(self._gated(set(concern)), concern)
            self._others: set[int] = set()
        else:
            near = {} if nearness is None or mode == "lexical" else nearness(connection, self._gated)
            self._close, self._others = self._rank(held, near)
        self._hits = {hit.match.n: hit for hit in self._close}
        self.matched = len(self._close) + len(self._others)
        if self.passing > self.matched:
            self.withheld[NO_MATCH] += self.passing - self.matched

    # -- scores -------------------------------------------------------------------------------------------

    def _score_text(self) -> set[int]:
        """The sums of BM25 by row number, and who holds any word."""
        corpus = read_corpus(self._db)
        codes = corpus.codes
        against = [saturation(length_of(code), corpus.mean_length) for code in range(256)]
        sums = [0.0] * len(codes)
        held: set[int] = set()
        for stem in self.stems:
            lists = postings(self._db, stem)
            weight = rarity(corpus.records, sum(len(rows) for _, rows in lists))
            for step, rows in lists:
                held.update(rows)
                if len(rows) < len(against):
                    for n in rows:
                        sums[n] += weight * step / (step + against[codes[n]])
                    continue
                worth = [weight * step / (step + other) for other in against]
                for n in rows:
                    sums[n] += worth[codes[n]]
            self._lists.append((weight, lists))
            self._total += weight
        self._sums = sums
        return held

    def _gated(self, numbers: set[int]) -> set[int]:
        """Those of the records that pass every gate."""
        if self.passing == self._everything or not numbers:
            return numbers
        if len(numbers) <= _FEW:
            asked = f"FROM memory WHERE n IN {marks(numbers)} {self._conditions()}"
            return set(self._numbers(asked))
        ordered = "FROM memory INDEXED BY memory_order WHERE class IS NOT NULL"
        if self.passing * 2 < self._everything:
            return numbers.intersection(self._numbers(f"{ordered} {self._conditions()}"))
        return numbers.difference(self._numbers(f"{ordered} AND NOT (1 {self._conditions()})"))

    def _numbers(self, origin: str) -> list[int]:
        (found,) = self._db.execute(f"SELECT group_concat(n) {origin}").fetchone()
        return listed(found)

    def _own(self, numbers: set[int]) -> dict[int, float]:
        """The text signal of what records hold themselves."""
        covered = dict.fromkeys(numbers, 0.0)
        for weight, lists in self._lists:
            for _, rows in lists:
                for n in numbers.intersection(rows):
                    covered[n] += weight
        return {
            n: own_signal(self._sums[n] / self._total, covered[n] / self._total) if covered[n] else 0.0 for n in numbers
        }

    # -- order --------------------------------------------------------------------------------------------

    def _rank(self, held: set[int], near: Mapping[int, float]) -> tuple[list[Hit], set[int]]:
        """The matches that were looked at closely, in order, and the rest."""
        gated = self._gated(held)
        givers = self._best(gated).union(near)
        heirs = self._heirs(self._best(held - gated))
        around = [found for found in beside(self._db, givers, REACH) if found[1] in gated or found[1] in near]
        close = givers.union([other for _, other, _ in around], self._gated(set(heirs)))
        own = self._own(close) if self._total else dict.fromkeys(close, 0.0)
        text, meaning = dict(own), {n: near.get(n, 0.0) for n in close}
        for n, other, distance in around:
            weight = context_weight(distance)
            text[other] += weight * own[n]
            meaning[other] += weight * near.get(n, 0.0)
        for n, inherited in heirs.items():
            if n in close:
                text[n] += HERITAGE * inherited
        relevance = {n: fuse(self._mode, text[n], meaning[n]) for n in close}
        hits = self._freshened({n: value for n, value in relevance.items() if value > 0}, text, meaning)
        return hits, gated - close

    def _heirs(self, withheld: set[int]) -> dict[int, float]:
        """Who replaced withheld matches, with the best text signal of those that each replaced."""
        replaced = successors(self._db, withheld)
        own = self._own(set(replaced))
        heirs: dict[int, float] = {}
        for n, found in replaced.items():
            for heir in found:
                heirs[heir] = max(heirs.get(heir, 0.0), own[n])
        return heirs

    def _best(self, held: set[int]) -> set[int]:
        """The `POOL` best of them by their sums; of those that are equal the newest."""
        if len(held) <= POOL:
            return held
        sums, total = self._sums, self._total
        bar = sorted(map(sums.__getitem__, held))[-POOL]
        least = round(bar / total, DIGITS)
        # What is rounded alike differs by no more than a last digit.
        bar -= 2 * 10.0**-DIGITS * total
        rounded = {n: round(sums[n] / total, DIGITS) for n in held if sums[n] >= bar}
        above = {n for n, value in rounded.items() if value > least}
        equal = [n for n, value in rounded.items() if value == least]
        if len(equal) + len(above) > POOL:
            equal = [match.n for match in self._in_order(equal)][: POOL - len(above)]
        return above.union(equal)

    def _freshened(
        self, relevance: Mapping[int, float], text: Mapping[int, float], meaning: Mapping[int, float]
    ) -> list[Hit]:
        """Hits with their final scores, in order."""
        matches = {match.n: match for match in self._in_order(relevance)}
        fresh = self._fresh(matches)
        plain = sorted(matches, key=lambda n: -round(relevance[n], DIGITS))
        rank = {n: at for at, n in enumerate(plain)}
        scored = {n: round(relevance[n] * (1 + FRESHNESS * fresh[n]), DIGITS) for n in plain}
        ordered = sorted(matches, key=lambda n: -scored[n])
        return [Hit(matches[n], scored[n], text[n], meaning[n], 0.0, at < rank[n]) for at, n in enumerate(ordered)]

    def _fresh(self, matches: Mapping[int, Match]) -> dict[int, float]:
        places = places_of(self._db, matches)
        last = stream_lengths(self._db, {s for s, _ in places.values()})
        days = {n: day_of(match.timestamp) for n, match in matches.items()}
        newest = max(days.values(), default=0.0)
        return {n: freshness(places[n][1] / last[places[n][0]], newest - days[n]) for n in matches}

    def _rank_concern(self, numbers: set[int], concern: Mapping[int, float]) -> list[Hit]:
        matches = {match.n: match for match in self._in_order(numbers)}
        text = self._own(numbers) if self._total else dict.fromkeys(numbers, 0.0)
        fresh = self._fresh(matches)
        scores = {
            n: round(concern[n] + _TEXT_OF_PATH * min(1.0, text[n]) + FRESHNESS / 4 * fresh[n], DIGITS) for n in matches
        }
        return [Hit(matches[n], scores[n], text[n], path=concern[n]) for n in sorted(matches, key=lambda n: -scores[n])]

    def _in_order(self, numbers: Collection[int]) -> list[Match]:
        """Records by row number, the newest first, as those of equal score stand."""
        return [
            Match(n, "sha256:" + raw.hex(), LIFECYCLES[life], timestamp, size)
            for n, raw, life, timestamp, size in self._db.execute(
                f"SELECT n, id, life, ts, {self._NEED} FROM memory WHERE n IN {marks(numbers)} ORDER BY ts DESC, id"
            )
        ]

    def _ordered(self) -> Iterator[Hit]:
        """All matches in order. The rest is sorted only when somebody gets so far."""
        if not self._others:
            yield from self._close
            return
        bound = self._plain_score(max(self._others, key=self._sums.__getitem__))
        at = 0
        while at < len(self._close) and self._close[at].score > bound:
            yield self._close[at]
            at += 1
        yield from merge(self._close[at:], self._ordered_others(), key=lambda hit: (-hit.score, _Descending(hit.match)))

    def _ordered_others(self) -> Iterator[Hit]:
        numbers = sorted(self._others, key=self._sums.__getitem__, reverse=True)
        for score, group in groupby(numbers, key=self._plain_score):
            for match in self._in_order(list(group)):
                yield Hit(match, score, self._sums[match.n] / self._total / 2)

    def _plain_score(self, n: int) -> float:
        """The score of a match that was not looked at closely: that of its share alone."""
        return round(fuse(self._mode, own_signal(self._sums[n] / self._total, 0.0), 0.0), DIGITS)

    # -- matches ------------------------------------------------------------------------------------------

    def find(self, memory_id: str) -> Match | None:
        row = self._db.execute("SELECT n FROM memory WHERE id = ?", (bytes.fromhex(memory_id[7:]),)).fetchone()
        if row is None or not (row[0] in self._hits or row[0] in self._others):
            return None
        return self._in_order([row[0]])[0]

    def first_larger(self, bound: int) -> Match | None:
        rows = self._db.execute(
            f"SELECT n FROM memory WHERE {self._NEED} > ? AND class IS NOT NULL ORDER BY ts DESC, id", (bound,)
        )
        large = next((n for (n,) in rows if n in self._hits or n in self._others), None)
        return None if large is None else self._in_order([large])[0]

    def matches(self, after: Match | None, limit: int) -> Iterator[Match]:
        waiting = after is not None
        for hit in self._ordered():
            if limit <= 0:
                return
            if not waiting:
                self._hits.setdefault(hit.match.n, hit)
                limit -= 1
                yield hit.match
            elif after is not None and hit.match.n == after.n:
                waiting = False

    def hit(self, n: int) -> Hit:
        """What made a match of a page, by its row number."""
        return self._hits[n]

    def _called_out(self) -> str:
        """Only what would have matched by its words is called out."""
        everything = super()._called_out()
        if self._heard is None:
            self._heard = [(n,) for (n,) in self._db.execute(f"SELECT n FROM ({everything})") if n in self._held]
            self._table("heard", "n INTEGER PRIMARY KEY")
            self._db.executemany("INSERT INTO heard VALUES(?)", self._heard)
        return f"SELECT n, id, code FROM ({everything}) WHERE n IN (SELECT n FROM heard)"


class _Descending:
    """Orders matches as equal scores stand: the newest first, then by ID."""

    __slots__ = ("_key",)

    def __init__(self, match: Match) -> None:
        self._key = (match.timestamp, match.memory_id)

    def __lt__(self, other: _Descending) -> bool:
        if self._key[0] != other._key[0]:
            return self._key[0] > other._key[0]
        return self._key[1] < other._key[1]
