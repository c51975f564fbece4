"""`hn memory recall --json` as a whole process with a warm index, over all sizes."""

from __future__ import annotations

from typing import Final

from benchlib.bench import Bench, Section
from benchlib.build import Built
from benchlib.corpus import COMMON_TOPIC, COMMON_WORD, RARE_TOPIC, RARE_WORDS
from benchlib.report import Bound, at_most

_PLAIN: Final = {1_000: 120.0, 10_000: 130.0, 100_000: 150.0}
_FILTERED: Final = {100_000: 160.0}
_MEMORY: Final = {100_000: 120.0}
_GROWTH: Final = 1.3


def questions(built: Built) -> dict[str, tuple[str, ...]]:
    """Ways to recall, with their flags."""
    return {
        "recall": (),
        "recall --topic, common": ("--topic", COMMON_TOPIC),
        "recall --topic, rare": ("--topic", RARE_TOPIC),
        "recall --query, common": ("--query", COMMON_WORD),
        "recall --query, rare": ("--query", RARE_WORDS),
        "recall --path": ("--path", f":/{built.meta.path}"),
    }


def _run(bench: Bench) -> None:
    repositories = {size: bench.repository(size) for size in bench.sizes}
    for name in questions(repositories[bench.sizes[0]]):
        samples = bench.compare(
            {
                size: bench.hn(built.root, "memory", "recall", "--json", *questions(built)[name])
                for size, built in repositories.items()
            },
            warm=2,
        )
        limits = _PLAIN if name == "recall" else _FILTERED if name.endswith(("common", "rare")) else {}
        for size, taken in samples.items():
            bench.add_time(name, taken, size=size, bound=_limit(limits, size))
        small, large = (1_000 if 1_000 in samples else bench.sizes[0]), bench.sizes[-1]
        if small != large:
            asked = name == "recall" and (small, large) == (1_000, 100_000)
            ratio = samples[large].over(samples[small])
            bench.add(f"{name}, {large:,} to {small:,}", ratio, "x", bound=at_most(_GROWTH) if asked else None)
        if name == "recall":
            for size, taken in samples.items():
                bench.add("recall, peak memory", taken.rss / 2**20, "MiB", size=size, bound=_limit(_MEMORY, size))


def _limit(limits: dict[int, float], size: int) -> Bound | None:
    return at_most(limits[size]) if size in limits else None


SECTION = Section("recall", "whole process, warm index", _run)
