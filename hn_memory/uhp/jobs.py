"""Observing later: episodes that are taken at once and written afterwards, each batch as a job.

A job is a row of the state. Before its write takes effect the provider's token stands in the row, so a job whose
process was killed is finished by another one, and never written twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, insert, select, update

from hn_memory.repository.locks import Process, identify, is_gone
from hn_memory.uhp.faults import UhpError
from hn_memory.uhp.provider import Provider
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import new_id, now_ms
from hn_memory.uhp.state.store import Store
from hn_memory.uhp.values import Author, Draft, Version

PENDING: Final = "pending"
COMPLETED: Final = "completed"
FAILED: Final = "failed"

_T: Final = schema.job
_C: Final = schema.job.c


class Jobs:
    """The jobs of all processes. `keeper` answers the provider of a memory, None for one that is gone."""

    def __init__(self, store: Store, keeper: Callable[[str], Provider | None]) -> None:
        self._store = store
        self._keeper = keeper
        process = identify(os.getpid())
        self._owner = f"{process.pid} {process.start}"

    def add(self, connection: Connection, memory: str, drafts: Sequence[Draft], author: Author) -> str:
        """Take episodes; their job's id."""
        request = {
            "author": [author.kind, author.id],
            "drafts": [[one.content, one.type, dict(one.attributes)] for one in drafts],
        }
        job = new_id("hjob_")
        connection.execute(
            insert(_T).values(
                id=job,
                memory_id=memory,
                status=PENDING,
                created=now_ms(),
                owner=self._owner,
                request=json.dumps(request),
            )
        )
        return job

    def run(self, job: str) -> None:
        """Write what a job took, if that was not done yet."""
        with self._store.reading() as connection:
            row = connection.execute(
                select(_C.memory_id, _C.request, _C.token).where(_C.id == job, _C.status == PENDING)
            ).first()
        if row is None:
            return
        provider = self._keeper(row.memory_id)
        if provider is None:
            self._end(job, FAILED, error="the memory is gone")
            return
        try:
            written = None if row.token is None else provider.find(row.memory_id, row.token)
            if written is None:
                request = json.loads(row.request)
                drafts = [Draft(*one) for one in request["drafts"]]
                written = provider.remember(
                    row.memory_id, drafts, Author(*request["author"]), lambda token: self._announce(job, token)
                )
        except UhpError as error:
            if error.status < 500:
                self._end(job, FAILED, error=error.message)
            return
        self._end(job, COMPLETED, records=[one.record_id for one in written])

    def recover(self) -> None:
        """Finish the jobs of processes that are gone, and those of ours that the repository did not take."""
        with self._store.reading() as connection:
            rows = connection.execute(select(_C.id, _C.owner).where(_C.status == PENDING)).all()
        for job, owner in rows:
            pid, start = str(owner).split(" ", 1)
            if owner != self._owner and not is_gone(Process(int(pid), start)):
                continue
            with self._store.writing() as connection:
                taken = connection.execute(
                    update(_T).where(_C.id == job, _C.owner == owner, _C.status == PENDING).values(owner=self._owner)
                ).rowcount
            if taken:
                self.run(job)

    def read(self, memory: str, job: str) -> tuple[str, str | None, list[Version]]:
        """Status, error and the records of a job.

        Raises:
            UhpError `memory_job_not_found`.
        """
        with self._store.reading() as connection:
            row = connection.execute(
                select(_C.status, _C.error, _C.records).where(_C.id == job, _C.memory_id == memory)
            ).first()
        if row is None:
            raise UhpError("memory_job_not_found", "no such job in this memory")
        provider = self._keeper(memory)
        versions: list[Version] = []
        for record in json.loads(row.records or "[]"):
            try:
                if provider is not None:
                    versions.append(provider.get(memory, record))
            except UhpError as error:
                if error.code != "memory_record_not_found":
                    raise
        return row.status, row.error, versions

    def _announce(self, job: str, token: str) -> None:
        with self._store.writing() as connection:
            done = connection.execute(
                update(_T).where(_C.id == job, _C.owner == self._owner, _C.status == PENDING).values(token=token)
            ).rowcount
        if not done:
            raise UhpError("memory_unavailable", "another process has taken the job over")

    def _end(self, job: str, status: str, *, error: str | None = None, records: list[str] | None = None) -> None:
        values: dict[str, Any] = {"status": status, "error": error, "request": "{}"}
        if records is not None:
            values["records"] = json.dumps(records)
        with self._store.writing() as connection:
            connection.execute(update(_T).where(_C.id == job, _C.status == PENDING).values(values))
