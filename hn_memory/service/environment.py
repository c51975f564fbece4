"""What every use case works in: a repository, its keys, and the time. Nothing is global."""

from __future__ import annotations

from dataclasses import dataclass, field

from hn_memory.repository.base import Repository
from hn_memory.repository.clock import Clock, system_clock
from hn_memory.repository.keyring import Keyring


@dataclass(slots=True)
class Environment:
    """One open repository and what goes with it.

    `notices` collects lines for people (stderr) that no result carries.
    """

    repository: Repository
    keyring: Keyring
    clock: Clock = system_clock
    notices: list[str] = field(default_factory=list)
