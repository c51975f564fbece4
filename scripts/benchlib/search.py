"""`hn memory search` as a whole process with a warm index, by words alone, over all sizes."""

from __future__ import annotations

from typing import Final

from benchlib.bench import Bench, Section
from benchlib.build import Built
from benchlib.corpus import COMMON_WORD, RARE_WORDS, WORDS
from benchlib.report import at_most

_BOUNDS: Final = {10_000: 160.0, 100_000: 250.0}
_MIXED: Final = f"Why did we drop the {COMMON_WORD} and the {WORDS[60]} for {WORDS[300]}?"


def _questions(built: Built) -> dict[str, tuple[str, ...]]:
    return {
        "search": (_MIXED,),
        "search, rare words": (f"What about {RARE_WORDS}?",),
        "search, five common words": (" ".join(WORDS[30:55:5]),),
        "search --path": ("--path", f":/{built.meta.path}"),
    }


def _run(bench: Bench) -> None:
    repositories = {size: bench.repository(size) for size in bench.sizes}
    for size, built in repositories.items():
        bench.note(f"reading the words of {size:,} memories")
        bench.spawner.run(bench.hn(built.root, "memory", "search", "--json", _MIXED))
    for name in _questions(repositories[bench.sizes[0]]):
        samples = bench.compare(
            {
                size: bench.hn(built.root, "memory", "search", "--json", *_questions(built)[name])
                for size, built in repositories.items()
            },
            warm=2,
        )
        for size, taken in samples.items():
            bound = at_most(_BOUNDS[size]) if size in _BOUNDS and name == "search" else None
            bench.add_time(name, taken, size=size, bound=bound)


SECTION = Section("search", "a question by words alone, warm index", _run)
