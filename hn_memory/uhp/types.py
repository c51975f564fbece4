"""The types of records beyond the core ones, and what can be done with a record of one.

Types come from two places: `x.hn.<kind>`, the records that are written elsewhere, whose one operation is a challenge;
and a file of the operator's, a JSON object with a list `types`. Each of its entries is as section 8 shows it, with
operations that are declared, not programmed: an operation sets attributes of the record from its input (`sets`, all
properties of the input when left out) as a new version, or, with `requires: read`, gives some of them back.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from hn_memory.errors import NotFoundError, UsageError
from hn_memory.uhp.faults import UhpError, unsupported
from hn_memory.uhp.hn.external import PREFIX, kind_types
from hn_memory.uhp.parameters import check_schema
from hn_memory.uhp.values import CORE_TYPES, PRIVILEGES

FILE_BYTES: Final = 1_048_576
CORE_DESCRIPTIONS: Final = {
    "episode": "Raw experience as it arrived: a turn, a transcript, an action and its result. Append-only.",
    "fact": "One thing worth remembering, as it was said.",
    "note": "A document an agent or a person wrote and maintains.",
    "procedure": "A how-to with the situation it applies to.",
    "link": "A pointer to something kept elsewhere: an address and a description.",
}


def core_types() -> list[dict[str, Any]]:
    """The entries of the core types."""
    return [
        {
            "type": name,
            "core": True,
            "description": CORE_DESCRIPTIONS[name],
            "schema": {"type": "object"},
            "text": "content and the texts among the attributes",
            "operations": [],
        }
        for name in CORE_TYPES
    ]


def all_types(configured: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every type of this server."""
    shown = [
        {**one, "operations": [{name: of[name] for name in of if name != "sets"} for of in one["operations"]]}
        for one in configured
    ]
    return [*core_types(), *kind_types(), *shown]


def operation_of(configured: Sequence[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The operation of a type by its name.

    Raises:
        UhpError `memory_unsupported`.
    """
    for one in (*configured, *kind_types()):
        if one["type"] == kind:
            for operation in one["operations"]:
                if operation["name"] == name:
                    found: dict[str, Any] = operation
                    return found
    raise unsupported("records of this type have no such operation")


def read_types(path: str) -> tuple[dict[str, Any], ...]:
    """The types in the operator's file, checked.

    Raises:
        NotFoundError `types-missing`; UsageError `types-invalid`, saying what is wrong where.
    """
    try:
        data = Path(path).read_bytes()
    except OSError:
        raise NotFoundError("types-missing", "the file of --types cannot be read", field="types") from None
    try:
        value = json.loads(data) if len(data) <= FILE_BYTES else None
    except ValueError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("types"), list):
        _refuse("it is not a JSON object with a list `types`")
    return tuple(_checked(one, f"types[{at}]") for at, one in enumerate(value["types"]))


def _checked(one: Any, where: str) -> dict[str, Any]:
    if not isinstance(one, dict) or not isinstance(one.get("type"), str):
        _refuse(f"{where} has no type")
    name = one["type"]
    if not name.startswith("x.") or name.startswith(PREFIX) or len(name) > 128:
        _refuse(f"{where}.type must begin with x. and not with {PREFIX}")
    operations = one.get("operations", [])
    if not isinstance(operations, list):
        _refuse(f"{where}.operations is no list")
    return {
        "type": name,
        "core": False,
        "description": str(one.get("description", "")),
        "schema": _schema(one.get("schema", {"type": "object"}), f"{where}.schema"),
        "text": str(one.get("text", "content and the texts among the attributes")),
        "operations": [_operation(of, f"{where}.operations[{at}]") for at, of in enumerate(operations)],
    }


def _operation(one: Any, where: str) -> dict[str, Any]:
    if not isinstance(one, dict) or not isinstance(one.get("name"), str) or not one["name"].isidentifier():
        _refuse(f"{where} has no name of letters, digits and _")
    requires = one.get("requires", "write")
    if requires not in PRIVILEGES[:2]:
        _refuse(f"{where}.requires is read or write")
    inputs = _schema(one.get("input", {"type": "object"}), f"{where}.input")
    sets = one.get("sets", sorted(inputs.get("properties", {})))
    if not isinstance(sets, list) or not all(isinstance(name, str) for name in sets):
        _refuse(f"{where}.sets is no list of names")
    return {
        "name": one["name"],
        "description": str(one.get("description", "")),
        "input": inputs,
        "requires": requires,
        "sets": sets,
    }


def _schema(schema: Any, where: str) -> dict[str, Any]:
    try:
        check_schema(schema, where)
    except UhpError as error:
        _refuse(f"{error.param or where}: {error.message}")
    checked: dict[str, Any] = schema
    return checked


def _refuse(why: str) -> NoReturn:
    raise UsageError("types-invalid", f"the file of --types is not usable: {why}", field="types")
