"""Sets of code points: the classes that have names, what folding adds, and the arithmetic of ranges.

Rules (Go `regexp/syntax` since 1.25, Unicode 17.0.0):

* `\\d \\s \\w`, their negations, and the POSIX names are ASCII; `\\s` has no vertical tab, `[:space:]` has;
* `\\p{Name}` knows general categories, their long names (`Letter`), scripts, and `Any`, `Ascii`, `Assigned`;
  case, spaces, `_` and `-` in a name do not count; `C` has the unassigned code points in it;
* with `i` a set grows by every code point that folds to one of it, before it is negated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import cache

from .ast import MAX_CODE_POINT, Ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


EVERYTHING: Final[Ranges] = (0, MAX_CODE_POINT)
ALL_BUT_NEWLINE: Final[Ranges] = (0, 0x09, 0x0B, MAX_CODE_POINT)

_DIGIT: Final[Ranges] = (0x30, 0x39)
_WORD: Final[Ranges] = (0x30, 0x39, 0x41, 0x5A, 0x5F, 0x5F, 0x61, 0x7A)
_PERL: Final[dict[str, Ranges]] = {"d": _DIGIT, "s": (0x09, 0x0A, 0x0C, 0x0D, 0x20, 0x20), "w": _WORD}
_POSIX: Final[dict[str, Ranges]] = {
    "alnum": (0x30, 0x39, 0x41, 0x5A, 0x61, 0x7A),
    "alpha": (0x41, 0x5A, 0x61, 0x7A),
    "ascii": (0x00, 0x7F),
    "blank": (0x09, 0x09, 0x20, 0x20),
    "cntrl": (0x00, 0x1F, 0x7F, 0x7F),
    "digit": _DIGIT,
    "graph": (0x21, 0x7E),
    "lower": (0x61, 0x7A),
    "print": (0x20, 0x7E),
    "punct": (0x21, 0x2F, 0x3A, 0x40, 0x5B, 0x60, 0x7B, 0x7E),
    "space": (0x09, 0x0D, 0x20, 0x20),
    "upper": (0x41, 0x5A),
    "word": _WORD,
    "xdigit": (0x30, 0x39, 0x41, 0x46, 0x61, 0x66),
}


def union(parts: Iterable[Ranges]) -> Ranges:
    """The code points that are in any of `parts`; the ranges inside a part may overlap and stand in any order."""
    # A set, since many classes of one pattern may each hold the same big one.
    pairs: set[tuple[int, int]] = set()
    for part in parts:
        pairs.update(zip(part[::2], part[1::2], strict=True))
    out: list[int] = []
    top = -2
    for low, high in sorted(pairs):
        if low <= top + 1:
            if high > top:
                out[-1] = top = high
        else:
            out += (low, high)
            top = high
    return tuple(out)


def negate(ranges: Ranges) -> Ranges:
    """The code points that are not in `ranges`."""
    edges = (-1, *ranges, MAX_CODE_POINT + 1)
    out: list[int] = []
    for index in range(0, len(edges), 2):
        low, high = edges[index] + 1, edges[index + 1] - 1
        if low <= high:
            out += (low, high)
    return tuple(out)


def contains(ranges: Ranges, code: int) -> bool:
    """Whether `code` is in `ranges`."""
    index = bisect_left(ranges, code)
    return index < len(ranges) and (index % 2 == 1 or ranges[index] == code)


def covers(ranges: Ranges, others: Ranges) -> bool:
    """Whether all of `others` is in `ranges`."""
    for index in range(0, len(others), 2):
        place = bisect_right(ranges, others[index])
        # An odd place is inside a range that begins at or before; an even one may be at the very end of one.
        end = ranges[place] if place % 2 else (ranges[place - 1] if place else -1)
        if others[index + 1] > end:
            return False
    return True


def orbit(code: int) -> tuple[int, ...]:
    """All code points that fold to the same as `code`, itself among them, in order."""
    return _orbits().get(code, (code,))


def fold_ranges(ranges: Ranges) -> Ranges:
    """`ranges` and every other case of what is in them."""
    cased = _cased()
    more: list[int] = []
    for index in range(0, len(ranges), 2):
        first = bisect_left(cased, ranges[index])
        last = bisect_left(cased, ranges[index + 1] + 1)
        for code in cased[first:last]:
            for other in orbit(code):
                more += (other, other)
    return union((ranges, tuple(more))) if more else ranges


def perl_class(letter: str, *, fold: bool) -> Ranges | None:
    """The class of `\\d \\s \\w \\D \\S \\W` by its letter, or None."""
    base = _PERL.get(letter.lower())
    return None if base is None else _finished(base, fold, letter.isupper())


def posix_class(name: str, *, fold: bool) -> Ranges | None:
    """The class of `[:name:]` or `[:^name:]` by what stands between the colons, or None."""
    base = _POSIX.get(name.removeprefix("^"))
    return None if base is None else _finished(base, fold, name.startswith("^"))


def unicode_class(name: str, *, fold: bool, negated: bool) -> Ranges | None:
    """The class of `\\p{name}` (no `^` in front), or None if no such name is known."""
    # Only ASCII letters have a case here: U+212A must not pass for a k.
    if not name.isascii():
        return None
    key = name.replace("_", "").replace("-", "").replace(" ", "").lower()
    return _unicode_class(key, fold, negated) if key in _unicode_names() else None


@cache
def _unicode_class(key: str, fold: bool, negated: bool) -> Ranges:
    # Go has no table of what folding adds to `LC`, and so adds nothing (it would be U+0345).
    return _finish(_unicode_base(key), fold and _unicode_names()[key][1] != "LC", negated)


@cache
def _finished(base: Ranges, fold: bool, negated: bool) -> Ranges:
    # One object for one class, so that the parser can tell by identity what it has merged already.
    return _finish(base, fold, negated)


def _finish(base: Ranges, fold: bool, negated: bool) -> Ranges:
    folded = fold_ranges(base) if fold else base
    return negate(folded) if negated else folded


# `unicode_data` is read by the functions that need it: most patterns name no class and fold nothing.


@cache
def _unicode_names() -> dict[str, tuple[str, str]]:
    """Every name `\\p{...}` knows, without case and separators: its table and its key there."""
    from .unicode_data import CATEGORY_ALIASES, CATEGORY_NAMES, SCRIPT_NAMES

    categories = [*CATEGORY_NAMES.split(), *{name[0] for name in CATEGORY_NAMES.split()}, "Cn", "LC"]
    names = {name.lower(): ("category", name) for name in categories}
    for pair in CATEGORY_ALIASES.split():
        alias, name = pair.split("=")
        names[alias.replace("_", "").lower()] = ("category", name)
    for name in SCRIPT_NAMES.split():
        names[name.replace("_", "").lower()] = ("script", name)
    for name in ("any", "ascii", "assigned"):
        names[name] = ("special", name)
    return names


def _unicode_base(key: str) -> Ranges:
    table, name = _unicode_names()[key]
    if table == "script":
        return _scripts()[name]
    if table == "special":
        if name == "assigned":
            return negate(_categories()["Cn"])
        return EVERYTHING if name == "any" else _POSIX["ascii"]
    categories = _categories()
    if name == "LC":
        return union(categories[part] for part in ("Lu", "Ll", "Lt"))
    if name in categories:
        return categories[name]
    return union(ranges for part, ranges in categories.items() if part[0] == name)


@cache
def _categories() -> dict[str, Ranges]:
    from .unicode_data import CATEGORY_CODES, CATEGORY_NAMES, CATEGORY_RUNS

    names = dict(zip(CATEGORY_CODES, CATEGORY_NAMES.split(), strict=True))
    return _read_runs(CATEGORY_RUNS, 1, {**names, "-": "Cn"})


@cache
def _scripts() -> dict[str, Ranges]:
    from .unicode_data import SCRIPT_NAMES, SCRIPT_RUNS

    names = {chr(65 + n // 26) + chr(65 + n % 26): name for n, name in enumerate(SCRIPT_NAMES.split())}
    return _read_runs(SCRIPT_RUNS, 2, names)


def _read_runs(runs: str, width: int, names: dict[str, str]) -> dict[str, Ranges]:
    """Expand the run lengths of `unicode_data`; codes are `width` characters, `-` alone is always one."""
    out: dict[str, list[int]] = {name: [] for name in names.values()}
    start = index = 0
    while index < len(runs):
        begin = index
        while runs[index].isdigit() or runs[index].islower():
            index += 1
        length = int(runs[begin:index], 36)
        code = runs[index : index + (1 if runs[index] == "-" else width)]
        index += len(code)
        if code in names:
            out[names[code]] += (start, start + length - 1)
        start += length
    return {name: tuple(ranges) for name, ranges in out.items()}


@cache
def _orbits() -> dict[int, tuple[int, ...]]:
    from .unicode_data import FOLD_PAIRS, FOLD_SETS

    found: list[tuple[int, ...]] = []
    for token in FOLD_PAIRS.split():
        first, distance, count, stride = (int(part, 36) for part in (token + ".1.1").split(".")[:4])
        found += [(first + n * stride, first + n * stride + distance) for n in range(count)]
    for token in FOLD_SETS.split():
        found.append(tuple(int(part, 36) for part in token.split("-")))
    return {code: members for members in found for code in members}


@cache
def _cased() -> list[int]:
    return sorted(_orbits())
