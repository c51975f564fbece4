"""What a harness may do from the memories that it attaches: section 9, apart from HTTP.

An attachment narrows and never widens. Where a memory stands to several attached ones, the nearest decides: by the
steps between parent and child that the harness may read on the way; between two equally near, the narrower. A memory
that no attached one leads to is out of reach, whatever is granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hn_memory.uhp.access import Caller
from hn_memory.uhp.state.schema import ALL, READ, WRITE


class Attached(NamedTuple):
    """An entry of the list: `access` is `read` or `write`."""

    memory: str
    access: str
    default: bool


class Reach:
    """What one harness reaches, on one snapshot, with the memories attached for a session."""

    def __init__(self, harness: Caller, attached: Sequence[Attached]) -> None:
        self.harness = harness
        # A memory that was deleted, or on which the harness holds nothing any more, is no start.
        self.attached = [one for one in attached if harness.sees(one.memory)]
        self._masks: dict[str, int] = {}
        self._spread()

    def _spread(self) -> None:
        """Walk from all attached memories at once, level by level."""
        level: dict[str, int] = {}
        for one in self.attached:
            mask = READ | WRITE if one.access == "write" else READ
            level[one.memory] = level.get(one.memory, ALL) & mask
        while level:
            for memory, mask in level.items():
                self._masks[memory] = mask
            following: dict[str, int] = {}
            for memory, mask in level.items():
                if not self.harness.reads(memory):
                    continue
                for near in self._near(memory):
                    if near not in self._masks:
                        following[near] = following.get(near, ALL) & mask
            level = following

    def _near(self, memory: str) -> list[str]:
        node = self.harness.tree.nodes[memory]
        found = self.harness.read_children(memory)
        if node.parent is not None and self.harness.reads(node.parent):
            found.append(node.parent)
        return found

    def mask(self, memory: str) -> int:
        """What an agent of the harness may do on a memory: what is granted, narrowed by the way there."""
        return self.harness.mask(memory) & self._masks.get(memory, 0)

    def caller(self) -> Caller:
        """A caller that sees what the agent reaches and nothing else."""
        return _Narrowed(self)

    @property
    def default(self) -> str | None:
        """Where observe and an unaddressed remember go."""
        return next((one.memory for one in self.attached if one.default and self.mask(one.memory) & WRITE), None)

    @property
    def writes(self) -> bool:
        """Is it attached somewhere to write?"""
        return any(one.access == "write" and self.mask(one.memory) & WRITE for one in self.attached)


class _Narrowed(Caller):
    __slots__ = ("_reach",)

    def __init__(self, reach: Reach) -> None:
        super().__init__(reach.harness.tree, reach.harness.principal, ALL)
        self._reach = reach

    def mask(self, memory: str) -> int:
        return self._reach.mask(memory)
