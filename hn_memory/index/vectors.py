"""Vectors of contents as an embedder made them, kept in the index by the digest of the content and the model.

A vector is stored as whole numbers from -127 to 127, scaled by its largest part, after their sum of squares. So the
cosine of two of them comes from whole numbers alone and is the same on every machine, with numpy and without.
"""

from __future__ import annotations

import sqlite3
import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import isfinite, sqrt
from operator import mul
from typing import Final

from hn_memory.errors import HnError
from hn_memory.protocol.jsonbytes import loads

_HEAD: Final = struct.Struct("<I")
_WORTH_NUMPY: Final = 2_000_000
"""Products of numbers from which importing numpy pays for itself."""


def pack(vector: Sequence[float]) -> bytes:
    """A vector as it is stored.

    Raises:
        HnError `embedder-failed`: it is empty, or holds what is no finite number.
    """
    try:
        largest = max(map(abs, vector), default=0.0)
        finite = isfinite(largest) and not any(part != part for part in vector)
    except OverflowError:
        # A whole number beyond all floats.
        finite = False
    if not vector or not finite:
        raise HnError("embedder-failed", "the embedder gave a vector that is empty or not finite")
    # Divided first: 127 by the smallest of numbers would be infinite.
    numbers = array("b", (round(part / largest * 127) if largest else 0 for part in vector))
    return _HEAD.pack(sum(map(mul, numbers, numbers))) + numbers.tobytes()


def has_direction(vector: bytes) -> bool:
    """Is a packed vector another than zero?"""
    return vector[: _HEAD.size] != bytes(_HEAD.size)


def waiting(db: sqlite3.Connection, model: str, like: bytes) -> list[tuple[bytes, int]]:
    """Contents without a vector of a model that is as long as `like`: their digests, and a record that says each."""
    return [
        (digest, n)
        for digest, n in db.execute(
            "SELECT digest, min(n) FROM place WHERE NOT EXISTS (SELECT 1 FROM vector "
            "WHERE vector.digest = place.digest AND model = ? AND length(data) = ?) GROUP BY digest",
            (model, len(like)),
        )
    ]


def contents(db: sqlite3.Connection, numbers: Iterable[int]) -> list[str]:
    """What records say, by their row numbers."""
    found: list[str] = []
    for n in numbers:
        (payload,) = db.execute("SELECT data FROM payload WHERE n = ?", (n,)).fetchone()
        found.append(loads(payload)["record"]["content"])
    return found


def keep(db: sqlite3.Connection, *, model: str, vectors: Iterable[tuple[bytes, bytes]]) -> None:
    """Store vectors as `pack` made them, by the digests of their contents."""
    db.executemany(
        "INSERT OR REPLACE INTO vector(digest, model, data) VALUES(?,?,?)",
        [(digest, model, data) for digest, data in vectors],
    )


def stored(db: sqlite3.Connection, model: str) -> list[tuple[int, bytes]]:
    """Row numbers of all records with the vectors of their contents."""
    return db.execute("SELECT n, data FROM place JOIN vector USING(digest) WHERE model = ?", (model,)).fetchall()


def cosines(question: bytes, others: Sequence[bytes]) -> list[float]:
    """The cosine of a packed vector with others; 0 where one has no direction, or another length."""
    own_square = _HEAD.unpack_from(question)[0]
    width = len(question)
    fitting = [other if len(other) == width else None for other in others]
    dots = _dots(question, [other for other in fitting if other is not None])
    found: list[float] = []
    for other in fitting:
        square = own_square * _HEAD.unpack_from(other)[0] if other is not None else 0
        dot = next(dots) if other is not None else 0
        found.append(dot / sqrt(square) if square else 0.0)
    return found


def _dots(question: bytes, others: Sequence[bytes]) -> Iterator[int]:
    width = len(question) - _HEAD.size
    if width * len(others) >= _WORTH_NUMPY:
        try:
            import numpy as np
        except ImportError:
            pass
        else:
            matrix = np.frombuffer(b"".join(others), dtype=np.int8).reshape(len(others), -1)[:, _HEAD.size :]
            own = np.frombuffer(question, dtype=np.int8)[_HEAD.size :].astype(np.int32)
            return iter((matrix.astype(np.int32) @ own).tolist())
    numbers = array("b", question[_HEAD.size :])
    return (sum(map(mul, numbers, array("b", other[_HEAD.size :]))) for other in others)
