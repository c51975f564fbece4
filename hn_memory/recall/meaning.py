"""The meaning signal: how near records are to a question, by the vectors of an embedder (`recall.ranking`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from math import fsum

from hn_memory.index.vectors import cosines, has_direction, stored
from hn_memory.recall.ranking import POOL


def nearness(
    db: sqlite3.Connection, model: str, question: bytes, gated: Callable[[set[int]], set[int]]
) -> tuple[dict[int, float], int]:
    """The meaning signal of the `POOL` records nearest to a question, by row number; and of how many records the
    vector is zero, which is near to nothing.

    Args:
        question: its vector, as `index.vectors.pack` makes one.
        gated: keeps the row numbers of records that pass the gates; the mean is theirs.
    """
    rows = stored(db, model)
    allowed = gated({n for n, _ in rows})
    passing = [row for row in rows if row[0] in allowed]
    rows = [row for row in passing if has_direction(row[1])]
    without = len(passing) - len(rows)
    if not rows:
        return {}, without
    found = cosines(question, [data for _, data in rows])
    mean = fsum(found) / len(found)
    # With a single record nothing stands beside it, and the cosine itself must do.
    if len(found) == 1 or mean >= 1:
        mean = 0.0
    signals = sorted(
        ((value - mean) / (1 - mean), data, n) for value, (n, data) in zip(found, rows, strict=True) if value > mean
    )
    return {n: value for value, _, n in signals[-POOL:]}, without
