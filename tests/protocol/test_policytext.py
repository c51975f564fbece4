"""The text of a policy file: places that are found, and edits that keep every byte they need not change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hn_memory.errors import HnError
from hn_memory.protocol.identifiers import KINDS
from hn_memory.protocol.policy import parse_policy
from hn_memory.protocol.policytext import edit_policy, locate

A, B = "a" * 64, "b" * 64


@pytest.mark.parametrize(
    ("text", "field", "place"),
    [
        ('{"a":1}', "a", (1, 2)),
        ('{\n "memory": {"x": 1}}', "memory.x", (2, 13)),
        ('{"memory": 3,\n"memory": 4}', "memory", (2, 1)),
        ('{"memory":{"trustedActors":["é",\n"b"]}}', "memory.trustedActors[1]", (2, 1)),
        ('{"memory":{"trustedActors":"é", "trustedKinds":1}}', "memory.trustedKinds", (1, 33)),
        ('{"é": 1, "b": }', None, (1, 15)),
        ("[]", None, None),
        ("{}", "version", None),
    ],
)
def test_where_a_field_stands(text: str, field: str | None, place: tuple[int, int] | None) -> None:
    assert locate(text.encode(), field) == place


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{"memory": {"trustedActors": ["%a"], "trustedKinds": ["decision"]}}'),
        (
            '{"version":"hn.policy/0"}',
            '{"version":"hn.policy/0","memory":{"trustedActors":["%a"],"trustedKinds":["decision"]}}',
        ),
        (
            '{\r\n\t"version": "hn.policy/0"\r\n}\r\n',
            '{\r\n\t"version": "hn.policy/0",\r\n\t"memory": {\r\n\t\t"trustedActors": [\r\n\t\t\t"%a"\r\n\t\t],\r\n'
            '\t\t"trustedKinds": [\r\n\t\t\t"decision"\r\n\t\t]\r\n\t}\r\n}\r\n',
        ),
        (
            '{\n    "memory": {},\n    "pipelines": []\n}',
            '{\n    "memory": {\n        "trustedActors": [\n            "%a"\n        ],\n'
            '        "trustedKinds": [\n            "decision"\n        ]\n    },\n    "pipelines": []\n}',
        ),
        (
            "{\n}\n",
            '{\n  "memory": {\n    "trustedActors": [\n      "%a"\n    ],\n'
            '    "trustedKinds": [\n      "decision"\n    ]\n  }\n}\n',
        ),
        (
            '{\n  "memory": {\n    "trustedActors": [],\n    "trustedKinds": ["decision"]\n  }\n}\n',
            '{\n  "memory": {\n    "trustedActors": [\n      "%a"\n    ],\n    "trustedKinds": ["decision"]\n  }\n}\n',
        ),
        (
            '{"mem\\u006fry" : {"trustedKinds" : ["decision"]  , "trustedActors" : [  ]} }',
            '{"mem\\u006fry" : {"trustedKinds" : ["decision"]  , "trustedActors" : ["%a"]} }',
        ),
    ],
)  # fmt: skip
def test_what_is_added_takes_the_style_of_its_place(before: str, after: str) -> None:
    assert edit_policy(before.encode(), [A], ["decision"]).decode() == after.replace("%a", A)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"x": 1}', b'{"memory": {}, "memory": {}}', b"\xff"])
def test_what_is_no_policy_is_not_edited(data: bytes) -> None:
    with pytest.raises(HnError) as caught:
        edit_policy(data, [A], KINDS)
    assert caught.value.code == "policy-invalid"


def test_what_may_not_be_trusted_is_not_written() -> None:
    for actors, kinds in (["x"], KINDS), ([A], ["gossip"]):
        with pytest.raises(HnError) as caught:
            edit_policy(None, actors, kinds)
        assert caught.value.code == "policy-invalid"


def test_lists_are_written_sorted_and_unique() -> None:
    lists = {"trustedActors": [A, B], "trustedKinds": ["attempt", "decision"]}
    written = edit_policy(None, [B, A, B], ["decision", "attempt"])
    assert written.decode() == json.dumps({"memory": lists}, indent=2) + "\n"


# -- any policy -------------------------------------------------------------------------------------------

spaces = st.sampled_from(["", "", " ", "\n", "\r\n", "\t", "\n  ", "\r\n    "])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def json_text(draw: st.DrawFn, value: Any) -> str:
    """A JSON value as somebody might have written it: spaces anywhere, escapes where none are needed."""
    space = lambda: draw(spaces)  # noqa: E731
    if isinstance(value, dict):
        parts = [f"{space()}{draw(json_text(k))}{space()}:{space()}{draw(json_text(v))}" for k, v in value.items()]
        return "{" + ",".join(part + space() for part in parts) + "}" if parts else "{" + space() + "}"
    if isinstance(value, list):
        return "[" + ",".join(space() + draw(json_text(item)) + space() for item in value) + space() + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
actor_sets = st.sets(st.sampled_from([f"{digit:x}" * 64 for digit in range(16)]), max_size=5)
kind_sets = st.sets(st.sampled_from(KINDS))


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, str | None, str]:
    """What stands before the value of `memory`, the value (None: there is no such member), what stands after."""
    space = lambda: draw(spaces)  # noqa: E731
    others = draw(st.dictionaries(st.sampled_from(["maintainers", "proposals", "pipelines"]), anything, max_size=3))
    if draw(st.booleans()):
        others["version"] = "hn.policy/0"
    parts = [f"{space()}{json.dumps(k)}{space()}:{space()}{draw(json_text(v))}{space()}" for k, v in others.items()]
    before, after = space() + "{", "}" + space()
    lists = {"trustedActors": sorted(draw(actor_sets)), "trustedKinds": sorted(draw(kind_sets))}
    names = draw(st.sampled_from([None, [], ["trustedActors"], ["trustedKinds"], [*lists], [*reversed(lists)]]))
    if names is None:
        return before + (",".join(parts) or space()), None, after
    cut = draw(st.integers(0, len(parts)))
    name = draw(st.sampled_from(['"memory"', '"m\\u0065mory"']))
    before += "".join(part + "," for part in parts[:cut]) + f"{space()}{name}{space()}:{space()}"
    after = space() + "".join("," + part for part in parts[cut:]) + after
    return before, draw(json_text({name: lists[name] for name in names})), after


@settings(max_examples=150)
@given(documents(), actor_sets, kind_sets)
def test_an_edit_of_any_policy_keeps_every_other_byte(
    document: tuple[str, str | None, str], actors: set[str], kinds: set[str]
) -> None:
    before, value, after = document
    data = (before + (value or "") + after).encode()
    old = parse_policy(data)
    edited = edit_policy(data, actors, kinds)
    new = parse_policy(edited)
    assert (new.state, new.actors, new.kinds) == ("present", actors, kinds)
    assert edit_policy(edited, actors, kinds) == edited
    if value is not None:
        assert edited.startswith(before.encode())
        assert edited.endswith(after.encode())
        if (old.actors, old.kinds) == (actors, kinds):
            assert edited == data
    elif not json.loads(data):
        assert edited.startswith(before.rstrip(" \t\r\n").encode())
        assert edited.endswith(after.encode())
    else:
        assert _shared(data, edited) + _shared(data[::-1], edited[::-1]) >= len(data)
        assert {k: v for k, v in json.loads(edited).items() if k != "memory"} == json.loads(data)


@settings(max_examples=100)
@given(documents(), actor_sets)
def test_where_both_lists_stand_only_the_one_that_changes_is_touched(
    document: tuple[str, str | None, str], actors: set[str]
) -> None:
    before, value, after = document
    if value is None or len(json.loads(value)) < 2:
        return
    data = (before + value + after).encode()
    edited = edit_policy(data, actors, parse_policy(data).kinds).decode()
    start, end = _list_span(value, "trustedActors")
    assert edited.startswith(before + value[:start])
    assert edited.endswith(value[end:] + after)


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes the two have in common at the start."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _list_span(value: str, name: str) -> tuple[int, int]:
    """Where the list of that name begins and ends; no entry of a list holds a bracket."""
    start = value.index("[", value.index(f'"{name}"'))
    return start, value.index("]", start) + 1
