"""Routes of section 9.2: consolidation runs."""

from __future__ import annotations

from typing import Any, Final

from hn_memory.uhp.consolidation import RECORDS, Done
from hn_memory.uhp.faults import UhpError, unsupported
from hn_memory.uhp.http import models_optional as models
from hn_memory.uhp.http.memories import CURSOR, LIMIT
from hn_memory.uhp.http.paging import page
from hn_memory.uhp.http.records import record_document
from hn_memory.uhp.http.route import Call, Route
from hn_memory.uhp.state.schema import DELETE, READ, WRITE
from hn_memory.uhp.state.snapshot import Node
from hn_memory.uhp.values import Version


def start(call: Call) -> dict[str, Any]:
    """Queue a run; it begins at once, and its own route says how far it is."""
    body: models.NewRun = call.body
    node = _consolidating(call, WRITE)
    limit = RECORDS if body.budget is None else body.budget.limit
    document = call.server.runs.queue(call.connection, node.id, limit)
    call.later.append(lambda: call.server.runs.do(node.id, document["id"]))
    return document


def listing(call: Call) -> dict[str, Any]:
    """The runs of a memory, newest first."""
    node = _consolidating(call, READ)
    runs = call.server.runs
    names, following = page(runs.places(node.id), call.query.get("cursor"), call.limit())
    return {"object": "list", "data": [runs.get(node.id, name)[0] for name in names], "next": following}


def get(call: Call) -> dict[str, Any]:
    """One run."""
    node = _consolidating(call, READ)
    return call.server.runs.get(node.id, call.params["run"])[0]


def changes(call: Call) -> dict[str, Any]:
    """What a run wrote, superseded or forgot, in that order of time."""
    node = _consolidating(call, READ)
    _, done = call.server.runs.get(node.id, call.params["run"])
    places = [(f"{at:08d}", str(at)) for at in range(len(done))]
    chosen, following = page(places, call.query.get("cursor"), call.limit())
    return {"object": "list", "data": [_change(call, node, done[int(at)]) for at in chosen], "next": following}


def revert(call: Call) -> dict[str, Any]:
    """Take back what a run did, as new versions."""
    node = _consolidating(call, DELETE)
    return call.server.runs.revert(node.id, call.params["run"], call.caller.author, call.witness)


def _reverted(call: Call, versions: list[Version]) -> dict[str, Any]:
    return call.server.runs.reverted(call.params["id"], call.params["run"], versions)


def _consolidating(call: Call, privilege: int) -> Node:
    node = call.caller.require(call.params["id"], privilege)
    if call.server.provider_of(node).describe()["consolidate"] != "runs":
        raise unsupported("this memory's provider has no consolidation runs")
    return node


def _change(call: Call, node: Node, done: Done) -> dict[str, Any]:
    kind, record, number = done
    document = None
    try:
        version = call.server.provider_of(node).history(node.id, record)[number - 1]
        document = record_document(call.server, call.caller, version)
    except UhpError as error:
        # Erased since.
        if error.code != "memory_record_not_found":
            raise
    return {"change": kind, "record_id": record, "version": number, "record": document}


_SEEN: Final = ("memory_not_found", "memory_forbidden", "memory_invalid", "memory_unsupported")
_RUNS: Final = "/v1/memories/{id}/consolidations"
_RUN: Final = _RUNS + "/{run}"
_NONE: Final = "memory_run_not_found"

ROUTES: Final = (
    Route("POST", _RUNS, "Start a consolidation.", start, models.Run, "change", models.NewRun,
          optional=True, codes=(*_SEEN, "memory_busy")),
    Route("GET", _RUNS, "The runs of a memory, newest first.", listing, models.RunList, parameters=(LIMIT, CURSOR),
          codes=_SEEN),
    Route("GET", _RUN, "One run.", get, models.Run, codes=(*_SEEN, _NONE)),
    Route("GET", _RUN + "/changes", "The records a run wrote, superseded or forgot.", changes, models.RunChangeList,
          parameters=(LIMIT, CURSOR), codes=(*_SEEN, _NONE)),
    Route("POST", _RUN + "/revert", "Take back what a run did.", revert, models.Run, "write",
          codes=(*_SEEN, _NONE, "memory_busy"), recovered=_reverted),
)  # fmt: skip
