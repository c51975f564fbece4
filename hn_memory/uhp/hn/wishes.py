"""Writes that wait: each decided by itself, carried out together.

Appending costs mostly by the file, not by the memory: whoever waits for the lock may as well be written by the one
who holds it. Every write keeps its own decision, its own refusal and its own witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hn_memory.repository.writer import Statement
from hn_memory.service.environment import Environment
from hn_memory.service.keeping import Saying, state
from hn_memory.uhp.hn.view import View
from hn_memory.uhp.provider import Together, Witness, unwitnessed

Decide = Callable[[View], list[Saying]]

_TOGETHER: Final = 64
"""Writes that one append carries."""


class Wish:
    """One write to one memory.

    Attributes:
        records: those whose state decides it; None where everything does.
        said: what it says in the attempt that runs.
        settled: it has succeeded or failed.
    """

    __slots__ = ("_error", "_ids", "decide", "memory", "records", "said", "settled", "witness")

    def __init__(self, memory: str, decide: Decide, witness: Witness, records: frozenset[str] | None) -> None:
        self.memory = memory
        self.decide = decide
        self.witness = witness
        self.records = records
        self.said: list[Saying] = []
        self.settled = False
        self._ids: list[str] = []
        self._error: Exception | None = None

    def say(self, environment: Environment, view: View) -> list[Statement]:
        """What it says, decided on that state; nothing more once it failed."""
        self.said = []
        if self.settled:
            return []
        try:
            said = self.decide(view)
            statements = [state(environment, saying) for saying in said]
        except Exception as error:  # whatever it is, it is this one's
            self.fail(error)
            return []
        self.said = said
        return statements

    def succeed(self, ids: list[str]) -> None:
        """It took effect as these memories."""
        if not self.settled:
            self._ids = ids
            self.settled = True

    def fail(self, error: Exception) -> None:
        """It did not take effect, or nobody knows."""
        if not self.settled:
            self._error = error
            self.said = []
            self.settled = True

    def result(self) -> list[str]:
        """The memory IDs.

        Raises:
            What it failed with.
        """
        if not self.settled:
            raise RuntimeError("nobody has carried out this write")
        if self._error is not None:
            raise self._error
        return self._ids


def matching(waiting: Sequence[Wish]) -> tuple[list[Wish], list[Wish]]:
    """The first write with those that may share its append, and the rest, both in their order.

    Two writes may share one when they concern the same memory and no record decides both: each is decided on the
    state before the append, which must be the state it would have met alone.
    """
    first, *others = waiting
    together, rest = [first], []
    taken = first.records
    blocked = False
    for wish in others:
        if (
            wish.memory != first.memory
            or taken is None
            or wish.records is None
            or blocked
            or len(together) == _TOGETHER
            or not taken.isdisjoint(wish.records)
        ):
            rest.append(wish)
            # Who came later to the same memory stays behind who came first.
            blocked = blocked or wish.memory == first.memory
        else:
            together.append(wish)
            taken |= wish.records
    return together, rest


def dealt(wishes: Sequence[Wish], ids: Sequence[str]) -> Iterator[tuple[Wish, list[str]]]:
    """Each write with the IDs of its memories, out of those of the whole append."""
    at = 0
    for wish in wishes:
        yield wish, list(ids[at : at + len(wish.said)])
        at += len(wish.said)


def tell(spoken: Sequence[tuple[Wish, Sequence[str]]], together: Together) -> None:
    """Tell the witness of each write which memories it is about to become.

    Raises:
        AgainError: one of them refused, and its write has failed.
    """

    told = [(wish, " ".join(own)) for wish, own in spoken if wish.witness is not unwitnessed]
    if together([(wish.witness, token) for wish, token in told]):
        return
    for wish, token in told:
        try:
            wish.witness(token)
        except Exception as error:  # this write's alone
            wish.fail(error)
    if any(wish.settled for wish, _ in spoken):
        raise AgainError


class AgainError(Exception):
    """Leaves an append of several writes, one of which has been refused at the last moment."""
