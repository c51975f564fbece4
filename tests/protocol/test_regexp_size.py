"""Validity and sizes of patterns: the reference's answers, more answers of Go's own, and what must cost nothing."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol import regexp
from hn_memory.protocol.regexp import (
    ESTIMATE_FACTOR,
    FOREIGN_SYNTAX,
    MAX_INSTRUCTIONS,
    MAX_PATTERN_BYTES,
    classes,
    judge,
    parse,
    size,
)
from hn_memory.protocol.regexp import parse as parse_function
from hn_memory.protocol.regexp.ast import Node

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors"
PATTERNS = [json.loads(line) for line in (VECTORS / "grep-patterns.jsonl").read_text().splitlines()]


def answer(pattern: str, *, ignore_case: bool = False) -> int | None:
    """The exact size, or None for a pattern that does not parse."""
    try:
        return size.instructions(parse(pattern, ignore_case=ignore_case))
    except HnError:
        return None


def message(pattern: str) -> str:
    with pytest.raises(UsageError) as caught:
        judge(pattern)
    assert caught.value.field == "pattern"
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_every_vector_is_judged_as_the_reference_judges_it() -> None:
    wrong = []
    for vector in PATTERNS:
        found = answer(vector["pattern"], ignore_case=vector["ignoreCase"])
        if found != vector.get("instructions"):
            wrong.append((vector["pattern"], vector["ignoreCase"], vector.get("instructions"), found))
    assert not wrong
    assert {vector["valid"] for vector in PATTERNS} == {True, False}


def test_no_estimate_of_a_vector_is_below_its_size() -> None:
    for vector in PATTERNS:
        if vector["valid"]:
            judged = judge(vector["pattern"], ignore_case=vector["ignoreCase"])
            assert judged.instructions <= judged.estimate <= ESTIMATE_FACTOR * judged.instructions


# What Go 1.27 (`regexp/syntax`, Unicode 17.0.0) makes of patterns that the vectors do not hold.
GO = {
    "(?i:a)x|Ay": 7, "(?:a*)+": 5, "(?:a*)?": 5, "(?:){5}": 7, "(?:){2,}": 4, "(?:)*": 3, "(?:^){1000}": 1002,
    "[^\\x00-\\x{10FFFF}]": 3, "[^\\x00-\\x{10FFFF}]*": 4, "\\P{Any}a": 4, "\\P{Any}|a": 3, "^*": 5, "$+": 4,
    "\\p{Letter}": 3, "\\p{letter}": 3, "\\p{GREEK}": 3, "\\p{old italic}": 3, "\\p{_L}": 3, "\\pl": 3,
    "\\p{LC}": 3, "\\p{L&}": None, "\\p{ascii}": 3, "\\p{Cn}": 3, "\\p{}": None, "\\p^": None, "\\p": None,
    "\\p{^^L}": None, "\\p{Script=Greek}": None, "\\p{Grek}": None, "\\p{N_ko}": 3, "\\p{^ L}": 3, "\\p{ ^L}": None,
    "\\p{\u212aannada}": None, "\\p{": None, "\\p{Sidetic}": 3, "\\p{Beria_Erfe}": 3,
    "(?": None, "(?i": None, "(?-)": None, "(?--i)": None, "(?i-)a": None, "(?P<": None, "(?P<a>": None,
    "(?<>a)": None, "(?#x)": None, "(?imsU-imsU:a)": 3, "(?P<a-b>x)": None, "(?P<n>a)|(?P<n>b)": 9,
    "a|*": None, "(*)": None, "(|*)": None, "a*{2}": None, "a*{2": 6, "a{2}{3}": None, "a{1,2}?": 5,
    "a{1,2}?*": None, "a{01}": 7, "a{1,01}": 9, "a{2,1001}": None, "a{1,99999999999}": None, "a{0,0}": 3,
    "a{0,}": 4, "(?:a{0}){1000}": 1002, "(?:a{1000}){0}": 3, "(?:(?:a{1000}){0}){1000}": 1002,
    "(?:(?:a{1000}){1000}){0}": None, "(?:a{1000}){1}": 1002, "(?:a{1000}){0,1}": 1003,
    "(?:a{500}){3,}": None, "(?:a{0,500}){3}": None, "(?:a{500,}){3}": None,
    "\\Qa": 3, "\\Qab\\E*": 5, "\\Q\\E*": None, "a*\\Q\\E*": 4, "a*(?i)*": 4, "\\E": None, "\\Q\\\\E": 3,
    "[a-": None, "[a-b-c]": 3, "[--a]": 3, "[a-\\d]": None, "[\\d-a]": 3, "[[:a]": 3, "[[:a:]]": None,
    "[[:ALPHA:]]": None, "[:alpha:]": 3, "[[.a.]]": 4, "[\\b]": None, "[\\C]": None,
    "\\x{}": None, "\\x{110000}": None, "\\x{D800}": 3, "\\x{00000000041}": 3, "\\x4g": None, "\\018": 4,
    "\\12": 3, "\\18": None, "\\_": 3, "\\é": None, "a\0b": 5, "[\0]": 3, "-x": 4, "": 3, "\u212a": 3,
    # A class or letter read with `i` is not the one read without it, when alternatives are compared.
    "(\\s-(?i)|\\s-)": 9, "((?:\\d)b(?i)|(?:\\dK))": 9, "([\\s\\S]ß(?i)|[\\s\\S]])": 9,
    # 1,000 levels are allowed, and factoring makes levels, too.
    "(" * 999 + "a" + ")" * 999: 2001, "(" * 1000 + ")" * 1000: None, "(?:" * 1000 + ")" * 1000: 3,
    "a." * 498 + "1|" + "a." * 498 + "2": 999, "a." * 500 + "1|" + "a." * 500 + "2": None,
    # Over 3,355,443 instructions even the parser refuses.
    "(?:" + "a" * 3355 + "){1000}": 3_355_002, "(?:" + "a" * 3356 + "){1000}": None,
    "(?:" + "()" * 1118 + "){1000}": 3_354_002, "(?:" + "()" * 1119 + "){1000}": None,
}  # fmt: skip


@pytest.mark.parametrize("pattern", GO, ids=lambda pattern: repr(pattern[:20]))
def test_go_agrees(pattern: str) -> None:
    assert answer(pattern) == GO[pattern]


def test_names_of_unicode_classes_are_of_version_17() -> None:
    unicode = json.loads((VECTORS / "unicode.json").read_text())
    letters = classes.union(
        found for name in ("L", "N") if (found := classes.unicode_class(name, fold=False, negated=False)) is not None
    )
    assert letters == tuple(edge for pair in unicode["letterOrNumber"] for edge in pair)
    control = tuple(edge for pair in unicode["control"] for edge in pair)
    assert classes.unicode_class("Control", fold=False, negated=False) == control


def test_cased_letters_do_not_grow_with_folding() -> None:
    plain = classes.unicode_class("Cased_Letter", fold=False, negated=False)
    assert plain == classes.unicode_class("LC", fold=True, negated=False)
    assert classes.unicode_class("L", fold=True, negated=False) != classes.unicode_class("L", fold=False, negated=False)


def test_folding_reaches_all_cases() -> None:
    assert classes.orbit(ord("k")) == (ord("K"), ord("k"), 0x212A)
    assert classes.orbit(ord("ß")) == (ord("ß"), ord("ẞ"))
    assert classes.orbit(ord("İ")) == (ord("İ"),)
    assert classes.fold_ranges((ord("r"), ord("s"))) == (
        *(ord("R"), ord("S"), ord("r"), ord("s")),
        *(0x17F, 0x17F),
    )


# --- the words -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("x(abc", "invalid pattern at byte 1: missing closing ): `x(abc`"),
        ("é)", "invalid pattern at byte 2: unexpected ): `é)`"),
        ("a**", "invalid pattern at byte 1: invalid nested repetition operator: `**`"),
        ("a{2}{3}?", "invalid pattern at byte 1: invalid nested repetition operator: `{2}{3}?`"),
        ("日[z-a]", "invalid pattern at byte 4: invalid character class range: `z-a`"),
        ("[[:nope:]]", "invalid pattern at byte 1: invalid character class range: `[:nope:]`"),
        ("\\p{Nope}", "invalid pattern at byte 0: invalid character class range: `\\p{Nope}`"),
        ("a[b", "invalid pattern at byte 1: missing closing ]: `[b`"),
        ("a\\", "invalid pattern at byte 1: trailing backslash at end of expression: `\\`"),
        ("\\C", "invalid pattern at byte 0: invalid escape sequence: `\\C`"),
        ("(?P<a b>x)", "invalid pattern at byte 0: invalid named capture: `(?P<a b>`"),
        ("a(?=b)", "invalid pattern at byte 1: invalid or unsupported Perl syntax: `(?=`"),
        ("ab|*", "invalid pattern at byte 3: missing argument to repetition operator: `*`"),
        ("x{1001}", "invalid pattern at byte 1: invalid repeat count: `{1001}`"),
        ("((x{100}){11})", "invalid pattern at byte 9: invalid repeat count: `{11}`"),
        ("[\nz-\t]", "invalid pattern at byte 2: invalid character class range: `z-\\x{09}`"),
        ("a\ud800", "invalid pattern at byte 1: invalid UTF-8: `\\x{D800}`"),
    ],
)
def test_a_refusal_names_the_place(pattern: str, words: str) -> None:
    assert message(pattern) == words


def test_a_long_pattern_is_cut_in_its_refusal() -> None:
    assert len(message("(" + "a" * 4000)) < 160
    assert "expression nests too deeply" in message("(" * 1001 + ")" * 1001)


@pytest.mark.parametrize("pattern", ["a\ud800", "\udc00", "[\ud800]", "\ud83d\ude00"])
def test_lone_surrogates_are_refused(pattern: str) -> None:
    with pytest.raises(UsageError) as caught:
        judge(pattern)
    assert caught.value.code == "pattern-invalid"


@pytest.mark.parametrize(("start", "name"), FOREIGN_SYNTAX)
def test_foreign_syntax_is_refused(start: str, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        judge(f"a{start}b)")
    assert caught.value.code == "pattern-invalid"
    if not start.endswith(("=", "!")) or start.startswith("(?P") or len(start) == 3:
        assert caught.value.hint is not None
        assert name.split(" (use")[0] in caught.value.hint


# --- limits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("a" * (MAX_PATTERN_BYTES + 1), "pattern-too-large"),
        ("é" * (MAX_PATTERN_BYTES // 2) + "a", "pattern-too-large"),
        ("a" * 4095, "pattern-too-complex"),
        ("(?:x{1000}){1}y{1000}(z{1000})(w{1000})(u{91})", "pattern-too-complex"),
        ("(?:aabbbc*){800}", "pattern-too-complex"),
        ("(?:" + "a" * 3356 + "){1000}", "pattern-too-complex"),
        ("((((a{100}){100}){100}){100})", "pattern-invalid"),
    ],
)
def test_what_is_too_much_is_refused(pattern: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        judge(pattern)
    assert (caught.value.code, caught.value.field) == (code, "pattern")


def test_the_limits_themselves_are_allowed() -> None:
    assert judge("a" * (MAX_INSTRUCTIONS - 2)).instructions == MAX_INSTRUCTIONS
    assert judge("(?:)" * (MAX_PATTERN_BYTES // 4)).instructions == 1026
    assert judge("x{1000}y{1000}(z{1000})(w{1000})(u{88})").instructions == MAX_INSTRUCTIONS


def test_an_estimate_over_the_limit_alone_refuses_nothing() -> None:
    # Each star is estimated at two instructions and is one.
    judged = judge("(?:a*){1000}" + "b*" * 900)
    assert judged.instructions == 2 + 2 * 1000 + 2 * 900
    assert judged.estimate == 2 + 3 * 1000 + 3 * 900 > MAX_INSTRUCTIONS


def test_a_pattern_over_its_estimate_is_never_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "instructions", lambda tree: pytest.fail("measured"))
    with pytest.raises(UsageError, match="estimated at 10002 instructions"):
        judge("(?:" + "a" * 20 + "){500}")


@pytest.mark.parametrize(
    ("pattern", "ends"),
    [
        ("((((a{100}){100}){100}){100})", "refused"),
        ("((((a{10}){10}){10}){1,1})", "fine"),
        ("(?:(?:(?:a?){0,9}){0,9}){0,9}", "fine"),
        ("x{1000}" * 500, "refused"),
        ("(?:" * 500 + "a" + "){1,1}" * 400 + ")" * 100, "fine"),
        ("(?:" * 1000 + "a{1000}" + "){1}" * 250 + ")" * 0, "refused"),
    ],
)
def test_counts_cost_no_work(pattern: str, ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    class Counted(Node):
        def __init__(self, *args: object, **kwargs: object) -> None:
            nonlocal made
            made += 1
            super().__init__(*args, **kwargs)  # type: ignore[arg-type]

    looked_at = 0
    piece = size._piece

    def counted_piece(*args: object) -> object:
        nonlocal looked_at
        looked_at += 1
        return piece(*args)  # type: ignore[arg-type]

    module = __import__(parse_function.__module__, fromlist=["_"])
    monkeypatch.setattr(module, "Node", Counted)
    monkeypatch.setattr(size, "_piece", counted_piece)
    tracemalloc.start()
    try:
        judge(pattern)
        outcome = "fine"
    except HnError:
        outcome = "refused"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert outcome == ends
    # A node or two for each token, and each looked at once for the estimate and once for the size.
    assert made <= 2 * len(pattern)
    assert looked_at <= 2 * 2 * len(pattern)
    assert peak < 1000 * len(pattern) + 100_000


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:" * 1023 + ")" * 1023,
        "(" * 999 + ")" * 999,
        "(" * 4096,
        ")" * 4096,
        "(?:a|" * 800,
        "[" * 4096,
        "a|" * 2048,
        "a." * 1020 + "1|" + "a." * 1020 + "2",
        "(?:a|b" * 585 + ")" * 585,
        "\\pL|\\pN|" * 500,
        "{" * 4096,
        "\\" * 4096,
        "(?i)" * 1024,
    ],
    ids=lambda pattern: repr(pattern[:10]),
)
def test_deep_and_long_patterns_end_without_recursion(pattern: str) -> None:
    try:
        judged = judge(pattern)
    except HnError as error:
        assert error.code.startswith("pattern-")
    else:
        assert judged.instructions <= judged.estimate


def test_the_door_is_small() -> None:
    assert set(regexp.__all__) >= {"judge", "Judgement", "MAX_INSTRUCTIONS", "MAX_PATTERN_BYTES"}
