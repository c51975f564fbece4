"""Typed parameters of a named query: the part of JSON Schema that has one meaning and a bounded cost.

A schema is an object of these keywords, and any other is refused when the query is defined, not passed over when it
runs: `type` (`object` at the top), `properties`, `required`, `additionalProperties` (true or false), `enum`, `const`,
`items`, `minItems`, `maxItems`, `minLength`, `maxLength`, `minimum`, `maximum`, `exclusiveMinimum`,
`exclusiveMaximum`; and for readers `title`, `description`, `examples`, `default`. There is no `$ref`, which could
reach elsewhere, and no `pattern`, whose cost its author chooses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from hn_memory.uhp.faults import invalid, malformed

MAX_DEPTH: Final = 8

_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == int(value),
}
_LENGTHS: Final = ("minLength", "maxLength", "minItems", "maxItems")
_NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_NOTES: Final = ("title", "description", "examples", "default")


def check_schema(schema: Any, param: str = "params") -> None:
    """Is this the schema of parameters?

    Raises:
        UhpError `memory_invalid`: an unknown keyword or one with another kind of value; `param` says where.
    """
    _check_schema(schema, param, 0)
    if schema.get("type", "object") != "object":
        raise invalid("the schema of parameters has the type object", f"{param}.type")


def check_values(schema: Mapping[str, Any], values: Mapping[str, Any], param: str = "params") -> dict[str, Any]:
    """The values of all parameters that a schema names; those left out have their `default`, or null.

    Raises:
        UhpError `memory_invalid`: a value does not match; `param` says which.
    """
    _check(schema, values, param)
    properties = schema.get("properties", {})
    defaults = {name: of.get("default") for name, of in properties.items()}
    return {**defaults, **values}


def _check_schema(schema: Any, where: str, depth: int) -> None:
    if not isinstance(schema, dict):
        raise malformed("a schema is an object", where)
    if depth > MAX_DEPTH:
        raise invalid(f"a schema is nested at most {MAX_DEPTH} deep", where)
    for word, value in schema.items():
        at = f"{where}.{word}"
        if word == "type":
            _require(all(isinstance(one, str) and one in _TYPES for one in _names(value)), at, "is a type's name")
        elif word == "properties":
            _require(isinstance(value, dict), at, "is an object of schemas")
            for name, inner in value.items():
                _check_schema(inner, f"{at}.{name}", depth + 1)
        elif word == "items":
            _check_schema(value, at, depth + 1)
        elif word == "required":
            _require(isinstance(value, list) and all(isinstance(one, str) for one in value), at, "is a list of names")
        elif word == "additionalProperties":
            _require(isinstance(value, bool), at, "is true or false")
        elif word == "enum":
            _require(isinstance(value, list) and bool(value), at, "is a list of values")
        elif word in _LENGTHS:
            _require(_is_number(value) and value == int(value) and value >= 0, at, "is a whole number from 0")
        elif word in _NUMBERS:
            _require(_is_number(value), at, "is a number")
        elif word not in (*_NOTES, "const"):
            raise invalid(f"{word} is no keyword of a query's parameters", at)


def _names(value: Any) -> list[Any]:
    return value if isinstance(value, list) and value else [value]


def _require(holds: bool, where: str, what: str) -> None:
    if not holds:
        raise invalid(f"{where.rpartition('.')[2]} {what}", where)


def _check(schema: Mapping[str, Any], value: Any, where: str) -> None:
    if "type" in schema and not any(_TYPES[name](value) for name in _names(schema["type"])):
        raise invalid(f"{where} must be of type {' or '.join(_names(schema['type']))}", where)
    if "const" in schema and not _same(value, schema["const"]):
        raise invalid(f"{where} must be {_listed([schema['const']])}", where)
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        raise invalid(f"{where} must be one of {_listed(schema['enum'])}", where)
    if isinstance(value, dict):
        _check_object(schema, value, where)
    elif isinstance(value, list):
        _check_size(schema, len(value), "Items", where)
        for at, one in enumerate(value):
            _check(schema.get("items", {}), one, f"{where}.{at}")
    elif isinstance(value, str):
        _check_size(schema, len(value), "Length", where)
    elif _is_number(value):
        _check_number(schema, value, where)


def _check_object(schema: Mapping[str, Any], value: Mapping[str, Any], where: str) -> None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            raise invalid(f"{where}.{name} must be given", f"{where}.{name}")
    for name, inner in value.items():
        if name in properties:
            _check(properties[name], inner, f"{where}.{name}")
        elif not schema.get("additionalProperties", True):
            raise invalid(f"{where}.{name} is none of the query's parameters", f"{where}.{name}")


def _check_size(schema: Mapping[str, Any], size: int, kind: str, where: str) -> None:
    if not schema.get(f"min{kind}", 0) <= size <= schema.get(f"max{kind}", size):
        raise invalid(f"{where} is too short or too long", where)


def _check_number(schema: Mapping[str, Any], value: float, where: str) -> None:
    fits = (
        schema.get("minimum", value) <= value <= schema.get("maximum", value)
        and not ("exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"])
        and not ("exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"])
    )
    if not fits:
        raise invalid(f"{where} is too small or too large", where)


def _listed(values: list[Any]) -> str:
    """JSON values for a message, the first few where there are many."""
    shown = [json.dumps(value, ensure_ascii=True)[:60] for value in values[:8]]
    return ", ".join(shown) + (", ..." if len(values) > 8 else "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON values: true is not 1."""
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[name], right[name]) for name in left)
    return bool(left == right)
