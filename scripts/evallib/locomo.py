"""LoCoMo: which turns of a conversation answer a question about it, one record a turn."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from evallib.baselines import Ranker, bm25s_stemmed, fts5
from evallib.build import new_repository, record_all
from evallib.measures import Measures
from hn_memory import Request, Service
from hn_memory.recall import search as search_module

CHOSEN_ON: Final = ("26", "30", "41")
"""Conversations on which parameters were chosen; the others check them."""


def evaluate_locomo(data: dict[str, Any], place: Path, embedder: str, note: Callable[[str], None]) -> dict[str, Any]:
    """Recall of evidence per turn by every method, for the part that parameters were chosen on and for the rest, and
    how often search abstains on questions of its own and of other conversations."""
    conversations = data["conversations"]
    measures: dict[str, dict[str, Measures]] = defaultdict(lambda: defaultdict(Measures))
    abstained: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for conversation in conversations:
        number = conversation["id"]
        part = "chosen on" if number in CHOSEN_ON else "checked on"
        note(f"conversation {number}: {len(conversation['turns'])} turns, {len(conversation['questions'])} questions")
        shutil.rmtree(place / f"locomo-{number}", ignore_errors=True)
        with new_repository(place / f"locomo-{number}", embedder) as service:
            texts = [_content(turn) for turn in conversation["turns"]]
            turns = dict(zip(record_all(service, texts), [turn["id"] for turn in conversation["turns"]], strict=True))
            for name, rank in _rankers(service, turns, texts, [turn["id"] for turn in conversation["turns"]], embedder):
                for question in conversation["questions"]:
                    measures[name][part].add(rank(question["question"]), question["evidence"])
            for mode in ("lexical", *(("hybrid",) if embedder else ())):
                for other in conversations:
                    whose = "own" if other is conversation else "foreign"
                    # What is foreign to the chosen part is what is foreign within it.
                    if whose == "foreign" and (other["id"] in CHOSEN_ON) != (number in CHOSEN_ON):
                        groups = [f"{whose}, across"]
                    else:
                        groups = [f"{whose}, {part}"]
                    for question in other["questions"]:
                        page = service.search(Request(at="HEAD", max_records=10), question["question"], mode)
                        for group in groups:
                            counts = abstained[mode][group]
                            counts[0] += page["abstain"]
                            counts[1] += 1
    return {
        "recall": {
            name: {part: found.document() for part, found in parts.items()}
            | {"all": parts["chosen on"].merged(parts["checked on"]).document()}
            for name, parts in measures.items()
        },
        "abstention": {
            mode: {group: round(yes / all_, 4) for group, (yes, all_) in groups.items()}
            | {
                f"{whose}, all": round(
                    sum(yes for group, (yes, _) in groups.items() if group.startswith(whose))
                    / max(1, sum(all_ for group, (_, all_) in groups.items() if group.startswith(whose))),
                    4,
                )
                for whose in ("own", "foreign")
            }
            for mode, groups in abstained.items()
        },
    }


def _content(turn: dict[str, Any]) -> str:
    caption = f" [{turn['caption']}]" if turn["caption"] else ""
    return f"{turn['speaker']}: {turn['text']}{caption}"


def _rankers(
    service: Service, turns: dict[str, str], texts: list[str], names: list[str], embedder: str
) -> Iterator[tuple[str, Callable[[str], list[str]]]]:
    def by_search(mode: str) -> Callable[[str], list[str]]:
        def rank(question: str) -> list[str]:
            page = service.search(Request(at="HEAD", max_records=50), question, mode)
            return [turns[row["id"]] for row in page["memories"]]

        return rank

    def by_position(ranker: Ranker) -> Callable[[str], list[str]]:
        return lambda question: [names[at] for at in ranker(question)]

    yield "FTS5, AND", by_position(fts5(texts, "AND"))
    yield "FTS5, OR", by_position(fts5(texts, "OR"))
    stemmed = bm25s_stemmed(texts)
    if stemmed is not None:
        yield "bm25s, stemmed", by_position(stemmed)
    yield "search, lexical", by_search("lexical")
    with _without_context():
        yield "search, lexical, without neighbours", by_search("lexical")
    if embedder:
        with _without_context():
            yield f"{embedder} alone", by_search("meaning")
        yield "search, hybrid", by_search("hybrid")
        with _without_context():
            yield "search, hybrid, without neighbours", by_search("hybrid")


@contextmanager
def _without_context() -> Iterator[None]:
    """Search as it would be if records took nothing from their neighbours."""
    reach = search_module.REACH
    search_module.REACH = 0  # type: ignore[misc]
    try:
        yield
    finally:
        search_module.REACH = reach  # type: ignore[misc]
