"""Adding to the tree: memories and grants, and memories that stand for something outside, as they are found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import ADMINISTRATOR, new_id, now_ms
from hn_memory.uhp.state.schema import ALL
from hn_memory.uhp.state.snapshot import Node
from hn_memory.uhp.state.store import Store


class Place(Protocol):
    """A memory by its id, with where it stands."""

    @property
    def id(self) -> str: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...


def insert_memory(connection: Connection, node: Node) -> None:
    """Put a memory into the tree."""
    connection.execute(
        insert(schema.memory).values(
            id=node.id,
            name=node.name,
            description=node.description,
            parent_id=node.parent,
            restricted=node.restricted,
            provider=node.provider,
            created=node.created,
            updated=node.updated,
            dropped=False,
        )
    )


def insert_grant(connection: Connection, memory: str, principal: str, mask: int) -> str:
    """Give a principal privileges on a memory; the grant's id."""
    grant = new_id("hgrt_")
    connection.execute(
        insert(schema.grant).values(id=grant, memory_id=memory, principal=principal, privileges=mask, created=now_ms())
    )
    return grant


def add_places(store: Store, provider: str, places: Sequence[Place]) -> None:
    """Add those that are not in the tree. The administrator holds all privileges on a new root."""
    with store.reading() as connection:
        known = set(
            connection.execute(select(schema.memory.c.id).where(schema.memory.c.provider == provider)).scalars()
        )
    if all(place.id in known for place in places):
        return
    try:
        with store.changing() as (connection, tree):
            for place in places:
                if place.id in tree.nodes:
                    continue
                now = now_ms()
                insert_memory(
                    connection, Node(place.id, place.name, place.description, place.parent, False, provider, now, now)
                )
                if place.parent is None:
                    insert_grant(connection, place.id, ADMINISTRATOR, ALL)
    except IntegrityError:
        # Another process found them at the same moment.
        return
