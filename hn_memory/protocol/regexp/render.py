"""A tree as a pattern for RE2 over a reduced alphabet.

RE2 is not given the pattern as it was written.  Its tables are of whatever Unicode version it was built with, it
spends about 1,200 instructions on one `\\pL`, and so a legal `\\pL{1000}` would need seconds and hundreds of
megabytes to compile.  But a pattern can tell apart only as many kinds of characters as its letters and classes cut
out of Unicode, which is rarely more than a few: so each kind is one letter of an alphabet, texts are translated
to it character by character, and the pattern is written in it.  What RE2 then compiles is about as large as the
size by which the pattern was judged, and the sets are those of `classes`, whatever RE2 knows of Unicode.

ASCII stays as it is, so that `\\b`, `$` and `(?m)` mean what they meant.  The kinds of all other characters follow
from 0x80 on.  With at most 128 of them a translated text is Latin-1, one byte a character.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate, groupby
from operator import xor

from hn_memory.values import NamedTuple

from .ast import FOLD, LAZY, UNBOUNDED, Node, Op, Ranges
from .classes import orbit, union
from .size import nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


FIRST_KIND: Final = 0x80

_PLAIN: Final[dict[Op, str]] = {
    Op.EMPTY: "(?:)",
    Op.ANY: "(?s:.)",
    Op.ANY_BUT_NEWLINE: "[^\\n]",
    Op.BEGIN_LINE: "(?m:^)",
    Op.END_LINE: "(?m:$)",
    Op.BEGIN_TEXT: "\\A",
    Op.END_TEXT: "\\z",
    Op.WORD_BOUNDARY: "\\b",
    Op.NO_WORD_BOUNDARY: "\\B",
}
_NOTHING: Final = "[^\\s\\S]"

SEPARATOR: Final = 0xFF
"""A letter that a loose pattern never matches, where the alphabet has none so high."""

# In a loose pattern assertions hold everywhere, and nothing matches the separator.
_LOOSE: Final[dict[Op, str]] = {
    op: {Op.ANY: "[^\\xFF]", Op.ANY_BUT_NEWLINE: "[^\\n\\xFF]"}.get(op, "(?:)") for op in _PLAIN
}


class Alphabet(dict[int, int]):
    """What each code point is translated to: a table for `str.translate`, filled as characters are met.

    Attributes:
        kinds: how many kinds of characters beyond ASCII there are.
    """

    def __init__(self, sets: set[Ranges]) -> None:
        super().__init__()
        # The bigger a set, the higher its bit, and kinds are numbered in the order of their bits: so the biggest
        # set is one run of letters, the next at most two, and RE2's program stays small.
        wide = sorted((ranges for ranges in sets if ranges and ranges[-1] >= FIRST_KIND), key=_size_first)
        self._bits = {ranges: 1 << number for number, ranges in enumerate(wide)}
        toggles: dict[int, int] = {FIRST_KIND: 0}
        for ranges, bit in self._bits.items():
            for place in _edges_beyond_ascii(ranges):
                toggles[place] = toggles.get(place, 0) ^ bit
        self._starts = sorted(toggles)
        masks = list(accumulate((toggles[start] for start in self._starts), xor))
        self._kind_of = {mask: FIRST_KIND + n for n, mask in enumerate(sorted(set(masks)))}
        self._kinds = [self._kind_of[mask] for mask in masks]
        self.kinds = len(self._kind_of)

    def __missing__(self, code: int) -> int:
        kind = code if code < FIRST_KIND else self._kinds[bisect_right(self._starts, code) - 1]
        self[code] = kind
        return kind

    def letters(self, ranges: Ranges) -> list[int]:
        """The letters of the alphabet that are in `ranges`, in order; `ranges` is one of the sets it was made of."""
        if len(ranges) == 2 and ranges[0] == ranges[1]:
            return [self[ranges[0]]]
        found: list[int] = []
        for index in range(0, len(ranges), 2):
            if ranges[index] >= FIRST_KIND:
                break
            found += range(ranges[index], min(ranges[index + 1] + 1, FIRST_KIND))
        bit = self._bits.get(ranges, 0)
        return found + [kind for mask, kind in self._kind_of.items() if mask & bit]


def _size_first(ranges: Ranges) -> tuple[int, Ranges]:
    return len(ranges), ranges


def _edges_beyond_ascii(ranges: Ranges) -> Iterator[int]:
    """Where membership changes from 0x80 on: the first code point of each range, and the one after it."""
    for index in range(bisect_left(ranges, FIRST_KIND) & ~1, len(ranges), 2):
        yield max(ranges[index], FIRST_KIND)
        yield ranges[index + 1] + 1


class Rendered(NamedTuple):
    """A pattern in ASCII for RE2, and the alphabet in which its texts must be written.

    Attributes:
        loose: a pattern that is found in every text in which `pattern` is, and in whatever holds such a text, perhaps
            in others, and never across a `SEPARATOR`; so many texts can be looked through at once.
    """

    pattern: str
    alphabet: Alphabet
    loose: str


def render(tree: Node) -> Rendered:
    """Write `tree` for RE2.  Groups do not capture: only where the whole matches can be asked."""
    everything = nodes(tree)
    sets: set[Ranges] = set()
    for node in everything:
        if node.op is Op.CLASS:
            sets.add(node.ranges)
        elif node.op is Op.LITERAL:
            sets.update(_letter_set(char, node.flags) for char in node.text)
    alphabet = Alphabet(sets)
    written = {ranges: _class(alphabet.letters(ranges)) for ranges in sets}
    return Rendered(_write(tree, written, _PLAIN), alphabet, _write(tree, written, _LOOSE))


def _letter_set(char: str, flags: int) -> Ranges:
    code = ord(char)
    if not flags & FOLD:
        return (code, code)
    return union((tuple(edge for other in orbit(code) for edge in (other, other)),))


def _class(letters: list[int]) -> str:
    if not letters:
        return _NOTHING
    if len(letters) == 1:
        return _letter(letters[0])
    parts: list[str] = []
    for _, run in groupby(enumerate(letters), key=lambda pair: pair[1] - pair[0]):
        codes = [code for _, code in run]
        parts.append(_letter(codes[0]) if len(codes) == 1 else f"{_letter(codes[0])}-{_letter(codes[-1])}")
    return "[" + "".join(parts) + "]"


def _letter(code: int) -> str:
    char = chr(code)
    return char if char.isascii() and char.isalnum() else f"\\x{{{code:X}}}"


def _write(tree: Node, written: dict[Ranges, str], plain: dict[Op, str]) -> str:
    out: list[str] = []
    # What is still to be written, the next on top: nodes, and text between and after them.
    todo: list[Node | str] = [tree]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            out.append(item)
        elif item.op is Op.LITERAL:
            out += (written[_letter_set(char, item.flags)] for char in item.text)
        elif item.op is Op.CLASS:
            out.append(written[item.ranges])
        elif item.op in plain:
            out.append(plain[item.op])
        else:
            todo += reversed(_parts(item))
    return "".join(out)


def _parts(node: Node) -> list[Node | str]:
    if node.op is Op.CONCAT:
        return [part for sub in node.subs for part in _grouped(sub)]
    if node.op is Op.ALTERNATE:
        parts: list[Node | str] = []
        for sub in node.subs:
            parts += ("|", sub)
        return parts[1:]
    if node.op is Op.REPEAT and node.most == 0:
        return ["(?:)"]
    return ["(?:", node.subs[0], ")", _operator(node)]


def _grouped(node: Node) -> list[Node | str]:
    return ["(?:", node, ")"] if node.op is Op.ALTERNATE else [node]


def _operator(node: Node) -> str:
    if node.op is Op.CAPTURE:
        return ""
    if node.op is Op.REPEAT:
        most = "" if node.most == UNBOUNDED else str(node.most)
        sign = f"{{{node.least},{most}}}"
    else:
        sign = {Op.STAR: "*", Op.PLUS: "+", Op.QUEST: "?"}[node.op]
    return sign + ("?" if node.flags & LAZY else "")
