"""Cursors of listings that the server makes itself: where to go on, in a form that says nothing to the client."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from hn_memory.uhp.faults import UhpError, malformed
from hn_memory.uhp.http.route import CURSOR_CHARACTERS


def encode_cursor(place: str) -> str:
    """A cursor for a place in a listing."""
    return base64.urlsafe_b64encode(place.encode()).rstrip(b"=").decode()


def decode_cursor(cursor: str | None) -> str | None:
    """The place that a cursor was made of.

    Raises:
        UhpError `invalid_input`.
    """
    if cursor is None:
        return None
    try:
        if len(cursor) > CURSOR_CHARACTERS:
            raise ValueError("too long")
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise no_cursor() from None


def no_cursor() -> UhpError:
    """The refusal of a cursor that no page of this listing gave."""
    return malformed("the cursor is none of this listing", "cursor")


def page(ordered: Sequence[tuple[str, str]], cursor: str | None, limit: int) -> tuple[list[str], str | None]:
    """Ids of one page, and the cursor of the next.

    Args:
        ordered: the places and ids of the whole listing; places grow. What was added or removed elsewhere in the
            meantime moves no other entry to another page.
    """
    after = decode_cursor(cursor)
    rest = ordered if after is None else [pair for pair in ordered if pair[0] > after]
    chosen = rest[:limit]
    return [name for _, name in chosen], encode_cursor(chosen[-1][0]) if len(rest) > limit else None
