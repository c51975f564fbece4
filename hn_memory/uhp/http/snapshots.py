"""Routes of section 5.3: a snapshot is a name for an instant, and copies nothing.

Reading `as_of` the instant is the same read. Names are the server's own state and are gone with it; the instants are
not.
"""

from __future__ import annotations

import time
from typing import Any, Final

from sqlalchemy import insert, select

from hn_memory.repository.clock import timestamp
from hn_memory.uhp.faults import unsupported
from hn_memory.uhp.http import models_optional as models
from hn_memory.uhp.http.memories import CURSOR, LIMIT
from hn_memory.uhp.http.paging import page
from hn_memory.uhp.http.route import Call, Route
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import new_id
from hn_memory.uhp.state.schema import READ, WRITE

_MS: Final = 1_000_000


def create(call: Call) -> dict[str, Any]:
    """Name this instant."""
    body: models.NewSnapshot = call.body
    node = call.caller.require(call.params["id"], WRITE)
    if call.server.provider_of(node).describe()["history"]["content"] == "none":
        raise unsupported("this memory's provider keeps no history")
    # Where a clock was set back, what was written before still belongs to the past.
    written = (call.server.extent(node).written_ms + 1) * _MS
    now = time.time_ns()
    document = {
        "id": new_id("hsnp_"),
        "object": "memory.snapshot",
        "memory_id": node.id,
        "name": body.name,
        "message": body.message,
        "at": timestamp(written if written - _MS > now else now),
    }
    values = {name: document[name] for name in ("id", "memory_id", "name", "message", "at")}
    call.connection.execute(insert(schema.snapshot).values(values))
    return document


def listing(call: Call) -> dict[str, Any]:
    """The snapshots of a memory, oldest first."""
    node = call.caller.require(call.params["id"], READ)
    table = schema.snapshot.c
    with call.server.store.reading() as connection:
        rows = connection.execute(
            select(table.id, table.memory_id, table.name, table.message, table.at).where(table.memory_id == node.id)
        ).all()
    held = {
        row.id: {
            "id": row.id,
            "object": "memory.snapshot",
            "memory_id": row.memory_id,
            "name": row.name,
            "message": row.message,
            "at": row.at,
        }
        for row in rows
    }
    places = sorted((f"{row.at:<40}{row.id}", row.id) for row in rows)
    names, following = page(places, call.query.get("cursor"), call.limit())
    return {"object": "list", "data": [held[name] for name in names], "next": following}


_SEEN: Final = ("memory_not_found", "memory_forbidden", "memory_invalid")
_SNAPSHOTS: Final = "/v1/memories/{id}/snapshots"

ROUTES: Final = (
    Route("POST", _SNAPSHOTS, "Name this instant.", create, models.Snapshot, "change", models.NewSnapshot,
          codes=(*_SEEN, "memory_unsupported")),
    Route("GET", _SNAPSHOTS, "The snapshots of a memory.", listing, models.SnapshotList, parameters=(LIMIT, CURSOR),
          codes=_SEEN),
)  # fmt: skip
