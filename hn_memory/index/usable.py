"""What makes the file of the index usable: how it should look, and how it is said that it does not."""

from __future__ import annotations

import os
import sqlite3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


MISSING: Final = "it was missing"


class UnusableIndexError(Exception):
    """The file cannot serve; `rebuild` says whether it may be replaced, `busy` whether it is only held by others."""

    def __init__(self, why: str, *, rebuild: bool, busy: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.rebuild = rebuild
        self.busy = busy


def identity(status: os.stat_result) -> tuple[int, int]:
    return (status.st_dev, status.st_ino)


def stamp_of(status: os.stat_result) -> bytes:
    """What the file should look like when nobody but us has touched it since.

    The change time cannot be set by a program, so a file that was written to never fits its old stamp.
    """
    return f"hn-index-0 {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\n".encode()


def pending(status: os.stat_result) -> bytes:
    """The note that a transaction is under way on this very file."""
    return f"pending {status.st_ino}\n".encode()


def is_whole(connection: sqlite3.Connection, path: str) -> bool:
    """Is the file as long as it says itself? SQLite looks at pages only when it comes to them."""
    # Within a transaction nobody else writes pages.
    connection.execute("BEGIN")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        return os.stat(path).st_size >= int(pages) * int(size)  # noqa: PTH116 - pathlib is not free
    finally:
        connection.execute("ROLLBACK")


def is_busy(error: BaseException) -> bool:
    """Does somebody else hold the database? SQLite says so of both its codes for it."""
    return isinstance(error, sqlite3.OperationalError) and "is locked" in str(error)


def describe(error: BaseException) -> str:
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
        return "it was corrupt"
    if isinstance(error, OSError):
        return f"it could not be written: {os.strerror(error.errno or 0)}"
    return f"it could not be used: {error}"
