"""What every use case works in: a repository, its keys, its index, and the time. Nothing is global."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hn_memory.repository.base import Repository
from hn_memory.repository.clock import Clock, system_clock

if TYPE_CHECKING:
    from hn_memory.index.store import Index
    from hn_memory.index.update import Progress
    from hn_memory.protocol.chain import ChainHead
    from hn_memory.repository.keyring import Keyring
    from hn_memory.repository.streams import InvalidSource


class Environment:
    """One open repository and what goes with it.

    Attributes:
        actor: act as this identity instead of the active one.
        notices: lines for people (stderr) that no result carries.
        progress: told how far a long verification has come.
        known_tips: heads of local streams that this process verified or wrote, by ref.
    """

    __slots__ = ("_index", "_keyring", "actor", "clock", "known_tips", "notices", "progress", "repository")

    def __init__(
        self,
        repository: Repository,
        actor: str | None = None,
        clock: Clock = system_clock,
        progress: Progress | None = None,
    ) -> None:
        self.repository = repository
        self.actor = actor
        self.clock = clock
        self.progress = progress
        self.notices: list[str] = []
        self.known_tips: dict[str, ChainHead] = {}
        self._index: Index | None = None
        self._keyring: Keyring | None = None

    @property
    def keyring(self) -> Keyring:
        """The identities of this clone; reading memories needs none."""
        if self._keyring is None:
            from hn_memory.repository.keyring import Keyring

            self._keyring = Keyring(self.repository.layout.common_dir, self.actor)
        return self._keyring

    def index(self) -> Index:
        """The verified index, brought up to the refs as they are now."""
        index = self.open_index().refresh()
        self.note_index(index)
        return index

    def open_index(self) -> Index:
        """The index as it was left; `refresh` it before reading."""
        if self._index is None:
            from hn_memory.index.store import Index

            self._index = Index(self.repository, self.progress)
        return self._index

    def note_index(self, index: Index) -> None:
        """Say in one line what became of an index that was not simply there."""
        if index.state == "rebuilt" and (index.detail != "it was missing" or index.heads):
            self.notices.append(f"the index was rebuilt from the signed commits: {index.detail}")
        elif index.state == "memory":
            self.notices.append(f"answered without the index file: {index.detail}")

    def note_invalid(self, invalid: list[InvalidSource]) -> None:
        """Name every source that is left out."""
        self.notices += [f"left out {source.ref}: {source.reason}" for source in invalid]

    def close(self) -> None:
        """Release the index and the repository."""
        if self._index is not None:
            self._index.close()
        self.repository.close()
