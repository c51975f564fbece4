"""Matching: the reference's answers, RE2's opinion of random patterns, and the texts that are odd."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import re2  # type: ignore[import-untyped, import-not-found, unused-ignore]

from hn_memory.errors import HnError, UsageError
from hn_memory.protocol.regexp import ESTIMATE_FACTOR, MAX_INSTRUCTIONS
from hn_memory.recall import pattern as module
from hn_memory.recall.pattern import MAX_SPANS, UNSUPPORTED, Pattern, compile_pattern

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors"
PATTERNS = [json.loads(line) for line in (VECTORS / "grep-patterns.jsonl").read_text().splitlines()]
SUBJECTS: list[str] = json.loads((VECTORS / "grep-subjects.json").read_text())

FUZZED = 10_000


def test_every_vector_matches_as_the_reference_says() -> None:
    wrong = []
    for vector in PATTERNS:
        if not vector["valid"]:
            continue
        compiled = compile_pattern(vector["pattern"], ignore_case=vector["ignoreCase"])
        found = "".join(str(int(compiled.search(subject))) for subject in SUBJECTS)
        if found != vector["matches"]:
            wrong.append((vector["pattern"], vector["ignoreCase"], vector["matches"], found))
    assert not wrong


# --- random patterns -------------------------------------------------------------------------------------------

ATOMS = [
    *(
        "a",
        "b",
        "A",
        "k",
        "1",
        "-",
        " ",
        "x",
        "_",
        ".",
        "^",
        "$",
        "é",
        "Σ",
        "ß",
        "日",
        "😀",
        "ſ",
        "\u212a",
        ",",
        "}",
        "]",
    ),
    *(
        "\\d",
        "\\D",
        "\\s",
        "\\W",
        "\\w",
        "\\b",
        "\\B",
        "\\A",
        "\\z",
        "\\n",
        "\\.",
        "\\x41",
        "\\x{1F600}",
        "\\07",
        "\\pL",
    ),
    *(
        "\\PN",
        "\\p{Greek}",
        "\\p{^Lu}",
        "\\Qa.b\\E",
        "[ab]",
        "[^a]",
        "[aA]",
        "[a-z]",
        "[^\\n]",
        "[\\s\\S]",
        "[^\\s\\S]",
    ),
    *(
        "[[:alpha:]]",
        "[[:^digit:]x]",
        "[]a-]",
        "()",
        "(?:)",
        "(?i)",
        "(?s)",
        "(?m)",
        "(?U)",
        "(?-i)",
        "(?i:k)",
        "(?s:.)",
    ),
]
OPERATORS = [
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{0}",
    "{1}",
    "{0,1}",
    "{2,}",
    "{1,}",
    "{0,}",
    "{1,3}",
    "{2,3}?",
    "{12}",
]
GROUPS = ["(%s)", "(?:%s)", "(?i:%s)", "(?s-m:%s)", "(?U:%s)", "(?P<name>%s)", "(?<other>%s)", "(?m:%s)"]
PIECES = [
    *"ab(|)*+?{}[]^$.\\-:,019iPpQExsSdDwWBzAk<>=!é",
    *("(?", "(?:", "(?i", "\\x{", "[[:", "[:alpha:]", ":]", "\\p{", "(?P<", "{1,2}", "\\Q", "\\E", "[^", "Greek}"),
]
WORDS = ["me", "mo", "da", "re", "[ab]", ".", "x{2}", "[ab]{2}", "(?i:m)", "a*", "(x)", "\\d{3}", "k", "[kK]", ""]
LETTERS = "abAkK1 \n-x_éßΣσς日😀sſ\u212a.,"


def tree(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth <= 0 or kind < 0.3:
        return rng.choice(ATOMS)
    if kind < 0.55:
        return "".join(tree(rng, depth - 1) for _ in range(rng.randint(1, 4)))
    if kind < 0.75:
        prefix = tree(rng, depth - 2) if rng.random() < 0.5 else ""
        return rng.choice(GROUPS) % "|".join(prefix + tree(rng, depth - 1) for _ in range(rng.randint(2, 5)))
    return rng.choice(GROUPS) % tree(rng, depth - 1) + (rng.choice(OPERATORS) if kind < 0.9 else "")


def alternatives(rng: random.Random) -> str:
    words = ["".join(rng.choice(WORDS) for _ in range(rng.randint(0, 4))) for _ in range(rng.randint(2, 7))]
    return rng.choice(["%s", "(?:%s)", "(?i)%s"]) % "|".join(words)


def soup(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 12)))


def random_patterns() -> list[str]:
    rng = random.Random(20261101)
    makers: list[Any] = [lambda r: tree(r, 3), lambda r: tree(r, 4), alternatives, soup]
    out = []
    for number in range(FUZZED):
        pattern = makers[number % len(makers)](rng)
        if rng.random() < 0.1:
            cut = rng.randint(0, len(pattern))
            pattern = pattern[:cut] + rng.choice(PIECES) + pattern[cut:]
        out.append(pattern)
    return out


def plain_re2(pattern: str) -> Any:
    """RE2 given the pattern as it is written, or its error."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 256 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        return error


def only_we_know_the_name(error: re2.error) -> bool:
    """Whether RE2 refused a `\\p{...}` for which it has only another spelling, or none."""
    words = str(error).lower()
    return "invalid character class range: " in words and "\\p" in words


def inside_a_character(pattern: str, span: tuple[int, int], text: str) -> bool:
    """Whether RE2 may have found `\\B` between the bytes of a character, where Go has no place to look."""
    return "\\B" in pattern and span[0] == span[1] and not text.isascii()


def test_random_patterns_are_judged_as_re2_judges_them() -> None:
    rng = random.Random(7)
    wrong: list[object] = []
    valid = 0
    for pattern in random_patterns():
        theirs = plain_re2(pattern)
        try:
            ours = compile_pattern(pattern)
        except HnError as error:
            # RE2 has a syntax for a single byte, which Go has not, and no such limit.
            known = "\\C" in pattern or error.code == "pattern-too-complex"
            if not isinstance(theirs, re2.error) and not known:
                wrong.append((pattern, "only RE2 accepts it", str(error)))
            continue
        if isinstance(theirs, re2.error):
            if not only_we_know_the_name(theirs):
                wrong.append((pattern, "only RE2 refuses it", str(theirs)))
            continue
        valid += 1
        if not ours.instructions <= ours.estimate <= ESTIMATE_FACTOR * ours.instructions:
            wrong.append((pattern, "estimate", ours.instructions, ours.estimate))
        text = "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 12)))
        match = theirs.search(text)
        if match is not None and inside_a_character(pattern, match.span(), text):
            continue
        expected = [] if match is None else [match.span()]
        found = ours.spans(text, limit=1)
        if found != expected:
            wrong.append((pattern, text, expected, found))
    assert not wrong, wrong[:10]
    assert valid > FUZZED // 2


# --- the meaning of patterns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text", "spans"),
    [
        ("", "", [(0, 0)]),
        ("", "ab", [(0, 0), (1, 1), (2, 2)]),
        ("a*", "baac", [(0, 0), (1, 3), (4, 4)]),
        ("a|ab", "abab", [(0, 1), (2, 3)]),
        ("^.$", "a\n", []),
        ("^a$", "a\n", []),
        ("(?m)^.$", "a\nb", [(0, 1), (2, 3)]),
        (".", "\n", []),
        ("(?s).", "\n", [(0, 1)]),
        ("[^a]", "\n", [(0, 1)]),
        ("-x", "a -x", [(2, 4)]),
        ("a\0b", "xa\0b", [(1, 4)]),
        ("\\x00", "a\0", [(1, 2)]),
        ("[^\\0]", "\0\0c", [(2, 3)]),
        ("é", "aéé日é", [(1, 2), (2, 3), (4, 5)]),
        ("\\b", "éa", [(1, 1), (2, 2)]),
        ("(?i)k", "kK\u212a", [(0, 1), (1, 2), (2, 3)]),
        ("(?i)straße", "STRAẞE", [(0, 6)]),
        ("(?i)straße", "strasse", []),
        ("(?i)i", "İıI", [(2, 3)]),
        ("(?i)σ", "ΣΑς", [(0, 1), (2, 3)]),
        ("\\W", "é_", [(0, 1)]),
        ("[^\\s\\S]|b", "ab", [(1, 2)]),
        ("(?:b|)+?c", "bbc", [(0, 3)]),
        ("\\x{D800}", "a", []),
        ("(?P<n>a)(?P<n>b)", "ab", [(0, 2)]),
    ],
)
def test_what_patterns_mean(pattern: str, text: str, spans: list[tuple[int, int]]) -> None:
    compiled = compile_pattern(pattern)
    assert compiled.spans(text) == spans
    assert compiled.search(text) is bool(spans)


def test_ignore_case_is_the_flag_over_all_alternatives() -> None:
    compiled = compile_pattern("foo|bar", ignore_case=True)
    assert compiled.spans("BAR FoO") == [(0, 3), (4, 7)]
    assert compile_pattern("(?-i)foo", ignore_case=True).spans("FOO foo") == [(4, 7)]


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        # Names that RE2 does not know, and letters of Unicode 16 and 17 that its tables may lack.
        ("\\p{Letter}", "é", True),
        ("\\p{uppercase letter}", "é", False),
        ("\\p{greek}", "σ", True),
        ("\\p{Cn}", "\u0378", True),
        ("\\p{Cn}", "a", False),
        ("\\pC", "\u0378", True),
        ("\\p{LC}", "ª", False),
        ("\\p{Assigned}", "\u0378", False),
        ("\\p{Beria_Erfe}", "\U00016ea0", True),
        ("\\p{Garay}", "\U00010d50", True),
        ("\\p{Sidetic}", "a", False),
        ("(?i)\U00010d50", "\U00010d70", True),
        ("(?i)\U00016ea0", "\U00016ebb", True),
        ("(?i)\\p{Lu}", "a", True),
        ("(?i)[^\\p{Lu}]", "a", False),
    ],
)
def test_unicode_is_ours_not_re2s(pattern: str, text: str, matches: bool) -> None:
    assert compile_pattern(pattern).search(text) is matches


def test_a_text_with_lone_surrogates_does_no_harm() -> None:
    assert compile_pattern("b.").spans("a\ud800b\udfff") == [(2, 4)]
    assert compile_pattern("\\p{Cs}").spans("a\ud800") == [(1, 2)]


def test_more_kinds_of_characters_than_a_byte_holds() -> None:
    letters = [chr(0x4E00 + 5 * number) for number in range(400)]
    compiled = compile_pattern("".join(letters) + "|(?:[" + "".join(letters[::2]) + "]+)é*")
    assert compiled.spans("ab" + "".join(letters)) == [(2, 402)]
    assert compiled.spans("日" + letters[0] + letters[2] + "é!" + letters[4]) == [(1, 4), (5, 6)]
    assert compile_pattern("|".join(letters) + "|").spans("x" + letters[7] + "y") == [(0, 0), (1, 2), (3, 3)]


def test_no_boundary_lies_inside_a_character() -> None:
    assert compile_pattern("\\B").spans("aé日") == [(2, 2), (3, 3)]
    letters = "".join(chr(0x4E00 + 5 * number) for number in range(400))
    assert compile_pattern("\\B|" + letters).spans("aé日b") == [(2, 2)]


def test_spans_are_bounded() -> None:
    compiled = compile_pattern(".")
    assert len(compiled.spans("a" * 1000)) == MAX_SPANS
    assert compiled.spans("a" * 1000, limit=2) == [(0, 1), (1, 2)]


# --- cost ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 65_536),
        ("(a*)*b", "a" * 65_536),
        ("(?:\\pL{1000}){1}" + "\\pL{1000}" * 3, "é" * 4_000),
        ("[\\pL\\p{Cn}]{1000}" * 4, "é" * 4_000),
        ("[01]*1[01]{1000}[01]{1000}[01]{1000}x", "0110100110010110" * 500),
    ],
)
def test_no_legal_pattern_is_too_much_for_re2(pattern: str, text: str) -> None:
    # Unreduced, RE2 needs over a million instructions and seconds for each thousand of \pL.
    compiled = compile_pattern(pattern)
    compiled.search(text)
    assert program_size(compiled) <= 4 * compiled.instructions


def test_classes_that_cut_each_other_up_stay_within_the_memory() -> None:
    letters = [chr(0x4E00 + 7 * number) for number in range(1200)]
    counted = "".join("[" + "".join(letters[n::7][:90]) + "]{990}" for n in range(4))
    compiled = compile_pattern(counted + "".join(letters[:80]))
    assert compiled.instructions <= MAX_INSTRUCTIONS
    compiled.search("".join(letters) * 3)
    assert program_size(compiled) < 200_000


def program_size(compiled: Pattern) -> int:
    return int(compiled._matcher.program.programsize)


def test_compiling_loads_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    compiled = compile_pattern("a+")
    assert (compiled.pattern, compiled.ignore_case, compiled.instructions) == ("a+", False, 4)
    with pytest.raises(ImportError):
        compiled.search("a")


def test_what_re2_cannot_compile_is_refused_as_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_MEMORY", 1 << 12)
    with pytest.raises(UsageError) as caught:
        compile_pattern("a{1000}").search("a")
    assert (caught.value.code, caught.value.field) == ("pattern-unsupported", "pattern")
    assert "\n" not in str(caught.value)


def test_nothing_valid_is_unsupported() -> None:
    assert UNSUPPORTED == ()
