"""Routes of section 9: which memories a harness works with.

A harness belongs to the principal that attached memories to it first; it, the harness itself and the administrator
may read and write the list. For everybody else it is a harness without memories.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import delete, insert, select

from hn_memory.uhp.faults import UhpError, invalid
from hn_memory.uhp.http import models
from hn_memory.uhp.http.route import Call, Route
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import is_principal, new_id, now_ms
from hn_memory.uhp.state.schema import DELETE, READ, WRITE

_PRIVILEGES: Final = {"read": READ, "write": READ | WRITE}


def attach(call: Call) -> dict[str, Any]:
    """Replace the list. What the harness does not hold yet is granted, where the caller may change grants."""
    body: models.NewAttachments = call.body
    harness = harness_of(call)
    _claim(call, harness)
    entries = body.memories
    if len({one.memory_id for one in entries}) < len(entries):
        raise invalid("a memory is attached once", "memories")
    if sum(one.default for one in entries) > 1:
        raise invalid("at most one entry is the default", "memories")
    if any(one.default and one.access != "write" for one in entries):
        raise invalid("what goes to the default memory is written: its access is write", "memories")
    for at, entry in enumerate(entries):
        _hold(call, harness, entry, f"memories.{at}.memory_id")
    table = schema.attachment
    call.connection.execute(delete(table).where(table.c.harness_id == harness))
    for at, entry in enumerate(entries):
        call.connection.execute(
            insert(table).values(
                harness_id=harness,
                position=at,
                memory_id=entry.memory_id,
                access=entry.access,
                is_default=entry.default,
            )
        )
    return {"memories": [_document(one.memory_id, one.access, one.default) for one in entries]}


def attached(call: Call) -> dict[str, Any]:
    """The list."""
    return {"memories": [_document(*row) for row in entries(call, harness_of(call))]}


def entries(call: Call, harness: str, *, none: bool = False) -> list[tuple[str, str, bool]]:
    """Memory, access and default of each attached memory, in order; with `none` there may be none.

    Raises:
        UhpError `memories_not_attached`: there are none, or they are not the caller's business.
    """
    with call.server.store.reading() as connection:
        owner = connection.execute(select(schema.harness.c.owner).where(schema.harness.c.id == harness)).scalar()
        table = schema.attachment.c
        rows = connection.execute(
            select(table.memory_id, table.access, table.is_default)
            .where(table.harness_id == harness)
            .order_by(table.position)
        ).all()
    if not (rows or none) or not _may(call, harness, owner):
        raise not_attached()
    return [(row[0], row[1], row[2]) for row in rows]


def not_attached() -> UhpError:
    """The one answer for a harness without memories and for one that is not the caller's business."""
    return UhpError("memories_not_attached", "the harness has no memories attached")


def harness_of(call: Call) -> str:
    """The harness in the path, as a principal.

    Raises:
        UhpError `memory_invalid`: it can be none.
    """
    harness = f"harness:{call.params['id']}"
    if not is_principal(harness):
        raise invalid("no harness has such an id", "id")
    return harness


def _may(call: Call, harness: str, owner: str | None) -> bool:
    return call.key.administrator or call.caller.principal in (harness, owner)


def _claim(call: Call, harness: str) -> None:
    table = schema.harness
    owner = call.connection.execute(select(table.c.owner).where(table.c.id == harness)).scalar()
    if owner is None:
        call.connection.execute(insert(table).values(id=harness, owner=call.caller.principal))
    elif not _may(call, harness, owner):
        raise UhpError("memory_forbidden", "this harness belongs to another principal", param="id")


def _hold(call: Call, harness: str, entry: models.NewAttachment, param: str) -> None:
    """See to it that the harness holds what the entry says."""
    wanted = _PRIVILEGES[entry.access]
    if call.tree.effective(harness, entry.memory_id) & wanted == wanted:
        return
    node = call.caller.require(entry.memory_id, DELETE, param)
    before = call.tree.grants.get(node.id, {}).get(harness)
    mask = wanted | (0 if before is None else before.privileges)
    table = schema.grant
    call.connection.execute(delete(table).where(table.c.memory_id == node.id, table.c.principal == harness))
    call.connection.execute(
        insert(table).values(
            id=new_id("hgrt_"), memory_id=node.id, principal=harness, privileges=mask, created=now_ms()
        )
    )


def _document(memory: str, access: str, default: bool) -> dict[str, Any]:
    return {"memory_id": memory, "access": access, "default": default}


_ATTACHED: Final = "/v1/harnesses/{id}/memories"

ROUTES: Final = (
    Route(
        "PUT", _ATTACHED, "Attach memories to a harness, in place of those attached.", attach, models.Attachments,
        "change", models.NewAttachments, codes=("memory_not_found", "memory_forbidden", "memory_invalid"),
    ),
    Route(
        "GET", _ATTACHED, "The memories attached to a harness.", attached, models.Attachments,
        codes=("memories_not_attached", "memory_invalid"),
    ),
)  # fmt: skip
