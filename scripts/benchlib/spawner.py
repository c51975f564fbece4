"""Starts the commands that are measured. Runs as a process of its own: `python -I -S spawner.py`.

A child's peak memory, as the kernel accounts it, is never below that of the process that forked it, and forking
a big process takes longer. So a bare interpreter does the forking, fed with one JSON request a line:
`{"argv", "cwd", "env", "out"}`; the answer is `{"status", "wall", "cpu", "rss"}` in seconds and KiB, where `cpu`
and `rss` include the children that the command waited for.
"""

import json
import os
import sys
import time


def serve() -> None:
    """Answer requests until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        os.chdir(asked["cwd"])
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, asked["out"] or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
            (os.POSIX_SPAWN_OPEN, 2, asked["err"] or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ]
        started = time.perf_counter()
        child = os.posix_spawn(asked["argv"][0], asked["argv"], asked["env"], file_actions=actions)
        _, status, used = os.wait4(child, 0)
        wall = time.perf_counter() - started
        answer = {
            "status": os.waitstatus_to_exitcode(status),
            "wall": wall,
            "cpu": used.ru_utime + used.ru_stime,
            "rss": used.ru_maxrss,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
