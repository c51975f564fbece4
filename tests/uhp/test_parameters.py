"""Schemas of query parameters: what they may say, and what they admit."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hn_memory.uhp.faults import UhpError
from hn_memory.uhp.parameters import check_schema, check_values

ADMITTED = [
    ({}, {}), ({}, {"a": [1]}), ({"properties": {"a": {"type": "integer"}}}, {"a": 1}),
    ({"properties": {"a": {"type": "integer"}}}, {"a": 1.0}),
    ({"properties": {"a": {"type": ["null", "string"]}}}, {"a": None}),
    ({"properties": {"a": {"enum": [1, "x"]}}}, {"a": "x"}),
    ({"properties": {"a": {"const": {"b": [True]}}}}, {"a": {"b": [True]}}),
    ({"properties": {"a": {"items": {"type": "string"}, "maxItems": 2}}}, {"a": ["x", "y"]}),
    ({"properties": {"a": {"minimum": 1, "exclusiveMaximum": 2}}}, {"a": 1}),
]  # fmt: skip
REFUSED = [
    ({"required": ["a"]}, {}), ({"additionalProperties": False}, {"a": 1}),
    ({"properties": {"a": {"type": "integer"}}}, {"a": True}), ({"properties": {"a": {"type": "integer"}}}, {"a": 1.5}),
    ({"properties": {"a": {"type": "number"}}}, {"a": "1"}), ({"properties": {"a": {"enum": [1]}}}, {"a": True}),
    ({"properties": {"a": {"const": [0]}}}, {"a": [False]}), ({"properties": {"a": {"maxLength": 1}}}, {"a": "xy"}),
    ({"properties": {"a": {"minItems": 1}}}, {"a": []}), ({"properties": {"a": {"exclusiveMaximum": 2}}}, {"a": 2}),
    ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}),
    ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}),
]  # fmt: skip
NO_SCHEMAS = [
    {"$ref": "#"}, {"pattern": "x"}, {"type": "array"}, {"type": "text"}, {"properties": []}, {"required": "a"},
    {"properties": {"a": {"format": "email"}}}, {"properties": {"a": {"minLength": -1}}}, {"required": [1]},
    {"properties": {"a": {"minimum": "1"}}}, {"properties": {"a": {"enum": []}}}, {"additionalProperties": {}},
    {"properties": {"a": 1}}, {"anyOf": [{}]},
]  # fmt: skip


@pytest.mark.parametrize(("schema", "values"), ADMITTED)
def test_admitted(schema: dict[str, Any], values: dict[str, Any]) -> None:
    check_schema(schema)
    assert check_values(schema, values) == values


@pytest.mark.parametrize(("schema", "values"), REFUSED)
def test_refused(schema: dict[str, Any], values: dict[str, Any]) -> None:
    check_schema(schema)
    with pytest.raises(UhpError) as refusal:
        check_values(schema, values)
    assert refusal.value.code == "memory_invalid" and refusal.value.param is not None


@pytest.mark.parametrize("schema", NO_SCHEMAS)
def test_no_schema(schema: Any) -> None:
    with pytest.raises(UhpError):
        check_schema(schema)


def test_what_is_left_out_is_null_or_its_default() -> None:
    schema = {"properties": {"a": {}, "b": {"default": 3}, "c": {"type": "string"}}}
    assert check_values(schema, {"c": "x"}) == {"a": None, "b": 3, "c": "x"}


def test_depth_is_bounded() -> None:
    schema: dict[str, Any] = {}
    for _ in range(20):
        schema = {"properties": {"a": schema}}
    with pytest.raises(UhpError):
        check_schema(schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
WORDS = ("type", "properties", "required", "enum", "const", "items", "minItems", "maxLength", "minimum", "default")


@given(st.dictionaries(st.sampled_from(WORDS), JSON, max_size=4), st.dictionaries(st.sampled_from("abc"), JSON))
def test_any_schema_is_refused_or_decides(schema: dict[str, Any], values: dict[str, Any]) -> None:
    try:
        check_schema(schema)
        check_values(schema, values)
    except UhpError as error:
        assert error.status in (400, 422)
