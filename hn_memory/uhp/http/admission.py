"""When a read may run on the event loop: one a round, in their order, and none while a write is at work.

Between two reads the loop looks at what has arrived, so that a write is never behind all the reads that wait.
"""

from __future__ import annotations

import asyncio
from collections import deque

from hn_memory.uhp.precedence import Precedence


class Admission:
    """The reads of one event loop. Made and used there."""

    def __init__(self, precedence: Precedence) -> None:
        self._precedence = precedence
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        # The next look at who waits is arranged for.
        self._arranged = False

    async def wait(self) -> None:
        """Return when it is this read's turn."""
        if not self._arranged and not self._waiting and not self._stood_back():
            self._arrange()
            return
        turn = self._loop.create_future()
        self._waiting.append(turn)
        if not self._arranged and self._timer is None:
            self._arrange()
        await turn

    def _arrange(self) -> None:
        self._arranged = True
        self._loop.call_soon(self._admit)

    def _admit(self) -> None:
        self._arranged = False
        if not self._waiting or self._stood_back():
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        self._arrange()

    def _stood_back(self) -> bool:
        """Is a write at work? Then reads are looked at again when it is done."""
        if self._timer is not None:
            return True
        delay = self._precedence.delay(self._woken)
        if delay:
            self._timer = self._loop.call_later(delay, self._resume)
        return bool(delay)

    def _woken(self) -> None:
        # In the writing thread. A loop that has been closed meanwhile has nobody waiting.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resume)

    def _resume(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            if not self._arranged:
                self._arrange()
