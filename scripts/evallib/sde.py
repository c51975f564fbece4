"""sde-bench: does a bug report bring back the decision that it needs, and never the one that was amended?"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evallib.baselines import bm25s_stemmed, fts5
from evallib.build import new_repository
from hn_memory import RecordArguments, Request

CUTS = (1, 3, 5)


def evaluate_sde(data: dict[str, Any], place: Path, embedder: str, note: Callable[[str], None]) -> dict[str, Any]:
    """Hits at 1, 3 and 5 and the stale decisions that came back, over one repository of all tasks and decoys.

    Decisions are recorded as such, an amendment supersedes what it amends; conversations that decide nothing here are
    observations. Baselines see the same texts, of which nothing tells them what is stale.
    """
    shutil.rmtree(place / "sde", ignore_errors=True)
    texts: dict[str, str] = {}
    current: dict[str, str] = {}
    stale: set[str] = set()
    note(f"{len(data['tasks'])} tasks, {len(data['decoys'])} decoys")
    with new_repository(place / "sde", embedder) as service:
        decoys = list(data["decoys"])
        share = -(-len(decoys) // len(data["tasks"]))
        for at, task in enumerate(data["tasks"]):
            for decoy in decoys[at * share : (at + 1) * share]:
                texts[service.record(RecordArguments(kind="observation", content=decoy))["memoryId"]] = decoy
            previous: str | None = None
            for decision in task["decisions"]:
                arguments = RecordArguments(kind="decision", content=decision)
                memory: str = service.record(arguments, target=previous)["memoryId"]
                if previous is not None:
                    stale.add(previous)
                texts[memory] = decision
                previous = current[task["task"]] = memory
        names = list(texts)
        rankers: dict[str, Callable[[str], list[str]]] = {}
        for joint in ("AND", "OR"):
            ranker = fts5(list(texts.values()), joint)
            rankers[f"FTS5, {joint}"] = lambda question, ranker=ranker: [names[n] for n in ranker(question)]  # type: ignore[misc]
        stemmed = bm25s_stemmed(list(texts.values()))
        if stemmed is not None:
            rankers["bm25s, stemmed"] = lambda question: [names[n] for n in stemmed(question)]
        for mode in ("lexical", *(("meaning", "hybrid") if embedder else ())):
            rankers[f"search, {mode}"] = lambda question, mode=mode: [  # type: ignore[misc]
                row["id"]
                for row in service.search(Request(at="HEAD", max_records=50, max_content_bytes=10**9), question, mode)[
                    "memories"
                ]
            ]
        return {name: _measured(data["tasks"], rank, current, stale) for name, rank in rankers.items()}


def _measured(
    tasks: list[dict[str, Any]], rank: Callable[[str], list[str]], current: dict[str, str], stale: set[str]
) -> dict[str, float]:
    hits = dict.fromkeys(CUTS, 0)
    returned = above = 0
    for task in tasks:
        found = rank(task["query"])
        wanted = current[task["task"]]
        for cut in CUTS:
            hits[cut] += wanted in found[:cut]
        returned += any(memory in stale for memory in found[:5])
        before = found[: found.index(wanted)] if wanted in found else found
        above += any(memory in stale for memory in before)
    return {f"hit@{cut}": round(hits[cut] / len(tasks), 4) for cut in CUTS} | {
        "stale among 5": returned,
        "stale above current": above,
    }
