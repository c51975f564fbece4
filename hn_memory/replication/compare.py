"""How histories of one stream relate: which descends from which, and where two part (step 5).

Only commits and their order decide; no clock does. A history is a list of commits along first parents.
"""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol.chain import ChainHead
from hn_memory.replication.verify import memory_id_at
from hn_memory.repository.base import Repository
from hn_memory.values import NamedTuple


class Parting(NamedTuple):
    """The first place where two histories differ: the sequence, and what each has there (None: nothing here)."""

    sequence: int
    ours: str | None
    theirs: str


class Histories:
    """First-parent histories in the main store, each walked once and only when asked for."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._walked: dict[str, dict[str, int]] = {}

    def of(self, commit: str) -> dict[str, int]:
        """Every commit of the history with its sequence; empty when a part of it is not here."""
        if commit not in self._walked:
            try:
                found = [step[0] for step in self._repository.parents(commit)]
            except HnError:
                found = []
            self._walked[commit] = {name: len(found) - at for at, name in enumerate(found)}
        return self._walked[commit]

    def head(self, commit: str) -> ChainHead | None:
        """The link of a commit whose history was verified before."""
        history = self.of(commit)
        name = memory_id_at(self._repository, commit) if history else None
        return None if name is None else ChainHead(history[commit], name, commit)


def parting(ours: dict[str, int], theirs: list[str]) -> Parting | None:
    """Where two histories part; None when one is a part of the other.

    Args:
        ours: commits with their sequences.
        theirs: commits from the first on.
    """
    by_sequence = {sequence: commit for commit, sequence in ours.items()}
    for sequence, commit in enumerate(theirs, 1):
        if sequence not in by_sequence:
            return None
        if by_sequence[sequence] != commit:
            return Parting(sequence, by_sequence[sequence], commit)
    return None
