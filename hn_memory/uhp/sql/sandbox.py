"""Running a statement in a process of its own, and ending that process whatever it does.

A process runs one statement. The next one is started beforehand, so that a query waits for no start-up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from hn_memory.uhp.faults import UhpError, invalid
from hn_memory.uhp.values import Rows

_LIBRARY_PATHS: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_CHILD: Final = str(Path(__file__).with_name("child.py"))


class Bounds(NamedTuple):
    """What a statement may take: time of the processor, time in all, rows, their bytes as JSON, bytes of memory."""

    seconds: float = 1.0
    patience: float = 15.0
    rows: int = 1000
    bytes: int = 1 << 20
    memory: int = 128 << 20

    def said(self, bound: str) -> str:
        """How a bound that was met is reported."""
        value = {
            "time": f"{self.seconds:g}s", "rows": self.rows, "bytes": self.bytes, "memory": f"{self.memory >> 20}mb",
        }[bound]  # fmt: skip
        return f"{bound}:capped_at_{value}"


BOUNDS: Final = Bounds()


class Sandbox:
    """Processes for free queries."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        self.bounds = bounds
        self._spare: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        self._closed = False

    def close(self) -> None:
        """End the process that waits."""
        with self._lock:
            self._closed = True
            spare, self._spare = self._spare, None
        if spare is not None:
            _end(spare)

    def run(self, image: bytes, statement: str, params: Mapping[str, Any]) -> Rows:
        """What a statement answers on the database of an image.

        Raises:
            UhpError `memory_invalid`: SQLite refuses the statement; `memory_unavailable`: its process failed.
        """
        request = json.dumps(
            {
                "statement": statement,
                "params": {name: _bound(value) for name, value in params.items()},
                "seconds": self.bounds.seconds,
                "rows": self.bounds.rows,
                "bytes": self.bounds.bytes,
                "memory": self.bounds.memory,
            }
        ).encode()
        process = self._next()
        try:
            data, _ = process.communicate(
                b"".join((len(request).to_bytes(8, "big"), len(image).to_bytes(8, "big"), request, image)),
                timeout=self.bounds.patience,
            )
        except subprocess.TimeoutExpired:
            return Rows((), [], (self.bounds.said("time"),))
        finally:
            _end(process)
        if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return Rows((), [], (self.bounds.said("time"),))
        if process.returncode != 0:
            raise UhpError("memory_unavailable", "the query's process failed")
        answer = json.loads(data)
        if "error" in answer:
            raise invalid(f"the statement is refused: {answer['error']}", "statement")
        return Rows(tuple(answer["columns"]), answer["rows"], tuple(map(self.bounds.said, answer["degraded"])))

    def _next(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise UhpError("memory_unavailable", "the server is stopping")
            process, self._spare = self._spare or _start(), None
            self._spare = _start()
            return process


def _start() -> subprocess.Popen[bytes]:
    # No environment, no site packages, no directory of ours: there is nothing to find. Where Python itself lies in
    # another place than usual, it must find its library.
    env = {name: os.environ[name] for name in _LIBRARY_PATHS if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-I", "-S", _CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=env,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()


def _bound(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
