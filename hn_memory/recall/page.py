"""From matches in order to one page: the cursor's place, the bounds, what fits (section 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hn_memory.errors import HnError
from hn_memory.protocol.canonical import encode
from hn_memory.protocol.projection import Row
from hn_memory.protocol.query import NormalRequest, stale_cursor

Size = Callable[[Row], int]


@dataclass(frozen=True, slots=True)
class Page:
    """A slice of the matches; `last` is the memory ID to go on after, where more follow."""

    rows: Sequence[Row]
    truncated: bool
    last: str | None


def content_size(row: Row) -> int:
    """Bytes of the JSON encoding of a row's content, quotes and escapes counted: recall's budget."""
    return len(encode(row.record.content))


def paginate(matches: Sequence[Row], request: NormalRequest, after: str | None, size: Size) -> Page:
    """The page after a memory ID (or the first).

    Raises:
        HnError `bound-too-small`: a match alone passes a bound that the caller gave.
        UsageError `cursor-stale`: the cursor's last memory is no match any more.
    """
    if request.content_bound_given:
        for row in matches:
            need = size(row)
            if need > request.max_content_bytes:
                raise bound_too_small(row.memory.id, need, request.max_content_bytes)
    start = 0
    if after is not None:
        places = (at for at, row in enumerate(matches) if row.memory.id == after)
        found = next(places, None)
        if found is None:
            raise stale_cursor()
        start = found + 1
    rows: list[Row] = []
    total = 0
    for row in matches[start:]:
        need = size(row)
        # The default bound is soft: a record larger than it still comes back, alone on its page.
        if len(rows) == request.max_records or (rows and total + need > request.max_content_bytes):
            break
        rows.append(row)
        total += need
    truncated = start + len(rows) < len(matches)
    return Page(rows, truncated, rows[-1].memory.id if truncated and rows else None)


def bound_too_small(memory_id: str, need: int, bound: int) -> HnError:
    """The refusal of a query one of whose matches can never fit."""
    return HnError(
        "bound-too-small",
        f"{memory_id} alone needs {need} bytes, more than the bound of {bound}",
        hint=f"Raise --max-content-bytes to at least {need}, or narrow the filters.",
        field="maxContentBytes",
    )
