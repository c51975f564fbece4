"""The verified index: a SQLite database beside the repository, disposable, and what it may be trusted for.

Threat model of a local cache. Rows of the index stand for verification that was done once, so whoever can
write the file can make this clone believe unsigned text. The file is therefore trusted only while it is
this user's alone: owned by the user, mode 0600, no symbolic link, in directories of mode 0700 (checked on
every open, never repaired). Other users are shut out by that. A process of the same user can read the
signing keys anyway; against its accidents, against half-written files and against other programs the file
carries a stamp: after each transaction of ours, inode, size and times of the file are noted in
`index.lock`, and a file that does not fit its note is rebuilt from the signed commits, not read. What Git
hands us on the way in is verified as `protocol.chain` says; that a commit ID stands for its content is
Git's promise, on which the index relies as Git does.

Why a rollback journal and not a write-ahead log: with a log, readers move pages into the database when they
close, so nobody could say what the file should look like. Our transactions are short, a rebuild happens in
a file of its own that replaces the old one, and readers of the old one are not disturbed.

All writers hold a lock on `index.lock`. A locked or unwritable index is no obstacle: the same tables are
then made in memory, from a copy of the file where that can be read, and the answer is the same.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hn_memory.errors import HnError
from hn_memory.index.schema import APPLICATION_ID, PATHS_UNKNOWN, SCHEMA_VERSION, TABLES
from hn_memory.index.staleness import stale_sources
from hn_memory.index.usable import (
    MISSING,
    UnusableIndexError,
    describe,
    identity,
    is_busy,
    is_whole,
    pending,
    stamp_of,
)
from hn_memory.repository.base import Repository
from hn_memory.repository.private import PrivateFiles
from hn_memory.repository.streams import InvalidSource, Source, list_sources

DATABASE: Final = "memory/index.sqlite"
LOCK: Final = "memory/index.lock"
_REBUILDING: Final = "memory/index.new-"

_BUSY_SECONDS: Final = 2.0
_LOCK_SECONDS: Final = 10.0
_STAMP_BYTES: Final = 512

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, TypeVar

    from hn_memory.index.ingest import Entry
    from hn_memory.index.update import Progress, Updater

    T = TypeVar("T")


class Index:
    """The index of one repository, brought up to the refs by `refresh`.

    Attributes:
        state: after `refresh`: `fresh` (nothing to do), `updated` (took in new commits), `rebuilt`, or
            `memory` (the file could not be used).
        detail: why, for `rebuilt` and `memory`; else None.
        invalid: sources that are left out.
    """

    def __init__(self, repository: Repository, progress: Progress | None = None) -> None:
        self._repository = repository
        self._files = PrivateFiles(repository.layout.common)
        self._progress = progress
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None
        self._memory: sqlite3.Connection | None = None
        self.state = "fresh"
        self.detail: str | None = None
        self.invalid: list[InvalidSource] = []
        self.heads: dict[str, str] = {}
        self._sources: Sequence[Source] = ()

    @property
    def db(self) -> sqlite3.Connection:
        """The connection; `refresh` opens it."""
        if self._connection is None:
            raise RuntimeError("the index was not refreshed")
        return self._connection

    @property
    def on_disk(self) -> bool:
        """Is it the file, or tables in memory?"""
        return self._identity is not None

    def close(self) -> None:
        """Close the connection."""
        self._disconnect()
        self._forget_memory()

    def _disconnect(self) -> None:
        """Close the file; tables in memory are kept, for as long as the file cannot be used."""
        if self._connection is not None and self._connection is not self._memory:
            self._connection.close()
        self._connection = None
        self._identity = None

    def _forget_memory(self) -> None:
        if self._memory is not None:
            self._memory.close()
        self._memory = None

    # -- bringing up to date ------------------------------------------------------------------------------

    def _note_sources(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self.heads = {source.name.ref: source.head for source in sources}

    def refresh(self, meanwhile: Callable[[], None] | None = None) -> Index:
        """Open the index and bring it up to the refs as they are now; never fails for the index's sake.

        Args:
            meanwhile: done while a changed file is brought to the disk, if it has to be.
        """
        sources, malformed = list_sources(self._repository)
        self._note_sources(sources)
        self.state, self.detail = "fresh", None
        try:
            self._refresh_file(sources, meanwhile)
            self._forget_memory()
        except UnusableIndexError as error:
            self._refresh_memory(sources, error.why)
        except (sqlite3.Error, OSError) as error:
            self._recover(sources, error)
        except HnError as error:
            if not error.code.startswith("private-"):
                raise
            self._refresh_memory(sources, error.message)
        self.invalid = sorted([*malformed, *self._invalid_sources()], key=lambda source: source.ref)
        return self

    def rebuild(self) -> Index:
        """Build the file anew from the signed commits, whatever it holds.

        Raises:
            UnusableIndexError: it cannot be written, and why.
        """
        sources, malformed = list_sources(self._repository)
        self._note_sources(sources)
        try:
            with self._locked():
                self._build(sources)
        except (sqlite3.Error, OSError) as error:
            raise UnusableIndexError(describe(error), rebuild=False) from None
        self.state, self.detail = "rebuilt", None
        self.invalid = sorted([*malformed, *self._invalid_sources()], key=lambda source: source.ref)
        return self

    def exclusively(self, act: Callable[[], T]) -> T:
        """Do something to the files beside the database that nobody else may be doing at the same time.

        Raises:
            UnusableIndexError: the lock cannot be had.
        """
        with self._locked():
            return act()

    def query(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Run a reading function on the state of the refs that `refresh` saw; a database found damaged on the way
        is rebuilt and asked again, once."""
        try:
            return self._ask(ask)
        except UnusableIndexError as error:
            self._refresh_memory(self._sources, error.why)
        except sqlite3.Error as error:
            self._recover(self._sources, error)
        except HnError as error:
            if error.code != "index-corrupt":
                raise
            self._recover(self._sources, sqlite3.DatabaseError(error.message))
        return self._ask(ask)

    def peek(self, ask: Callable[[sqlite3.Connection], T], *, reach: bool = False) -> T | None:
        """The answer of the index as it was left, or None where it has none; `reach` opens the file for it."""
        try:
            if reach:
                self._reach_file()
            return None if self._connection is None else ask(self._connection)
        except (UnusableIndexError, sqlite3.Error, OSError, HnError):
            return None

    def extend(self, change: Callable[[sqlite3.Connection], None]) -> None:
        """Let `change` add what is derived from stored memories and can be derived again. It is called within a
        transaction, on the file or, where that cannot be written, on tables in memory."""
        for _ in range(2):
            if not self.on_disk:
                break
            try:
                with self._locked():
                    if not self._is_current():
                        self._open_file(locked=True)
                    with self._transaction():
                        change(self.db)
                return
            except UnusableIndexError as error:
                self._refresh_memory(self._sources, error.why)
            except (sqlite3.Error, OSError) as error:
                self._recover(self._sources, error)
        if self.on_disk:
            self._refresh_memory(self._sources, "it could not be written")
        self.db.execute("BEGIN")
        try:
            change(self.db)
            self.db.execute("COMMIT")
        finally:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def _ask(self, ask: Callable[[sqlite3.Connection], T]) -> T:
        """Ask within one reading transaction, so that no writer comes in between."""
        db = self.db
        db.execute("BEGIN")
        try:
            if self.on_disk and dict(db.execute("SELECT ref, head FROM source")) != self.heads:
                raise UnusableIndexError("another process had brought it to other sources", rebuild=False)
            answer = ask(db)
            # A rollback would forget the schema with the tables of the question, and the next one read it again.
            db.execute("COMMIT")
            return answer
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")

    def _recover(self, sources: Sequence[Source], error: Exception) -> None:
        """A damaged file is built anew; one that is locked or cannot be written is done without."""
        why = describe(error)
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            try:
                with self._locked():
                    self._build(sources)
                self.state, self.detail = "rebuilt", why
                return
            except (UnusableIndexError, sqlite3.Error, OSError, HnError):
                pass
        self._refresh_memory(sources, why)

    def check(self) -> None:
        """Look at the file as it is, changing nothing.

        Raises:
            UnusableIndexError: it would not be used, and why.
        """
        self._open_file()
        try:
            (verdict,) = self.db.execute("PRAGMA integrity_check(1)").fetchone()
        except sqlite3.Error as error:
            busy = is_busy(error)
            raise UnusableIndexError(describe(error), rebuild=not busy, busy=busy) from None
        if verdict != "ok":
            raise UnusableIndexError("it was corrupt", rebuild=True)

    def absorb(self, source: Source, entries: Sequence[Entry]) -> None:
        """Take in memories that this process has just signed and appended to a source.

        The first memory of a repository makes the file. An index that is missing otherwise, or that cannot be
        written, stays behind the refs and is brought up by the next reader.
        """
        try:
            try:
                self._reach_file()
            except UnusableIndexError as error:
                sources, _ = list_sources(self._repository)
                if error.why != MISSING or len(sources) > 1 or entries[0].sequence > 1:
                    raise
                with self._locked():
                    self._build(sources)
                return
            with self._locked(), self._transaction():
                self._updater(self.db).append(source, entries)
        except (UnusableIndexError, sqlite3.Error, OSError, HnError):
            self._disconnect()

    def _refresh_file(self, sources: Sequence[Source], meanwhile: Callable[[], None] | None) -> None:
        try:
            self._reach_file()
            moved, gone = stale_sources(self.db, sources, self._is_curable)
            if not moved and not gone and not self._can_judge_paths():
                return
        except UnusableIndexError as error:
            if not error.rebuild:
                raise
            with self._locked():
                # Somebody else may have built it while we waited.
                try:
                    self._open_file(locked=True)
                except UnusableIndexError:
                    self._build(sources)
                    self.state, self.detail = "rebuilt", error.why
                    return
        with self._locked():
            if not self._is_current():
                self._open_file(locked=True)
            with self._transaction(meanwhile):
                moved, gone = stale_sources(self.db, sources)
                self._updater(self.db).apply(moved, gone)
            if moved or gone:
                self.state = "updated"

    def _refresh_memory(self, sources: Sequence[Source], why: str) -> None:
        """Bring tables in memory up to the refs: those of last time, else a copy of the file, else empty ones."""
        try:
            if self._memory is None:
                self._memory = self._copy_file()
            self._apply_in_memory(self._memory, sources)
        except (UnusableIndexError, sqlite3.Error, OSError, HnError):
            self._forget_memory()
            self._memory = _empty()
            self._memory.executescript(TABLES)
            self._memory.execute("BEGIN")
            self._updater(self._memory).build(sources, lambda: None)
            self._memory.execute("COMMIT")
        self._disconnect()
        self._connection = self._memory
        self.state, self.detail = "memory", why

    def _copy_file(self) -> sqlite3.Connection:
        self._open_file()
        copy = _empty()
        try:
            # A copy waits for locks without end, so the lock for reading is taken before it starts.
            self.db.execute("BEGIN")
            self.db.execute("SELECT 1 FROM source").fetchone()
            self.db.backup(copy)
        except BaseException:
            copy.close()
            raise
        return copy

    def _apply_in_memory(self, db: sqlite3.Connection, sources: Sequence[Source]) -> None:
        db.execute("BEGIN")
        moved, gone = stale_sources(db, sources)
        self._updater(db).apply(moved, gone)
        db.execute("COMMIT")

    def _can_judge_paths(self) -> bool:
        """Is an anchor here now that was not here when its records were read?"""
        unknown = f"SELECT DISTINCT anchor FROM site WHERE paths = {PATHS_UNKNOWN}"
        anchors = [anchor for (anchor,) in self.db.execute(unknown)]
        return bool(anchors) and any(found.type == "commit" for found in self._repository.info(anchors).values())

    def _is_curable(self, source: Source, broken: str | None) -> bool:
        """Is there now what a source was left out for want of? Only then is the file written for its sake."""
        from hn_memory.index.ingest import is_readable

        return is_readable(self._repository, source.head, broken)

    def _updater(self, db: sqlite3.Connection) -> Updater:
        # Most commands find the index up to date and need none of this.
        from hn_memory.index.update import Updater

        return Updater(db, self._repository, self._progress)

    def _invalid_sources(self) -> Iterator[InvalidSource]:
        for row in self.db.execute(
            "SELECT ref, reason, code, broken, position FROM source WHERE code IS NOT NULL ORDER BY ref"
        ):
            yield InvalidSource(*row)

    def _reach_file(self) -> None:
        if self._connection is None or not self.on_disk or not self._is_current():
            self._open_file()

    # -- the file -----------------------------------------------------------------------------------------

    def _open_file(self, *, locked: bool = False) -> None:
        """Open the file if it is ours, whole and of this version."""
        self._disconnect()
        status = self._status()
        if not self._is_stamped(status):
            if not locked:
                # A writer changes file and stamp together, under the lock.
                with self._locked():
                    self._open_file(locked=True)
                return
            self._restamp_after_crash(status)
        path = self._files.place(DATABASE)
        connection = sqlite3.connect(
            path, timeout=_BUSY_SECONDS, isolation_level=None, cached_statements=256, check_same_thread=False
        )  # fmt: skip
        try:
            self._check_version(connection)
        except BaseException:
            connection.close()
            raise
        # Set here, since it cannot be set within a transaction; what a question sets aside stays in memory.
        connection.execute("PRAGMA temp_store = MEMORY")
        self._connection = connection
        self._identity = identity(status)

    def _check_version(self, connection: sqlite3.Connection) -> None:
        try:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            whole = is_whole(connection, self._files.place(DATABASE))
        except sqlite3.OperationalError as error:
            raise UnusableIndexError(describe(error), rebuild=False, busy=is_busy(error)) from None
        except sqlite3.DatabaseError as error:
            raise UnusableIndexError(describe(error), rebuild=True) from None
        if application != APPLICATION_ID or version != SCHEMA_VERSION:
            raise UnusableIndexError("it was made by another version", rebuild=True)
        if not whole:
            raise UnusableIndexError("its end was missing", rebuild=True)

    def _status(self) -> os.stat_result:
        """The file's status, if it is a private regular file."""
        self._files.names("memory")  # says whether the directories are private, and makes none
        try:
            status = os.lstat(self._files.place(DATABASE))
        except FileNotFoundError:
            raise UnusableIndexError(MISSING, rebuild=True) from None
        if (status.st_mode & 0o170000) != 0o100000:
            raise UnusableIndexError("something else than a file was in its place", rebuild=True)
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise UnusableIndexError("others could write or read it", rebuild=True)
        return status

    def _is_current(self) -> bool:
        """Is the open connection still the file of that name, unchanged by anyone but us?"""
        try:
            status = self._status()
        except UnusableIndexError:
            return False
        return self._identity == identity(status) and self._is_stamped(status)

    def _is_stamped(self, status: os.stat_result) -> bool:
        return self._read_stamp() == stamp_of(status)

    def _read_stamp(self) -> bytes:
        try:
            return self._files.read(LOCK, _STAMP_BYTES)
        except HnError as error:
            if error.code == "private-file-missing":
                return b""
            raise

    def _restamp_after_crash(self, status: os.stat_result) -> None:
        """A writer of ours was killed between its transaction and its note: look closer, then go on."""
        stamp = self._read_stamp()
        if not stamp.startswith(b"pending ") or stamp != pending(status):
            raise UnusableIndexError("it was changed by something else", rebuild=True)
        path = self._files.place(DATABASE)
        try:
            connection = sqlite3.connect(path, timeout=_BUSY_SECONDS)
            try:
                (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise UnusableIndexError(describe(error), rebuild=True) from None
        if verdict != "ok":
            raise UnusableIndexError("it was corrupt", rebuild=True)
        self._write_stamp(stamp_of(self._status()))

    def _write_stamp(self, stamp: bytes) -> None:
        handle = self._files.open(LOCK)
        try:
            # Written over, not anew: on a full disk the old note stands, and fits what stands beside it.
            os.pwrite(handle, stamp, 0)
            os.ftruncate(handle, len(stamp))
        finally:
            os.close(handle)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        handle = self._files.open(LOCK)
        try:
            end = time.monotonic() + _LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise UnusableIndexError("another process is writing it", rebuild=False, busy=True) from None
                    time.sleep(0.01)
            yield
        finally:
            os.close(handle)

    @contextmanager
    def _transaction(self, meanwhile: Callable[[], None] | None = None) -> Iterator[None]:
        """One transaction on the file, with its stamp; the lock is held."""
        self._write_stamp(pending(self._status()))
        try:
            self.db.execute("BEGIN IMMEDIATE")
            yield
            self._commit(meanwhile)
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            self._write_stamp(stamp_of(self._status()))
            raise
        status = self._status()
        self._write_stamp(stamp_of(status))
        self._identity = identity(status)

    def _commit(self, meanwhile: Callable[[], None] | None) -> None:
        if meanwhile is None:
            self.db.execute("COMMIT")
            return
        from hn_memory.repository.beside import beside

        beside(lambda: self.db.execute("COMMIT"), meanwhile)

    def _build(self, sources: Sequence[Source]) -> None:
        """Make the file in a place of its own and put it where it belongs; the lock is held."""
        self._disconnect()
        target = self._files.path(DATABASE)
        if target.is_dir() and not target.is_symlink():
            raise UnusableIndexError("a directory is in its place", rebuild=False)
        self._remove_leftovers()
        name = f"{_REBUILDING}{os.getpid()}"
        os.close(self._files.open(name))
        path = self._files.path(name)
        from hn_memory.index.flush import Flush

        flush = Flush(path)
        try:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                # In memory, not off: a source that does not hold is undone, and without a journal nothing can be.
                connection.execute("PRAGMA journal_mode = MEMORY")
                # Payloads of half a kilobyte waste a quarter of a page of the default size.
                connection.execute("PRAGMA page_size = 16384")
                connection.execute("PRAGMA synchronous = OFF")
                connection.execute("PRAGMA cache_size = -65536")
                connection.executescript(TABLES)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                # Few large portions of terms are merged faster than many small ones.
                connection.execute("INSERT INTO terms(terms, rank) VALUES('hashsize', 33554432)")
                connection.execute("BEGIN")
                self._updater(connection).build(sources, flush.begin)
                connection.execute("COMMIT")
            finally:
                connection.close()
            flush.end()
            for suffix in ("-journal", "-wal", "-shm"):
                self._files.remove(DATABASE + suffix)
            path.rename(target)
        except BaseException:
            self._files.remove(name)
            raise
        self._write_stamp(stamp_of(self._status()))
        self._open_file(locked=True)

    def _remove_leftovers(self) -> None:
        """Files of rebuilds that were killed; the lock is held, so nobody is writing one."""
        self._files.sweep("memory")
        prefix = _REBUILDING.rpartition("/")[2]
        for name in self._files.names("memory"):
            if name.startswith(prefix):
                self._files.remove(f"memory/{name}")


def _empty() -> sqlite3.Connection:
    """A database in memory."""
    return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
