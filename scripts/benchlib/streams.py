"""Many streams instead of one."""

from __future__ import annotations

from benchlib.bench import Bench, Section
from benchlib.report import at_most

_STREAMS = 500


def _run(bench: Bench) -> None:
    for size in bench.sizes:
        if size < 2 * _STREAMS:
            continue
        one, many = bench.repository(size), bench.repository(size, _STREAMS)
        recall = ("memory", "recall", "--json")
        samples = bench.compare({"one": bench.hn(one.root, *recall), "many": bench.hn(many.root, *recall)}, warm=2)
        bench.add_time(f"recall, {_STREAMS} streams", samples["many"], size=size)
        ratio = samples["many"].over(samples["one"])
        bench.add(f"recall, {_STREAMS} streams to 1", ratio, "x", size=size, bound=at_most(1.3))


SECTION = Section("streams", "500 streams, whole process", _run)
