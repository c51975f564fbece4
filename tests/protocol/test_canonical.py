"""Canonical JSON (section 3), held against a second encoder written with other means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hn_memory.errors import HnError
from hn_memory.protocol.canonical import encode, encode_indented, require_encodable, require_text

pytestmark = pytest.mark.usefixtures("json_library")

texts = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\x00\b\f\n\r\t\x1f\x7f<>&"\\/\u2028\u2029'))
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**64 - 1) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


def go_json(value: Any, indent: int | None = None) -> str:
    """What encoding/json of Go writes, by section 3: the standard encoder's text, then the five for HTML."""
    separators = (",", ":") if indent is None else (",", ": ")
    text = json.dumps(value, ensure_ascii=False, separators=separators, indent=indent)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@given(values)
def test_it_writes_as_go_does(value: Any) -> None:
    assert encode(value) == go_json(value).encode()
    assert json.loads(encode(value)) == value


@given(values)
def test_the_indented_form_ends_with_a_newline(value: Any) -> None:
    assert encode_indented(value) == (go_json(value, 2) + "\n").encode()


def test_every_character_has_one_form() -> None:
    short = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
    html = (0x3C, 0x3E, 0x26, 0x2028, 0x2029)
    for point in (*range(0xD800), *range(0xE000, 0x110000, 7)):
        if point in short:
            expected = short[point]
        elif point < 0x20 or point in html:
            expected = f"\\u{point:04x}"
        else:
            expected = chr(point)
        assert encode(chr(point)) == f'"{expected}"'.encode()


def test_names_of_fields_are_escaped_too_and_keep_their_order() -> None:
    assert encode({"z": [], "<a>": {}, "b": True}) == b'{"z":[],"\\u003ca\\u003e":{},"b":true}'


@pytest.mark.parametrize(
    ("value", "field", "place"),
    [
        ("\ud800", None, 0),
        ("ab\udfffc", None, 2),
        ({"record": {"topics": ["a", "é\ud83d"]}}, "record.topics[1]", 1),
        ([["x"], ["\ude00"]], "[1][0]", 0),
    ],
)
def test_a_lone_surrogate_is_refused_with_its_place(value: Any, field: str | None, place: int) -> None:
    for call in (encode, encode_indented, require_encodable):
        with pytest.raises(HnError) as caught:
            call(value)
        assert (caught.value.code, caught.value.field) == ("text-invalid", field)
        assert f"at character {place}" in caught.value.message
        assert caught.value.message.isascii()


def test_text_is_given_back() -> None:
    assert require_text("é\U0001f600", "content") == "é\U0001f600"
    with pytest.raises(HnError) as caught:
        require_text("x\ud83d", "content")
    assert caught.value.field == "content"


@pytest.mark.parametrize("value", [b"bytes", {"a": object()}, {"a": {1, 2}}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    for call in (encode, encode_indented):
        with pytest.raises(HnError) as caught:
            call(value)
        assert caught.value.code == "value-invalid"
