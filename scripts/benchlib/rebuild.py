"""A cold start: the index is gone, and every signature is verified again."""

from __future__ import annotations

import statistics

from benchlib.bench import Bench, Section
from benchlib.report import at_least
from benchlib.verifying import cores, raw_rate


def _run(bench: Bench) -> None:
    for size in bench.sizes:
        built = bench.repository(size)
        few = 3 if size <= 10_000 else 1
        commands = {
            "recall without an index": bench.hn(built.root, "memory", "recall", "--json", before=built.forget_index),
            "index rebuild, with snapshot": bench.hn(built.root, "memory", "index", "rebuild", "--json"),
        }
        for name, command in commands.items():
            rates, fractions, raws = [], [], []
            peak, seconds = 0, []
            for _ in range(few):
                before = raw_rate(cores())
                taken = bench.compare({name: command}, runs=1, warm=0)[name]
                raw = (before + raw_rate(cores())) / 2
                rates.append(size / taken.wall[0])
                raws.append(raw)
                fractions.append(rates[-1] / raw)
                seconds += taken.wall
                peak = max(peak, taken.rss)
            bench.add(name, statistics.median(seconds), "s", size=size, runs=few)
            bench.add(f"{name}, memories", statistics.median(rates), "/s", size=size)
            bench.add(f"{name}, raw verifications on all cores", statistics.median(raws), "/s", size=size)
            bench.add(
                f"{name}, to raw verifications", statistics.median(fractions), "x", size=size,
                bound=at_least(0.4) if size == 100_000 else None,
            )  # fmt: skip
            bench.add(f"{name}, peak memory", peak / 2**20, "MiB", size=size)
        bench.warm(built)


SECTION = Section("rebuild", "cold start of the index", _run)
