"""Bringing a large file to the disk while it is still being written."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from threading import Thread
    from typing import Final


LARGE: Final = 16 << 20
"""Bytes from which waiting for the disk is worth a thread."""


class Flush:
    """Waits for the disk while a large file is still being written, so that little is left to wait for in the end."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path
        self._thread: Thread | None = None

    def begin(self) -> None:
        """Most of the file is written."""
        if os.stat(self._path).st_size >= LARGE:  # noqa: PTH116 - the package does without pathlib here
            from threading import Thread

            self._thread = Thread(target=self._ahead)
            self._thread.start()

    def end(self) -> None:
        """All of the file is written: return when it is on the disk.

        Raises:
            OSError: it cannot be brought there.
        """
        if self._thread is not None:
            self._thread.join()
        self._sync()

    def _ahead(self) -> None:
        from contextlib import suppress

        # Whatever is wrong, the last sync meets it again.
        with suppress(OSError):
            self._sync()

    def _sync(self) -> None:
        handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
