"""The recall of one memory: its signals ranked by the words of that memory alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hn_memory.protocol.unicode import terms
from hn_memory.uhp.hn.view import View, searched
from hn_memory.uhp.ranking import COVERED, WordIndex, question_terms, ranked
from hn_memory.uhp.values import Draft, Hit, Question, Recalled, Selection, Version


def answer_question(
    view: View, question: Question, admits: Callable[[Version], bool] = lambda version: True
) -> Recalled:
    """The ranking of one stream's records; of those that it `admits`."""
    selection = question.selection
    live = selection.as_of is None and not selection.forgotten
    found: dict[str, Version] = {}
    words = view.words
    if not live:
        found = {version.record_id: version for _, version in view.select(selection) if admits(version)}
        words = WordIndex((key, _text(version)) for key, version in found.items())

    def version_of(key: str) -> Version | None:
        if not live:
            return found[key]
        chain = view.chain(key)
        version = None if chain is None else view.latest(chain)
        if version is None or (selection.types and version.type not in selection.types) or not admits(version):
            return None
        return version

    rankings: dict[str, dict[str, float]] = {}
    asked: list[str] = []
    if question.query is not None:
        asked = question_terms(question.query)
        rankings["query"] = words.some(asked)
    if question.text is not None:
        rankings["text"] = words.every(terms(question.text))
    if not rankings:
        return _filtered((one for one in _all(view, selection, found, live) if admits(one)), question)
    condition = question.filters
    hits: list[Hit] = []
    for key, score, why in ranked(rankings):
        version = version_of(key)
        if version is None or (condition is not None and not condition(version)):
            continue
        hits.append(Hit(version, round(score, 6), why if condition is None else (*why, "filters")))
        if len(hits) == question.limit:
            break
    answered = bool(rankings.get("text")) or any(words.covered(asked, hit.version.record_id) >= COVERED for hit in hits)
    return Recalled(hits, abstain=not hits or not answered)


def _all(view: View, selection: Selection, found: dict[str, Version], live: bool) -> Iterable[Version]:
    if live:
        return (version for _, version in view.select(selection))
    return found.values()


def _filtered(versions: Iterable[Version], question: Question) -> Recalled:
    """Where nothing ranks, the last written come first."""
    matching = [version for version in versions if question.filters is None or question.filters(version)]
    matching.reverse()
    hits = [Hit(version, None, ("filters",)) for version in matching[: question.limit]]
    return Recalled(hits, abstain=not hits)


def _text(version: Version) -> str:
    return searched(version.content, Draft(version.content, attributes=version.attributes))
