"""Instants: RFC 3339 text of the protocol and of signed records, and nanoseconds since 1970 to compare them by."""

from __future__ import annotations

import re
from calendar import timegm
from functools import lru_cache
from typing import Final

_FORM: Final = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_MONTH_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@lru_cache(maxsize=4096)
def parse_instant(text: str) -> int | None:
    """Nanoseconds since 1970 of an RFC 3339 instant with an offset, or None for any other text."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= _MONTH_DAYS[month - 1] and hour < 24 and minute < 60 and second < 60):
        return None
    if month == 2 and day == 29 and (year % 4 or (year % 100 == 0 and year % 400)):
        return None
    seconds = timegm((year, month, day, hour, minute, second))
    if found[8] is not None:
        hours, minutes = int(found[9]), int(found[10])
        if hours > 24 or minutes > 59:
            return None
        offset = hours * 3600 + minutes * 60
        seconds += offset if found[8] == "-" else -offset
    return seconds * 1_000_000_000 + int((found[7] or "0").ljust(9, "0"))
