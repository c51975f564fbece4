"""Which local streams may be published, and what the push made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hn_memory.errors import HnError
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.identifiers import local_ref
from hn_memory.protocol.tips import Tip
from hn_memory.replication.advertise import Advert, Offer
from hn_memory.replication.compare import Histories, parting
from hn_memory.replication.importing import WAY_OUT
from hn_memory.replication.outcome import Evidence, Outcome
from hn_memory.replication.publish import Pushed
from hn_memory.replication.verify import Part, memory_id_at, verify_parts
from hn_memory.repository.base import Repository
from hn_memory.repository.streams import walk_stream
from hn_memory.values import NamedTuple

StreamKey = tuple[str, str]
"""Actor and stream."""


class Candidates(NamedTuple):
    """Local streams that the remote lacks something of, verified, and those that may not go."""

    heads: dict[StreamKey, ChainHead]
    outcomes: list[Outcome]


def find_candidates(
    main: Repository,
    remote: str,
    locals_: Mapping[StreamKey, str],
    advert: Advert,
    tips: Mapping[tuple[str, str, str], Tip],
    barred: Iterable[StreamKey],
) -> Candidates:
    """Local streams whose remote head is an ancestor of theirs (or absent).

    Args:
        barred: streams about whose import something is wrong; nothing of them is pushed.
    """
    offered = {(offer.actor, offer.stream): offer.commit for offer in advert.offers}
    histories = Histories(main)
    kept_back = set(barred)
    chosen: list[tuple[StreamKey, ChainHead | None]] = []
    outcomes: list[Outcome] = []
    for key, head in sorted(locals_.items()):
        theirs = offered.get(key)
        if theirs == head or key in kept_back or key[1] in advert.disputed:
            continue
        tip = tips.get((remote, *key))
        if theirs is not None and not _descends(main, head, theirs):
            outcome = _beside(main, histories, remote, key, head, theirs)
            outcomes += [outcome] if outcome is not None else []
            continue
        chosen.append((key, tip.head if tip is not None else None))
    heads: dict[StreamKey, ChainHead] = {}
    for key, result in _verified(main, locals_, chosen):
        if isinstance(result, ChainHead):
            heads[key] = result
        else:
            reason = f"the local stream does not verify: {result}"
            outcomes.append(Outcome(*key, "structurally-invalid", reason, locals_[key]))
    return Candidates(heads, outcomes)


def told(candidates: Candidates, pushed: Pushed) -> tuple[list[Outcome], dict[StreamKey, ChainHead]]:
    """Outcomes of a push, and the heads that the remote took."""
    outcomes: list[Outcome] = []
    taken: dict[StreamKey, ChainHead] = {}
    words = f" ({'; '.join(pushed.messages[:5])})" if pushed.messages else ""
    for key, head in candidates.heads.items():
        refusal = pushed.refusals.get(local_ref(*key))
        if refusal is None:
            taken[key] = head
            reason = f"the remote has all {head.sequence}" if head.sequence > 1 else "the remote has it"
            outcomes.append(Outcome(*key, "published", reason, head.commit, head.sequence, head.memory_id))
        else:
            outcomes.append(Outcome(*key, "refused", refusal + words, head.commit, head.sequence, head.memory_id))
    return outcomes, taken


def as_offers(candidates: Candidates) -> list[Offer]:
    """Candidates as the push takes them."""
    return [Offer(*key, head.commit) for key, head in candidates.heads.items()]


def _descends(main: Repository, head: str, ancestor: str) -> bool:
    try:
        return any(step[0] == ancestor for step in main.parents(head))
    except HnError:
        return False


def _beside(
    main: Repository, histories: Histories, remote: str, key: StreamKey, head: str, theirs: str
) -> Outcome | None:
    """The remote's stream does not lead to ours: None when it is ahead of it, else a fork."""
    history = histories.of(theirs)
    if head in history:
        return None
    if not history:
        reason = f"{remote} holds commits of this stream that are not here; nothing was pushed"
        return Outcome(*key, "refused", reason, theirs)
    ours = histories.of(head)
    found = parting(ours, sorted(history, key=history.__getitem__))
    if found is None:
        return None
    place = f"refs/hn/evidence/{remote}/{key[0]}/{key[1].removeprefix('sha256:')}"
    names = memory_id_at(main, found.theirs), memory_id_at(main, found.ours) if found.ours else None
    evidence = (
        Evidence(remote, found.theirs, names[0], f"{place}/{theirs}"),
        Evidence("this clone", found.ours or head, names[1], f"{place}/{head}"),
    )
    reason = f"at sequence {found.sequence} {remote} offers {names[0]}, this clone has {names[1]}"
    return Outcome(*key, "forked", reason, theirs, evidence=evidence, hint=WAY_OUT)


def _verified(
    main: Repository, locals_: Mapping[StreamKey, str], chosen: list[tuple[StreamKey, ChainHead | None]]
) -> list[tuple[StreamKey, ChainHead | str]]:
    answers: list[tuple[StreamKey, ChainHead | str]] = []
    parts: list[Part] = []
    for key, known in chosen:
        stop = None if known is None else known.commit
        try:
            walked, found = walk_stream(main, locals_[key], lambda commit, stop=stop: commit == stop)  # type: ignore[misc]
        except HnError as error:
            answers.append((key, error.message))
            continue
        parts.append(Part(*key, known if found is not None else None, walked))
    for part, result in zip(parts, verify_parts(main, parts), strict=True):
        key = (part.actor, part.stream)
        if result.error is None and result.head is not None:
            answers.append((key, result.head))
        else:
            answers.append((key, result.error.message if result.error else "it is empty"))
    return answers
