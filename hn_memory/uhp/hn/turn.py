"""Whose turn it is to write, among the processes of servers over one repository.

The writers' lock of the repository is asked for again and again with growing pauses, which suits commands that meet
seldom. Servers under load meet all the time, and whoever pauses would lose to whoever has just written. So they queue
here first, in the kernel, which wakes them in the order in which they came; the lock itself is then mostly free.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final

from hn_memory.repository.private import PrivateFiles

_FILE: Final = "uhp/turn"


class Turn:
    """Held for the length of a `with` block, by one thread of the process at a time."""

    def __init__(self, common_dir: Path) -> None:
        self._handle = PrivateFiles(common_dir).open(_FILE)

    def __enter__(self) -> None:
        # The interpreter goes on with other threads in the meantime.
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        fcntl.flock(self._handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release the file."""
        os.close(self._handle)
