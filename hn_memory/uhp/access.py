"""The tree as one caller sees it, and every check of section 3, made on one snapshot.

The rules:

1. a memory on which the caller has no effective privilege does not exist for it: the same fault, whatever is asked;
2. on one that it sees, an operation needs its privilege, else `memory_forbidden`;
3. a parent is named only where the caller sees it, and its records are spoken of only where the caller reads it;
4. a key never does more than the privileges it was made with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from hn_memory.uhp.faults import UhpError, memory_not_found
from hn_memory.uhp.state.schema import CREATE, DELETE, READ, WRITE, names_of
from hn_memory.uhp.state.snapshot import Key, Node, Snapshot
from hn_memory.uhp.values import Author, Extent

NEEDS = {"read": READ, "write": WRITE, "create": CREATE, "delete": DELETE}

ExtentOf = Callable[[Node], Extent]


class Caller:
    """One principal with one key, on one snapshot of the tree."""

    __slots__ = ("cap", "principal", "tree")

    def __init__(self, tree: Snapshot, principal: str, cap: int) -> None:
        self.tree = tree
        self.principal = principal
        self.cap = cap

    @classmethod
    def of_key(cls, tree: Snapshot, key: Key) -> Caller:
        """The caller that a key speaks for."""
        return cls(tree, key.principal, key.privileges)

    @property
    def author(self) -> Author:
        """What is stamped on what the caller writes."""
        kind, _, name = self.principal.partition(":")
        return Author(kind, name)

    def mask(self, memory: str) -> int:
        """Effective privileges as a sum, 0 for a memory that does not exist."""
        return self.tree.effective(self.principal, memory) & self.cap

    def sees(self, memory: str) -> bool:
        """Rule 1."""
        return self.mask(memory) != 0

    def reads(self, memory: str) -> bool:
        """May the caller read its records?"""
        return bool(self.mask(memory) & READ)

    def require(self, memory: str, privilege: int, param: str | None = None) -> Node:
        """The memory, for an operation that needs a privilege.

        Raises:
            UhpError `memory_not_found` (rule 1), `memory_forbidden` (rule 2).
        """
        mask = self.mask(memory)
        if not mask:
            raise memory_not_found(param)
        if not mask & privilege:
            raise UhpError("memory_forbidden", f"this needs {names_of(privilege)[0]} on the memory", param=param)
        return self.tree.nodes[memory]

    def visible_parent(self, node: Node) -> str | None:
        """The parent's id, where the caller sees it."""
        return node.parent if node.parent is not None and self.sees(node.parent) else None

    def visible_ancestors(self, node: Node) -> list[str]:
        """Ids from the root down to the parent, as far up as the caller sees without a gap."""
        found: list[str] = []
        for ancestor in self.tree.ancestors(node.id):
            if not self.sees(ancestor):
                break
            found.append(ancestor)
        found.reverse()
        return found

    def seen_children(self, memory: str) -> list[str]:
        """Direct children that the caller sees."""
        return [child for child in self.tree.children(memory) if self.sees(child)]

    def read_children(self, memory: str) -> list[str]:
        """Direct children that the caller may read."""
        return [child for child in self.tree.children(memory) if self.reads(child)]

    def entries(self) -> list[str]:
        """Where the caller enters the tree: what it sees and whose parent it does not see.

        Privileges only begin where a grant sits, so only memories with a grant of the caller's can be entries.
        """
        found = [
            memory
            for memory in self.tree.granted(self.principal)
            if self.sees(memory) and self.visible_parent(self.tree.nodes[memory]) is None
        ]
        return self._ordered(found)

    def read_descendants(self, memory: str) -> list[str]:
        """Every descendant that the caller may read, whether or not what is between can be read."""
        below = self.tree.subtree(memory)
        next(below)
        return self._ordered([one for one in below if self.reads(one)])

    def walk(self, memory: str, depth: int) -> Iterator[str]:
        """A memory and what is reached from it downward by reading, level by level, at most `depth` levels below."""
        level = [memory]
        for remaining in range(depth, -1, -1):
            yield from level
            if remaining:
                level = [child for one in level for child in self.read_children(one)]

    def _ordered(self, memories: list[str]) -> list[str]:
        return sorted(memories, key=lambda one: (self.tree.nodes[one].created, one))


def memory_document(caller: Caller, node: Node, extent: ExtentOf) -> dict[str, object]:
    """A memory as section 2 shows it to one caller."""
    held = extent(node)
    return {
        "id": node.id,
        "object": "memory",
        "name": node.name,
        "description": node.description,
        "parent_id": caller.visible_parent(node),
        "ancestors": caller.visible_ancestors(node),
        "restricted": node.restricted,
        "provider": node.provider,
        "privileges": names_of(caller.mask(node.id)),
        "records": {"count": held.count},
        "children": {"count": len(caller.seen_children(node.id))},
        "createdAt": node.created,
        "updatedAt": max(node.updated, held.written_ms),
    }


def neighbour_document(caller: Caller, memory: str, extent: ExtentOf) -> dict[str, object]:
    """A memory as a place to walk to."""
    node = caller.tree.nodes[memory]
    return {
        "id": node.id,
        "name": node.name,
        "description": node.description,
        "records": {"count": extent(node).count},
        "children": {"count": len(caller.seen_children(node.id))},
        "privileges": names_of(caller.mask(node.id)),
    }


def neighbourhood(caller: Caller, node: Node, extent: ExtentOf) -> dict[str, object]:
    """`parent` and `children` of an answer: only what the caller may read; an unread parent is absent."""
    found: dict[str, object] = {}
    if node.parent is not None and caller.reads(node.parent):
        found["parent"] = neighbour_document(caller, node.parent, extent)
    found["children"] = [neighbour_document(caller, child, extent) for child in caller.read_children(node.id)]
    return found
