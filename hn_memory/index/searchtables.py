"""The tables that search reads: which record holds which word how often, and how long each record is.

A word of a record stands in the FTS5 table `words` once, as `stem:w`, where `w` is the step of its weighted count:
a word of content or of a handoff counts 1, of an anchored path 2, of a topic 3. So one look-up of a stem and a step
gives the row numbers of all records that weigh the same for that word, without reading them.

The tables are filled by whoever searches, with all records that have come since: neither recording nor recalling
waits for them. Records are taken in the order of their row numbers, and a later record has a higher one, so what
is missing is what lies beyond the last one (`place`). A record that leaves the index leaves these tables with it.

Statistics are those of the index, that is, of all records of the accepted sources, whatever a request filters.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection
from math import log

from hn_memory.index.words import Stemmer, words
from hn_memory.protocol.hashing import sha256
from hn_memory.protocol.jsonbytes import loads
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


CONTENT_WEIGHT: Final = 1
PATH_WEIGHT: Final = 2
TOPIC_WEIGHT: Final = 3

STEPS: Final = (1, 2, 3, 4, 5, 6, 8, 11, 16)
"""Weighted counts that are told apart; one in between counts as the next lower."""

_BATCH: Final = 1024
_CHUNK: Final = 4096
_EXACT: Final = 64
"""Lengths below this are kept as they are, longer ones within four hundredths."""
_GROWTH: Final = 1.04

_LENGTHS: Final = tuple(code if code < _EXACT else round(_EXACT * _GROWTH ** (code - _EXACT)) for code in range(256))
"""The length in words that a byte stands for."""

Progress = Callable[[str, int, int], None]


class Spoken(NamedTuple):
    """What a record says: stems with their weighted counts, and its length in words."""

    weights: dict[str, int]
    length: int


class Corpus(NamedTuple):
    """The statistics of all records.

    Attributes:
        records: how many there are.
        mean_length: of a record, in words.
        codes: the length of each record by row number, as a code.
    """

    records: int
    mean_length: float
    codes: bytes


def length_of(code: int) -> int:
    """The length in words that a code of `Corpus.codes` stands for."""
    return _LENGTHS[code]


def field_words(record: dict[str, Any], signals: Collection[str] = ("text", "topic", "path")) -> dict[str, list[str]]:
    """The words of a record's JSON value by the signal that they give: `text`, `topic` and `path`."""
    found: dict[str, list[str]] = {}
    if "text" in signals:
        found["text"] = words(record["content"])
        for items in (record.get("handoff") or {}).values():
            for item in items:
                found["text"] += words(item)
    if "topic" in signals:
        found["topic"] = [word for topic in record["topics"] for word in words(topic)]
    if "path" in signals:
        found["path"] = [word for pair in record["anchor"].get("paths", ()) for word in words(pair["path"])]
    return found


def missing(db: sqlite3.Connection) -> bool:
    """Are there records that these tables do not know?"""
    return (
        db.execute(
            "SELECT 1 FROM memory WHERE n > coalesce((SELECT max(n) FROM place), 0) AND class IS NOT NULL LIMIT 1"
        ).fetchone()
        is not None
    )


def fill(db: sqlite3.Connection, progress: Progress | None = None) -> None:
    """Take in all records that are not known yet, inside a transaction of the caller's."""
    (last,) = db.execute("SELECT coalesce(max(n), 0) FROM place").fetchone()
    wanted = [n for (n,) in db.execute("SELECT n FROM memory WHERE n > ? AND class IS NOT NULL ORDER BY n", (last,))]
    if len(wanted) > _BATCH:
        # Few large portions are merged faster than many small ones.
        db.execute("INSERT INTO words(words, rank) VALUES('hashsize', 33554432)")
    stemmer = Stemmer()
    streams: dict[tuple[str, str], int] = {
        (actor, stream): s
        for s, actor, stream in db.execute("SELECT s, actor.id, stream.id FROM stream JOIN actor USING(a)")
    }
    for at in range(0, len(wanted), _BATCH):
        _fill_batch(db, wanted[at : at + _BATCH], stemmer, streams)
        if progress is not None:
            progress("words", min(at + _BATCH, len(wanted)), len(wanted))


def _fill_batch(
    db: sqlite3.Connection, numbers: list[int], stemmer: Stemmer, streams: dict[tuple[str, str], int]
) -> None:
    payloads = dict(
        db.execute("SELECT n, data FROM payload WHERE n BETWEEN ? AND ?", (numbers[0], numbers[-1])).fetchall()
    )
    envelopes = {n: loads(payloads[n]) for n in numbers}
    fields = {n: field_words(envelope["record"]) for n, envelope in envelopes.items()}
    stems = stemmer.stems(word for kinds in fields.values() for found in kinds.values() for word in found)
    texts: list[tuple[int, str]] = []
    places: list[tuple[int, int, int, bytes]] = []
    codes: dict[int, int] = {}
    for n in numbers:
        envelope = envelopes[n]
        spoken = _weigh(fields[n], stems)
        texts.append((n, _tokens(spoken.weights)))
        codes[n] = _code(spoken.length)
        digest = sha256(envelope["record"]["content"].encode()).digest()
        places.append((n, streams[envelope["actor"], envelope["stream"]], envelope["sequence"], digest))
    db.executemany("INSERT INTO words(rowid, text) VALUES(?,?)", texts)
    db.executemany("INSERT INTO place(n, s, sequence, digest) VALUES(?,?,?,?)", places)
    _set_codes(db, codes)
    db.execute(
        "UPDATE tally SET records = records + ?, words = words + ?",
        (len(numbers), sum(_LENGTHS[code] for code in codes.values())),
    )


def forget(db: sqlite3.Connection, n: int, payload: bytes) -> None:
    """Take a record out again, if it was taken in; inside a transaction of the caller's."""
    row = db.execute("SELECT digest FROM place WHERE n = ?", (n,)).fetchone()
    if row is None:
        return
    fields = field_words(loads(payload)["record"])
    spoken = _weigh(fields, Stemmer().stems(word for found in fields.values() for word in found))
    # A contentless FTS table forgets a row only when it is told what the row said.
    db.execute("INSERT INTO words(words, rowid, text) VALUES('delete', ?, ?)", (n, _tokens(spoken.weights)))
    db.execute("DELETE FROM place WHERE n = ?", (n,))
    # Others may say the same; what they mean is then asked again.
    db.execute("DELETE FROM vector WHERE digest = ?", row)
    _set_codes(db, {n: 0})
    db.execute("UPDATE tally SET records = records - 1, words = words - ?", (_LENGTHS[_code(spoken.length)],))


def read_corpus(db: sqlite3.Connection) -> Corpus:
    """The statistics of all records."""
    records, total = db.execute("SELECT records, words FROM tally").fetchone()
    chunks = dict(db.execute("SELECT k, codes FROM lengths").fetchall())
    empty = bytes(_CHUNK)
    codes = b"".join(chunks.get(k, empty) for k in range(max(chunks, default=-1) + 1))
    return Corpus(records, total / records if records and total else 1.0, codes)


def postings(db: sqlite3.Connection, stem: str) -> list[tuple[int, list[int]]]:
    """The row numbers of the records that hold a stem, by the step of their weighted counts."""
    found = db.execute(_POSTINGS, [f'"{stem}:{at}"' for at in range(len(STEPS))])
    return [(step, listed(numbers)) for step, numbers in found if numbers is not None]


# Row by row would take several times longer: each row gives up the interpreter's lock and takes it again.
_POSTINGS: Final = " UNION ALL ".join(
    f"SELECT {step}, (SELECT group_concat(rowid) FROM words WHERE words MATCH ?{at})"
    for at, step in enumerate(STEPS, 1)
)


def listed(numbers: str | None) -> list[int]:
    """Row numbers that were brought together by `group_concat`."""
    return [] if numbers is None else list(map(int, numbers.split(",")))


def marks(numbers: Collection[int]) -> str:
    """Row numbers as the list of an `IN`."""
    return f"({','.join(map(str, numbers))})"


def places_of(db: sqlite3.Connection, numbers: Collection[int]) -> dict[int, tuple[int, int]]:
    """Stream and sequence of records."""
    rows = db.execute(f"SELECT n, s, sequence FROM place WHERE n IN {marks(numbers)}")
    return {n: (s, sequence) for n, s, sequence in rows}


def stream_lengths(db: sqlite3.Connection, streams: Collection[int]) -> dict[int, int]:
    """The sequence of the last record of streams."""
    return {s: db.execute("SELECT max(sequence) FROM place WHERE s = ?", (s,)).fetchone()[0] for s in sorted(streams)}


def beside(db: sqlite3.Connection, numbers: Collection[int], reach: int) -> list[tuple[int, int, int]]:
    """Who stands within `reach` of records in their streams: the record, the other one, and how far after it that
    is (negative: before it), in the order of the streams."""
    return db.execute(
        "SELECT a.n, b.n, b.sequence - a.sequence FROM place a CROSS JOIN place b INDEXED BY place_at "
        "ON b.s = a.s AND b.sequence BETWEEN a.sequence - ?1 AND a.sequence + ?1 "
        f"WHERE a.n IN {marks(numbers)} AND b.sequence <> a.sequence ORDER BY a.s, a.sequence, b.sequence",
        (reach,),
    ).fetchall()


def _weigh(fields: dict[str, list[str]], stems: dict[str, str]) -> Spoken:
    weights = Counter(
        {stem: count * CONTENT_WEIGHT for stem, count in Counter(map(stems.__getitem__, fields["text"])).items()}
    )
    for field, weight in (("topic", TOPIC_WEIGHT), ("path", PATH_WEIGHT)):
        for word in fields[field]:
            weights[stems[word]] += weight
    return Spoken(weights, len(fields["text"]))


def _tokens(weights: dict[str, int]) -> str:
    return " ".join(f"{stem}:{_step(weight)}" for stem, weight in weights.items())


def _step(weight: int) -> int:
    at = len(STEPS) - 1
    while STEPS[at] > weight:
        at -= 1
    return at


def _code(length: int) -> int:
    if length < _EXACT:
        return max(1, length)
    return min(255, _EXACT + round(log(length / _EXACT) / log(_GROWTH)))


def _set_codes(db: sqlite3.Connection, codes: dict[int, int]) -> None:
    chunks: dict[int, bytearray] = {}
    for n, code in codes.items():
        k, at = divmod(n, _CHUNK)
        if k not in chunks:
            row = db.execute("SELECT codes FROM lengths WHERE k = ?", (k,)).fetchone()
            chunks[k] = bytearray(_CHUNK if row is None else row[0])
        chunks[k][at] = code
    db.executemany(
        "INSERT OR REPLACE INTO lengths(k, codes) VALUES(?,?)", [(k, bytes(codes)) for k, codes in chunks.items()]
    )
