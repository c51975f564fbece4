"""Which sources the index is behind: freshness is keyed on the refs themselves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from hn_memory.repository.streams import Source

_RETRY: Final = frozenset({"object-missing", "object-corrupt"})
"""Refusals that another fetch or a repair may cure without moving the ref; they are tried again each time."""


def stale_sources(
    connection: sqlite3.Connection,
    sources: Sequence[Source],
    retry: Callable[[Source, str | None], bool] = lambda source, broken: True,
) -> tuple[list[Source], list[tuple[str, int | None]]]:
    """Sources whose ref moved or is new, and stored sources that are gone.

    Args:
        retry: told a source that could not be read for want of an object, and the commit that broke it where one
            did; does it count among the moved? The object may be here by now.
    """
    stored = {ref: stored for ref, *stored in connection.execute("SELECT ref, head, tip, code, broken FROM source")}
    moved: list[Source] = []
    for source in sources:
        known = stored.pop(source.name.ref, None)
        if known is None or known[0] != source.head or (known[2] in _RETRY and retry(source, known[3])):
            moved.append(source)
    return moved, [(ref, tip) for ref, (_, tip, _, _) in stored.items()]
