"""Reading one token of a pattern: escapes, counts, bracketed classes, and what follows `(?`.

Every function takes the pattern and the index of the token's first character, and returns what it read with the
index after it, or raises the refusal (see `fault`).  The grammar is RE2's as Go reads it with its Perl flags.
"""

from __future__ import annotations

from . import classes, fault
from .ast import DOT_NEWLINE, FOLD, LAZY, MAX_CODE_POINT, ONE_LINE, UNBOUNDED, Ranges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


MAX_REPEAT: Final = 1000

_CONTROL_ESCAPES: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_OCTAL: Final = frozenset("01234567")
_HEX: Final = {digit: value for value, digit in enumerate("0123456789abcdef")} | {
    digit: value for value, digit in enumerate("ABCDEF", 10)
}
_DECIMAL: Final = frozenset("0123456789")
_NAME_CHARS: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
# A count with more digits than this is over any limit; it is not even converted.
_COUNT_DIGITS: Final = 9


def read_escape(pattern: str, at: int) -> tuple[int, int]:
    """The code point meant by the backslash at `at`."""
    if at + 1 >= len(pattern):
        raise fault.invalid(pattern, at, fault.TRAILING_BACKSLASH, "\\")
    char = pattern[at + 1]
    after = at + 2
    if char in _OCTAL:
        # One digit but 0 would be a backreference.
        if char == "0" or pattern[after : after + 1] in _OCTAL:
            while after < min(len(pattern), at + 4) and pattern[after] in _OCTAL:
                after += 1
            return int(pattern[at + 1 : after], 8), after
    elif char == "x":
        return _read_hex(pattern, at)
    elif char in _CONTROL_ESCAPES:
        return _CONTROL_ESCAPES[char], after
    elif char.isascii() and not char.isalnum():
        return ord(char), after
    raise fault.invalid(pattern, at, fault.BAD_ESCAPE, pattern[at:after])


def _read_hex(pattern: str, at: int) -> tuple[int, int]:
    """`\\xFF`, or `\\x{10FFFF}` with any number of digits."""
    after = at + 2
    if pattern[after : after + 1] != "{":
        digits = pattern[after : after + 2]
        if len(digits) == 2 and digits[0] in _HEX and digits[1] in _HEX:
            return int(digits, 16), after + 2
        raise fault.invalid(pattern, at, fault.BAD_ESCAPE, pattern[at : after + 2])
    after += 1
    code, start = 0, after
    while after < len(pattern):
        char = pattern[after]
        after += 1
        if char == "}" and after > start + 1:
            return code, after
        code = code * 16 + _HEX.get(char, MAX_CODE_POINT)
        if char not in _HEX or code > MAX_CODE_POINT:
            break
    raise fault.invalid(pattern, at, fault.BAD_ESCAPE, pattern[at:after])


def read_count(pattern: str, at: int) -> tuple[int, int, int] | None:
    """Least, most and the index after a `{n}`, `{n,}` or `{n,m}` at `at`; None if the brace is a plain character.

    Counts over the limit, or in the wrong order, are refused.
    """
    first = _read_number(pattern, at + 1)
    if first is None:
        return None
    least, after = first
    most = least
    if pattern[after : after + 1] == ",":
        after += 1
        if pattern[after : after + 1] == "}":
            most = UNBOUNDED
        else:
            second = _read_number(pattern, after)
            if second is None:
                return None
            most, after = second
    if pattern[after : after + 1] != "}":
        return None
    after += 1
    if least > MAX_REPEAT or most > MAX_REPEAT or (most != UNBOUNDED and least > most):
        raise fault.invalid(pattern, at, fault.BAD_COUNT, pattern[at:after])
    return least, most, after


def _read_number(pattern: str, at: int) -> tuple[int, int] | None:
    after = at
    while after < len(pattern) and pattern[after] in _DECIMAL:
        after += 1
    # A leading zero makes it no number, and so the brace a plain character.
    if after == at or (after > at + 1 and pattern[at] == "0"):
        return None
    return (int(pattern[at:after]) if after - at <= _COUNT_DIGITS else MAX_REPEAT + 1), after


def read_class_escape(pattern: str, at: int, flags: int) -> tuple[Ranges, int] | None:
    """The class of a `\\d`, `\\pN`, `\\p{Greek}` or the like at `at`; None if no such class starts there."""
    letter = pattern[at + 1 : at + 2]
    fold = bool(flags & FOLD)
    if not letter or pattern[at] != "\\":
        return None
    if letter not in "pP":
        ranges = classes.perl_class(letter, fold=fold)
        return None if ranges is None else (ranges, at + 2)
    if pattern[at + 2 : at + 3] == "{":
        end = pattern.find("}", at)
        if end < 0:
            raise fault.invalid(pattern, at, fault.BAD_RANGE, pattern[at:])
        name, after = pattern[at + 3 : end], end + 1
    else:
        name, after = pattern[at + 2 : at + 3], min(at + 3, len(pattern))
    found = classes.unicode_class(name.removeprefix("^"), fold=fold, negated=(letter == "P") != name.startswith("^"))
    if found is None:
        raise fault.invalid(pattern, at, fault.BAD_RANGE, pattern[at:after])
    return found, after


def read_bracket(pattern: str, at: int, flags: int) -> tuple[Ranges, int]:
    """The class of the `[...]` whose bracket stands at `at`."""
    fold = bool(flags & FOLD)
    after = at + 1
    negated = pattern[after : after + 1] == "^"
    if negated:
        after += 1
    parts: list[Ranges] = []
    plain: list[int] = []
    first = True
    # A bracket that comes first is a member; a hyphen is one wherever it makes no range.
    while first or pattern[after : after + 1] != "]":
        first = False
        named = _read_posix(pattern, after, fold=fold)
        if named is None and pattern[after : after + 1] == "\\":
            named = read_class_escape(pattern, after, flags)
        if named is not None:
            parts.append(named[0])
            after = named[1]
            continue
        start = after
        low, after = _read_member(pattern, after, at)
        high = low
        if pattern[after : after + 1] == "-" and pattern[after + 1 : after + 2] not in ("", "]"):
            high, after = _read_member(pattern, after + 1, at)
            if high < low:
                raise fault.invalid(pattern, start, fault.BAD_RANGE, pattern[start:after])
        plain += (low, high)
    members = _bracket_set(parts, plain, fold=fold)
    return (classes.negate(members) if negated else members), after + 1


def _bracket_set(parts: list[Ranges], plain: list[int], *, fold: bool) -> Ranges:
    """The set of a bracket: classes that are folded already, and plain ranges that may need it."""
    if not plain:
        return parts[0] if len(parts) == 1 else classes.union(parts)
    own = classes.union((tuple(plain),))
    if fold:
        own = classes.fold_ranges(own)
    if not parts:
        return own
    if len(parts) == 1 and classes.covers(parts[0], own):
        return parts[0]
    return classes.union((*parts, own))


def _read_posix(pattern: str, at: int, *, fold: bool) -> tuple[Ranges, int] | None:
    if not pattern.startswith("[:", at):
        return None
    end = pattern.find(":]", at + 2)
    if end < 0:
        return None
    ranges = classes.posix_class(pattern[at + 2 : end], fold=fold)
    if ranges is None:
        raise fault.invalid(pattern, at, fault.BAD_RANGE, pattern[at : end + 2])
    return ranges, end + 2


def _read_member(pattern: str, at: int, bracket: int) -> tuple[int, int]:
    if at >= len(pattern):
        raise fault.invalid(pattern, bracket, fault.MISSING_BRACKET, pattern[bracket:])
    if pattern[at] == "\\":
        return read_escape(pattern, at)
    return ord(pattern[at]), at + 1


# What each letter sets, or clears, when it stands before the hyphen.
_FLAGS: Final = {"i": (FOLD, True), "m": (ONE_LINE, False), "s": (DOT_NEWLINE, True), "U": (LAZY, True)}


def read_group(pattern: str, at: int, flags: int) -> tuple[bool, bool, int, int]:
    """What the `(?` at `at` says: whether a group opens, whether it captures, the new flags, the index after.

    Names of groups are checked and forgotten; Go lets two groups have one name.
    """
    name = _name_start(pattern, at)
    if name is not None:
        end = pattern.find(">", name)
        if end < 0:
            raise fault.invalid(pattern, at, fault.BAD_NAME, pattern[at:])
        if end == name or not _NAME_CHARS.issuperset(pattern[name:end]):
            raise fault.invalid(pattern, at, fault.BAD_NAME, pattern[at : end + 1])
        return True, True, flags, end + 1
    return _read_flags(pattern, at, flags)


def _name_start(pattern: str, at: int) -> int | None:
    # With nothing after the `<` Go does not take it for a name; that decides only the words of the refusal.
    for start in ("(?P<", "(?<"):
        if pattern.startswith(start, at) and len(pattern) > at + len(start):
            return at + len(start)
    return None


def _read_flags(pattern: str, at: int, flags: int) -> tuple[bool, bool, int, int]:
    after = at + 2
    turn_on, seen, negative = flags, False, False
    while after < len(pattern):
        char = pattern[after]
        after += 1
        if char == "-" and not negative:
            negative, seen = True, False
        elif char in _FLAGS:
            flag, raises = _FLAGS[char]
            turn_on = turn_on | flag if raises != negative else turn_on & ~flag
            seen = True
        elif char in ":)" and (seen or not negative):
            return char == ":", False, turn_on, after
        else:
            break
    raise fault.invalid(pattern, at, fault.BAD_GROUP, pattern[at:after])
