"""Run `hn` and kill it at the N-th stage, where no system call can be caught (no ptrace).

    python stage_killer.py hn ARGUMENT...      `hn`, counting what Python itself makes, moves and removes
    python stage_killer.py git ARGUMENT...     found as `git` on PATH: real Git, counted by stages

Stages are numbered together through the file HN_STAGE_LOG, one line each. Whoever writes line HN_STAGE_KILL_AT
dies of SIGKILL right then; with HN_STAGE_FAMILY=1 a Git child takes its parent with it. HN_STAGE_GIT is real Git.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

MAKING = os.O_CREAT | os.O_TRUNC
NAMES = {"os.mkdir", "os.rename", "os.link", "os.remove", "os.rmdir", "os.truncate"}
WRITING = ("unpack-objects", "index-pack", "update-ref")


def reached(stage: str, *others: int) -> None:
    """Count a stage, and die here when it is the one."""
    log = os.open(os.environ["HN_STAGE_LOG"], os.O_RDWR | os.O_APPEND)
    os.write(log, stage.replace("\n", " ").encode() + b"\n")
    number = os.pread(log, 1 << 20, 0).count(b"\n")
    os.close(log)
    if number == int(os.environ["HN_STAGE_KILL_AT"]):
        for pid in (*others, os.getpid()):
            os.kill(pid, signal.SIGKILL)


def parents() -> list[int]:
    return [os.getppid()] if os.environ.get("HN_STAGE_FAMILY") == "1" else []


def hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in NAMES and event != "open":
        return
    if Path(str(arguments[0])).name.startswith("index."):
        # The index is made anew from what is signed whenever it is not whole.
        return
    if event in NAMES:
        reached(f"hn: {event.removeprefix('os.')} {Path(str(arguments[0])).name}")
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & MAKING:
        reached(f"hn: open {Path(str(arguments[0])).name}")


def git(arguments: list[str]) -> int:
    real = os.environ["HN_STAGE_GIT"]
    verb = next((word for word in arguments if word in WRITING), None)
    if verb is None:
        os.execv(real, ["git", *arguments])
    reached(f"git {verb}: start", *parents())
    if verb != "update-ref":
        status = os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn(real, ["git", *arguments], os.environ), 0)[1])
        reached(f"git {verb}: end", *parents())
        return status
    # Between `prepare` and `commit` Git holds the locks of the refs.
    ours, theirs = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, ours, 0)]
    child = os.posix_spawn(real, ["git", *arguments], os.environ, file_actions=actions)
    os.close(ours)
    while data := os.read(0, 1 << 16):
        if data.startswith(b"commit\0"):
            reached("git update-ref: prepared", child, *parents())
        os.write(theirs, data)
    os.close(theirs)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    reached("git update-ref: end", *parents())
    return status


def main() -> int:
    role, *arguments = sys.argv[1:]
    if role == "git":
        return git(arguments)
    from hn_memory.cli.entry import main as hn

    sys.argv = ["hn", *arguments]
    sys.addaudithook(hook)
    return hn()


if __name__ == "__main__":
    sys.exit(main())
