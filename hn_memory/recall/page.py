"""From matches in order to one page: the cursor's place, the bounds, what fits (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from hn_memory.errors import HnError
from hn_memory.protocol.query import NormalRequest
from hn_memory.recall.select import Match
from hn_memory.values import NamedTuple

Size = Callable[[Match], int]


class Page(NamedTuple):
    """A slice of the matches; `last` is the memory ID to go on after, where more follow."""

    matches: list[Match]
    truncated: bool
    last: str | None


def fill_page(following: Iterable[Match], request: NormalRequest, size: Size) -> Page:
    """The page that begins with the first of `following`, which is all matches from there on, or one more than
    the page may hold."""
    taken: list[Match] = []
    total = 0
    truncated = False
    for match in following:
        need = size(match)
        # The default bound is soft: a record larger than it still comes back, alone on its page.
        if len(taken) == request.max_records or (taken and total + need > request.max_content_bytes):
            truncated = True
            break
        taken.append(match)
        total += need
    return Page(taken, truncated, taken[-1].memory_id if truncated else None)


def bound_too_small(memory_id: str, need: int, bound: int) -> HnError:
    """The refusal of a query one of whose matches can never fit."""
    return HnError(
        "bound-too-small",
        f"{memory_id} alone needs {need} bytes, more than the bound of {bound}",
        hint=f"Raise --max-content-bytes to at least {need}, or narrow the filters.",
        field="maxContentBytes",
    )
