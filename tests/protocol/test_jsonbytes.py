"""The C half of the standard library's JSON, taken alone, is the whole of it."""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hn_memory.protocol.jsonbytes import compose, parse
from hn_memory.protocol.query import _base64url

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters())
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
BLANKS = st.text(" \t\n\r", max_size=3)


def answer(function: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return repr(function(*arguments, **options))
    except (ValueError, TypeError) as error:
        return type(error), str(error)


@given(VALUES, BLANKS, BLANKS)
def test_parse_is_loads(value: object, before: str, after: str) -> None:
    text = before + json.dumps(value) + after
    assert repr(parse(text)) == repr(json.loads(text))


@given(st.text(st.sampled_from('{}[]",:0123-.eE\\\n \ufeffNaInfity\x00')))
@pytest.mark.parametrize("text", ["", " ", "1 2", "[1,]", '{"a":1,}', "nul", "\u00a01", "9" * 5000, "  [1, }", "[" * 9])
def test_parse_refuses_as_loads_does(text: str, fuzzed: str) -> None:
    for one in (text, fuzzed):
        assert answer(parse, one) == answer(json.loads, one)


def test_parse_hands_pairs_and_constants_over() -> None:
    text = '{"a": [{"b": 1, "b": NaN}], "c": -Infinity}'
    assert parse(text, list, str.lower) == json.loads(text, object_pairs_hook=list, parse_constant=str.lower)
    assert math.isnan(parse("NaN"))


@given(VALUES, st.booleans(), st.booleans())
def test_compose_is_dumps(value: object, ascii_only: bool, finite: bool) -> None:
    expected = answer(json.dumps, value, ensure_ascii=ascii_only, separators=(",", ":"), allow_nan=not finite)
    assert answer(compose, value, ascii_only=ascii_only, finite=finite) == expected


@pytest.mark.parametrize("value", [object(), {1: 2}, {b"x": 1}, [{"a": {1, 2}}], {None: True}, (1, [2])])
def test_compose_treats_foreign_types_as_dumps_does(value: object) -> None:
    assert answer(compose, value) == answer(json.dumps, value, separators=(",", ":"))


def test_compose_sees_a_circle() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert answer(compose, circle) == answer(json.dumps, circle)


@given(st.binary())
def test_cursor_text_is_base64(data: bytes) -> None:
    assert _base64url(data) == urlsafe_b64encode(data).decode().rstrip("=")
