"""The console script `hn`.

What costs time is imported where it is needed: `hn --help` and `hn --version` answer before click is loaded,
from a text that a test holds equal to what click would print; ordinary commands are read without it (`cli.quick`).
"""

from __future__ import annotations

import _thread
import atexit
import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from hn_memory.service.ahead import Ahead

_RARELY = 1_000_000
_READS = frozenset({"recall", "search", "grep", "duplicates", "show", "log", "streams"})
_WRITES = frozenset({"record", "handoff", "supersede", "retract", "challenge"})

OVERVIEW = os.path.join(os.path.dirname(__file__), "overview.txt")  # noqa: PTH118, PTH120 - pathlib is not free


def main() -> NoReturn:
    """The console script: run the command line in `sys.argv` and end the process with its exit status."""
    leave(answer())


def leave(status: int) -> NoReturn:
    """End the process without taking it apart.

    Python would free every module and object one by one, which takes a fifth of a short command's time, and the
    kernel does it at once. By now the answer is written and everything is closed. Where something wants to run
    at the end, or another thread still does, Python ends as usual.
    """
    if atexit._ncallbacks() or _thread._count() > 0:
        sys.exit(status)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            # Closed, or nobody listens; whoever wrote the answer has said so already.
            continue
    os._exit(status)


def answer() -> int:
    """Run the command line in `sys.argv` and return the exit status."""
    # Importing makes many objects and no garbage, and so does reading a hundred thousand memories; looking for some
    # among them would take a tenth of the time. What stays (`hn uhp serve`) looks more often.
    gc.set_threshold(_RARELY)
    arguments = sys.argv[1:]
    if "_HN_COMPLETE" not in os.environ:
        if arguments in (["--help"], ["-h"]):
            return _print(_overview())
        if arguments == ["--version"]:
            from hn_memory._version import __version__

            return _print(f"hn {__version__}\n".encode())
    from hn_memory.cli import deferred

    deferred.install()
    ahead = _start_git(arguments)
    from hn_memory.cli.run import run

    return run(arguments, ahead)


def _start_git(arguments: list[str]) -> Ahead | None:
    """Let Git work while the rest is loaded, where the command is one that will ask it about this directory."""
    if arguments[:1] != ["memory"] or not _WRITES.union(_READS).issuperset(arguments[1:2]):
        return None
    if len(arguments) < 2 or "--help" in arguments or "-h" in arguments:
        return None
    from hn_memory.service.ahead import Ahead

    # Who appends must see the refs as they are when he holds the lock.
    return Ahead(refs=arguments[1] in _READS)


def _overview() -> bytes:
    with open(OVERVIEW, "rb") as file:  # noqa: PTH123 - as above
        return file.read()


def _print(data: bytes) -> int:
    from hn_memory.cli.output import write_out

    return write_out(data)
