"""The rows of one memory as the image of a SQLite database, and the images that were made lately.

The tables, which are the provider's query language as much as SQL is:

    version      every version of every record that is not erased
    record       the active ones of them: what a listing shows
    reference    what versions point at, by its two ids; whether it can be read is not said here
"""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final

from hn_memory.uhp.faults import unsupported
from hn_memory.uhp.values import FileReference, Version

IMAGE_BYTES: Final = 64 << 20
_KEPT_BYTES: Final = 64 << 20

SCHEMA: Final = """
CREATE TABLE version (
    record_id TEXT NOT NULL, version INTEGER NOT NULL, status TEXT NOT NULL, type TEXT NOT NULL,
    content TEXT NOT NULL, file TEXT, attributes TEXT NOT NULL, valid_from TEXT, valid_to TEXT,
    written_at TEXT NOT NULL, invalidated_at TEXT, written_by_kind TEXT NOT NULL, written_by_id TEXT NOT NULL,
    PRIMARY KEY (record_id, version)
) WITHOUT ROWID;
CREATE TABLE reference (
    record_id TEXT NOT NULL, version INTEGER NOT NULL, target_memory_id TEXT NOT NULL, target_record_id TEXT NOT NULL
);
CREATE VIEW record AS SELECT * FROM version WHERE status = 'active';
"""

DESCRIPTION: Final = """\
SQL of SQLite on one memory, read-only. Tables: record(record_id, version, status, type, content, file, attributes, \
valid_from, valid_to, written_at, invalidated_at, written_by_kind, written_by_id), the active records; version, with \
the same columns, every version; reference(record_id, version, target_memory_id, target_record_id). attributes and \
file are JSON texts: attributes ->> 'account'. Parameters are written :name; a list or an object arrives as a JSON \
text, for json_each(:name). A result with the one column record_id, or with record_id and score, is answered as \
records; any other as rows."""


def build_image(versions: Sequence[Version]) -> bytes:
    """The image of a database with these versions.

    Raises:
        UhpError `memory_unsupported`: they are too many for a free query.
    """
    size = sum(len(one.content) if isinstance(one.content, str) else 0 for one in versions)
    if size > IMAGE_BYTES:
        raise unsupported("this memory is too large for free queries")
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.executescript("PRAGMA journal_mode = OFF; BEGIN;" + SCHEMA)
        connection.executemany(
            "INSERT INTO version VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (_row(one) for one in versions)
        )
        connection.executemany(
            "INSERT INTO reference VALUES (?, ?, ?, ?)",
            (
                (one.record_id, one.number, target.memory_id, target.record_id)
                for one in versions
                for target in one.references
            ),
        )
        connection.execute("COMMIT")
        image = connection.serialize()
    finally:
        connection.close()
    if len(image) > IMAGE_BYTES:
        raise unsupported("this memory is too large for free queries")
    return image


def _row(version: Version) -> tuple[object, ...]:
    content = version.content
    file: str | None = None
    if isinstance(content, FileReference):
        file = json.dumps(content.document(), ensure_ascii=False)
        content = content.name
    return (
        version.record_id,
        version.number,
        version.status,
        version.type,
        content,
        file,
        json.dumps(version.attributes, ensure_ascii=False),
        version.valid_from,
        version.valid_to,
        version.written_at,
        version.invalidated_at,
        version.written_by.kind,
        version.written_by.id,
    )


class Images:
    """Images by memory, each for one state of it; the one asked for longest ago goes first."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._lock = Lock()

    def known(self, memory: str, state: str) -> bytes | None:
        """The image of a memory in that state, if it is held."""
        with self._lock:
            held = self._held.get(memory)
            if held is None or held[0] != state:
                return None
            self._held.move_to_end(memory)
            return held[1]

    def keep(self, memory: str, state: str, image: bytes) -> None:
        """Hold an image in place of the memory's former one."""
        with self._lock:
            self._held[memory] = (state, image)
            self._held.move_to_end(memory)
            size = sum(len(held) for _, held in self._held.values())
            while size > _KEPT_BYTES and len(self._held) > 1:
                _, (_, dropped) = self._held.popitem(last=False)
                size -= len(dropped)

    def forget(self, memory: str) -> None:
        """Hold nothing of a memory any more."""
        with self._lock:
            self._held.pop(memory, None)
