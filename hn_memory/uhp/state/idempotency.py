"""Idempotency keys: a repeat gets the first answer, waits for it, or finishes what a killed process began.

One row per caller and key. It says which request it stands for (a digest), who runs it, what that runner was about to
write (the provider's token) and, at the end, the answer. The rules:

1. who inserts the row runs the request; everybody else waits for the answer;
2. before a write takes effect its token stands in the row; so whoever finds the row of a dead runner knows what to
   look for, and repeats the write only when it never took effect;
3. the answer is stored before it is sent, whatever it is, unless the server failed: then the next repeat runs again,
   under rule 2;
4. a change of the state alone stores its answer in its own transaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from hn_memory.repository.locks import Process, identify, is_gone
from hn_memory.uhp.faults import UhpError, invalid
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import new_id, now_ms
from hn_memory.uhp.state.store import Store

KEY_CHARACTERS: Final = 255
KEPT_MS: Final = 48 * 3600 * 1000

_TABLE: Final = schema.idempotency
_C: Final = schema.idempotency.c

# Made once: putting a statement together takes longer than the database is at it.
_ONE: Final = (_C.principal == bindparam("of"), _C.name == bindparam("key"))
_HELD: Final = (*_ONE, _C.owner == bindparam("runner"))
_KNOWN: Final = select(_C.request, _C.status, _C.answer, _C.owner, _C.memory_id, _C.token).where(*_ONE)
_TAKE_OVER: Final = (
    update(_TABLE)
    .where(*_ONE, _C.status.is_(None), _C.owner.is_not_distinct_from(bindparam("holder")))
    .values(owner=bindparam("runner"))
)
_ANNOUNCE: Final = update(_TABLE).where(*_HELD).values(memory_id=bindparam("memory"), token=bindparam("written"))
_FINISH: Final = (
    update(_TABLE).where(*_HELD).values(owner=None, status=bindparam("answered"), answer=bindparam("document"))
)


@dataclass(frozen=True, slots=True)
class Stored:
    """An answer that was given: its status and its bytes."""

    status: int
    answer: bytes


@dataclass(frozen=True, slots=True)
class Begun:
    """What a runner that is gone had begun: the memory, and the token of what it was about to write."""

    memory: str | None
    token: str | None


@dataclass(frozen=True, slots=True)
class Announcement:
    """Tells the ledger what a request of ours is about to write (rule 2). `memory` is known no sooner than that."""

    ledger: Ledger
    principal: str
    name: str
    owner: str
    memory: Callable[[], str]

    def __call__(self, token: str) -> None:
        self.ledger.announce(self.principal, self.name, self.owner, self.memory(), token)


def announce_together(told: Sequence[tuple[object, str]]) -> bool:
    """Announcements that one transaction makes, so that the database waits for its disk once.

    False where it cannot be, or not for all of them: then each is to be made by itself, which says what of it. An
    announcement that is made twice is the same announcement.
    """
    rows, ledgers = [], set()
    for made, token in told:
        if not isinstance(made, Announcement):
            return False
        ledgers.add(made.ledger)
        rows.append(_announced(made.principal, made.name, made.owner, made.memory(), token))
    if len(rows) < 2 or len(ledgers) != 1:
        return False
    return ledgers.pop().announce_rows(rows)


def _announced(principal: str, name: str, owner: str, memory: str, token: str) -> dict[str, str]:
    return {"of": principal, "key": name, "runner": owner, "memory": memory, "written": token}


class Mine:
    """The request is ours to run for the first time."""


class Running:
    """Another runner is at it."""


class Ledger:
    """The idempotency keys of all callers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        dialect = sqlite if store.is_sqlite else postgresql
        # Where the key is there already, nothing is inserted and nothing fails. psycopg's count must be asked for.
        self._insert = dialect.insert(_TABLE).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
        process = identify(os.getpid())
        # The process, so that others can see whether it lives, and a nonce, so that two claims are never alike.
        self._process = f"{process.pid} {process.start}"

    def claim(self, principal: str, name: str, request: bytes) -> tuple[Mine | Running | Stored | Begun, str]:
        """Who answers this request, and the mark under which we run it if it is us.

        Raises:
            UhpError `memory_invalid`: the key was used for another request.
        """
        owner = f"{self._process} {new_id('')}"
        row = {"principal": principal, "name": name, "request": request, "created": now_ms(), "owner": owner}
        with self._store.writing_each() as connection:
            if connection.execute(self._insert, row).rowcount == 1:
                return Mine(), owner
            known = self._known(connection, principal, name, request)
            if isinstance(known, Stored):
                return known, owner
            begun, holder = known or (None, None)
            if begun is None or (holder is not None and _alive(holder)):
                return Running(), owner
            mine = {"of": principal, "key": name, "holder": holder, "runner": owner}
            return (begun if connection.execute(_TAKE_OVER, mine).rowcount else Running()), owner

    def known(self, connection: Connection, principal: str, name: str, request: bytes) -> Stored | Running | None:
        """As `claim`, within a change of the state, which runs alone: an answer, a runner, or nobody."""
        found = self._known(connection, principal, name, request)
        return found if found is None or isinstance(found, Stored) else Running()

    def _known(
        self, connection: Connection, principal: str, name: str, request: bytes
    ) -> Stored | tuple[Begun, str | None] | None:
        row = connection.execute(_KNOWN, {"of": principal, "key": name}).first()
        if row is None:
            return None
        if bytes(row.request) != request:
            raise invalid("the key was used for another request", "Idempotency-Key")
        if row.status is not None:
            return Stored(row.status, bytes(row.answer))
        return Begun(row.memory_id, row.token), row.owner

    def announce(self, principal: str, name: str, owner: str, memory: str, token: str) -> None:
        """Rule 2: say what is about to be written.

        Raises:
            UhpError `memory_busy`: another runner has taken over.
        """
        with self._store.writing_each() as connection:
            done = connection.execute(_ANNOUNCE, _announced(principal, name, owner, memory, token)).rowcount
        if not done:
            raise UhpError("memory_busy", "a repeat of this request is being answered already")

    def announce_rows(self, rows: Sequence[Mapping[str, str]]) -> bool:
        """Many announcements in one transaction; were they all of requests that are still ours?"""
        with self._store.writing() as connection:
            return connection.execute(_ANNOUNCE, rows).rowcount == len(rows)

    def finish(self, principal: str, name: str, owner: str, stored: Stored | None) -> None:
        """Store the answer, or (None) leave the request to the next repeat."""
        values = {
            "of": principal, "key": name, "runner": owner,
            "answered": None if stored is None else stored.status,
            "document": None if stored is None else stored.answer,
        }  # fmt: skip
        with self._store.writing_each() as connection:
            connection.execute(_FINISH, values)

    def store(self, connection: Connection, principal: str, name: str, request: bytes, stored: Stored) -> None:
        """Rule 4: store the answer of a change within its transaction."""
        connection.execute(
            insert(_TABLE).values(
                principal=principal,
                name=name,
                request=request,
                created=now_ms(),
                status=stored.status,
                answer=stored.answer,
            )
        )

    def sweep(self) -> int:
        """Forget answers older than `KEPT_MS`; how many."""
        with self._store.writing() as connection:
            return connection.execute(delete(_TABLE).where(_C.created < now_ms() - KEPT_MS)).rowcount


def _alive(owner: str) -> bool:
    pid, start, _ = owner.split(" ", 2)
    return not is_gone(Process(int(pid), start))
