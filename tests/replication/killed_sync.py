"""A sync that dies: run as a script, with where to die. Used by `test_kill.py`."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import hn_memory


def die(*_: object) -> None:
    """As a power cut would end us: no cleaning up."""
    os.kill(os.getpid(), 9)


def arm(place: str) -> None:
    """`module:function:before|after`, or `prepared`: while Git holds the locks of all refs, and Git dies, too."""
    if place == "prepared":
        from hn_memory.repository import refwriter

        real_until = refwriter._until

        def until(child: Any, request: bytes, answer: bytes) -> bool:
            done = real_until(child, request, answer)
            if answer.startswith(b"prepare"):
                os.kill(child.pid, 9)
                die()
            return done

        refwriter._until = until
        return
    module_name, function, when = place.split(":")
    module = importlib.import_module(f"hn_memory.replication.{module_name}")
    real = getattr(module, function)

    def dying(*arguments: Any, **options: Any) -> Any:
        if when == "before":
            die()
        real(*arguments, **options)
        die()

    setattr(module, function, dying)


if __name__ == "__main__":
    if sys.argv[2]:
        arm(sys.argv[2])
    with hn_memory.open_repository(sys.argv[1], backend="git") as service:
        service.sync("origin")
