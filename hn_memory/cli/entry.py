"""The console script `hn`.

What costs time is imported where it is needed: `hn --help` and `hn --version` answer before click is loaded,
from a text that a test holds equal to what click would print.
"""

from __future__ import annotations

import gc
import os
import sys

_RARELY = 100_000

OVERVIEW = os.path.join(os.path.dirname(__file__), "overview.txt")  # noqa: PTH118, PTH120 - pathlib is not free


def main() -> int:
    """Run the command line in `sys.argv` and return the exit status."""
    # Importing makes many objects and no garbage; looking for some among them would take a tenth of the time.
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
    from hn_memory.cli.run import run

    return run(arguments)


def _overview() -> bytes:
    with open(OVERVIEW, "rb") as file:  # noqa: PTH123 - as above
        return file.read()


def _print(data: bytes) -> int:
    from hn_memory.cli.output import write_out

    return write_out(data)
