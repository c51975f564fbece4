"""Patterns of `hn memory grep`: RE2 syntax as Go's `regexp/syntax` accepts it, and what a pattern costs.

`judge` decides, before anything is searched, whether a pattern may run.  In this order (the protocol's section on
grep):

1. it is UTF-8 (no lone surrogates) and at most `MAX_PATTERN_BYTES` bytes: `pattern-invalid`, `pattern-too-large`;
2. it parses: `pattern-invalid`;
3. its estimate, made from the tree before any counted repetition is expanded, is at most `ESTIMATE_FACTOR` times
   `MAX_INSTRUCTIONS`: `pattern-too-complex`.  An estimate is at most that factor above the exact size, so what is
   refused here is too big exactly; an estimate between the limit and that bound refuses nothing;
4. its exact size is at most `MAX_INSTRUCTIONS`: `pattern-too-complex`.

All of it is linear in the length of the pattern and independent of its counts: nothing is ever expanded.
Everything here is pure, and validity, sizes and classes are those of Go 1.25 and later with Unicode 17.0.0.
"""

from __future__ import annotations

from hn_memory.errors import UsageError
from hn_memory.values import NamedTuple

from . import fault, size
from .ast import Node
from .fault import FOREIGN_SYNTAX
from .parse import parse
from .size import ESTIMATE_FACTOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


MAX_PATTERN_BYTES: Final = 4096
MAX_INSTRUCTIONS: Final = 4096


class Judgement(NamedTuple):
    """A pattern that may run.

    Attributes:
        tree: its syntax tree.
        instructions: its exact size in Go's instructions.
        estimate: an upper bound of that, made before counted repetitions are expanded.
    """

    tree: Node
    instructions: int
    estimate: int


def judge(pattern: str, *, ignore_case: bool = False) -> Judgement:
    """Parse and measure `pattern`.  Raises `UsageError`: `pattern-invalid`, `-too-large` or `-too-complex`."""
    check_text(pattern)
    tree = parse(pattern, ignore_case=ignore_case)
    estimate = size.estimate(tree)
    if estimate > ESTIMATE_FACTOR * MAX_INSTRUCTIONS:
        raise fault.too_complex(f"pattern too complex: estimated at {estimate} instructions, limit {MAX_INSTRUCTIONS}")
    exact = size.instructions(tree)
    if exact > MAX_INSTRUCTIONS:
        raise fault.too_complex(f"pattern too complex: {exact} instructions, limit {MAX_INSTRUCTIONS}")
    return Judgement(tree, exact, estimate)


def check_text(pattern: str) -> None:
    """Refuse what is not UTF-8, or too long, before it is read."""
    try:
        length = len(pattern.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise fault.invalid(pattern, error.start, fault.NOT_UTF8, pattern[error.start]) from None
    if length > MAX_PATTERN_BYTES:
        raise UsageError(
            "pattern-too-large",
            f"pattern of {length} bytes, limit {MAX_PATTERN_BYTES}",
            hint="search for less at a time",
            field=fault.FIELD,
        )


__all__ = [
    "ESTIMATE_FACTOR",
    "FOREIGN_SYNTAX",
    "MAX_INSTRUCTIONS",
    "MAX_PATTERN_BYTES",
    "Judgement",
    "judge",
    "parse",
]
