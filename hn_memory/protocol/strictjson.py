"""Strict reading of JSON that machines hand us: one value, valid UTF-8, no field twice, none unknown.

Refusals name the field by its path (`record.anchor.paths[2].blob`) and, for text that is no JSON, the byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol.jsonbytes import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn


class _DuplicateFieldError(Exception):
    """Raised from inside the parser; carries the repeated name."""


class _ConstantError(ValueError):
    """Raised from inside the parser for `NaN` and the infinities."""


class _Repeated(dict[str, object]):
    """An object that named a field twice; kept where its inside may turn out not to concern us."""

    __slots__ = ("name",)
    name: str


def first_repeated(pairs: list[tuple[str, Any]]) -> str:
    """The first name that stands a second time among an object's pairs, one of which does."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("called for an object without a repeated field")


def _refuse_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise _DuplicateFieldError(first_repeated(pairs))
    return result


def _mark_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        result = _Repeated(result)
        result.name = first_repeated(pairs)
    return result


def _constant(text: str) -> NoReturn:
    raise _ConstantError(text)


def loads(data: bytes, code: str, what: str, *, usage: bool = True, everywhere: bool = True) -> Any:
    """The one JSON value in `data`.

    Args:
        code: the error code to raise with.
        what: how messages call the document ("record request").
        usage: raise `UsageError` (a caller's input) rather than `HnError` (a stored document).
        everywhere: refuse a repeated field at any depth; else only in objects that a `Reader` opens.
    """
    error_type = UsageError if usage else HnError
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise error_type(code, f"{what} is not valid UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise error_type(code, f"{what} starts with a byte order mark; remove it")
    try:
        hook = _refuse_pairs if everywhere else _mark_pairs
        value = parse(text, hook, _constant)
    except _DuplicateFieldError as error:
        name = str(error)[:80]
        raise error_type(code, f"{what} has the field {name!a} twice", field=name) from None
    except RecursionError:
        raise error_type(code, f"{what} is nested too deeply") from None
    except _ConstantError as error:
        raise error_type(code, f"{what} is not JSON: {error} is no number of it") from None
    except ValueError as error:
        from json import JSONDecodeError

        if isinstance(error, JSONDecodeError):
            at = len(text[: error.pos].encode(errors="surrogatepass"))
            raise error_type(code, f"{what} is not one JSON value: {error.msg} at byte {at}") from None
        raise error_type(code, f"{what} is not JSON as we read it: a number in it is too long") from None
    return value


_FEW: Final = 16
"""Fields beyond which a shape is nobody's, and not worth remembering."""


@lru_cache(maxsize=256)
def _are_known(names: tuple[str, ...], required: tuple[str, ...], optional: tuple[str, ...]) -> bool:
    """Are the fields all of `required` and nothing beyond `optional`? Thousands of documents have few shapes."""
    return all(name in names for name in required) and all(name in required or name in optional for name in names)


class Reader:
    """Takes a JSON object apart field by field, with errors that name the path.

    One reader serves one document: `code` and the error type are fixed when it is made.
    """

    __slots__ = ("_code", "_error")

    def __init__(self, code: str, *, usage: bool = True) -> None:
        self._code = code
        self._error: type[HnError] = UsageError if usage else HnError

    def fail(self, message: str, field: str) -> NoReturn:
        raise self._error(self._code, message, field=field or None)

    def object(
        self, value: Any, where: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> Mapping[str, Any]:
        """The value as an object that has all of `required` and nothing beyond `optional`."""
        if type(value) is dict and len(value) <= _FEW and _are_known(tuple(value), required, optional):
            return value
        if not isinstance(value, dict):
            self.fail(f"{where or 'document'} must be an object", where)
        if isinstance(value, _Repeated):
            path = f"{where}.{value.name}" if where else value.name
            self.fail(f"field {path[:160]!a} stands twice", path[:160])
        for name in value:
            if name not in required and name not in optional:
                path = f"{where}.{name}" if where else name
                self.fail(f"unknown field {path[:160]!a}", path[:160])
        for name in required:
            if name not in value:
                path = f"{where}.{name}" if where else name
                self.fail(f"missing field {path}", path)
        return value

    def text(self, value: Any, where: str) -> str:
        """The value as a string with a UTF-8 form."""
        if not isinstance(value, str):
            self.fail(f"{where} must be a string", where)
        if value.isascii():
            return value
        try:
            value.encode()
        except UnicodeEncodeError as error:
            self.fail(f"{where} holds a lone surrogate at character {error.start}", where)
        return value

    def fields(self, values: Mapping[str, Any], where: str, names: Sequence[str]) -> list[str]:
        """Fields that are there, each as `text` below `where`."""
        found = [values[name] for name in names]
        for at, value in enumerate(found):
            if type(value) is not str or not value.isascii():
                self.text(value, f"{where}.{names[at]}" if where else names[at])
        return found

    def texts(self, value: Any, where: str) -> list[str]:
        """The value as a list of strings."""
        if not isinstance(value, list):
            self.fail(f"{where} must be a list", where)
        if not value:
            return value
        return [self.text(item, f"{where}[{at}]") for at, item in enumerate(value)]

    def integer(self, value: Any, where: str) -> int:
        """The value as an integer (booleans and fractions are none)."""
        if type(value) is not int:
            self.fail(f"{where} must be an integer", where)
        return value
