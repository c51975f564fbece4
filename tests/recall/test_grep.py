"""What is searched, what it weighs, and that looking through many texts at once finds what searching each finds."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hn_memory
from hn_memory import HnError, compile_pattern
from hn_memory.protocol.canonical import encode
from hn_memory.protocol.envelope import Envelope, envelope_document
from hn_memory.protocol.record import Anchor, Applicability, Handoff, PathAnchor, Record, record_document
from hn_memory.protocol.searchable import searchable, take_texts, weigh
from hn_memory.recall import grep as module
from hn_memory.recall.grep import WORK_LIMIT, too_much_work
from hn_memory.recall.pattern import Pattern

# Text that looks like the JSON around it, that JSON escapes, or that has more than one byte a character.
PIECES = [
    "a", "b", "stream", " ", "\n", "\t", '"', "\\", '","anchor":{', '"topics":[', '],"evidence":[', ',"target":"',
    ',"handoff":{"completed":[', '"record":{"kind":"', "<b>", "&", "\u2028", "\x00", "\x7f", "é", "ß", "한", "😀",
]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
lists = st.lists(texts, max_size=3).map(tuple)
records = st.builds(
    Record,
    kind=st.sampled_from(("decision", "handoff")),
    content=texts,
    anchor=st.builds(
        Anchor,
        st.just("1" * 40),
        st.lists(st.builds(PathAnchor, texts, st.just("absent")), max_size=2).map(tuple),
        st.sampled_from((None, "issue:sha256:" + "2" * 64)),
    ),
    applicability=st.builds(Applicability, st.sampled_from(("exact", "subject")), st.sampled_from((None, "x"))),
    topics=lists,
    evidence=lists,
    attempt_outcome=st.sampled_from((None, "failed")),
    handoff=st.none() | st.builds(Handoff, lists, lists, lists, lists),
)


def payload_of(record: Record, target: str | None = None, name: str = "Ada") -> bytes:
    operation = "record" if target is None else "supersede"
    envelope = Envelope(operation, "a", name, "k", "s", 1, "t", previous="p", record=record, target=target)
    return encode(envelope_document(envelope))


@settings(deadline=None)
@given(records, st.sampled_from((None, "sha256:" + "3" * 64)), texts)
def test_texts_are_taken_from_a_payload_as_from_its_json(record: Record, target: str | None, name: str) -> None:
    document = record_document(record)
    found = take_texts(payload_of(record, target, name))
    assert [text.decode() for text in found.texts] == [text for _, text in searchable(document)]
    assert found.size == len(encode(document))
    # Recalled rows sort their evidence, which changes no size.
    assert found.size == len(encode(record_document(record, sort_evidence=True)))
    assert weigh(record) == sum(len(text) + 1 for text in found.texts)


def test_fields_are_named() -> None:
    handoff = Handoff(("done", "and done"), (), ("stuck",), ("go on",))
    record = Record("handoff", "text", Anchor("1" * 40), Applicability("exact"), ("t", "u"), handoff=handoff)
    assert list(searchable(record_document(record))) == [
        ("content", "text"),
        ("topic", "t"),
        ("topic", "u"),
        ("handoff.completed[0]", "done"),
        ("handoff.completed[1]", "and done"),
        ("handoff.blockers[0]", "stuck"),
        ("handoff.nextActions[0]", "go on"),
    ]


@pytest.mark.parametrize("payload", [b"", b"{}", b'{"operation":"retract"}', b'{"record":{"kind":"decision"}}'])
def test_what_holds_no_record_is_no_payload(payload: bytes) -> None:
    with pytest.raises(ValueError):
        take_texts(payload)
    with pytest.raises(HnError) as caught:
        list(module._search(compile_pattern("a"), [(1, payload)]))
    assert caught.value.code == "index-corrupt"


# --- many texts at once ----------------------------------------------------------------------------------------

ATOMS = ["a", "b", "é", "한", ".", "(?s:.)", "[^a]", "\\W", "\\pL", "\\n", "^", "$", "(?m:^)", "(?m:$)", "\\A", "\\z"]
ATOMS += ["\\b", "\\B", "", "\\xFF", "[^\\n]", "\\PL"]
SUFFIXES = ["", "", "", "*", "+", "?", "{0}", "{2}"]


def patterns(pick: random.Random, depth: int = 2) -> str:
    if depth == 0:
        atom = pick.choice(ATOMS)
        return f"(?:{atom}){pick.choice(SUFFIXES)}"
    parts = [patterns(pick, depth - 1) for _ in range(pick.randint(1, 3))]
    return f"(?:{pick.choice(('', '|')).join(parts)}){pick.choice(SUFFIXES)}"


def naive(pattern: Pattern, groups: list[list[bytes]]) -> list[int]:
    return [at for at, group in enumerate(groups) if any(pattern.search(text.decode()) for text in group)]


def sift(pattern: Pattern, groups: list[list[bytes]]) -> list[int]:
    found = list(pattern.sift([pattern.haystack(group) for group in groups], groups.__getitem__))
    # Anything in ASCII with the texts in it will do for a haystack.
    plain = [b'{"' + b'","'.join(group) + b'"}' for group in groups]
    if all(haystack.isascii() for haystack in plain):
        assert list(pattern.sift(plain, groups.__getitem__)) == found
    return found


def test_sifting_is_searching_each_text_alone() -> None:
    pick = random.Random(41)
    letters = ["a", "a", "b", "\n", " ", "é", "ÿ", "한", "_", ""]
    found = 0
    for _ in range(1000):
        pattern = compile_pattern(patterns(pick), ignore_case=pick.random() < 0.2)
        groups = [
            ["".join(pick.choices(letters, k=pick.randint(0, 4))).encode() for _ in range(pick.randint(0, 4))]
            for _ in range(pick.randint(0, 6))
        ]
        expected = naive(pattern, groups)
        assert sift(pattern, groups) == expected, (pattern.pattern, groups)
        found += len(expected)
    assert found > 700


def test_more_kinds_than_leave_room_for_a_separator_are_searched_one_by_one() -> None:
    for kinds in (126, 127, 128, 400):
        letters = [chr(0x4E00 + 5 * number) for number in range(kinds)]
        pattern = compile_pattern("|".join(f"{letter}x" for letter in letters) + "|ÿ$|^z.")
        groups = [
            [f"{letters[-1]}x".encode()],
            [b"a", "aÿ".encode()],
            [b"zz"],
            [b"az"],
            [letters[0].encode(), b"x"],
            [],
        ]
        assert sift(pattern, groups) == naive(pattern, groups) == [0, 1, 2]


def test_nothing_matches_across_texts() -> None:
    groups = [[b"ab", b"cd"], [b"ab\ncd"]]
    for pattern, expected in (("b(?s:.)?c", [1]), ("b\\n?c", [1]), ("b[^x]*c", [1]), ("^cd", [0]), ("ab$", [0])):
        assert sift(compile_pattern(pattern), groups) == expected, pattern


def test_preparing_a_pattern_compiles_all_that_searching_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = compile_pattern("(?m)^a\\b")
    pattern.prepare()
    calls: list[Any] = []
    monkeypatch.setattr(type(pattern._matcher), "_compile", lambda *given: calls.append(given))
    assert sift(pattern, [[b"b a"], [b"b\na"]]) == [1]
    assert not calls


# --- the limit -------------------------------------------------------------------------------------------------


def test_the_refusal_says_the_numbers_and_what_to_narrow() -> None:
    assert WORK_LIMIT == 67_108_864
    error = too_much_work(23, 3_601_029, 6_998)
    assert error.code == "work-limit"
    for number in ("23", "3601029", "6998", str(23 * 3_601_029), str(WORK_LIMIT)):
        assert number in error.message
    assert error.hint is not None
    assert str(WORK_LIMIT // 23) in error.hint and "--topic" in error.hint and "at most 18 instructions" in error.hint
    hopeless = too_much_work(3, WORK_LIMIT, 9)
    assert hopeless.hint is not None and "instructions" not in hopeless.hint


def test_patterns_are_public() -> None:
    assert "compile_pattern" in hn_memory.__all__
    compiled = hn_memory.compile_pattern("stream[-_ ]isolat.*", ignore_case=True)
    assert compiled.search("STREAM_ISOLATION")
    assert compiled.instructions <= compiled.estimate
    with pytest.raises(HnError):
        hn_memory.compile_pattern("(")
