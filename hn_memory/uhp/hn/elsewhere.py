"""What the server's actor says of its memories' records outside their streams, with the command line or elsewhere.

A lifecycle does not depend on the stream a statement stands in: a retraction or a replacement counts by who signed
it. So the actor's other streams are followed as well, the default one always and those that `heed` names, and what
they say of a record's latest version closes it as of then: the record is forgotten. A replacement that was written
elsewhere stays where it was written, a record of that stream. Challenges change nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, NamedTuple

from hn_memory.errors import HnError
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.identifiers import derived_stream, local_ref
from hn_memory.service.environment import Environment
from hn_memory.service.keeping import follow
from hn_memory.uhp.instants import parse_instant

_PAUSE: Final = 0.05
"""Seconds for which a look at the refs holds good."""

_CLOSING: Final = ("retract", "supersede")


class Closing(NamedTuple):
    """A statement that closes a memory; `at` is its time in nanoseconds, `reason` that of a retraction."""

    target: str
    written: str
    at: int
    reason: str


class Elsewhere:
    """The closings that one actor's other streams hold, in the order in which they were met."""

    def __init__(self, actor: str) -> None:
        self._actor = actor
        default = derived_stream(actor, "default")
        self._default = (local_ref(actor, default), default)
        self._streams: dict[str, str] = dict([self._default])
        self._heads: dict[str, ChainHead] = {}
        self._looked = 0.0
        self.closings: list[Closing] = []

    def heed(self, streams: Iterable[tuple[str, str]]) -> None:
        """Follow these streams of the actor, as (ref, stream), and the default one."""
        self._streams = dict([self._default, *streams])

    def look(self, environment: Environment) -> bool:
        """Take in what came since the last look. False when something was unsaid (a stream that was rewound): then all
        that was told is told anew. A stream that does not verify says nothing."""
        now = time.monotonic()
        if now - self._looked < _PAUSE:
            return True
        self._looked = now
        for name, stream in self._streams.items():
            ref = environment.repository.ref(name)
            known = self._heads.get(name)
            if ref is None or ref.target is None or (known is not None and known.commit == ref.target):
                continue
            try:
                followed = follow(environment, name, self._actor, stream, ref.target, known)
            except HnError:
                continue
            if followed.whole and known is not None:
                self._heads.clear()
                self.closings.clear()
                self._looked = 0.0
                return False
            self._heads[name] = followed.head
            for held in followed.memories:
                said = held.envelope
                if said.operation in _CLOSING and said.target is not None:
                    at = parse_instant(said.timestamp) or 0
                    self.closings.append(Closing(said.target, said.timestamp, at, said.reason or ""))
        return True
