"""Letters, numbers, simple lowercase, white space and controls as hn-memory/0 means them: Unicode 17.0.0.

The tables are package data (`unicode.json`), because the interpreter's own tables change with its version
and a rule of the wire format must not. ASCII, which is nearly everything, is answered without loading them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from hn_memory.protocol.jsonbytes import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re

# Section 4: U+0085, U+00A0 and U+3000 are space, U+200B and U+FEFF are not. The set is small and closed, so
# it is spelled out here; a test holds it against the data file.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

_CONTROLS = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
# ASCII in lower case, with a blank for whatever is neither letter nor number.
_ASCII_TERMS = bytes(
    ord(character.lower()) if character.isalnum() else 0x20 for character in map(chr, range(0x80))
) + bytes(0x80)


@cache
def _tables() -> dict[str, list[list[int]]]:
    from importlib.resources import files

    tables: dict[str, list[list[int]]] = loads(files("hn_memory.protocol").joinpath("unicode.json").read_bytes())
    return tables


@cache
def _term_pattern() -> re.Pattern[str]:
    import re

    ranges = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in _tables()["letterOrNumber"])
    return re.compile(f"[{ranges}]+")


@cache
def _lowercase_map() -> dict[int, int]:
    return {upper: lower for upper, lower in _tables()["simpleLowercase"]}


def trim(text: str) -> str:
    """The text without Unicode White_Space at either end."""
    return text.strip(WHITE_SPACE)


def is_blank(text: str) -> bool:
    """True when nothing but White_Space is there."""
    return not text.strip(WHITE_SPACE)


def find_control(text: str) -> int | None:
    """Character index of the first control (category Cc), or None."""
    if text.isprintable():
        return None  # whatever the interpreter's tables say of others, no control is printable
    return next((at for at, character in enumerate(text) if character in _CONTROLS), None)


def lower(text: str) -> str:
    """Simple one-to-one lowercase: never longer, never dependent on neighbours or locale."""
    if text.isascii():
        return text.lower()
    return text.translate(_lowercase_map())


def terms(text: str) -> list[str]:
    """Maximal runs of letters and numbers, lowercased, in order, repeats included (section 7)."""
    if text.isascii():
        return text.encode().translate(_ASCII_TERMS).decode("ascii").split()
    return [lower(run) for run in _term_pattern().findall(text)]


def term_text(texts: Iterable[str]) -> str:
    """One text with the terms of several, in which ASCII runs in any case and whatever is not ASCII count as terms.

    SQLite's tokenizer `ascii` finds in it what `terms` finds in the texts. It does so faster than anything here,
    so text in ASCII, which is nearly all of it, is left as it is.
    """
    # A blank parts terms, so one text of all of them has the terms that each of them has.
    text = " ".join(texts)
    return text if text.isascii() else " ".join(dict.fromkeys(terms(text)))
