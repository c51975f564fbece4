"""Filters of a recall: `{field, op, value}`, `{and: [...]}`, `{or: [...]}`, nested at will within bounds.

A condition is parsed once into a predicate over versions. Fields are `type`, `attributes.<path>` (names joined by
dots) and `time.<name>`. A field that a record lacks fulfils nothing but `exists: false` and `ne`. Values of
different types are never equal and never ordered: true is not 1. Times compare as instants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hn_memory.uhp.faults import UhpError, invalid, malformed
from hn_memory.uhp.instants import parse_instant
from hn_memory.uhp.values import Version

Condition = Callable[[Version], bool]

OPS: Final = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "contains", "exists")
TIMES: Final = ("valid_from", "valid_to", "written_at", "invalidated_at")
MAX_CONDITIONS: Final = 256
MAX_DEPTH: Final = 16

_MISSING: Final = object()


def parse_filters(value: Any) -> Condition:
    """The predicate of a `filters` value.

    Raises:
        UhpError `memory_invalid`: an unknown field or op, or too many conditions; `invalid_input`: another shape.
    """
    return _parse(value, 0, [0])


def _parse(value: Any, depth: int, seen: list[int]) -> Condition:
    if not isinstance(value, dict):
        raise malformed("a filter is an object", "filters")
    seen[0] += 1
    if depth > MAX_DEPTH or seen[0] > MAX_CONDITIONS:
        raise invalid(f"at most {MAX_CONDITIONS} filters, nested at most {MAX_DEPTH} deep", "filters")
    groups = [name for name in ("and", "or") if name in value]
    if groups:
        if len(groups) > 1 or "field" in value:
            raise invalid("a filter is one of and, or and a condition on a field", "filters")
        inner = value[groups[0]]
        if not isinstance(inner, list):
            raise malformed(f"{groups[0]} is a list of filters", "filters")
        if not inner:
            raise invalid(f"{groups[0]} needs at least one filter", "filters")
        conditions = [_parse(one, depth + 1, seen) for one in inner]
        fold = all if groups[0] == "and" else any
        return lambda version: fold(condition(version) for condition in conditions)
    field, op = value.get("field"), value.get("op")
    if not isinstance(field, str) or not isinstance(op, str):
        raise malformed("a filter has a field, an op and a value", "filters")
    if op not in OPS:
        raise invalid(f"unknown op; ops are {', '.join(OPS)}", "filters.op")
    return _condition(_reader(field), op, value.get("value"), is_time=field.startswith("time."))


def _reader(field: str) -> Callable[[Version], Any]:
    first, _, rest = field.partition(".")
    if field == "type":
        return lambda version: version.type
    if first == "time" and rest in TIMES:
        return lambda version: _MISSING if getattr(version, rest) is None else getattr(version, rest)
    if first == "attributes" and rest and all(rest.split(".")):
        names = rest.split(".")
        return lambda version: _attribute(version.attributes, names)
    raise invalid("unknown field; fields are type, attributes.<path> and time.<name>", "filters.field")


def _attribute(value: Any, names: list[str]) -> Any:
    for name in names:
        if not isinstance(value, Mapping) or name not in value:
            return _MISSING
        value = value[name]
    return value


def _condition(read: Callable[[Version], Any], op: str, value: Any, *, is_time: bool) -> Condition:
    if op == "exists":
        if not isinstance(value, bool | None):
            raise malformed("exists takes true or false", "filters.value")
        wanted = value is not False
        return lambda version: (read(version) is not _MISSING) is wanted
    if op == "in":
        if not isinstance(value, list):
            raise malformed("in takes a list", "filters.value")
        values = [_instant(one) for one in value] if is_time else value
        return lambda version: any(_equal(_at(read(version), is_time), one) for one in values)
    if is_time:
        value = _instant(value)
    if op == "eq":
        return lambda version: _equal(_at(read(version), is_time), value)
    if op == "ne":
        return lambda version: not _equal(_at(read(version), is_time), value)
    if op == "contains":
        if is_time:
            raise invalid("a time contains nothing", "filters.op")
        return lambda version: _contains(read(version), value)
    return lambda version: _ordered(_at(read(version), is_time), value, op)


def _instant(value: Any) -> int:
    instant = parse_instant(value) if isinstance(value, str) else None
    if instant is None:
        raise UhpError("memory_invalid", "a time is compared with an RFC 3339 instant", param="filters.value")
    return instant


def _at(value: Any, is_time: bool) -> Any:
    return parse_instant(value) if is_time and value is not _MISSING else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: Any, right: Any) -> bool:
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_equal(one, other) for one, other in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[name], right[name]) for name in left)
    return left is not _MISSING and bool(left == right)


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, str):
        return isinstance(part, str) and part in value
    return isinstance(value, list) and any(_equal(one, part) for one in value)


def _ordered(left: Any, right: Any, op: str) -> bool:
    if not ((_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str))):
        return False
    if op == "gt":
        return bool(left > right)
    if op == "gte":
        return bool(left >= right)
    return bool(left < right) if op == "lt" else bool(left <= right)
