"""Memories that stand for something outside: added to the tree as they are found, never changed by a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError

from hn_memory.uhp.state import schema
from hn_memory.uhp.state.keys import ADMINISTRATOR, new_id, now_ms
from hn_memory.uhp.state.schema import ALL
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
                connection.execute(
                    insert(schema.memory).values(
                        id=place.id,
                        name=place.name,
                        description=place.description,
                        parent_id=place.parent,
                        restricted=False,
                        provider=provider,
                        created=now,
                        updated=now,
                        dropped=False,
                    )
                )
                if place.parent is None:
                    connection.execute(
                        insert(schema.grant).values(
                            id=new_id("hgrt_"),
                            memory_id=place.id,
                            principal=ADMINISTRATOR,
                            privileges=ALL,
                            created=now,
                        )
                    )
    except IntegrityError:
        # Another process found them at the same moment.
        return
