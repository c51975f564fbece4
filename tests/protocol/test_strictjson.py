"""Strict JSON: one value, valid UTF-8, no field twice, none unknown, and refusals that say where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol.strictjson import Reader, loads


def refused(data: bytes, **options: bool) -> HnError:
    with pytest.raises(HnError) as caught:
        loads(data, "some-code", "the thing", **options)
    assert caught.value.code == "some-code"
    assert "the thing" in caught.value.message
    return caught.value


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=10,
)


@given(values)
def test_any_value_is_read(value: Any) -> None:
    assert loads(json.dumps(value).encode(), "some-code", "the thing") == value
    try:
        data = json.dumps(value, ensure_ascii=False, indent=1).encode()
    except UnicodeEncodeError:
        return
    assert loads(data, "some-code", "the thing") == value


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "byte 0"),
        (b"{} {}", "byte 3"),
        (b"[1,]", "byte"),
        (b"nul", "byte 0"),
        (b"NaN", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "Infinity"),
        (b"'a'", "byte 0"),
        (b'"\t"', "byte 1"),
        (b"01", "byte 1"),
        (b"1_000", "byte 1"),
        (b"[1] // no", "byte 4"),
        ('["é" x'.encode(), "byte 6"),
        (b'"\xff"', "UTF-8 at byte 1"),
        (b'"\xed\xa0\x80"', "UTF-8 at byte 1"),
        (b'"\xc0\x80"', "UTF-8 at byte 1"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5_000, "not JSON"),
    ],
)
def test_what_is_no_json_is_refused_with_its_place(data: bytes, told: str) -> None:
    assert told in refused(data).message


def test_who_is_at_fault_decides_the_class() -> None:
    assert isinstance(refused(b"x"), UsageError)
    assert not isinstance(refused(b"x", usage=False), UsageError)


def test_a_repeated_field_is_named_wherever_it_stands() -> None:
    for data in (b'{"a":1,"a":1}', b'[{"b":{"a":1,"c":2,"a":3}}]', b'{"\\u0061":1,"a":2}'):
        error = refused(data)
        assert error.field == "a"
        assert "twice" in error.message


def test_a_repeated_field_may_matter_only_where_somebody_reads() -> None:
    value = loads(b'{"mine":{"a":1},"theirs":{"b":1,"b":2}}', "c", "d", everywhere=False)
    assert value == {"mine": {"a": 1}, "theirs": {"b": 2}}
    reader = Reader("c")
    fields = reader.object(value, "", ("mine", "theirs"))
    assert reader.object(fields["mine"], "mine", ("a",)) == {"a": 1}
    with pytest.raises(HnError) as caught:
        reader.object(fields["theirs"], "theirs", ("b",))
    assert caught.value.field == "theirs.b"
    with pytest.raises(HnError) as caught:
        reader.object(loads(b'{"x":1,"x":1}', "c", "d", everywhere=False), "", ("x",))
    assert caught.value.field == "x"


def test_the_reader_names_the_path_of_what_it_refuses() -> None:
    reader = Reader("some-code")
    cases: list[tuple[Any, str | None]] = [
        (lambda: reader.object([], "", ()), None),
        (lambda: reader.object("x", "a.b", ()), "a.b"),
        (lambda: reader.object({"x": 1}, "", ()), "x"),
        (lambda: reader.object({"x": 1}, "a[2]", ("y",)), "a[2].x"),
        (lambda: reader.object({}, "a", (), ("y",)), "fine"),
        (lambda: reader.object({}, "a", ("y",)), "a.y"),
        (lambda: reader.text(1, "a"), "a"),
        (lambda: reader.text(None, "a"), "a"),
        (lambda: reader.text("x\ud83dy", "a"), "a"),
        (lambda: reader.texts("x", "a"), "a"),
        (lambda: reader.texts(None, "a"), "a"),
        (lambda: reader.texts(["x", 1], "a"), "a[1]"),
        (lambda: reader.texts(["x", "\udc00"], "a"), "a[1]"),
        (lambda: reader.integer(True, "a"), "a"),
        (lambda: reader.integer(1.0, "a"), "a"),
        (lambda: reader.integer("1", "a"), "a"),
        (lambda: reader.integer(2**70, "a"), "fine"),
    ]
    for call, field in cases:
        if field == "fine":
            call()
            continue
        with pytest.raises(UsageError) as caught:
            call()
        assert (caught.value.code, caught.value.field) == ("some-code", field)
        assert "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["a\nb", "\x1b[31m", "\u202e", "\ud800", "x" * 5_000])
def test_a_hostile_name_cannot_break_the_message(name: str) -> None:
    once, twice = json.dumps({name: 1}), f"{{{json.dumps(name)}:1,{json.dumps(name)}:2}}"
    for data in (once, twice):
        with pytest.raises(HnError) as caught:
            Reader("c").object(loads(data.encode(), "c", "d"), "", ())
        message = caught.value.message
        assert message.isascii()
        assert message.isprintable()
        assert len(message) < 1_500


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = loads(data, "some-code", "the thing")
    except HnError as error:
        assert error.code == "some-code"
    else:
        assert json.loads(data) == value
