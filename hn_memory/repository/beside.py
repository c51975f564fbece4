"""Two things at once, for who waits for a disk or a remote and has something to do meanwhile."""

from __future__ import annotations

import _thread
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")


def beside(other: Callable[[], object], ours: Callable[[], T]) -> T:
    """Do `other` in another thread and `ours` in this one; what `ours` answers, when both are done.

    Raises:
        What `other` raises, else what `ours` raises.
    """
    failed: list[BaseException] = []
    done = _thread.allocate_lock()
    done.acquire()

    def run() -> None:
        try:
            other()
        except BaseException as error:
            failed.append(error)
        finally:
            done.release()

    # Not by `threading`, which takes longer to load than a disk takes.
    _thread.start_new_thread(run, ())
    try:
        return ours()
    finally:
        done.acquire()
        if failed:
            raise failed[0]
