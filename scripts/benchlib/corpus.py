"""What the measured memories say: the same for the same seed, on every machine.

Content has 100 to 900 bytes of words from a fixed vocabulary, drawn with the frequencies of natural text
(Zipf), so that a query word may be in most records or in very few. About 8% of the memories supersede an
earlier record, 3% retract one, and 3% are challenges by a second actor.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from hn_memory.protocol.record import Anchor, Applicability, Handoff, PathAnchor, Record


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SUPERSEDES: Final = 0.08
RETRACTIONS: Final = 0.03
CHALLENGES: Final = 0.03
BRANCHING: Final = 0.002
"""Share of memories that supersede a record which already has a successor."""

TOPICS: Final = _words(
    "storage index sync grep keys policy release review api cli docs tests cache network build parser "
    "schema migration security performance logging retries quota billing search import export backup "
    "packaging locale windows telemetry"
)
COMMON_TOPIC: Final = TOPICS[0]
RARE_TOPIC: Final = TOPICS[-2]

_KINDS: Final = ("decision", "observation", "attempt", "verification", "assumption", "handoff")
_KIND_WEIGHTS: Final = (30, 30, 15, 10, 10, 5)
_OUTCOMES: Final = ("succeeded", "failed", "inconclusive", "abandoned")
_REASONS: Final = ("incorrect", "outdated", "evidence-mismatch", "superseded-by-events")
_OPENINGS: Final = ("We", "The team", "This change", "A measurement", "Nobody", "The reviewer", "Every caller")
_ONSETS: Final = _words("b br c ch d dr f fl g gr h j k l m n p pl qu r s sh st t tr v w")
_RIMES: Final = _words(
    "ade all ane ark ask atch ean eed ell ent erge ick ide ight ine ing oad oke ond ore orm ount uff"
)
_COMMON: Final = _words(
    "the to of and in is a for that with on as be by it from are not this at or when has only after before "
    "cache index commit stream reader writer lock pack tree blob record query policy branch merge retry "
    "timeout latency budget schema parser token session worker queue batch cursor remote clone bundle"
)


def vocabulary() -> tuple[str, ...]:
    """About 1,900 words, the most frequent first."""
    made = [onset + rime for onset in _ONSETS for rime in _RIMES]
    made += [word + suffix for word in made[::2] for suffix in ("er", "ing", "ed")]
    random.Random("hn bench vocabulary").shuffle(made)
    return tuple(dict.fromkeys([*_COMMON, *made]))


WORDS: Final = vocabulary()
_WEIGHTS: Final = tuple(accumulate(1.0 / (rank + 3.0) for rank in range(len(WORDS))))

COMMON_WORD: Final = WORDS[40]
"""A word that is in a good part of the records."""
RARE_WORDS: Final = f"{WORDS[400]} {WORDS[1200]}"
"""Two words that few records hold together."""


@dataclass(frozen=True)
class CodeHistory:
    """The code that the memories are about, as `build` made it."""

    head: str
    anchors: tuple[str, ...]
    """Commits that records are anchored at, oldest first; the last few are on a side branch."""
    blobs: tuple[str, ...]
    """Existing blobs, for evidence."""
    files: tuple[dict[str, str], ...]
    """For each anchor: some paths of its tree and their blobs."""


@dataclass(frozen=True)
class Draft:
    """A statement before its place in a stream is known. `target` is the number of an earlier memory."""

    author: int
    operation: str
    record: Record | None = None
    target: int | None = None
    reason: str | None = None


class Corpus:
    """An endless supply of drafts for one size of repository."""

    def __init__(self, size: int, code: CodeHistory) -> None:
        self._random = random.Random(f"hn bench corpus {size}")
        self._size = size
        self._code = code
        self._open: list[int] = []
        self._done: list[int] = []

    def drafts(self, count: int, start: int = 0) -> Iterator[Draft]:
        """The next `count` drafts; the first of them will be memory number `start`."""
        for number in range(start, start + count):
            yield self._draft(number)

    def _draft(self, number: int) -> Draft:
        draw = self._random.random()
        if len(self._open) > 8:
            if draw < SUPERSEDES:
                if draw < BRANCHING and self._done:
                    target = self._random.choice(self._done)
                else:
                    target = self._take()
                    self._done.append(target)
                self._open.append(number)
                return Draft(0, "supersede", record=self.record(number), target=target)
            if draw < SUPERSEDES + RETRACTIONS:
                return Draft(0, "retract", target=self._take(), reason=self._random.choice(_REASONS))
            if draw < SUPERSEDES + RETRACTIONS + CHALLENGES:
                return Draft(1, "challenge", target=self._random.choice(self._open), reason="evidence-mismatch")
        self._open.append(number)
        return Draft(0, "record", record=self.record(number))

    def _take(self) -> int:
        """An open record, rather a late one than an early one."""
        at = int(len(self._open) * self._random.random() ** 0.5)
        self._open[at], self._open[-1] = self._open[-1], self._open[at]
        return self._open.pop()

    def record(self, number: int) -> Record:
        """One record. Anchors move on with the numbers, as code does."""
        draw = self._random
        kind = draw.choices(_KINDS, _KIND_WEIGHTS)[0]
        anchors = self._code.anchors
        drift = draw.gauss(number / max(self._size, 1) * len(anchors), 2.5)
        at = min(max(int(drift), 0), len(anchors) - 1)
        subject, mode = None, "descendants"
        if (choice := draw.random()) < 0.03:
            digest = hashlib.sha256(b"hn bench subject %d" % draw.randrange(12)).hexdigest()
            subject, mode = f"issue:sha256:{digest}", "subject"
        elif choice < 0.08:
            mode = "exact"
        paths: tuple[PathAnchor, ...] = ()
        if draw.random() < 0.1:
            files = self._code.files[at]
            names = sorted(draw.sample(sorted(files), min(len(files), draw.choice((1, 1, 2)))))
            paths = tuple(PathAnchor(name, files[name]) for name in names)
        return Record(
            kind=kind,
            content=self.content(),
            anchor=Anchor(anchors[at], paths, subject),
            applicability=Applicability(mode, subject),
            topics=self._topics(),
            evidence=self._evidence(number, least=1 if kind == "verification" else 0),
            attempt_outcome=draw.choice(_OUTCOMES) if kind == "attempt" else None,
            handoff=self._handoff() if kind == "handoff" else None,
        )

    def content(self) -> str:
        """Sentences of 100 to 900 bytes altogether."""
        draw = self._random
        goal = draw.randrange(100, 870)
        words = draw.choices(WORDS, cum_weights=_WEIGHTS, k=goal // 6 + 8)
        parts, at = [draw.choice(_OPENINGS)], 0
        size = len(parts[0])
        while size < goal and at < len(words):
            parts.append(words[at])
            size += len(words[at]) + 1
            at += 1
            if at % 13 == 0:
                parts[-1] += "."
                parts.append(draw.choice(_OPENINGS))
                size += len(parts[-1]) + 2
        return " ".join(parts)[:899] + "."

    def _topics(self) -> tuple[str, ...]:
        # Ranks follow a power law; the last topic gathers what lies beyond, so the rare one is the last but one.
        ranks = (int(self._random.paretovariate(0.7)) - 1 for _ in range(self._random.choice((1, 2, 2))))
        return tuple(sorted({TOPICS[min(rank, len(TOPICS) - 1)] for rank in ranks}))

    def _evidence(self, number: int, least: int) -> tuple[str, ...]:
        draw, blobs = self._random, self._code.blobs
        count = max(least, draw.choice((0, 0, 1, 1, 2, 3)))
        # Every blob is cited as soon as there are records enough, whatever chance says.
        picked = dict.fromkeys(blobs[number % len(blobs)] if at == 0 else draw.choice(blobs) for at in range(count))
        return tuple(f"git:{blob}" for blob in picked)

    def _handoff(self) -> Handoff:
        def items() -> tuple[str, ...]:
            return tuple(
                " ".join(self._random.choices(WORDS, cum_weights=_WEIGHTS, k=8))
                for _ in range(self._random.randrange(4))
            )

        return Handoff(items(), items(), items(), items() or ("go on",))
