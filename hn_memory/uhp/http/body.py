"""Request bodies: one JSON value of bounded size, depth and numbers, in UTF-8.

The rules, each a refusal with 400 `invalid_input` (the size: 413 `input_too_large`):

1. at most 1 MiB, and what arrives beyond is not read;
2. valid UTF-8, one JSON value, no NaN or Infinity, no half of a surrogate pair;
3. nested at most 32 deep;
4. integers of 64 bits, fractions that a double holds;
5. no object names a field twice: readers would differ in which of the two they take.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, Final

from starlette.types import Receive, Scope

from hn_memory.protocol.limits import REQUEST_BYTES
from hn_memory.protocol.strictjson import first_repeated
from hn_memory.uhp.faults import UhpError, malformed

MAX_DEPTH: Final = 32
_INTEGER: Final = 2**63
_DIGITS: Final = 20


async def read_body(scope: Scope, receive: Receive, limit: int = REQUEST_BYTES) -> bytes:
    """The whole body.

    Raises:
        UhpError `input_too_large`; `invalid_input` when the client left in the middle.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > limit:
            raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise malformed("the request ended before its body did")
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def _too_large(limit: int) -> UhpError:
    return UhpError("input_too_large", f"a request has at most {limit} bytes")


def parse_json(data: bytes) -> Any:
    """The value of a body.

    Raises:
        UhpError `invalid_input`.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise malformed(f"the body is not UTF-8 at byte {error.start}") from None
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
        )
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        where = f" at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        raise malformed(f"the body is not JSON{where}") from None
    _check(value, surrogates="\\u" in text)
    return value


def _check(value: Any, *, surrogates: bool) -> None:
    """Depth, and halves of surrogate pairs, which only escapes can bring in."""
    level, depth = [value], 0
    while level:
        depth += 1
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                if surrogates:
                    _check_text(one)
            elif isinstance(one, dict):
                if surrogates:
                    for name in one:
                        _check_text(name)
                below.extend(one.values())
            elif isinstance(one, list):
                below.extend(one)
        if depth > MAX_DEPTH + 1 and below:
            raise _too_deep()
        level = below


def _too_deep() -> UhpError:
    return malformed(f"the body is nested more than {MAX_DEPTH} deep")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise malformed("a text holds half of a surrogate pair") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        shown = first_repeated(pairs)[:80].encode("ascii", "backslashreplace").decode()
        raise malformed(f'an object of the body names "{shown}" twice', shown)
    return value


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS or not -_INTEGER <= int(digits) < _INTEGER:
        raise malformed("a number does not fit 64 bits")
    return int(digits)


def _fraction(digits: str) -> float:
    value = float(digits)
    if not isfinite(value):
        raise malformed("a number is larger than a double holds")
    return value


def _constant(name: str) -> Any:
    raise malformed(f"{name} is not JSON")
