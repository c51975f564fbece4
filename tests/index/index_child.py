"""Acts in processes of their own: to be killed, to be stinted, to be somebody else."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from hn_memory.index import store, update

NOBODY = 65534


class Child:
    """A forked process that does something and hands back a JSON value."""

    def __init__(self, act: Callable[[], Any], user: int | None = None) -> None:
        read_end, write_end = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the threads of a test runner do not matter here
            self.pid = os.fork()
        if self.pid == 0:
            os.close(read_end)
            _be_child(act, write_end, user)
        os.close(write_end)
        self._pipe = os.fdopen(read_end, "rb")

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> Any:
        """What it answered; None when it was killed."""
        _, status = os.waitpid(self.pid, 0)
        # Its answer fits into the pipe; children of its own that live on may keep the other end open.
        with self._pipe as pipe:
            if os.WIFSIGNALED(status):
                assert os.WTERMSIG(status) == signal.SIGKILL
                return None
            answer = json.loads(os.read(pipe.fileno(), 1 << 16))
        assert "failed" not in answer, answer["failed"]
        return answer["done"]


def _be_child(act: Callable[[], Any], write_end: int, user: int | None) -> NoReturn:
    try:
        if user is not None and os.geteuid() == 0:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        answer = {"done": act()}
    except BaseException as error:
        answer = {"failed": repr(error)}
    os.write(write_end, json.dumps(answer).encode())
    os._exit(0)


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    raise AssertionError("still alive")


def _before(owner: Any, name: str, at: int) -> None:
    """Die before the n-th call of a function."""
    original = getattr(owner, name)
    left = [at]

    def doomed(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            die()
        return original(*arguments, **named)

    setattr(owner, name, doomed)


MOMENTS: dict[str, Callable[[int], None]] = {
    "while storing": lambda at: _before(update.Updater, "_insert", at),
    "after a source": lambda at: _before(update.Updater, "_write_counts", at),
    "while sweeping": lambda at: _before(update.Updater, "_sweep", at),
    "around the note": lambda at: _before(store.Index, "_write_stamp", at),
    "around the rename": lambda at: _before(store.Index, "_status", at),
}
"""Where a process may be killed in the middle of a change, by the n-th time it comes there."""


def killed_at(moment: str, at: int, act: Callable[[], Any]) -> bool:
    """Do something in a child that dies at a moment; False when it never came there."""

    def doomed() -> Any:
        update.BATCH = 4  # type: ignore[misc]
        MOMENTS[moment](at)
        act()
        return "survived"

    return Child(doomed).wait() is None
