"""The same through `hn_memory.open_repository`, in a process that stays."""

from __future__ import annotations

from typing import Any

from benchlib.bench import Bench, Section
from benchlib.build import Built
from benchlib.corpus import COMMON_TOPIC, COMMON_WORD, RARE_WORDS
from benchlib.measure import Call
from hn_memory import RecordArguments, Request, Service, open_repository


def _questions(built: Built) -> dict[str, dict[str, Any]]:
    return {
        "recall": {},
        "recall topic": {"topics": (COMMON_TOPIC,)},
        "recall query, common": {"query": COMMON_WORD},
        "recall query, rare": {"query": RARE_WORDS},
        "recall path": {"path": built.meta.path},
    }


def _calls(service: Service, built: Built) -> dict[str, Call]:
    def record() -> None:
        service.record(RecordArguments(kind="decision", content="In the same process.", topics=("index",)))

    calls = {
        name: Call(lambda given=given: service.recall(Request(at="HEAD", **given)))  # type: ignore[misc]
        for name, given in _questions(built).items()
    }
    calls["show"] = Call(lambda: service.show(built.meta.show))
    # Each record leaves one commit for the index to take in; the recall after it pays, untimed.
    calls["record"] = Call(record)
    calls["recall after a record"] = Call(lambda: service.recall(Request(at="HEAD")), before=record)
    return calls


def _run(bench: Bench) -> None:
    repositories = {size: bench.repository(size) for size in bench.sizes}
    services = {size: open_repository(built.root) for size, built in repositories.items()}
    try:
        calls = {size: _calls(services[size], built) for size, built in repositories.items()}
        for name in calls[bench.sizes[0]]:
            samples = bench.compare({size: calls[size][name] for size in bench.sizes}, warm=2)
            for size, taken in samples.items():
                bench.add_time(name, taken, size=size)
    finally:
        for service in services.values():
            service.close()
    for built in repositories.values():
        built.restore()
        bench.warm(built)


SECTION = Section("inprocess", "the same calls in a process that stays", _run)
