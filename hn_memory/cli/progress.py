"""A progress bar on a terminal for work that takes long; nothing where nobody watches."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

_PATIENCE: Final = 0.3
"""Seconds of silence before a bar appears: quick work needs none."""

_LABELS: Final = {
    "words": "reading words",
    "embed": "embedding",
    "fetch": "fetching",
    "verify": "verifying memories",
    "promote": "promoting",
    "push": "publishing",
    "recover": "recovering",
}


class Progress:
    """Takes progress as `index.update.Progress` gives it and draws it on stderr.

    Use as a context manager, so that the bar is ended when the work is, however it ends.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._bar: ProgressBar[Any] | None = None
        self._phase = ""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def __call__(self, phase: str, done: int, total: int) -> None:
        if self._bar is not None and (self._bar.length != total or self._phase != phase):
            self._end()
        if self._bar is None:
            if time.monotonic() - self._since < _PATIENCE or done >= total:
                return
            import click

            self._phase = phase
            self._bar = click.progressbar(length=total, label=_LABELS.get(phase, phase), file=sys.stderr)
            self._bar.__enter__()
        self._bar.update(done - self._bar.pos)

    def _end(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
        self._bar = None
