"""The two JSON libraries behind one pair of functions that answer alike.

orjson reads and writes several times faster, but importing it brings in dataclasses, uuid and zoneinfo, which
costs a short command more than it saves. So the standard library serves a process until it has handled some
hundred documents, and orjson from then on. A property test holds the two to the same bytes and values; the
documents of this project hold no fractions, where they would differ in the notation of exponents.

Of the standard library's package only the C half is loaded, which does the work; the other half would bring `re`
along. What is no JSON is read once more by the package itself, which then says what is wrong with it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final, NoReturn


WORTH_IT: Final = 768
"""Documents after which importing orjson pays for itself."""

_handled = 0


_BLANKS: Final = " \t\n\r"
_NUMBERS: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


class _Settings:
    """What the C reader wants to know, under the names of `json.JSONDecoder`."""

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int

    def __init__(
        self, pairs: Callable[[list[tuple[str, Any]]], Any] | None, constant: Callable[[str], Any] | None
    ) -> None:
        self.object_pairs_hook = pairs
        self.parse_constant = constant or _NUMBERS.__getitem__


def parse(
    text: str,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
    constant: Callable[[str], Any] | None = None,
) -> Any:
    """As `json.loads`.

    Args:
        pairs, constant: its `object_pairs_hook` and `parse_constant`.

    Raises:
        ValueError: `json.JSONDecodeError` where the text is not one JSON value.
    """
    try:
        from _json import make_scanner

        stripped = text.strip(_BLANKS)
        value, end = make_scanner(_Settings(pairs, constant))(stripped, 0)  # type: ignore[arg-type]
        if end == len(stripped):
            return value
    except (ImportError, StopIteration, ValueError, SystemError):
        # Another interpreter, or no JSON: the position that is named is one in the text as it came. The C half raises
        # an exception of the other half, and a SystemError where that is not loaded.
        pass
    import json

    return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)


def compose(value: Any, *, ascii_only: bool = False, finite: bool = True) -> str:
    """As `json.dumps`, without blanks.

    Args:
        ascii_only, finite: its `ensure_ascii`, and the opposite of its `allow_nan`.
    """
    try:
        from _json import encode_basestring, encode_basestring_ascii, make_encoder
    except ImportError:
        import json

        return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"), allow_nan=not finite)
    quote = encode_basestring_ascii if ascii_only else encode_basestring
    return "".join(make_encoder({}, _refuse, quote, None, ":", ",", False, False, not finite)(value, 0))


def _refuse(value: object) -> NoReturn:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


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
    try:
        return parse(data.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def plain_dumps(value: Any) -> bytes:
    """`dumps` by the standard library."""
    return compose(value).encode()


def fast_loads(data: bytes) -> Any:
    """`loads` by orjson."""
    import orjson

    return orjson.loads(data)


def fast_dumps(value: Any) -> bytes:
    """`dumps` by orjson."""
    import orjson

    return orjson.dumps(value)
