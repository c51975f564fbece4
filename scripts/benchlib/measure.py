"""Ways to measure: whole processes, calls in this process, and both in turn where a ratio is asked."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchlib.build import git_environment


class FailedCommandError(Exception):
    """A measured command did not end as it should."""


@dataclass
class Samples:
    """What repeated runs of one thing took, in seconds; `rss` is the largest peak in bytes."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    rss: int = 0

    @property
    def median(self) -> float:
        return statistics.median(self.wall)

    @property
    def least(self) -> float:
        return min(self.wall)

    def over(self, base: Samples) -> float:
        """The median of the ratios of runs made next to each other."""
        return statistics.median(ours / theirs for ours, theirs in zip(self.wall, base.wall, strict=True))


@dataclass(frozen=True)
class Command:
    """A whole process to measure. `before` runs untimed ahead of each run; `status` is what success means."""

    argv: Sequence[str]
    cwd: Path
    before: Callable[[], object] | None = None
    status: int = 0


@dataclass(frozen=True)
class Call:
    """A call in this process to measure."""

    run: Callable[[], object]
    before: Callable[[], object] | None = None


class Spawner:
    """Runs commands through a small process of its own; see `spawner.py`."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("spawner.py")
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._env = git_environment()

    def close(self) -> None:
        """End the small process."""
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child.wait()

    def run(self, command: Command, *, out: str = "", err: str = "") -> dict[str, Any]:
        """Run a command once.

        Raises:
            FailedCommandError: it ended with another status than it should.
        """
        assert self._child.stdin is not None and self._child.stdout is not None
        if command.before is not None:
            command.before()
        asked = {"argv": list(command.argv), "cwd": str(command.cwd), "env": self._env, "out": out, "err": err}
        self._child.stdin.write(json.dumps(asked) + "\n")
        self._child.stdin.flush()
        answer: dict[str, Any] = json.loads(self._child.stdout.readline())
        if answer["status"] != command.status:
            why = f"{' '.join(command.argv[1:])} ended with {answer['status']}"
            raise FailedCommandError(f"{why}: {self._reason(asked)}" if not out else why)
        return answer

    def _reason(self, asked: dict[str, Any]) -> str:
        """What a command that failed says about it when it is run again."""
        done = subprocess.run(asked["argv"], cwd=asked["cwd"], env=asked["env"], capture_output=True, text=True)
        return (done.stderr.strip() or done.stdout.strip() or "this time it did not fail").splitlines()[-1][:300]

    def output(self, command: Command) -> tuple[bytes, bytes]:
        """Run a command once and take what it wrote to stdout and stderr."""
        with tempfile.TemporaryDirectory() as place:
            out, err = Path(place, "out"), Path(place, "err")
            self.run(command, out=str(out), err=str(err))
            return out.read_bytes(), err.read_bytes()


def compare(spawner: Spawner, things: Mapping[Any, Command | Call], *, runs: int, warm: int = 1) -> dict[Any, Samples]:
    """Measure several things in turn (A B C A B C ...), so that whatever disturbs the machine disturbs all."""
    samples = {name: Samples() for name in things}
    for turn in range(-warm, runs):
        for name, thing in things.items():
            sample = Samples() if turn < 0 else samples[name]
            if isinstance(thing, Command):
                answer = spawner.run(thing)
                sample.wall.append(answer["wall"])
                sample.cpu.append(answer["cpu"])
                sample.rss = max(sample.rss, answer["rss"] * 1024)
            else:
                if thing.before is not None:
                    thing.before()
                used, started = time.process_time(), time.perf_counter()
                thing.run()
                sample.wall.append(time.perf_counter() - started)
                sample.cpu.append(time.process_time() - used)
    return samples
