"""Text of authors on a terminal: nothing in it may act, hide, or pass for a line of ours.

`safe` shows every character that a terminal obeys or a reader cannot see as `\\u{202e}`:

1. controls (C0 without newline and tab, DEL, C1), so no escape sequence and no carriage return;
2. bidirectional controls and marks;
3. format and invisible characters: zero-width ones, soft hyphens, tags, interlinear annotations, variation
   selectors, fillers, and code points that Unicode keeps for such;
4. line and paragraph separators, lone surrogates, noncharacters.

What honest writing needs stays: joiners in the scripts that use them and in emoji, the two presentation
selectors after an emoji, Mongolian selectors after Mongolian letters, the flags of England, Scotland and
Wales, and the visible number signs of Arabic, Syriac and Kaithi although Unicode calls them format characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any, Final

_ELLIPSIS: Final = "…"

# First and last code point of what `safe` looks at, 1 to 4 above. A test holds this against the categories
# of the `regex` package; it is spelled out because loading that takes longer than most commands do.
_SUSPECT: Final = (
    (0x00, 0x08), (0x0B, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160),
    (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F), (0x2028, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164),
    (0xD800, 0xDFFF), (0xFDD0, 0xFDEF), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB),
    *((plane << 16 | 0xFFFE, plane << 16 | 0xFFFF) for plane in range(17)),
    (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)  # fmt: skip

_ZWNJ: Final = "\u200c"
_ZWJ: Final = "\u200d"
_KEYCAP: Final = "\u20e3"
_VIRAMA: Final = 9  # the canonical combining class of viramas

# Blocks of scripts whose spelling uses joiners between letters: Arabic, Syriac, Thaana, N'Ko, Mandaic; the
# Indic blocks from Devanagari to Sinhala; Tibetan, Myanmar; Khmer, Mongolian; Balinese; Arabic forms;
# Manichaean, Rohingya, Adlam and the Indic scripts of plane 1.
_JOINING: Final = (
    (0x0600, 0x08FF), (0x0900, 0x0DFF), (0x0F00, 0x109F), (0x1780, 0x18AF), (0x1B00, 0x1B7F), (0xA840, 0xA87F),
    (0xA8E0, 0xA8FF), (0xA980, 0xA9DF), (0xAA60, 0xAA7F), (0x10AC0, 0x10AFF), (0x10D00, 0x10D3F),
    (0x11000, 0x1193F), (0x1E900, 0x1E95F),
)  # fmt: skip
_MONGOLIAN: Final = ((0x1820, 0x18AA),)

# The only tag sequences that Unicode recommends for interchange: England, Scotland, Wales.
_BLACK_FLAG: Final = "\U0001f3f4"
_TAG_FLAGS: Final = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f" for region in ("gbeng", "gbsct", "gbwls")
)

_STYLES: Final[dict[str, dict[str, bool | str]]] = {
    "heading": {"bold": True},
    "id": {"fg": "yellow"},
    "good": {"fg": "green"},
    "warning": {"fg": "yellow", "bold": True},
    "bad": {"fg": "red", "bold": True},
    "quiet": {"dim": True},
    "match": {"fg": "red", "bold": True},
}


def safe(text: str) -> str:
    """The text with what the module's rules name made visible; newlines and tabs stay.

    The result has a UTF-8 form whatever the input was. Doing it twice changes nothing more.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    pattern = _suspects()
    first = pattern.search(text)
    if first is None:
        return text
    return "".join(_pieces(text, pattern))


def one_line(text: str, width: int) -> str:
    """Author text on one line of at most `width` terminal cells, cut with an ellipsis at a grapheme.

    Newlines and tabs become `\\n` and `\\t`. Escapes are kept whole or left out.
    """
    line = safe(text).replace("\n", "\\n").replace("\t", "\\t")
    if width <= 0:
        return ""
    plain = line.isascii() or _plain().fullmatch(line) is not None
    if plain and len(line) <= width:
        return line
    kept: list[str] = []
    # Where to cut if the rest turns out not to fit: the last place that leaves a cell for the ellipsis.
    cells, cut = 0, 0
    for unit in _units(line, plain):
        # A mark with nothing to stand on is drawn all the same.
        cells += len(unit) if plain else max(1, _cells(unit))
        if cells > width:
            return "".join(kept[:cut]) + _ELLIPSIS
        kept.append(unit)
        if cells < width:
            cut = len(kept)
    return line


def gutter(text: str, mark: str = "  | ") -> str:
    """Author text, made safe, with a mark before every line, so that none can pass for a line of ours.

    The result has no newline at its end; a text that ends in newlines keeps them as marked empty lines.
    """
    bare = mark.rstrip(" ")
    return "\n".join(mark + line if line else bare for line in safe(text).split("\n"))


def style(text: str, name: str, enabled: bool) -> str:
    """Our own words, or safe text, in colour: `heading`, `id`, `good`, `warning`, `bad`, `quiet` or `match`.

    Raises:
        KeyError: there is no such style.
    """
    attributes = _STYLES[name]
    if not enabled:
        return text
    import click

    return click.style(text, **attributes)  # type: ignore[arg-type]


# -- what may stay ------------------------------------------------------------------------------------------


@cache
def _suspects() -> re.Pattern[str]:
    import re

    ranges = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in _SUSPECT)
    return re.compile(f"[{ranges}]")


def _pieces(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    at = 0
    for found in pattern.finditer(text):
        start = found.start()
        if start < at:
            continue  # inside a flag that was taken as a whole
        yield text[at:start]
        at = start + _honest(text, start)
        if at == start:
            yield f"\\u{{{ord(text[start]):x}}}"
            at += 1
        else:
            yield text[start:at]
    yield text[at:]


def _honest(text: str, at: int) -> int:
    """How many characters from the suspect at `at` on are honest writing: 0, 1, or the tags of a flag."""
    character = text[at]
    if at == 0:
        return 0
    if character in (_ZWJ, _ZWNJ):
        return int(_joins_letters(text, at) or (character == _ZWJ and _joins_emoji(text, at)))
    if character in "\ufe0e\ufe0f":
        return int(_selects_presentation(text, at))
    if "\u180b" <= character <= "\u180f":
        return int(_within(text[at - 1], _MONGOLIAN))
    if text[at - 1] == _BLACK_FLAG:
        return next((len(tags) for tags in _TAG_FLAGS if text.startswith(tags, at)), 0)
    return 0


def _joins_letters(text: str, at: int) -> bool:
    """After a virama, or between visible letters or marks of scripts that use joiners (RFC 5892, appendix A)."""
    import unicodedata

    before = text[at - 1]
    suspects = _suspects()
    if not _within(before, _JOINING) or suspects.match(before):
        return False
    if unicodedata.combining(before) == _VIRAMA:
        return True
    after = text[at + 1 : at + 2]
    return (
        bool(after)
        and _within(after, _JOINING)
        and not suspects.match(after)
        and unicodedata.category(before)[0] in "LM"
        and unicodedata.category(after)[0] in "LM"
    )


def _joins_emoji(text: str, at: int) -> bool:
    before = at - 1
    # A presentation selector or a skin tone may stand between the picture and the joiner.
    if before > 0 and (text[before] == "\ufe0f" or "\U0001f3fb" <= text[before] <= "\U0001f3ff"):
        before -= 1
    pictures = _pictures()
    return pictures(text[before]) and pictures(text[at + 1 : at + 2])


def _selects_presentation(text: str, at: int) -> bool:
    before = text[at - 1]
    if before in "0123456789#*":
        return text[at + 1 : at + 2] == _KEYCAP
    return _pictures()(before)


class _Pictures:
    """Is a character one that emoji are made of?"""

    def __init__(self) -> None:
        self._pattern = _regex().compile(r"[\p{Extended_Pictographic}\p{Emoji}--[\p{ASCII}]]", _regex().V1)

    def __call__(self, character: str) -> bool:
        return bool(character) and self._pattern.match(character) is not None


@cache
def _pictures() -> _Pictures:
    return _Pictures()


def _regex() -> Any:
    # Loading it costs more than most commands, and most text needs none of it.
    import regex  # type: ignore[import-untyped]

    return regex


def _within(character: str, blocks: tuple[tuple[int, int], ...]) -> bool:
    code = ord(character)
    return any(first <= code <= last for first, last in blocks)


# -- width --------------------------------------------------------------------------------------------------


@cache
def _plain() -> re.Pattern[str]:
    """Lines of characters that are a grapheme and a cell each: Latin, Greek, Cyrillic, dashes, arrows."""
    import re

    return re.compile("[ -\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u2190-\u21ff]*")


@cache
def _unit_pattern(plain: bool) -> re.Pattern[str]:
    escape = r"\\u\{[0-9a-f]{1,6}\}|\\[nt]|"
    if plain:
        import re

        return re.compile(f"{escape}.")
    pattern: re.Pattern[str] = _regex().compile(rf"{escape}\X")
    return pattern


def _units(line: str, plain: bool) -> Iterator[str]:
    """What must not be cut in two: an escape, or a grapheme."""
    return (found.group() for found in _unit_pattern(plain).finditer(line))


def _cells(unit: str) -> int:
    """Terminal cells of a unit: a wide character or an emoji sequence takes two, a mark none."""
    if unit.isascii():
        return len(unit)
    import unicodedata

    if len(unit) > 1 and ("\ufe0f" in unit or "\U0001f1e6" <= unit[0] <= "\U0001f1ff"):
        return 2
    if _ZWJ in unit and _pictures()(unit[0]):
        return 2
    cells = 0
    for character in unit:
        if unicodedata.category(character) in ("Mn", "Me", "Cf"):
            continue
        cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return cells
