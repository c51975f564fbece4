"""Author text on a terminal: nothing acts, hides or passes for our own lines; honest writing stays as it is."""

from __future__ import annotations

import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

import hn_memory
from hn_memory.cli.text import gutter, one_line, safe, style

FAMILY = "👩\u200d👩\u200d👧"
RAINBOW = "🏳\ufe0f\u200d🌈"
SCOTLAND = "🏴" + "".join(chr(0xE0000 + ord(c)) for c in "gbsct") + "\U000e007f"

# What Unicode has of the kinds that the module promises to show, by the tables of a second library.
SUSPECT = regex.compile(r"[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Noncharacter_Code_Point}\p{Default_Ignorable_Code_Point}]")
VISIBLE_NUMBER_SIGNS = regex.compile(r"\p{Prepended_Concatenation_Mark}")

# Text rich in what matters here; plain st.text() hardly ever meets it.
spiced = st.lists(
    st.one_of(
        st.characters(),
        st.sampled_from([FAMILY, RAINBOW, SCOTLAND]),
        st.sampled_from("\u200d\u200c\ufe0f🏴\U000e0067👍\U0001f3fdक\u094d\u17b5\u180b\u1820م1\u20e3漢"),
        st.sampled_from(["\u202e", "\x1b[2K", "\r", "\n", "\t", "\ud800"]),
    ),
    max_size=12,
).map("".join)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "\\u{1b}[31mred\\u{1b}[0m"),
        ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
        ("over\rwritten", "over\\u{d}written"),
        ("a\r\nb", "a\\u{d}\nb"),
        ("a\x08b\x7f\x00", "a\\u{8}b\\u{7f}\\u{0}"),
        ("\x9b31m\x85", "\\u{9b}31m\\u{85}"),
        ("user\u202etxt.exe\u202c", "user\\u{202e}txt.exe\\u{202c}"),
        ("\u2066a\u2069\u200e\u200f\u061c", "\\u{2066}a\\u{2069}\\u{200e}\\u{200f}\\u{61c}"),
        ("pass\u200bword\ufeff\u00ad", "pass\\u{200b}word\\u{feff}\\u{ad}"),
        ("a\u200db", "a\\u{200d}b"),
        ("a\u200cb", "a\\u{200c}b"),
        ("a\u2028b\u2029c", "a\\u{2028}b\\u{2029}c"),
        ("\ufff9a\ufffab\ufffb", "\\u{fff9}a\\u{fffa}b\\u{fffb}"),
        ("hi\U000e0068\U000e0069", "hi\\u{e0068}\\u{e0069}"),
        ("\ud83d\udcff", "\\u{d83d}\\u{dcff}"),
        ("\ufdd0\uffff\U0010fffe", "\\u{fdd0}\\u{ffff}\\u{10fffe}"),
        ("a\ufe0fb", "a\\u{fe0f}b"),
        ("a\ufe00\U000e0100", "a\\u{fe00}\\u{e0100}"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\u{fe0f}"),
        ("1\ufe0f2", "1\\u{fe0f}2"),
        ("👩\u200da", "👩\\u{200d}a"),
        ("👩\u200d\u200d👧", "👩\\u{200d}\\u{200d}👧"),
        ("\u200d👧", "\\u{200d}👧"),
        ("🏴\U000e0067\U000e0062", "🏴\\u{e0067}\\u{e0062}"),
        (
            "🏴\U000e0075\U000e0073\U000e0063\U000e0061\U000e007f",
            "🏴\\u{e0075}\\u{e0073}\\u{e0063}\\u{e0061}\\u{e007f}",
        ),
        ("\u3164\u115f\u1160\uffa0", "\\u{3164}\\u{115f}\\u{1160}\\u{ffa0}"),
    ],
)
def test_what_acts_or_hides_is_shown(text: str, shown: str) -> None:
    assert safe(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain ASCII, with\ttab\nand newline",
        "Zoë — “quoted” … 漢字 한국어 ελληνικά עברית العربية",
        FAMILY,
        RAINBOW,
        SCOTLAND,
        "❤\ufe0f and ☎\ufe0e",
        "1\ufe0f\u20e3 #\ufe0f\u20e3",
        "👍🏽 👩🏽\u200d💻 🏃🏽\u200d♀\ufe0f 🇩🇪",
        "می\u200cخواهم",  # Persian
        "क\u094d\u200dष ক\u09cd\u200d",  # Hindi, and a Bengali virama at the end of a word
        "ශ\u0dca\u200dරී",  # Sinhala
        "\u1820\u180b\u1821",  # Mongolian
        "\u0600\u0661 \u06dd",  # Arabic number sign, end of ayah
        "\\u{202e} as an author may write it",
    ],
)
def test_honest_writing_stays(text: str) -> None:
    assert safe(text) == text


def test_every_character_of_the_promised_kinds_is_shown_when_it_stands_alone() -> None:
    for code in range(0x110000):
        character = chr(code)
        expected = (
            SUSPECT.match(character) is not None
            and VISIBLE_NUMBER_SIGNS.match(character) is None
            and character not in "\n\t"
        )
        assert (safe(character) != character) == expected, hex(code)
        # A newer interpreter may know more of them than the library does.
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character not in "\n\t":
            assert safe(character) == f"\\u{{{code:x}}}"


@settings(deadline=None)
@given(spiced)
def test_the_result_is_safe_for_good(text: str) -> None:
    shown = safe(text)
    shown.encode()
    assert safe(shown) == shown
    assert shown.count("\n") == text.count("\n")
    kept = [c for c in shown if SUSPECT.match(c) and not VISIBLE_NUMBER_SIGNS.match(c) and c not in "\n\t"]
    allowed = {"\u200c", "\u200d", "\ufe0e", "\ufe0f", "\U000e007f"}
    assert all(c in allowed or "\u180b" <= c <= "\u180f" or "\U000e0061" <= c <= "\U000e007a" for c in kept)


@settings(deadline=None)
@given(spiced)
def test_nothing_is_lost(text: str) -> None:
    """Undoing the escapes gives the text again, unless it held something like an escape itself."""
    if "\\u{" not in text:
        assert regex.sub(r"\\u\{([0-9a-f]+)\}", lambda m: chr(int(m[1], 16)), safe(text)) == text


@settings(deadline=None)
@given(spiced, st.integers(-1, 12))
def test_one_line_keeps_to_its_width(text: str, width: int) -> None:
    line = one_line(text, width)
    assert "\n" not in line
    assert "\t" not in line
    assert len(regex.findall(r"\X", line)) <= max(width, 0)
    if width > 0 and text:
        assert line
    line.encode()


@pytest.mark.parametrize(
    ("text", "width", "line"),
    [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
        ("", 5, ""),
        ("a\nb\tc", 7, "a\\nb\\tc"),
        ("a\nb\tc", 6, "a\\nb…"),
        ("a\nb\tc", 3, "a…"),
        ("ab\x1bcd", 7, "ab…"),
        ("ab\x1bcd", 10, "ab\\u{1b}cd"),
        ("Zoë — ×", 4, "Zoë…"),
        ("Zoe\u0308!!", 4, "Zoe\u0308…"),
        ("Zoe\u0308!", 4, "Zoe\u0308!"),
        ("漢字漢字", 5, "漢字…"),
        ("漢字漢字", 4, "漢…"),
        ("漢字漢字", 8, "漢字漢字"),
        ("🇩🇪🇫🇷", 3, "🇩🇪…"),
        (FAMILY + "xy", 3, FAMILY + "…"),
        (FAMILY + "x", 3, FAMILY + "x"),
        (RAINBOW + SCOTLAND, 4, RAINBOW + SCOTLAND),
        ("❤\ufe0f❤\ufe0f", 3, "❤\ufe0f…"),
    ],
)
def test_one_line_is_cut_between_graphemes(text: str, width: int, line: str) -> None:
    assert one_line(text, width) == line


@settings(deadline=None)
@given(spiced)
def test_every_line_has_the_mark(text: str) -> None:
    lines = gutter(text).split("\n")
    assert len(lines) == text.count("\n") + 1
    assert all(line.startswith("  | ") or line == "  |" for line in lines)


def test_no_record_can_imitate_our_lines() -> None:
    forged = "fine\n\nverified: yes\r\x1b[1Averified: yes\u2028verified: yes\x85verified: yes"
    assert gutter(forged) == (
        "  | fine\n  |\n  | verified: yes\\u{d}\\u{1b}[1Averified: yes\\u{2028}verified: yes\\u{85}verified: yes"
    )
    assert gutter("a\nb", "> ") == "> a\n> b"


def test_style_is_colour_only_when_enabled() -> None:
    assert style("x", "bad", False) == "x"
    styled = style("x", "bad", True)
    assert styled.startswith("\x1b[")
    assert styled.endswith("\x1b[0m")
    for name in ("heading", "id", "good", "warning", "quiet"):
        assert "x" in style("x", name, True)
    with pytest.raises(KeyError):
        style("x", "blink", False)


@pytest.mark.parametrize(
    "unit", ["\x00", "\u202e", "👩\u200d", "\u200d", "1\ufe0f", "🏴\U000e0067", "\u0301", "é", "漢"]
)
def test_64_kib_of_anything_takes_no_time(unit: str) -> None:
    text = unit * (65_536 // len(unit.encode()))
    start = time.process_time()
    safe(text)
    one_line(text, 80)
    assert time.process_time() - start < 2


def test_plain_text_loads_nothing() -> None:
    code = (
        "import sys\n"
        "from hn_memory.cli.text import gutter, one_line, safe\n"
        "before = set(sys.modules)\n"
        "safe('plain\\ttext\\n'), gutter('a\\nb'), one_line('abc', 80)\n"
        "assert 'regex' not in sys.modules and 'unicodedata' not in sys.modules\n"
        "assert set(sys.modules) == before, set(sys.modules) - before\n"
        "one_line('Zoë — ×' * 30, 20), safe('a\\x1b')\n"
        "assert 'regex' not in sys.modules\n"
    )
    path = str(Path(hn_memory.__file__).parents[1])
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": path})
