"""The one place that asks the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

from hn_memory.errors import HnError

Clock = Callable[[], int]
"""Nanoseconds since 1970, UTC."""


def system_clock() -> int:
    """The machine's clock."""
    return time.time_ns()


@lru_cache(maxsize=2)
def _to_the_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def timestamp(nanoseconds: int) -> str:
    """An instant in the form of the format: UTC, `Z`, no trailing zeros in the fraction (section 4).

    Raises:
        HnError `clock-invalid`: `git fsck` refuses commits dated before 1970.
    """
    if nanoseconds < 0:
        raise HnError(
            "clock-invalid",
            "this machine's clock stands before 1970, which Git cannot write",
            hint="Set the clock.",
        )
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    text = _to_the_second(seconds)
    digits = f"{fraction:09d}".rstrip("0")
    return f"{text}.{digits}Z" if digits else f"{text}Z"
