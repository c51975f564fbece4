"""Which records concern a file: what to know before it is changed.

By how they concern it, in this order: their anchor binds the path; it binds a directory above the path, or another
file in one of them (the root left out), the nearest first; they cite a blob that the path holds or held where records
are anchored; they mention the path, or at least its name, in what they say.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

from hn_memory.index.searchtables import postings
from hn_memory.index.words import Stemmer, words
from hn_memory.protocol import limits
from hn_memory.protocol.searchable import take_texts

ANCHORED: Final = 1.0
DIRECTORY: Final = 0.75
_FARTHER: Final = 0.01
_FARTHEST: Final = 10
EVIDENCE: Final = 0.5
MENTION: Final = 0.3
MENTION_OF_NAME: Final = 0.15


def concerned(db: sqlite3.Connection, path: str, blobs: Iterable[str]) -> dict[int, float]:
    """How much records concern a path, by row number; those that do not are left out.

    Args:
        path: from the root, `/`-separated.
        blobs: IDs of the blobs that it is or was.
    """
    found: dict[int, float] = {}

    def note(rows: Iterable[tuple[int]], worth: float) -> None:
        for (n,) in rows:
            found.setdefault(n, worth)

    note(db.execute("SELECT n FROM bound WHERE p = (SELECT p FROM path WHERE name = ?)", (path,)), ANCHORED)
    for steps, directory in enumerate(_above(path)):
        worth = DIRECTORY - _FARTHER * min(steps, _FARTHEST)
        for p, name in db.execute(
            "SELECT p, name FROM path WHERE name = ?1 OR (name > ?1 || '/' AND name < ?1 || '0')", (directory,)
        ).fetchall():
            if name == directory or "/" not in name[len(directory) + 1 :]:
                note(db.execute("SELECT n FROM bound WHERE p = ?", (p,)), worth)
    for blob in sorted(set(blobs)):
        note(
            db.execute("SELECT n FROM cites WHERE e = (SELECT e FROM evidence WHERE item = ?)", ("git:" + blob,)),
            EVIDENCE,
        )
    name = path.rpartition("/")[2]
    for text, worth in ((path, MENTION), (name, MENTION_OF_NAME)):
        note(_mentioning(db, text), worth)
    return found


def _above(path: str) -> list[str]:
    """The directories above a path, the nearest first, without the root and those too long for an anchor to bind."""
    parts = path[: limits.PATH_BYTES + 1].split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _mentioning(db: sqlite3.Connection, text: str) -> list[tuple[int]]:
    """Records in which a text stands, and not as a part of a longer name."""
    wanted = words(text)
    if not wanted:
        return []
    stems = Stemmer().stems(wanted)
    # The last word is all of a name as one; whoever mentions the name holds it.
    rows = {n for _, numbers in postings(db, stems[wanted[-1]]) for n in numbers}
    needle = text.encode()
    hits: list[tuple[int]] = []
    for n in sorted(rows):
        (payload,) = db.execute("SELECT data FROM payload WHERE n = ?", (n,)).fetchone()
        if any(_stands_in(needle, field) for field in take_texts(payload).texts):
            hits.append((n,))
    return hits


_NAMING: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def _stands_in(needle: bytes, text: bytes) -> bool:
    at = text.find(needle)
    while at >= 0:
        end = at + len(needle)
        before = at == 0 or text[at - 1] not in _NAMING
        after = end == len(text) or text[end] not in _NAMING
        if before and after:
            return True
        at = text.find(needle, at + 1)
    return False
