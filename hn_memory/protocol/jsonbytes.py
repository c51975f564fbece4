"""The two JSON libraries behind one pair of functions that answer alike.

orjson reads and writes several times faster, but importing it brings in dataclasses, uuid and zoneinfo, which
costs a short command more than it saves. So the standard library serves a process until it has handled some
hundred documents, and orjson from then on. A property test holds the two to the same bytes and values; the
documents of this project hold no fractions, where they would differ in the notation of exponents.
"""

from __future__ import annotations

from typing import Any, Final

WORTH_IT: Final = 256
"""Documents after which importing orjson pays for itself."""

_handled = 0


def loads(data: bytes) -> Any:
    """The JSON value in UTF-8 bytes; of a repeated field the last value stays.

    Raises:
        ValueError: not one JSON value in valid UTF-8, or nested too deeply.
    """
    global _handled
    _handled += 1
    if _handled > WORTH_IT:
        return fast_loads(data)
    return plain_loads(data)


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON, strings escaped only where JSON demands it.

    Raises:
        TypeError, ValueError: the value has no such form (a lone surrogate, a foreign type).
    """
    global _handled
    _handled += 1
    if _handled > WORTH_IT:
        return fast_dumps(value)
    return plain_dumps(value)


def expect_many() -> None:
    """Let orjson serve from now on; for a process that is known to handle many documents."""
    global _handled
    _handled = max(_handled, WORTH_IT)


def are_many() -> bool:
    """Has this process handled so many documents that preparing for more of them pays?"""
    return _handled >= WORTH_IT


def plain_loads(data: bytes) -> Any:
    """`loads` by the standard library."""
    import json

    try:
        return json.loads(data.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def plain_dumps(value: Any) -> bytes:
    """`dumps` by the standard library."""
    import json

    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def fast_loads(data: bytes) -> Any:
    """`loads` by orjson."""
    import orjson

    return orjson.loads(data)


def fast_dumps(value: Any) -> bytes:
    """`dumps` by orjson."""
    import orjson

    return orjson.dumps(value)
