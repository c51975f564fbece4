"""Commands that touch no repository."""

from __future__ import annotations

from benchlib.bench import Bench, Section
from benchlib.report import at_most


def _run(bench: Bench) -> None:
    here = bench.workshop.directory
    samples = bench.compare(
        {
            "hn --help": bench.hn(here, "--help"),
            "hn --version": bench.hn(here, "--version"),
            "hn memory recall --help": bench.hn(here, "memory", "recall", "--help"),
        }
    )
    for name, taken in samples.items():
        bench.add_time(name, taken, bound=at_most(80) if name == "hn --help" else None)


SECTION = Section("startup", "whole process, no repository", _run)
