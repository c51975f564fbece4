"""Two things at once, for who waits for a disk or a remote and has something to do meanwhile."""

from __future__ import annotations

import _thread
from collections.abc import Callable


def beside(other: Callable[[], object], ours: Callable[[], None]) -> None:
    """Do `other` in another thread and `ours` in this one; return when both are done.

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
        ours()
    finally:
        done.acquire()
        if failed:
            raise failed[0]
