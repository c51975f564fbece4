"""Several worker processes on one listening socket.

The parent binds, starts the workers and waits; a worker that dies is replaced. Each worker gets the socket by
inheritance and its settings on standard input, which then stays open: when it ends, the parent is gone and the worker
stops as if it had been told to.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from types import FrameType
from typing import Any, Final

import uvicorn

from hn_memory.errors import HnError
from hn_memory.uhp.http.app import AppFactory
from hn_memory.uhp.logs import log_as_json
from hn_memory.uhp.server import Settings

_GRACE_SECONDS: Final = 10
BACKLOG: Final = 2048
_KEEP_ALIVE_SECONDS: Final = 75
_PATIENCE_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.2
_SWITCH_SECONDS: Final = 0.0001
_TLS: Final = ("certificate", "private_key")


def run_worker(settings: Settings, bound: socket.socket, certificate: str | None, private_key: str | None) -> bool:
    """Serve on a bound socket in this process until told to stop; False when it never came up."""
    log_as_json()
    # A write waits for the interpreter after each of some thirty calls of the system. With the usual 5 ms a busy
    # loop of reads would hold it up for a tenth of a second, and all that wait for its turn as well.
    sys.setswitchinterval(_SWITCH_SECONDS)
    config = uvicorn.Config(
        AppFactory(settings),
        factory=True,
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=certificate,
        ssl_keyfile=private_key,
    )
    server = uvicorn.Server(config)

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    # uvicorn's own handlers stand in the meantime; at the end it raises the signal once more, which then is no death.
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, stop)
    server.run(sockets=[bound])
    return server.started


class Supervisor:
    """Keeps a number of workers running."""

    def __init__(
        self, settings: Settings, bound: socket.socket, workers: int, certificate: str | None, private_key: str | None
    ) -> None:
        self._task = json.dumps(
            {"settings": asdict(settings), "fd": bound.fileno(), "certificate": certificate, "private_key": private_key}
        ).encode()
        self._fd = bound.fileno()
        self._workers = workers
        self._children: list[tuple[subprocess.Popen[bytes], float]] = []
        self._stopping = False

    def run(self) -> None:
        """Run until SIGTERM or SIGINT; the workers finish what they are at.

        Raises:
            HnError `worker-failed`: a worker ended as soon as it was started.
        """
        previous = {name: signal.signal(name, self._stop) for name in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._children = [self._start() for _ in range(self._workers)]
            while not self._stopping:
                time.sleep(_POLL_SECONDS)
                self._replace_dead()
        finally:
            self._end()
            for name, handler in previous.items():
                signal.signal(name, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopping = True

    def _start(self) -> tuple[subprocess.Popen[bytes], float]:
        child = subprocess.Popen(
            [sys.executable, "-m", "hn_memory.uhp.supervise"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(self._fd,),
            # A terminal's interrupt goes to the parent alone, which then tells the workers.
            start_new_session=True,
        )
        assert child.stdin is not None
        child.stdin.write(self._task + b"\n")
        child.stdin.flush()
        return child, time.monotonic()

    def _replace_dead(self) -> None:
        for at, (child, since) in enumerate(self._children):
            if child.poll() is None or self._stopping:
                continue
            if time.monotonic() - since < _PATIENCE_SECONDS:
                raise HnError("worker-failed", "a worker process ended as soon as it was started; the log says why")
            if child.stdin is not None:
                child.stdin.close()
            self._children[at] = self._start()

    def _end(self) -> None:
        for child, _ in self._children:
            if child.poll() is None:
                child.terminate()
        for child, _ in self._children:
            try:
                child.wait(_GRACE_SECONDS + _PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            if child.stdin is not None:
                child.stdin.close()


def _main() -> int:
    task: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    bound = socket.socket(fileno=task["fd"])
    return 0 if run_worker(Settings(**task["settings"]), bound, task["certificate"], task["private_key"]) else 1


def _end_with_parent() -> None:
    # Not through `sys.stdin`: its lock would be held all the time, and a process forked off meanwhile, which closes
    # that file first of all, would wait for the lock for ever.
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(_main())
