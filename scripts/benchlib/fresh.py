"""Recall right after another tool appended one commit: read, verified and indexed on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchlib.bench import Bench, Section
from benchlib.build import Built, Signed
from benchlib.report import at_most


def _appender(built: Built) -> Callable[[], None]:
    """Appends the next prepared memory by plumbing, as an independent implementation would."""
    waiting: Iterator[Signed] = iter(built.fresh())

    def append() -> None:
        signed = next(waiting)
        for kind, data in signed.objects:
            built.git("hash-object", "-w", "-t", kind, "--stdin", stdin=data)
        built.git("update-ref", built.meta.main_ref, signed.commit)

    return append


def _run(bench: Bench) -> None:
    for size in bench.sizes:
        built = bench.repository(size)
        recall = ("memory", "recall", "--json")
        samples = bench.compare(
            {"warm": bench.hn(built.root, *recall), "new": bench.hn(built.root, *recall, before=_appender(built))}
        )
        bench.add_time("recall after one new commit", samples["new"], size=size)
        bound = at_most(1.2) if size == 100_000 else None
        bench.add(
            "recall after one new commit, to warm", samples["new"].over(samples["warm"]), "x", size=size, bound=bound
        )
        built.restore()
        bench.warm(built)


SECTION = Section("fresh", "one new commit from outside", _run)
