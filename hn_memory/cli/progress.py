"""One line on stderr that says how far a long command is. Only on a terminal, and gone when it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_LABELS: Final = {
    "fetch": "fetching",
    "verify": "verifying",
    "promote": "promoting",
    "push": "publishing",
    "recover": "recovering",
}
_PAUSE: Final = 0.05


def can_ask(json: bool) -> bool:
    """Is a person there who could type a password?"""
    return not json and sys.stdin is not None and sys.stdin.isatty() and _is_terminal()


@contextmanager
def progress_line(json: bool) -> Iterator[Callable[[str, int, int], None] | None]:
    """What to hand to the service as `progress`; None where nobody watches."""
    if json or not _is_terminal():
        yield None
        return
    line = _Line()
    try:
        yield line.tell
    finally:
        line.clear()


class _Line:
    def __init__(self) -> None:
        self._shown = False
        self._last = ("", 0.0)

    def tell(self, phase: str, done: int, total: int) -> None:
        """Show the phase; not oftener than an eye can follow."""
        now = time.monotonic()
        if self._last[0] == phase and now - self._last[1] < _PAUSE and done < total:
            return
        self._last = (phase, now)
        label = _LABELS.get(phase, phase)
        amount = f"{100 * done // total if total else 100:>3} %"
        if phase == "verify":
            amount += f" of {total:,} memories"
        self._write(f"\r{label} {amount}\x1b[K")
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._write("\r\x1b[K")

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            return


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
