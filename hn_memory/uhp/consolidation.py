"""Consolidation runs: each pass over one memory is a row that says what it read, what it changed and how it ended.

A run is queued in the transaction that asks for it and done afterwards, beside the requests. It goes in steps; what a
step wrote is noted before the next one begins. The rules:

1. one run at a time in a memory, and none while a memory is moved or deleted (and the other way round);
2. before a step takes effect its token stands in the row, so that after a crash it is known whether it did; the run
   has then failed, what was done stays done, and can be reverted;
3. a record that somebody changes in the meantime is left to the next run;
4. a revert brings back only what is still as the run left it: what was said since then stands;
5. what a revert brought back is left alone from then on, until somebody changes it.

Runs are asked for, or begin by themselves: then only where there is something to do.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, func, insert, select, update

from hn_memory.errors import HnError
from hn_memory.repository.locks import Process, identify, is_gone
from hn_memory.uhp.duplicates import Plan, draft_of, plan
from hn_memory.uhp.faults import UhpError, from_hn
from hn_memory.uhp.provider import Provider, Witness
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import new_id, now_ms
from hn_memory.uhp.state.store import Store
from hn_memory.uhp.values import Author, Change, Selection, Version

AUTHOR: Final = Author("consolidator", "native")
RECORDS: Final = 1000
"""The budget of a run that names none, and the largest."""

_STEP: Final = 50
_PAGE: Final = 500
_TABLE: Final = schema.run
_C: Final = schema.run.c
_OPEN: Final = ("queued", "running")
_LOG: Final = logging.getLogger("hn.uhp")

Done = tuple[str, str, int]
"""A change that was made: its kind, the record, and the number of the version that it wrote or closed."""


class Runs:
    """The runs of all memories.

    Args:
        provider_of: who keeps a memory, None for one that is deleted.
    """

    def __init__(self, store: Store, provider_of: Callable[[str], Provider | None]) -> None:
        self._store = store
        self._provider_of = provider_of
        process = identify(os.getpid())
        self._owner = f"{process.pid} {process.start}"
        self._looked: dict[str, int] = {}
        self.stopping = threading.Event()

    # -- asking -------------------------------------------------------------------------------------------

    def queue(self, connection: Connection, memory: str, limit: int, trigger: str = "manual") -> dict[str, Any]:
        """Take down a run that is to be done; its document.

        Raises:
            UhpError `memory_busy` (rule 1).
        """
        self._refuse_while_open(connection, memory)
        now = now_ms()
        document = {
            "id": new_id("hcon_"),
            "object": "memory.consolidation",
            "memory_id": memory,
            "status": "queued",
            "trigger": trigger,
            "started_at": now // 1000,
            "finished_at": None,
            "read": {"episodes": 0, "through": None},
            "changes": {"created": 0, "superseded": 0, "forgotten": 0},
            "usage": {"input_tokens": 0, "output_tokens": 0},
            "budget": {"limit": limit, "unit": "records", "exhausted": False},
            "written_by": AUTHOR.document(),
            "error": "",
            "reverted": None,
        }
        connection.execute(
            insert(_TABLE).values(
                id=document["id"],
                memory_id=memory,
                started=now,
                status="queued",
                owner=self._owner,
                document=json.dumps({"run": document, "token": None}),
                changes="[]",
            )
        )
        return document

    def places(self, memory: str) -> list[tuple[str, str]]:
        """Places and ids of a memory's runs, newest first."""
        with self._store.reading() as connection:
            rows = connection.execute(select(_C.id, _C.started).where(_C.memory_id == memory)).all()
        return sorted((f"{10**15 - started:016d}{name}", name) for name, started in rows)

    def get(self, memory: str, run: str) -> tuple[dict[str, Any], list[Done]]:
        """A run's document, and what it changed.

        Raises:
            UhpError `memory_run_not_found`.
        """
        with self._store.reading() as connection:
            row = connection.execute(
                select(_C.document, _C.changes).where(_C.id == run, _C.memory_id == memory)
            ).first()
        if row is None:
            raise UhpError("memory_run_not_found", "no such run in this memory")
        return json.loads(row.document)["run"], [
            (kind, record, number) for kind, record, number in json.loads(row.changes)
        ]

    def _refuse_while_open(self, connection: Connection, memory: str) -> None:
        if connection.execute(select(_C.id).where(_C.memory_id == memory, _C.status.in_(_OPEN))).first() is not None:
            raise UhpError("memory_busy", "a consolidation runs in it; try again when it has ended")

    # -- doing --------------------------------------------------------------------------------------------

    def do(self, memory: str, run: str) -> None:
        """Do a queued run, whatever comes of it."""
        document, _ = self.get(memory, run)
        done: list[Done] = []
        try:
            provider = self._provider_of(memory)
            if provider is None:
                raise UhpError("memory_not_found", "the memory is gone")
            document["status"] = "running"
            self._save(document, done)
            self._pass(provider, document, done)
        except (UhpError, HnError) as error:
            fault = from_hn(error) if isinstance(error, HnError) else error
            document |= {"status": "failed", "error": fault.message}
        except Exception as error:
            _LOG.error("consolidation", extra={"error": type(error).__name__})
            document |= {"status": "failed", "error": "the server failed at this run"}
        document["finished_at"] = now_ms() // 1000
        self._save(document, done)

    def _pass(self, provider: Provider, document: dict[str, Any], done: list[Done]) -> None:
        memory, budget = document["memory_id"], document["budget"]
        after = self._through(memory, document["id"])
        planned = self._plan(provider, memory, after, budget["limit"])
        document["read"] = {"episodes": planned.read, "through": after}
        for step in _steps(planned.groups):
            if self.stopping.is_set():
                document["status"] = "stopped"
                return
            written = provider.rewrite(memory, step, AUTHOR, partial(self._save, document, done))
            done += map(_done, written)
            self._save(document, done)
        document["read"]["through"] = planned.through
        budget["exhausted"] = planned.exhausted
        document["status"] = "stopped" if planned.exhausted else "completed"

    def _plan(self, provider: Provider, memory: str, after: str | None, limit: int) -> Plan:
        back = self._brought_back(memory)
        versions = (one for one in _active(provider, memory) if back.get(one.record_id) != one.number)
        return plan(versions, time.time_ns(), after, limit)

    def _brought_back(self, memory: str) -> dict[str, int]:
        """The versions that reverts wrote, by record (rule 5)."""
        back: dict[str, int] = {}
        for _, name in reversed(self.places(memory)):
            document, done = self.get(memory, name)
            if document["reverted"] is not None:
                back |= {record: number + 1 for _, record, number in done if record not in document["reverted"]["kept"]}
        return back

    def _through(self, memory: str, run: str | None) -> str | None:
        """How far the last run that came to an end had read, `run` not counted."""
        for _, name in self.places(memory):
            if name != run:
                document, _ = self.get(memory, name)
                if document["status"] in ("completed", "stopped"):
                    through: str | None = document["read"]["through"]
                    return through
        return None

    # -- by themselves ------------------------------------------------------------------------------------

    def look_around(self, memories: Iterable[str], pause: int) -> None:
        """Begin and do a run in each memory that has one to do and had none for `pause` milliseconds."""
        now = now_ms()
        with self._store.reading() as connection:
            rows = connection.execute(select(_C.memory_id, func.max(_C.started)).group_by(_C.memory_id)).all()
        last: dict[str, int] = {memory: int(started) for memory, started in rows}
        for memory in memories:
            if self.stopping.is_set():
                return
            if max(last.get(memory, 0), self._looked.get(memory, 0)) > now - pause:
                continue
            self._looked[memory] = now
            with suppress(UhpError):
                provider = self._provider_of(memory)
                if provider is None or provider.describe()["consolidate"] != "runs":
                    continue
                if self._plan(provider, memory, self._through(memory, None), RECORDS).groups:
                    self._begin(memory)

    def _begin(self, memory: str) -> None:
        with self._store.changing() as (connection, tree):
            if memory not in tree.nodes:
                return
            document = self.queue(connection, memory, RECORDS, "schedule")
        self.do(memory, document["id"])

    def _save(self, document: dict[str, Any], done: list[Done], token: str | None = None) -> None:
        for kind in document["changes"]:
            document["changes"][kind] = sum(of == kind for of, _, _ in done)
        with self._store.writing() as connection:
            connection.execute(
                update(_TABLE)
                .where(_C.id == document["id"])
                .values(
                    status=document["status"],
                    document=json.dumps({"run": document, "token": token}),
                    changes=json.dumps(done),
                )
            )

    def recover(self) -> None:
        """Bring runs to an end whose process is gone (rule 2)."""
        with self._store.reading() as connection:
            rows = connection.execute(
                select(_C.memory_id, _C.owner, _C.document, _C.changes).where(_C.status.in_(_OPEN))
            ).all()
        for memory, owner, text, changes in rows:
            if owner == self._owner or not _is_gone(owner):
                continue
            held = json.loads(text)
            document, done = held["run"], _read(changes)
            provider = self._provider_of(memory)
            if held["token"] is not None and provider is not None:
                with suppress(UhpError):
                    done += map(_done, provider.find(memory, held["token"]) or [])
            document |= {
                "status": "failed",
                "finished_at": now_ms() // 1000,
                "error": "the server ended while this ran; what was done stays done",
            }
            self._save(document, done)

    # -- taking back --------------------------------------------------------------------------------------

    def revert(self, memory: str, run: str, author: Author, witness: Witness) -> dict[str, Any]:
        """Bring back what a run superseded or forgot (rule 4); reverting again changes nothing.

        Raises:
            UhpError `memory_run_not_found`; `memory_busy`: a run goes on in this memory.
        """
        document, done = self.get(memory, run)
        if document["reverted"] is not None:
            return document
        with self._store.reading() as connection:
            self._refuse_while_open(connection, memory)
        provider = self._provider_of(memory)
        assert provider is not None
        changes = [change for one in done if (change := _undo(provider, memory, one)) is not None]
        written = provider.rewrite(memory, [[change] for change in changes], author, witness) if changes else []
        return self.reverted(memory, run, written)

    def reverted(self, memory: str, run: str, written: list[Version]) -> dict[str, Any]:
        """Take down that a run is reverted; `written` are the versions that did it."""
        document, done = self.get(memory, run)
        back = {version.record_id for version in written}
        kept = [record for _, record, _ in done if record not in back]
        document["reverted"] = {"at": now_ms() // 1000, "restored": len(back), "kept": kept}
        self._save(document, done)
        return document


def _read(changes: str) -> list[Done]:
    return [(kind, record, number) for kind, record, number in json.loads(changes)]


def _done(version: Version) -> Done:
    return "forgotten" if version.status == "forgotten" else "superseded", version.record_id, version.number


def _undo(provider: Provider, memory: str, done: Done) -> Change | None:
    """What takes one change back, None where the record is not as the run left it."""
    kind, record, number = done
    try:
        versions = provider.history(memory, record)
    except UhpError as error:
        if error.code != "memory_record_not_found":
            raise
        return None
    latest = versions[-1]
    if latest.number != number or latest.status != ("forgotten" if kind == "forgotten" else "active"):
        return None
    before = latest if kind == "forgotten" else versions[-2]
    return Change(record, number, draft_of(before), latest.status)


def _active(provider: Provider, memory: str) -> Iterator[Version]:
    place: str | None = None
    while True:
        found = provider.listing(memory, Selection(), place, _PAGE)
        yield from found.versions
        place = found.next
        if place is None:
            return


def _steps(groups: list[list[Change]]) -> Iterator[list[list[Change]]]:
    step: list[list[Change]] = []
    for group in groups:
        step.append(group)
        if sum(map(len, step)) >= _STEP:
            yield step
            step = []
    if step:
        yield step


def _is_gone(owner: str) -> bool:
    pid, _, start = owner.partition(" ")
    return is_gone(Process(int(pid), start))
