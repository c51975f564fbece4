"""What every section is handed: repositories, ways to measure, and the report."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchlib.build import Built, Workshop
from benchlib.measure import Call, Command, Samples, Spawner, compare
from benchlib.report import Bound, Report, Row, Unit


class Section(NamedTuple):
    """A part of the bench. `run` measures and adds its rows; a module has one as `SECTION`."""

    name: str
    summary: str
    run: Callable[[Bench], None]


class Bench:
    """One run of the bench.

    Attributes:
        sizes: how many memories the repositories hold, ascending.
        runs: how often a quick thing is measured.
    """

    def __init__(self, workshop: Workshop, sizes: Sequence[int], runs: int, note: Callable[[str], None]) -> None:
        self.workshop = workshop
        self.sizes = sorted(sizes)
        self.runs = runs
        self.note = note
        self.report = Report()
        self.spawner = Spawner()
        self.section = ""
        self._warmed: set[Path] = set()

    def close(self) -> None:
        """End helper processes."""
        self.spawner.close()

    # -- what is measured ---------------------------------------------------------------------------------

    def repository(self, size: int, streams: int = 1) -> Built:
        """A repository as it was built, with an index that is up to date."""
        built = self.workshop.get(size, streams)
        self.warm(built)
        return built

    def warm(self, built: Built) -> None:
        """Bring the index up to the refs, outside of any measurement."""
        if built.root not in self._warmed:
            self.note(f"warming the index of {built.memories:,} memories in {built.meta.streams:,} stream(s)")
            self._warmed.add(built.root)
        self.spawner.run(self.hn(built.root, "memory", "recall", "--json"))

    def hn(self, cwd: Path, *arguments: str, before: Callable[[], object] | None = None, status: int = 0) -> Command:
        """A run of the console script."""
        return Command([hn_script(), *arguments], cwd, before, status)

    def python(self, cwd: Path, *arguments: str) -> Command:
        """A run of the interpreter."""
        return Command([sys.executable, *arguments], cwd)

    def compare(
        self, things: Mapping[Any, Command | Call], *, runs: int | None = None, warm: int = 1
    ) -> dict[Any, Samples]:
        """Measure several things in turn."""
        return compare(self.spawner, things, runs=runs or self.runs, warm=warm)

    # -- what came out ------------------------------------------------------------------------------------

    def add(
        self, name: str, value: float, unit: Unit, *, size: int | None = None, bound: Bound | None = None,
        note: str = "", runs: int | None = None,
    ) -> None:  # fmt: skip
        """Add a figure."""
        self.report.rows.append(Row(self.section, name, value, unit, size, bound, runs=runs, note=note))

    def add_time(
        self, name: str, samples: Samples, *, size: int | None = None, bound: Bound | None = None, unit: Unit = "ms",
        note: str = "",
    ) -> None:  # fmt: skip
        """Add the median of some runs, with the fastest one and the processor time beside it."""
        scale = {"s": 1.0, "ms": 1e3, "us": 1e6}[unit]
        cpu = sorted(samples.cpu)[len(samples.cpu) // 2] if samples.cpu else None
        self.report.rows.append(
            Row(
                self.section, name, samples.median * scale, unit, size, bound, samples.least * scale,
                None if cpu is None else cpu * scale, len(samples.wall), note,
            )
        )  # fmt: skip

    def remark(self, text: str) -> None:
        """Add a line below the section's table."""
        self.report.notes.append((self.section, text))

    def table(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Add a table of its own, for the JSON document."""
        self.report.tables[name] = rows


def hn_script() -> str:
    """The console script that belongs to this interpreter."""
    beside = Path(sys.executable).with_name("hn")
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("hn")
    if found is None:
        raise SystemExit("bench: `hn` is not installed for this interpreter")
    return found
