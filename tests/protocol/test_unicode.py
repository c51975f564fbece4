"""Letters, numbers, white space, controls and lowercase are those of Unicode 17.0.0, as given in the vectors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hn_memory.protocol.unicode import WHITE_SPACE, find_control, is_blank, lower, terms, trim

VECTOR = Path(__file__).parents[2] / "fixtures" / "vectors" / "unicode.json"
TABLES = json.loads(VECTOR.read_bytes())
LOWER = dict(TABLES["simpleLowercase"])


def members(name: str) -> set[int]:
    return {point for first, last in TABLES[name] for point in range(first, last + 1)}


LETTERS = members("letterOrNumber")


def points() -> Iterator[int]:
    """Every code point that a text can hold."""
    yield from range(0xD800)
    yield from range(0xE000, 0x110000)


def test_the_package_ships_the_vector() -> None:
    assert files("hn_memory.protocol").joinpath("unicode.json").read_bytes() == VECTOR.read_bytes()
    assert TABLES["unicode"] == "17.0.0"


def test_white_space() -> None:
    assert {ord(character) for character in WHITE_SPACE} == members("whiteSpace")
    assert len(WHITE_SPACE) == len(set(WHITE_SPACE))
    for point in points():
        assert is_blank(chr(point)) == (chr(point) in WHITE_SPACE)
    assert not is_blank("\x1c") and not is_blank("\u200b") and not is_blank("\ufeff")
    assert is_blank("") and is_blank("\x85\xa0\u3000")


def test_controls() -> None:
    controls = members("control")
    assert {point for point in points() if find_control(chr(point)) is not None} == controls
    assert find_control("ab\x7fc\x00") == 2


def test_lowercase_is_one_to_one_and_settles_at_once() -> None:
    for point in points():
        result = lower(chr(point))
        assert result == chr(LOWER.get(point, point))
        # A topic must equal its own lowercase, so what is lower must stay so.
        assert lower(result) == result
    everything = "".join(map(chr, points()))
    assert lower(everything) == "".join(chr(LOWER.get(point, point)) for point in points())


def test_terms_are_made_of_letters_and_numbers_alone() -> None:
    expected = [chr(LOWER.get(point, point)) for point in points() if point in LETTERS]
    # A combining mark splits, so every letter comes back alone.
    assert terms("\u0301".join(map(chr, points()))) == expected
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    assert terms("".join(map(chr, range(128)))) == ["0123456789", alphabet, alphabet]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" - _ \x00", []),
        ("Stream-Isolation x86_64", ["stream", "isolation", "x86", "64"]),
        ("a a A", ["a", "a", "a"]),
        ("naïve nai\u0308ve", ["naïve", "nai", "ve"]),
        ("Straße STRASSE", ["straße", "strasse"]),
        ("ΣΑΣ σας", ["σασ", "σας"]),
        ("İstanbul", ["istanbul"]),
        ("日本語、テスト", ["日本語", "テスト"]),
        ("½ ² Ⅷ", ["½", "²", "ⅷ"]),
        ("\U00010400", ["\U00010428"]),
    ],
)
def test_terms_by_example(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


@given(st.text())
def test_terms_follow_the_definition(text: str) -> None:
    runs, run = [], ""
    for character in text + " ":
        if ord(character) in LETTERS:
            run += chr(LOWER.get(ord(character), ord(character)))
        elif run:
            runs.append(run)
            run = ""
    assert terms(text) == runs


@given(st.text(st.sampled_from(WHITE_SPACE + "ab\x1c\x1f\u200b\ufeff\u180e")))
def test_trimming_takes_white_space_and_nothing_else(text: str) -> None:
    trimmed = trim(text)
    at = text.find(trimmed)
    assert all(character in WHITE_SPACE for character in text[:at] + text[at + len(trimmed) :])
    assert trim(trimmed) == trimmed
    assert is_blank(text) == (trimmed == "")
