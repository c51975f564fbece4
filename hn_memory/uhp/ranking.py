"""Words of one memory, and how well its records answer with them (BM25; no statistics of other memories).

Terms are those of the recall of the protocol below: runs of letters and numbers in simple lower case. `text` asks
for every term; `query` is a question, of which the words that carry no meaning are passed over and any of the
others may answer. A question is taken as unanswered (`abstain`) when the best record holds less than a third of
its words, weighted by how rare they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from heapq import heapify, heappop
from math import log
from typing import Final, Generic, TypeVar

from hn_memory.protocol.unicode import terms

K1: Final = 1.2
B: Final = 0.75
COVERED: Final = 1 / 3
RRF: Final = 60.0

_STOP = """
a about an and any are as at be been but by can could did do does for from had has have he her his how i if in into is
it its me my no not of on or our she should so than that the their them then there these they this to was we were what
when where which who whom why will with would you your
"""
STOP_WORDS: Final = frozenset(_STOP.split())

Key = TypeVar("Key", bound=Hashable)


class WordIndex(Generic[Key]):
    """Postings of the records of one memory; changes and questions cost what they touch."""

    def __init__(self, documents: Iterable[tuple[Key, str]] = ()) -> None:
        self._postings: dict[str, dict[Key, int]] = {}
        self._lengths: dict[Key, int] = {}
        self._words: dict[Key, tuple[str, ...]] = {}
        self._total = 0
        for key, text in documents:
            self.add(key, text)

    def add(self, key: Key, text: str) -> None:
        """Take in a record, in place of what it said before."""
        self.remove(key)
        counts: dict[str, int] = {}
        length = 0
        for term in terms(text):
            counts[term] = counts.get(term, 0) + 1
            length += 1
        for term, count in counts.items():
            self._postings.setdefault(term, {})[key] = count
        self._words[key] = tuple(counts)
        self._lengths[key] = length
        self._total += length

    def remove(self, key: Key) -> None:
        """Forget a record, if it is here."""
        words = self._words.pop(key, None)
        if words is None:
            return
        self._total -= self._lengths.pop(key)
        for term in words:
            postings = self._postings[term]
            del postings[key]
            if not postings:
                del self._postings[term]

    def every(self, wanted: list[str]) -> dict[Key, float]:
        """Records that hold every term, scored."""
        if not wanted or not all(term in self._postings for term in wanted):
            return {}
        rarest = sorted(set(wanted), key=lambda term: len(self._postings[term]))
        keys = set(self._postings[rarest[0]])
        for term in rarest[1:]:
            keys &= self._postings[term].keys()
        scores = dict.fromkeys(keys, 0.0)
        for term in rarest:
            self._score(term, scores, only=True)
        return scores

    def some(self, wanted: list[str]) -> dict[Key, float]:
        """Records that hold any of the terms, scored."""
        scores: dict[Key, float] = {}
        for term in dict.fromkeys(wanted):
            self._score(term, scores)
        return scores

    def covered(self, wanted: list[str], key: Key) -> float:
        """The share of the terms' weight that a record holds, 0 to 1."""
        weights = {term: self._weight(term) for term in wanted}
        held = sum(weight for term, weight in weights.items() if key in self._postings.get(term, ()))
        return held / sum(weights.values()) if weights else 0.0

    def _weight(self, term: str) -> float:
        with_term = len(self._postings.get(term, ()))
        return log(1.0 + (len(self._lengths) - with_term + 0.5) / (with_term + 0.5))

    def _score(self, term: str, scores: dict[Key, float], *, only: bool = False) -> None:
        postings = self._postings.get(term)
        if not postings:
            return
        weight = self._weight(term) * (K1 + 1.0)
        flat = K1 * (1.0 - B)
        slope = K1 * B * len(self._lengths) / (self._total or 1)
        lengths = self._lengths
        if only:
            for key in scores:
                count = postings[key]
                scores[key] += weight * count / (count + flat + slope * lengths[key])
            return
        held = scores.get
        for key, count in postings.items():
            scores[key] = held(key, 0.0) + weight * count / (count + flat + slope * lengths[key])


def question_terms(query: str) -> list[str]:
    """The words of a question that carry meaning; all of them where none does."""
    words = list(dict.fromkeys(terms(query)))
    return [word for word in words if word not in STOP_WORDS] or words


def ranked(rankings: Mapping[str, Mapping[Key, float]]) -> Iterator[tuple[Key, float, tuple[str, ...]]]:
    """One ranking out of one per signal, best first: the record, a score in 0..1, the signals that named it.

    A single ranking keeps its own scores, brought into 0..1; several are fused by reciprocal rank, since scores of
    different signals cannot be compared. Made one by one: who wants eight of ten thousand does not sort them all.
    """
    if len(rankings) == 1:
        ((signal, scores),) = rankings.items()
        why = (signal,)
        for negative, key in _descending(scores):
            yield key, negative / (negative - 1.0), why
        return
    fused: dict[Key, float] = {}
    signals: dict[Key, tuple[str, ...]] = {}
    most = len(rankings) / (RRF + 1.0)
    for signal, scores in rankings.items():
        for rank, key in enumerate(sorted(scores, key=lambda one: -scores[one]), 1):
            fused[key] = fused.get(key, 0.0) + 1.0 / (RRF + rank) / most
            signals[key] = (*signals.get(key, ()), signal)
    for negative, key in _descending(fused):
        yield key, -negative, signals[key]


def _descending(scores: Mapping[Key, float]) -> Iterator[tuple[float, Key]]:
    heap = [(-score, key) for key, score in scores.items()]
    heapify(heap)
    while heap:
        yield heappop(heap)
