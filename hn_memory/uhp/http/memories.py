"""Routes of sections 2 and 3: the tree of memories and its grants."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import delete, or_, select, update

from hn_memory.uhp.access import Caller, memory_document
from hn_memory.uhp.faults import UhpError, invalid, unsupported
from hn_memory.uhp.http import models
from hn_memory.uhp.http.paging import page
from hn_memory.uhp.http.route import Call, Parameter, Route
from hn_memory.uhp.server import DEFAULT_PROVIDER
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import is_principal, new_id, now_ms
from hn_memory.uhp.state.places import insert_grant, insert_memory
from hn_memory.uhp.state.schema import ALL, BITS, CREATE, DELETE, READ, WRITE, mask_of, names_of
from hn_memory.uhp.state.snapshot import Node, Snapshot

LIMIT: Final = Parameter(
    "limit", "How many at most.", {"type": "integer", "minimum": 1, "maximum": models.LIST_LIMIT, "default": 50}
)
CURSOR: Final = Parameter("cursor", "Where the page begins: the `next` of the one before.")


def create(call: Call) -> dict[str, Any]:
    """Make a memory; whoever makes it holds all four privileges on it."""
    body: models.NewMemory = call.body
    parent: Node | None = None
    if body.parent_id is not None:
        parent = call.caller.require(body.parent_id, CREATE, "parent_id")
        _require_own(call, parent)
    else:
        _require_roots(call)
    provider = body.provider or (parent.provider if parent is not None else DEFAULT_PROVIDER)
    if provider not in call.server.providers or not call.server.writable(provider):
        raise invalid("no such provider keeps new memories", "provider")
    now = now_ms()
    node = Node(new_id("hmem_"), body.name, body.description, body.parent_id, body.restricted, provider, now, now)
    insert_memory(call.connection, node)
    _grant(call, node.id, call.caller.principal, ALL)
    return _changed(call, node.id)


def listing(call: Call) -> dict[str, Any]:
    """One level of the tree, or every descendant of a memory; without either, where the caller enters."""
    parent, ancestor = call.query.get("parent"), call.query.get("ancestor")
    above = call.tree.nodes.get(parent or ancestor or "")
    if above is not None and not call.server.writable(above.provider):
        # Streams come without a word to this server; who looks below the repository sees those of now.
        call.server.look_around()
        call.caller = Caller(call.server.store.snapshot(), call.caller.principal, call.caller.cap)
    caller = call.caller
    if parent is not None and ancestor is not None:
        raise invalid("parent and ancestor are not asked for together", "ancestor")
    if parent is not None:
        found = caller.seen_children(caller.require(parent, READ, "parent").id)
    elif ancestor is not None:
        found = caller.read_descendants(caller.require(ancestor, READ, "ancestor").id)
    else:
        found = caller.entries()
    nodes = call.tree.nodes
    ordered = [(f"{nodes[one].created:016d}{one}", one) for one in found]
    chosen, following = page(ordered, call.query.get("cursor"), call.limit())
    data = [memory_document(caller, nodes[one], call.server.extent) for one in chosen]
    return {"object": "list", "data": data, "next": following}


def get(call: Call) -> dict[str, Any]:
    """One memory."""
    node = call.caller.require(call.params["id"], READ)
    return memory_document(call.caller, node, call.server.extent)


def change(call: Call) -> dict[str, Any]:
    """Rename, describe, restrict or move: the fields that are given; the others stay."""
    body: models.MemoryChange = call.body
    given = call.given
    node = call.caller.require(call.params["id"], WRITE)
    _require_own(call, node)
    values: dict[str, Any] = {name: getattr(body, name) for name in ("name", "description") if name in given}
    if "provider" in given and body.provider not in (None, node.provider):
        raise unsupported("a memory stays with its provider")
    if "restricted" in given and body.restricted != node.restricted:
        call.caller.require(node.id, DELETE, "restricted")
        values["restricted"] = body.restricted
    if "parent_id" in given and body.parent_id != call.caller.visible_parent(node):
        call.caller.require(node.id, DELETE, "parent_id")
        _require_place(call, node, body.parent_id)
        _refuse_while_consolidating(call, node.id)
        values["parent_id"] = body.parent_id
    if values:
        call.connection.execute(
            update(schema.memory).where(schema.memory.c.id == node.id).values(**values, updated=now_ms())
        )
    return _changed(call, node.id)


def remove(call: Call) -> dict[str, Any]:
    """Delete a memory with its records and its descendants."""
    node = call.caller.require(call.params["id"], DELETE)
    _require_own(call, node)
    removed = list(call.tree.subtree(node.id))
    _refuse_while_consolidating(call, node.id)
    # What the caller cannot see goes as well, and is not named: its existence is not revealed by its end.
    named = [one for one in removed if call.caller.sees(one)]
    memory = schema.memory
    for at in range(0, len(removed), 500):
        some = removed[at : at + 500]
        call.connection.execute(update(memory).where(memory.c.id.in_(some)).values(deleted=now_ms(), dropped=False))
        for table in (schema.grant, schema.attachment, schema.query, schema.snapshot, schema.run):
            call.connection.execute(delete(table).where(table.c.memory_id.in_(some)))
    call.after.append(call.server.finish_drops)
    return {"id": node.id, "deleted": True, "memories": named}


# -- grants -----------------------------------------------------------------------------------------------


def list_grants(call: Call) -> dict[str, Any]:
    """Who holds what, and where each grant sits, as far up as grants reach and the caller sees."""
    caller, tree = call.caller, call.tree
    node = caller.require(call.params["id"], DELETE)
    data: list[dict[str, Any]] = []
    here: Node | None = node
    while here is not None:
        if caller.sees(here.id):
            grants = sorted(tree.grants.get(here.id, {}).values(), key=lambda one: (one.created, one.id))
            data += [_grant_document(one.id, here.id, one.principal, one.privileges, node.id) for one in grants]
        here = None if here.restricted or here.parent is None else tree.nodes[here.parent]
    return {"object": "list", "data": data, "next": None}


def add_grant(call: Call) -> dict[str, Any]:
    """Grant privileges to a principal on a memory, in place of what it was granted there before."""
    body: models.NewGrant = call.body
    node = call.caller.require(call.params["id"], DELETE)
    if not is_principal(body.principal):
        raise invalid("a principal is <kind>:<id> with kind harness, credential, person or group", "principal")
    if not body.privileges or any(name not in BITS for name in body.privileges):
        raise invalid(f"privileges are one or more of {', '.join(BITS)}", "privileges")
    mask = mask_of(body.privileges)
    granted = _grant(call, node.id, body.principal, mask)
    return _grant_document(granted, node.id, body.principal, mask, node.id)


def remove_grant(call: Call) -> dict[str, Any]:
    """Take back a grant that sits on this memory."""
    node = call.caller.require(call.params["id"], DELETE)
    table = schema.grant
    gone = call.connection.execute(
        delete(table).where(table.c.id == call.params["grant"], table.c.memory_id == node.id)
    ).rowcount
    if not gone:
        raise UhpError("memory_grant_not_found", "no such grant sits on this memory")
    return {"id": call.params["grant"], "deleted": True}


# -- inside -----------------------------------------------------------------------------------------------


def _grant(call: Call, memory: str, principal: str, mask: int) -> str:
    table = schema.grant
    call.connection.execute(delete(table).where(table.c.memory_id == memory, table.c.principal == principal))
    return insert_grant(call.connection, memory, principal, mask)


def _grant_document(grant: str, sits: str, principal: str, mask: int, asked: str) -> dict[str, Any]:
    return {
        "id": grant,
        "object": "memory.grant",
        "memory_id": sits,
        "principal": principal,
        "privileges": names_of(mask),
        "inherited": sits != asked,
    }


def _changed(call: Call, memory: str) -> dict[str, Any]:
    """The memory as the caller sees it after what the transaction has done so far."""
    from hn_memory.uhp.state.snapshot import load

    tree: Snapshot = load(call.connection, call.tree.number)
    caller = Caller(tree, call.caller.principal, call.caller.cap)
    return memory_document(caller, tree.nodes[memory], call.server.extent)


def _require_roots(call: Call) -> None:
    if call.server.settings.roots == "admin" and not call.key.administrator:
        raise UhpError("memory_forbidden", "only the administrator makes roots here", param="parent_id")
    if not call.caller.cap & CREATE:
        raise UhpError("memory_forbidden", "this key was made without create", param="parent_id")


def _require_own(call: Call, node: Node) -> None:
    if not call.server.writable(node.provider):
        raise unsupported("this memory shows a stream that is written elsewhere")


def _require_place(call: Call, node: Node, parent: str | None) -> None:
    if parent is None:
        _require_roots(call)
        return
    place = call.caller.require(parent, CREATE, "parent_id")
    _require_own(call, place)
    if parent == node.id or node.id in call.tree.ancestors(parent):
        raise invalid("a memory cannot be moved into itself or below itself", "parent_id")


def _refuse_while_consolidating(call: Call, memory: str) -> None:
    table = schema.run
    running = set(
        call.connection.execute(
            select(table.c.memory_id).where(or_(table.c.status == "running", table.c.status == "queued"))
        ).scalars()
    )
    if running and not running.isdisjoint(call.tree.subtree(memory)):
        raise UhpError("memory_busy", "a consolidation runs in it; try again when it has ended")


_SEEN: Final = ("memory_not_found", "memory_forbidden")
_ID: Final = "/v1/memories/{id}"

ROUTES: Final = (
    Route(
        "POST", "/v1/memories", "Create a memory.", create, models.Memory, "change", models.NewMemory,
        codes=(*_SEEN, "memory_invalid", "memory_unsupported"),
    ),
    Route(
        "GET", "/v1/memories", "One level of the tree.", listing, models.MemoryList,
        parameters=(
            Parameter("parent", "List the direct children of this memory."),
            Parameter("ancestor", "List every descendant of this memory that may be read."),
            LIMIT, CURSOR,
        ),
        codes=(*_SEEN, "memory_invalid"),
    ),
    Route("GET", _ID, "One memory.", get, models.Memory, codes=_SEEN),
    Route(
        "PUT", _ID, "Rename, describe, restrict or move a memory.", change, models.Memory, "change",
        models.MemoryChange, codes=(*_SEEN, "memory_busy", "memory_invalid", "memory_unsupported"),
    ),
    Route(
        "DELETE", _ID, "Delete a memory, its records and its descendants.", remove, models.MemoryDeleted, "change",
        codes=(*_SEEN, "memory_busy", "memory_unsupported"),
    ),
    Route("GET", f"{_ID}/grants", "Who holds what.", list_grants, models.GrantList, codes=_SEEN),
    Route(
        "POST", f"{_ID}/grants", "Grant privileges.", add_grant, models.Grant, "change", models.NewGrant,
        codes=(*_SEEN, "memory_invalid"),
    ),
    Route(
        "DELETE", _ID + "/grants/{grant}", "Take back a grant.", remove_grant, models.GrantDeleted, "change",
        codes=(*_SEEN, "memory_grant_not_found"),
    ),
)  # fmt: skip
