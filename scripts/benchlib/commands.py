"""`show`, `record` and `verify` as whole processes."""

from __future__ import annotations

from benchlib.bench import Bench, Section
from benchlib.build import Built
from benchlib.measure import Command
from benchlib.report import at_most

_TEXT = "We keep the index beside the refs, because a reader must never wait for a writer."
_SHORT_STREAM = 10


def _record(bench: Bench, built: Built) -> Command:
    arguments = ("memory", "record", "-k", "decision", "-t", "index", "--content", _TEXT, "--json")
    return bench.hn(built.root, *arguments)


def _run(bench: Bench) -> None:
    repositories = {size: bench.repository(size) for size in bench.sizes}
    samples = bench.compare(
        {
            size: bench.hn(built.root, "memory", "show", built.meta.show, "--json")
            for size, built in repositories.items()
        }
    )
    for size, taken in samples.items():
        bench.add_time("show", taken, size=size)

    every = {_SHORT_STREAM: bench.repository(_SHORT_STREAM), **repositories}
    samples = bench.compare({size: _record(bench, built) for size, built in every.items()}, warm=2)
    for size, taken in samples.items():
        bound = {1_000: at_most(400), 100_000: at_most(150)}.get(size)
        bench.add_time("record", taken, size=size, bound=bound)
    for size in bench.sizes:
        ratio = samples[size].over(samples[_SHORT_STREAM])
        bench.add("record, to a stream of 10", ratio, "x", size=size, bound=at_most(1.2) if size == 100_000 else None)

    for built in every.values():
        built.restore()
    for size, built in repositories.items():
        few = 3 if size <= 10_000 else 1
        taken = bench.compare({size: bench.hn(built.root, "memory", "verify", "--json")}, runs=few, warm=0)[size]
        bench.add_time("verify", taken, size=size, note=f"{size / taken.median:,.0f} memories/s")
    for built in every.values():
        bench.warm(built)


SECTION = Section("commands", "show, record and verify, whole process", _run)
