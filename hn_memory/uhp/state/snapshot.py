"""The tree, its grants, groups and keys as they stood at one epoch, held in memory: every check is answered here.

Nothing in a snapshot changes; a new epoch is a new snapshot. Effective privileges are worked out once per caller and
memory and kept with the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import Connection, select

from hn_memory.uhp.state import schema


class Node(NamedTuple):
    """A memory's own fields; times in Unix milliseconds."""

    id: str
    name: str
    description: str
    parent: str | None
    restricted: bool
    provider: str
    created: int
    updated: int


class Grant(NamedTuple):
    """Privileges of a principal on the memory where the grant sits."""

    id: str
    memory: str
    principal: str
    privileges: int
    created: int


class Key(NamedTuple):
    """An API key: who it speaks for, and the most that it may do."""

    id: str
    principal: str
    privileges: int
    administrator: bool


class Snapshot:
    """Everything that decides who may reach what, at one epoch."""

    def __init__(
        self,
        number: int,
        nodes: dict[str, Node],
        grants: dict[str, dict[str, Grant]],
        groups: dict[str, frozenset[str]],
        keys: dict[bytes, Key],
    ) -> None:
        self.number = number
        self.nodes = nodes
        self.grants = grants
        self.keys = keys
        self._groups = groups
        self._children: dict[str | None, list[str]] = {}
        for node in sorted(nodes.values(), key=lambda one: (one.created, one.id)):
            self._children.setdefault(node.parent, []).append(node.id)
        self._granted: dict[str, list[str]] = {}
        for memory, by_principal in grants.items():
            for principal in by_principal:
                self._granted.setdefault(principal, []).append(memory)
        self._principals: dict[str, frozenset[str]] = {}
        self._effective: dict[tuple[str, str], int] = {}

    def children(self, memory: str | None) -> list[str]:
        """Direct children in order of creation; of None, the roots."""
        return self._children.get(memory, [])

    def principals(self, principal: str) -> frozenset[str]:
        """A principal, and the groups it is in, directly or through groups."""
        known = self._principals.get(principal)
        if known is None:
            found = {principal}
            pending = [principal]
            while pending:
                for group in self._groups.get(pending.pop(), frozenset()):
                    if group not in found:
                        found.add(group)
                        pending.append(group)
            known = self._principals[principal] = frozenset(found)
        return known

    def effective(self, principal: str, memory: str) -> int:
        """The union of grants on a memory and, up to the cutoff, on its ancestors (section 3)."""
        known = self._effective.get((principal, memory))
        if known is not None:
            return known
        node = self.nodes.get(memory)
        if node is None:
            return 0
        mask = 0
        here = self.grants.get(memory)
        if here:
            for one in self.principals(principal):
                grant = here.get(one)
                if grant is not None:
                    mask |= grant.privileges
        if node.parent is not None and not node.restricted:
            mask |= self.effective(principal, node.parent)
        self._effective[(principal, memory)] = mask
        return mask

    def granted(self, principal: str) -> set[str]:
        """Memories on which a grant for the principal or one of its groups sits."""
        return {
            memory
            for one in self.principals(principal)
            for memory in self._granted.get(one, ())
            if memory in self.nodes
        }

    def ancestors(self, memory: str) -> list[str]:
        """From the parent up to the root."""
        found: list[str] = []
        parent = self.nodes[memory].parent
        while parent is not None:
            found.append(parent)
            parent = self.nodes[parent].parent
        return found

    def subtree(self, memory: str) -> Iterator[str]:
        """A memory and all its descendants, parents before children."""
        pending = [memory]
        while pending:
            one = pending.pop()
            yield one
            pending.extend(reversed(self.children(one)))


def load(connection: Connection, number: int) -> Snapshot:
    """The snapshot of what a transaction sees."""
    m, g, u, k = schema.memory.c, schema.grant.c, schema.member.c, schema.key.c
    nodes = {
        row[0]: Node(*row)
        for row in connection.execute(
            select(m.id, m.name, m.description, m.parent_id, m.restricted, m.provider, m.created, m.updated).where(
                m.deleted.is_(None)
            )
        )
    }
    grants: dict[str, dict[str, Grant]] = {}
    for row in connection.execute(select(g.id, g.memory_id, g.principal, g.privileges, g.created)):
        grants.setdefault(row[1], {})[row[2]] = Grant(*row)
    groups: dict[str, set[str]] = {}
    for group, principal in connection.execute(select(u.group_id, u.principal)):
        groups.setdefault(principal, set()).add(group)
    keys = {
        bytes(row[0]): Key(*row[1:])
        for row in connection.execute(
            select(k.digest, k.id, k.principal, k.privileges, k.administrator).where(k.revoked.is_(None))
        )
    }
    return Snapshot(number, nodes, grants, {name: frozenset(of) for name, of in groups.items()}, keys)
