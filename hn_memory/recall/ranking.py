"""How search ranks, once: every number and formula of it, and nothing that reads.

The text signal of a record lies between 0 and 1 and is a share, not a rescaling of the best hit: of all that the
question's words can weigh, how much this record holds. With `idf` of a word over all records of the index (and
`SMOOTHING` more that hold nothing, so that small collections are judged, too), and `count` its weighted count,

    share    = sum(idf * count / (count + K1 * (1 - B + B * (length + SHORT) / (mean length + SHORT)))) / sum(idf)
    coverage = sum(idf of the words it holds) / sum(idf)
    own      = share * (1 + coverage) / 2

which is BM25 divided by what it can reach, times how much of the question is met. `SHORT` words are added to every
length, since among notes of a line or two the length says little, among long texts much. A word that no record holds
counts in the sums, so that what a question asks for and nobody ever mentioned pulls every score down.

What stands next to a good match in a stream is often the answer, as in a conversation. Each of the `POOL` best
matches gives to the records up to `REACH` places from it: `AFTER * DECAY ** (distance - 1)` of its own signal to
those after it, `BEFORE` likewise to those before it, as far as they match themselves. And what replaced a match that
is withheld inherits from it: a question put in the words of an old decision must find the one that holds now, however
little that repeats. It takes `HERITAGE` of the best signal among the `POOL` best withheld records that it replaced.
`text` is what a record holds and is given.

The meaning signal of a record is how much nearer it is to the question than records are on average, on a scale
where 1 is the same: `(cosine - mean) / (1 - mean)`, at least 0. In `hybrid` mode relevance is
`(1 - MEANING_SHARE) * text + MEANING_SHARE * meaning`, context given to both alike.

Freshness breaks ties: `score = relevance * (1 + FRESHNESS * fresh)`, where `fresh` is the mean of the record's place
in its stream (its sequence over that of the last record) and `2 ** -(age / HALF_LIFE_DAYS)` by signed time, age being
counted from the newest record that is compared. So a record can pass another only that is less than 2 % better.

Search abstains when nothing returned is a plausible answer: `text < ABSTAIN_TEXT` for the best text signal of the
page, with meaning `text + meaning / 2 < ABSTAIN_HYBRID`, by meaning alone `meaning < ABSTAIN_MEANING`.

On what these numbers were chosen, and on what they were checked, `scripts/evaluate` says.
"""

from __future__ import annotations

from math import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, TypeAlias


Mode: TypeAlias = "Literal['lexical', 'meaning', 'hybrid']"
MODES: Final[tuple[Mode, ...]] = ("lexical", "meaning", "hybrid")

K1: Final = 1.2
B: Final = 0.75
SHORT: Final = 50
SMOOTHING: Final = 20

POOL: Final = 64
"""The best matches by one signal that are looked at closely."""
REACH: Final = 3
AFTER: Final = 0.3
BEFORE: Final = 0.2
DECAY: Final = 0.6
HERITAGE: Final = 0.5

MEANING_SHARE: Final = 0.05
MEANING_PLAIN: Final = 0.2
"""From here on the meaning signal is named among the reasons of a row."""

FRESHNESS: Final = 0.02
HALF_LIFE_DAYS: Final = 90.0

ABSTAIN_TEXT: Final = 0.09
ABSTAIN_HYBRID: Final = 0.29
ABSTAIN_MEANING: Final = 0.34

DIGITS: Final = 6
"""Decimal places of a score; what differs beyond them is equal."""


def rarity(records: int, holding: int) -> float:
    """The weight of a word that `holding` of all records hold (idf)."""
    return log(1 + (records + SMOOTHING - holding + 0.5) / (holding + 0.5))


def saturation(length: float, mean_length: float) -> float:
    """What a weighted count is held against: the denominator of BM25 without the count."""
    return K1 * (1 - B + B * (length + SHORT) / (mean_length + SHORT))


def own_signal(share: float, coverage: float) -> float:
    """The text signal of what a record itself holds."""
    return share * (1 + coverage) / 2


def context_weight(distance: int) -> float:
    """What a record takes of a match that stands `distance` places before it (negative: after it)."""
    return (AFTER if distance > 0 else BEFORE) * DECAY ** (abs(distance) - 1)


def fuse(mode: Mode, text: float, meaning: float) -> float:
    """Relevance from the two signals."""
    if mode == "lexical":
        return text
    if mode == "meaning":
        return meaning
    return (1 - MEANING_SHARE) * text + MEANING_SHARE * meaning


def freshness(place: float, age_days: float) -> float:
    """Between 0 and 1. `place` is the record's sequence over that of the last record of its stream."""
    return (place + 2 ** -(age_days / HALF_LIFE_DAYS)) / 2


def abstains(mode: Mode, text: float, meaning: float) -> bool:
    """Is nothing a plausible answer, the best signals of the page being these?"""
    if mode == "lexical":
        return text < ABSTAIN_TEXT
    if mode == "meaning":
        return meaning < ABSTAIN_MEANING
    return text + meaning / 2 < ABSTAIN_HYBRID


def day_of(timestamp: str) -> float:
    """Days since 0000-03-01 of a timestamp as section 4 allows it, its offset and fraction left out."""
    year, month, day = int(timestamp[:4]), int(timestamp[5:7]), int(timestamp[8:10])
    hour, minute, second = int(timestamp[11:13]), int(timestamp[14:16]), int(timestamp[17:19])
    if month < 3:
        year, month = year - 1, month + 12
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 1
    return days + (hour * 3600 + minute * 60 + second) / 86_400
