"""Routes of sections 6.4 and 6.5: named queries and free ones.

What confines a statement is the provider's business (`sql/`); here it is only decided who may have which memory's
statement run. A statement runs beside the requests, in threads of its own.
"""

from __future__ import annotations

import json
from typing import Any, Final

from sqlalchemy import delete, func, insert, select

from hn_memory.uhp.access import NEEDS, neighbourhood
from hn_memory.uhp.faults import UhpError, invalid, unsupported
from hn_memory.uhp.http import models_optional as models
from hn_memory.uhp.http.memories import CURSOR, LIMIT
from hn_memory.uhp.http.paging import page
from hn_memory.uhp.http.records import record_document
from hn_memory.uhp.http.route import Call, Route
from hn_memory.uhp.parameters import check_schema, check_values
from hn_memory.uhp.server import Server
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import now_ms
from hn_memory.uhp.state.schema import READ, WRITE
from hn_memory.uhp.state.snapshot import Node
from hn_memory.uhp.values import Rows

QUERIES: Final = 256
"""How many a memory may have."""

_RECORDS: Final = (("record_id",), ("record_id", "score"))


def free(call: Call) -> dict[str, Any]:
    """Run a statement that the caller wrote."""
    body: models.FreeQuery = call.body
    node = call.caller.require(call.params["id"], READ)
    offered = call.server.provider_of(node).describe()["queries"]["free"]
    if not offered:
        raise unsupported("this memory's provider runs no free queries")
    if body.language not in offered["languages"]:
        raise unsupported(f"this memory's free queries are written in {' or '.join(offered['languages'])}")
    return _run(call, node, body.language, body.statement, body.params)


def define(call: Call) -> dict[str, Any]:
    """Define a named query, or put it in place of the one of that name."""
    body: models.NewQuery = call.body
    node = call.caller.require(call.params["id"], WRITE)
    _require_named(call, node, body.language)
    name = call.params["name"]
    if models.NAME.fullmatch(name) is None:
        raise invalid("a query's name is letters, digits and _.- , at most 128", "name")
    if body.name not in (None, name):
        raise invalid("the name in the body is not the one in the path", "name")
    check_schema(body.params)
    document = {
        "name": name,
        "description": body.description,
        "params": body.params,
        "requires": body.requires,
        "language": body.language,
        "body": body.body,
    }
    table = schema.query
    here = table.c.memory_id == node.id
    call.connection.execute(delete(table).where(here, table.c.name == name))
    if call.connection.execute(select(func.count()).select_from(table).where(here)).scalar_one() >= QUERIES:
        raise invalid(f"a memory has at most {QUERIES} named queries")
    call.connection.execute(
        insert(table).values(memory_id=node.id, name=name, document=json.dumps(document), updated=now_ms())
    )
    return document


def listing(call: Call) -> dict[str, Any]:
    """The named queries of a memory, by name."""
    node = call.caller.require(call.params["id"], READ)
    held = named(call.server, node.id)
    names, following = page([(name, name) for name in held], call.query.get("cursor"), call.limit())
    return {"object": "list", "data": [held[name] for name in names], "next": following}


def named(server: Server, memory: str) -> dict[str, dict[str, Any]]:
    """The named queries of a memory, by name."""
    table = schema.query.c
    with server.store.reading() as connection:
        rows = connection.execute(select(table.name, table.document).where(table.memory_id == memory)).all()
    return {name: json.loads(document) for name, document in sorted((row.name, row.document) for row in rows)}


def run(call: Call) -> dict[str, Any]:
    """Run a named query."""
    body: models.QueryRun = call.body
    node = call.caller.require(call.params["id"], READ)
    table = schema.query.c
    with call.server.store.reading() as connection:
        found = connection.execute(
            select(table.document).where(table.memory_id == node.id, table.name == call.params["name"])
        ).scalar()
    if found is None:
        raise UhpError("memory_query_not_found", "this memory has no query of that name")
    query = json.loads(found)
    call.caller.require(node.id, NEEDS[query["requires"]])
    _require_named(call, node, query["language"])
    return _run(call, node, query["language"], query["body"], check_values(query["params"], body.params))


def _require_named(call: Call, node: Node, language: str) -> None:
    offered = call.server.provider_of(node).describe()["queries"]
    if not offered["named"]:
        raise unsupported("this memory's provider runs no named queries")
    languages = offered["free"]["languages"] if offered["free"] else [language]
    if language not in languages:
        raise unsupported(f"this memory's queries are written in {' or '.join(languages)}")


def _run(call: Call, node: Node, language: str, statement: str, params: dict[str, Any]) -> dict[str, Any]:
    found = call.server.provider_of(node).query(node.id, language, statement, params)
    answer: dict[str, Any] = {"results": []}
    if tuple(column.lower() for column in found.columns) in _RECORDS:
        answer["results"] = _results(call, node, language, found)
        empty = not answer["results"]
    else:
        answer |= {"columns": list(found.columns), "rows": found.rows}
        empty = not found.rows
    return {
        **answer,
        **neighbourhood(call.caller, node, call.server.extent),
        "degraded": list(found.degraded),
        "abstain": empty,
    }


def _results(call: Call, node: Node, language: str, found: Rows) -> list[dict[str, Any]]:
    """The records that a statement named, each once. It may name others by any text; only this memory is asked."""
    provider = call.server.provider_of(node)
    scores: dict[str, float | None] = {}
    for record, *score in found.rows:
        number = score[0] if score and isinstance(score[0], int | float) else None
        if isinstance(record, str):
            scores.setdefault(record, number)
    results: list[dict[str, Any]] = []
    for record, number in scores.items():
        try:
            version = provider.get(node.id, record)
        except UhpError as error:
            if error.code != "memory_record_not_found":
                raise
            continue
        document = record_document(call.server, call.caller, version)
        results.append({"record": document, "score": number, "why": [language]})
    return results


_SEEN: Final = ("memory_not_found", "memory_forbidden", "memory_invalid")
_QUERIES: Final = "/v1/memories/{id}/queries"

ROUTES: Final = (
    Route("POST", "/v1/memories/{id}/query", "Run a free query.", free, models.Queried, "query", models.FreeQuery,
          codes=(*_SEEN, "memory_unsupported")),
    Route("GET", _QUERIES, "The named queries of a memory.", listing, models.QueryList, parameters=(LIMIT, CURSOR),
          codes=_SEEN),
    Route("PUT", _QUERIES + "/{name}", "Define or replace a named query.", define, models.Query, "change",
          models.NewQuery, codes=(*_SEEN, "memory_unsupported")),
    Route("POST", _QUERIES + "/{name}", "Run a named query.", run, models.Queried, "query", models.QueryRun,
          optional=True,          codes=(*_SEEN, "memory_query_not_found", "memory_unsupported")),
)  # fmt: skip
