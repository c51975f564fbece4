"""What a stream says when a record is made, changed or forgotten, and whether it may."""

from __future__ import annotations

from typing import Final

from hn_memory.service.building import RecordArguments
from hn_memory.service.keeping import Saying
from hn_memory.uhp.faults import UhpError, record_not_found
from hn_memory.uhp.hn.trailers import join
from hn_memory.uhp.hn.view import FORGOTTEN, Chain, View
from hn_memory.uhp.values import Author, Change, Draft, Version

_KINDS: Final = {"note": "decision", "procedure": "decision"}
_KIND: Final = "observation"


def next_version(chain: Chain, draft: Draft, author: Author) -> Saying:
    """What makes a draft the next version of a record."""
    return saying(draft, author, chain)


def saying(draft: Draft, author: Author, chain: Chain | None = None) -> Saying:
    """What makes a draft a record, or the next version of one."""
    kind = _KINDS.get(draft.type, _KIND)
    if chain is None:
        return Saying(RecordArguments(kind=kind, content=join(draft, author)))
    text = join(draft, author, chain.id, len(chain.versions) + 1)
    return Saying(RecordArguments(kind=kind, content=text), target=chain.versions[-1].memory)


def changed(chain: Chain, change: Change, author: Author) -> Saying:
    """What carries out one change of a consolidation."""
    if change.draft is None:
        return Saying(target=chain.versions[-1].memory, reason=FORGOTTEN)
    return next_version(chain, change.draft, author)


def stands(view: View, change: Change) -> bool:
    """Is a record as a change says?"""
    chain = view.chain(change.record_id)
    latest = None if chain is None else view.latest(chain)
    return latest is not None and (latest.number, latest.status) == (change.number, change.status)


def check_version(latest: Version, if_version: int | None) -> None:
    """Is a record at the version that a caller wants to change?

    Raises:
        UhpError `memory_conflict`.
    """
    if if_version is not None and latest.number != if_version:
        raise UhpError(
            "memory_conflict",
            f"the record is at version {latest.number}, not {if_version}",
            param="If-Match",
            detail={"version": latest.number},
        )


def chain_of(view: View, record: str) -> Chain:
    """The record of that id.

    Raises:
        UhpError `memory_record_not_found`.
    """
    chain = view.chain(record)
    if chain is None:
        raise record_not_found()
    return chain
