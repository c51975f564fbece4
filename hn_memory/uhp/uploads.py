"""Uploads: whose they are, and how long records may name them. The bytes are with the provider."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from sqlalchemy import delete, func, insert, select

from hn_memory.uhp.faults import invalid, no_file, unsupported
from hn_memory.uhp.provider import Provider
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import new_id, now_ms
from hn_memory.uhp.state.store import Store
from hn_memory.uhp.values import FileReference

UPLOAD_MS: Final = 48 * 3600 * 1000
PENDING_BYTES: Final = 512 << 20
"""What one principal's uploads of the last two days may come to."""

_TABLE: Final = schema.file
_C: Final = schema.file.c


class Kept(NamedTuple):
    """An upload and when it came, in Unix milliseconds."""

    reference: FileReference
    created: int


class Uploads:
    """The uploads of all principals.

    Args:
        keeper: the provider that keeps their bytes.
    """

    def __init__(self, store: Store, keeper: Callable[[], Provider]) -> None:
        self._store = store
        self._keeper = keeper

    def take(self, principal: str, name: str, media_type: str, data: bytes) -> Kept:
        """Keep a file for its uploader.

        Raises:
            UhpError `memory_invalid`: the principal's uploads are too many; `memory_unsupported`: none are kept.
        """
        keeper = self._keeper()
        if not keeper.describe()["files"]:
            raise unsupported("this server keeps no files")
        now = now_ms()
        with self._store.reading() as connection:
            waiting = connection.execute(
                select(func.coalesce(func.sum(_C.bytes), 0)).where(_C.owner == principal, _C.created > now - UPLOAD_MS)
            ).scalar_one()
        if int(waiting) + len(data) > PENDING_BYTES:
            raise invalid(f"the uploads of two days have at most {PENDING_BYTES} bytes together")
        file = new_id("file_")
        version = keeper.take(file, now, data)
        with self._store.writing() as connection:
            connection.execute(
                insert(_TABLE).values(
                    id=file,
                    owner=principal,
                    name=name,
                    bytes=len(data),
                    media_type=media_type,
                    version=version,
                    created=now,
                )
            )
        return Kept(FileReference(file, name, len(data), media_type, version), now)

    def of(self, principal: str, file: str) -> Kept:
        """An upload of a principal's own.

        Raises:
            UhpError `file_not_found`: there is none, it is somebody else's, or its time is over.
        """
        with self._store.reading() as connection:
            row = connection.execute(
                select(_C.name, _C.bytes, _C.media_type, _C.version, _C.created).where(
                    _C.id == file, _C.owner == principal, _C.created > now_ms() - UPLOAD_MS
                )
            ).first()
        if row is None:
            raise no_file("content.file.id")
        return Kept(FileReference(file, row.name, int(row.bytes), row.media_type, row.version), int(row.created))

    def forget(self, files: Iterable[str]) -> None:
        """No record may name these any more: one that did is erased."""
        wanted = list(files)
        if wanted:
            with self._store.writing() as connection:
                connection.execute(delete(_TABLE).where(_C.id.in_(wanted)))

    def sweep(self) -> None:
        """Let go of uploads whose time is over."""
        before = now_ms() - UPLOAD_MS
        with self._store.writing() as connection:
            connection.execute(delete(_TABLE).where(_C.created <= before))
        keeper = self._keeper()
        if keeper.describe()["files"]:
            keeper.release(before)
