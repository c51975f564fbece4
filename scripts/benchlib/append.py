"""Appends in one process, beside the least that libgit2 has to do for the same objects."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pygit2

from benchlib.bench import Bench, Section
from benchlib.build import Built
from benchlib.corpus import Corpus
from benchlib.measure import Call
from benchlib.report import at_least
from hn_memory import RecordArguments, Service, open_repository

_TOGETHER = 20
_BATCH = 2_000
_BATCHES = 3
_BARE_REF = "refs/bench/bare"


def _arguments(corpus: Corpus) -> RecordArguments:
    record = corpus.record(0)
    return RecordArguments(kind="decision", content=record.content, topics=record.topics, evidence=record.evidence)


def bare_loop(built: Built) -> Callable[[], None]:
    """Two blobs, tree, commit and ref, by libgit2 alone and unsigned."""
    repository = pygit2.Repository(str(built.common))
    first = built.meta.tips[built.meta.main_ref]
    reference = repository.references.create(_BARE_REF, first, force=True)
    numbers = itertools.count()
    filler = Corpus(0, built.code())
    who = pygit2.Signature("Bench", "bench@hn.invalid", 1_735_689_600, 0)

    def append() -> None:
        nonlocal reference
        payload = f"{next(numbers):09}{filler.content()}".ljust(1_170, ".").encode()
        tree = repository.TreeBuilder()
        tree.insert("memory.json", repository.create_blob(payload), 0o100644)
        tree.insert("signature", repository.create_blob(payload[:86]), 0o100644)
        commit = repository.create_commit(None, who, who, "bench\n", tree.write(), [reference.target])
        reference.set_target(commit)
        reference = repository.references[_BARE_REF]

    return append


def _measure(bench: Bench, built: Built, service: Service) -> None:
    size, corpus = built.memories, Corpus(0, built.code())
    bare = bare_loop(built)
    waiting = [_arguments(corpus) for _ in range((bench.runs + 2) * _TOGETHER)]
    batches = [[_arguments(corpus) for _ in range(_BATCH)] for _ in range(_BATCHES + 1)]

    def ours() -> None:
        for _ in range(_TOGETHER):
            service.record(waiting.pop())

    def theirs() -> None:
        for _ in range(_TOGETHER):
            bare()

    samples = bench.compare({"ours": Call(ours), "bare": Call(theirs)})
    bench.add("appends, each acknowledged alone", _TOGETHER / samples["ours"].median, "/s", size=size)
    bench.add("bare libgit2 loop", _TOGETHER / samples["bare"].median, "/s", size=size)
    share = 1 / samples["ours"].over(samples["bare"])
    bench.add("appends to the bare loop", share, "x", size=size, bound=at_least(0.6))
    taken = bench.compare({0: Call(lambda: service.record_all(batches.pop()))}, runs=_BATCHES)[0]
    bench.add(f"appends in a batch of {_BATCH:,}", _BATCH / taken.median, "/s", size=size, bound=at_least(4_000))


def _run(bench: Bench) -> None:
    for size in bench.sizes:
        built = bench.repository(size)
        with open_repository(built.root) as service:
            _measure(bench, built, service)
        built.git("update-ref", "-d", _BARE_REF)
        built.restore()
        bench.warm(built)


SECTION = Section("append", "appends in one process", _run)
