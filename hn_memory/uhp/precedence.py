"""Writes go first: while one is at work in this process, reads stand back.

A write takes the interpreter some hundred times for a moment and lets go of it at each call of the system; beside busy
readers it would queue for it every time, and everybody who waits for its turn to write queues with it. Whoever reads is
held up for about as long as the work itself takes, which one thread or the other has to do in any case.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import Final

PATIENCE: Final = 0.02
"""Seconds for which reads stand back without a break: a long write is not to stop them."""


class Precedence:
    """Entered (`with`) by any number of threads while they do the work of writes, waiting for others excluded."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._at_work = 0
        self._until = 0.0
        self._wake: Callable[[], None] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._at_work:
                self._until = time.monotonic() + PATIENCE
            self._at_work += 1

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._at_work -= 1
            if self._at_work:
                return
            wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within `with` on this object: a wait for somebody else, such as a database, in which reads go on."""
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()

    def delay(self, wake: Callable[[], None]) -> float:
        """Seconds that a read has to stand back at most, 0 when it may go on.

        Args:
            wake: called once, in any thread, as soon as nothing is at work; not when the answer is 0.
        """
        with self._lock:
            left = self._until - time.monotonic()
            if not self._at_work or left <= 0:
                return 0.0
            self._wake = wake
            return left
