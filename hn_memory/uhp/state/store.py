"""Opening the state, reading it at the present epoch, and changing it.

SQLite (the default): one file of this user alone below the repository's private directory, with a write-ahead log,
so that readers and the one writer do not wait for each other. PostgreSQL: any URL that psycopg takes. Either way
every change of the tree is one transaction that holds the epoch's row, so all of them happen one after the other,
in all processes, and each decides on what it sees.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from mmap import mmap
from pathlib import Path
from threading import Lock
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, insert, select, update
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from hn_memory.errors import ConflictError, HnError, UsageError
from hn_memory.repository.private import PrivateFiles
from hn_memory.uhp.faults import UhpError
from hn_memory.uhp.precedence import Precedence
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.snapshot import Snapshot, load

FILE: Final = "uhp/state.sqlite"
MARK: Final = "uhp/mark"
_MARK_BYTES: Final = 16
_TRUSTED_SECONDS: Final = 1.0
_BUSY_MS: Final = 10_000
_COPY: Final = "Put a copy of it back. The streams hold every version, but not the tree, the grants and the keys."
_PLACE: Final = "Check the file's owner and mode, and its directory."
_ACTOR: Final = "actor"
_VERSION: Final = "version"


class Store:
    """The state of one server, shared by all its processes.

    Methods raise `UhpError` `memory_unavailable` when the database does not answer.
    """

    def __init__(self, engine: Engine, mark: Mark | None = None) -> None:
        self.engine = engine
        self.precedence = Precedence()
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._writes = engine.execution_options(hn_writes=True)
        # psycopg would begin a transaction and be told to end it: two more ways to the database and back.
        self._each = engine.execution_options(
            **({"hn_each": True} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"})
        )
        self._watch: Any = None
        self._watched: Any = None
        self._mark = mark
        self._checked = 0.0
        self._lock = Lock()
        # SQLite has one writer at a time, and lets who waits for it sleep; threads that queue here are woken at once.
        self._one: AbstractContextManager[Any] = Lock() if self.is_sqlite else nullcontext()
        # Of what another server does, most is waiting, for its disk too; reads need not stand back for that.
        self._first: AbstractContextManager[Any] = self.precedence if self.is_sqlite else nullcontext()
        self._snapshot: Snapshot | None = None

    def close(self) -> None:
        """Release all connections."""
        if self._mark is not None:
            self._mark.close()
        if self._watch is not None:
            self._watch.close()
        self.engine.dispose()

    def ping(self) -> None:
        """Ask the database anything."""
        with self.reading() as connection:
            connection.execute(select(schema.epoch.c.number)).scalar_one()

    # -- the tree -----------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The tree as it is now; loaded again only when another transaction changed it."""
        with self._lock, _answering():
            # Looked at before the epoch is asked, so that a change in between is seen next time.
            watched = self._stamp()
            if self._snapshot is not None and watched == self._watched and self._is_trusted():
                return self._snapshot
            number = self._epoch()
            if self._snapshot is None or self._snapshot.number != number:
                with self.engine.connect() as connection:
                    number = connection.execute(select(schema.epoch.c.number)).scalar_one()
                    self._snapshot = load(connection, number)
            self._watched = watched
            self._checked = time.monotonic()
            return self._snapshot

    def _stamp(self) -> object:
        """Something that is another one after every change of the tree."""
        if self.is_sqlite:
            return self._data_version()
        return None if self._mark is None else self._mark.read()

    def _is_trusted(self) -> bool:
        """Is an unchanged stamp enough? Of the mark only for a while, of SQLite's own count always."""
        if self.is_sqlite:
            return True
        return self._mark is not None and time.monotonic() - self._checked < _TRUSTED_SECONDS

    def _epoch(self) -> int:
        """The epoch, asked on a connection of its own: this is done for each request."""
        try:
            if self.is_sqlite:
                (number,) = self._watching().execute("SELECT number FROM epoch").fetchone()
                return int(number)
            # Straight through libpq, at a fifth of the price of a cursor.
            result = self._watching().pgconn.exec_(b"SELECT number FROM epoch")
            return int(result.get_value(0, 0))
        except Exception:
            # Whatever the driver calls it: the connection is no good, and the next question gets a new one.
            if self._watch is not None:
                self._watch.close()
                self._watch = None
            raise UhpError("memory_unavailable", "the server's state did not answer; try again") from None

    def _data_version(self) -> int:
        """SQLite's own count of commits by other connections; a hundredth of the price of a query."""
        (version,) = self._watching().execute("PRAGMA data_version").fetchone()
        return int(version)

    def _watching(self) -> Any:
        if self._watch is None:
            lent = self.engine.raw_connection()
            connection: Any = lent.driver_connection
            # It is read from for as long as the process lives, and never goes back to the others.
            lent.detach()
            if not self.is_sqlite:
                connection.autocommit = True
            self._watch = connection
        return self._watch

    @contextmanager
    def changing(self) -> Iterator[tuple[Connection, Snapshot]]:
        """One transaction that changes the tree, with the tree as it finds it. Only one runs at a time."""
        with _answering(), self._one, self._first, self._writes.begin() as connection:
            connection.execute(update(schema.epoch).values(number=schema.epoch.c.number + 1))
            number = connection.execute(select(schema.epoch.c.number)).scalar_one()
            known = self._snapshot
            before = known if known is not None and known.number == number - 1 else load(connection, number - 1)
            yield connection, before
        if self._mark is not None:
            self._mark.change()

    # -- the rest -----------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read what is no part of the tree, each statement for itself."""
        with _answering(), self._each.connect() as connection:
            yield connection

    @contextmanager
    def writing_each(self) -> Iterator[Connection]:
        """A connection to change what is no part of the tree, each statement a transaction of its own."""
        with _answering(), self._one, self._first, self._each.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """One transaction on what is no part of the tree."""
        with _answering(), self._one, self._first, self._writes.begin() as connection:
            yield connection


class Mark:
    """A few bytes that all processes over one repository share, changed after every change of the tree.

    The processes of one repository are on one machine, so this spares each request the way to the database. Whoever
    is killed between its transaction and the mark leaves a change unseen until the epoch is asked again, and has
    answered nobody.
    """

    def __init__(self, files: PrivateFiles) -> None:
        handle = files.open(MARK)
        try:
            os.ftruncate(handle, _MARK_BYTES)
            self._bytes = mmap(handle, _MARK_BYTES)
        finally:
            os.close(handle)

    def read(self) -> bytes:
        """The mark as it is."""
        return self._bytes[:_MARK_BYTES]

    def change(self) -> None:
        """Make it another one."""
        self._bytes[:_MARK_BYTES] = os.urandom(_MARK_BYTES)

    def close(self) -> None:
        """Release the mapping."""
        self._bytes.close()


@contextmanager
def _answering() -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise
    except SQLAlchemyError as error:
        raise UhpError("memory_unavailable", "the server's state did not answer; try again") from error


def open_store(files: PrivateFiles, url: str | None, actor: str) -> Store:
    """Open the state, made when it is not there yet.

    Args:
        url: None for SQLite beside the index; else a PostgreSQL or SQLite URL.
        actor: whose streams the memories are; a state belongs to one actor.

    Raises:
        UsageError `state-invalid`: the URL is none, or of another database.
        HnError `state-unavailable`: the database does not answer.
        HnError `state-foreign`: it is the state of another actor, or of another version of this program.
    """
    engine = create_engine(_url(files, url), **_settings(url))
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine)
    try:
        _create(engine, actor)
    except HnError:
        engine.dispose()
        raise
    except DBAPIError as error:
        engine.dispose()
        raise _unavailable(engine, error) from error
    return Store(engine, None if engine.dialect.name == "sqlite" else Mark(files))


def _unavailable(engine: Engine, error: DBAPIError) -> HnError:
    """Why the state cannot be opened. What the driver says may hold a path or a password, and is not repeated."""
    reason, hint = "the database did not answer", "Check --state, and that the database runs and admits this user."
    if engine.dialect.name == "sqlite":
        code = getattr(error.orig, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            reason, hint = "its file is damaged, or no database of SQLite", _COPY
        elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            reason, hint = "its file cannot be opened or written", _PLACE
        elif code == sqlite3.SQLITE_BUSY:
            reason, hint = "another program holds its file", "Try again when it has let go of it."
    return _unusable(reason, hint)


def _unusable(reason: str, hint: str) -> HnError:
    return HnError("state-unavailable", f"the server's state cannot be opened: {reason}", hint=hint, field="state")


def _empty_database() -> bytes:
    """A database without tables. A file begins as this and never with no bytes, which so means that they were lost."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA user_version = 1")
        return connection.serialize()


def _make_file(path: Path) -> None:
    """Create a state file that is named by URL, for this user alone, as a whole; one that is there stays."""
    if not path.exists():
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_empty_database())
                with suppress(FileExistsError):
                    os.link(temporary, path)
            finally:
                temporary.unlink()
        except OSError as error:
            raise _unusable(f"its file cannot be made: {error.strerror}", _PLACE) from None
    if path.is_file() and path.stat().st_size == 0:
        raise _unusable("its file is empty, so what it held is lost", _COPY)


def _url(files: PrivateFiles, url: str | None) -> URL:
    if url is None:
        # Created by us and so private; SQLite gives its companion files the same mode.
        if not files.path(FILE).exists():
            with suppress(ConflictError):
                files.create(FILE, _empty_database())
        handle = files.open(FILE)
        size = os.fstat(handle).st_size
        os.close(handle)
        if size == 0:
            raise _unusable("its file is empty, so what it held is lost", _COPY)
        return URL.create("sqlite+pysqlite", database=str(files.path(FILE)))
    try:
        made = make_url(url)
    except (ArgumentError, ValueError):
        made = None
    backend = None if made is None else made.get_backend_name()
    if made is None or backend not in ("postgresql", "sqlite"):
        raise UsageError(
            "state-invalid", "--state is not the URL of a database", hint="postgresql://host/name", field="state"
        )
    if backend == "postgresql":
        return made.set(drivername="postgresql+psycopg")
    if made.database and made.database != ":memory:" and not made.database.startswith("file:"):
        _make_file(Path(made.database))
    return made


def _settings(url: str | None) -> dict[str, Any]:
    if url is None or url.startswith("sqlite"):
        return {"connect_args": {"timeout": _BUSY_MS / 1000, "check_same_thread": False}}
    return {
        "pool_size": 4,
        "max_overflow": 8,
        "connect_args": {"connect_timeout": 3, "prepare_threshold": 1},
    }


def _prepare_sqlite(engine: Engine) -> None:
    def connected(connection: Any, _: Any) -> None:
        # Transactions begin where SQLAlchemy says so, at once as writers: two that read first and write later
        # could otherwise both be refused.
        connection.isolation_level = None
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    def begun(connection: Connection) -> None:
        options = connection.get_execution_options()
        if not options.get("hn_each", False):
            connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("hn_writes", False) else "BEGIN")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)


def _create(engine: Engine, actor: str) -> None:
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            # Two processes that start at once must not both create the tables.
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7304111829)")
        schema.metadata.create_all(connection)
        if connection.execute(select(schema.epoch.c.number)).scalar() is None:
            connection.execute(insert(schema.epoch).values(id=1, number=1))
            values = {_VERSION: str(schema.SCHEMA_VERSION), _ACTOR: actor}
            connection.execute(insert(schema.setting), [{"name": n, "value": v} for n, v in values.items()])
        held: dict[str, str] = {
            name: value for name, value in connection.execute(select(schema.setting.c.name, schema.setting.c.value))
        }
    if held.get(_VERSION) != str(schema.SCHEMA_VERSION):
        raise HnError("state-foreign", "the state was made by another version of hn", field="state")
    if held.get(_ACTOR) != actor:
        raise HnError(
            "state-foreign",
            f"the state belongs to actor {str(held.get(_ACTOR))[:12]}, and {actor[:12]} is in use",
            hint="Use that identity, or a state of its own for each.",
            field="state",
        )
