"""The syntax tree of a pattern, as Go's `regexp/syntax` shapes it.

The tree is built and rewritten while the pattern is read (literals grow, alternatives merge and are factored),
so a `Node` is mutable until the parser hands it over; nothing changes it after that.

Three measures ride on every node, so that no check of the parser ever walks the tree again:

* `height`: levels from here to the deepest leaf, which is 1;
* `weight`: the parser's own rough count of instructions, which guards the "expression too large" rule;
* `product`: the largest product of nested repeat counts from here down.
"""

from __future__ import annotations

from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


# Code point ranges, flat: lo, hi, lo, hi ... sorted, apart by at least one code point, both ends included.
Ranges = tuple[int, ...]

MAX_CODE_POINT: Final = 0x10FFFF
UNBOUNDED: Final = -1

# Flags in force where a node was read.
FOLD: Final = 1  # i: letters match their other cases
DOT_NEWLINE: Final = 2  # s: `.` matches a newline too
ONE_LINE: Final = 4  # not m: `^` and `$` mean the whole text
LAZY: Final = 8  # U, or a `?` after the operator
DOLLAR: Final = 16  # an END_TEXT that was written `$`


class Op(IntEnum):
    """Kinds of node. The order is part of the rules: of two merging alternatives the higher one stays."""

    EMPTY = 2
    LITERAL = 3
    CLASS = 4
    ANY_BUT_NEWLINE = 5
    ANY = 6
    BEGIN_LINE = 7
    END_LINE = 8
    BEGIN_TEXT = 9
    END_TEXT = 10
    WORD_BOUNDARY = 11
    NO_WORD_BOUNDARY = 12
    CAPTURE = 13
    STAR = 14
    PLUS = 15
    QUEST = 16
    REPEAT = 17
    CONCAT = 18
    ALTERNATE = 19
    # Marks on the parser's stack, never in a finished tree.
    LEFT_PAREN = 128
    VERTICAL_BAR = 129


class Node:
    """One piece of a pattern.

    Attributes:
        op: the kind.
        flags: the flags in force where it was read.
        text: the characters of a LITERAL; with FOLD each is the least of those it folds with.
        ranges: the code points of a CLASS, once `pending` has been merged in.
        pending: classes merged into this one whose union has not been computed yet, by identity.
        subs: the parts.
        least, most: the counts of a REPEAT; `most` is UNBOUNDED for `{n,}`.
        at: on a LEFT_PAREN, where it stands in the pattern.
        captures: on a LEFT_PAREN, whether the group captures.
    """

    # By hand: importing `dataclasses` takes longer than judging most patterns.
    __slots__ = (
        "at", "captures", "flags", "height", "least", "most", "op", "pending", "product", "ranges", "subs", "text",
        "weight",
    )  # fmt: skip

    def __init__(
        self,
        op: Op,
        flags: int = 0,
        text: str = "",
        ranges: Ranges = (),
        *,
        subs: list[Node] | None = None,
        least: int = 0,
        most: int = 0,
        at: int = 0,
        captures: bool = False,
    ) -> None:
        self.op = op
        self.flags = flags
        self.text = text
        self.ranges = ranges
        self.pending: dict[int, Ranges] = {}
        self.subs: list[Node] = [] if subs is None else subs
        self.least = least
        self.most = most
        self.at = at
        self.captures = captures
        self.height = self.weight = self.product = 1

    def is_single(self) -> bool:
        """Whether it matches exactly one character whatever it is: a letter, a class or a dot."""
        op = self.op
        if op is Op.LITERAL:
            return len(self.text) == 1
        return op is Op.CLASS or op is Op.ANY_BUT_NEWLINE or op is Op.ANY

    def measure(self) -> Node:
        """Recompute the three measures from those of the parts, and return the node."""
        op, subs = self.op, self.subs
        if not subs:
            self.weight = len(self.text) or 1
            self.height = self.product = 1
            return self
        if len(subs) == 1:
            sub = subs[0]
            self.height, self.product, weight = sub.height + 1, sub.product, sub.weight
            if op is Op.REPEAT:
                weight = self._measure_repeat(sub)
            elif op is Op.CAPTURE or op is Op.STAR:
                weight += 2
            elif op is Op.PLUS or op is Op.QUEST:
                weight += 1
            self.weight = weight
            return self
        self.height = 1 + max(sub.height for sub in subs)
        self.product = max(sub.product for sub in subs)
        self.weight = sum(sub.weight for sub in subs) + (len(subs) - 1 if op is Op.ALTERNATE else 0)
        return self

    def _measure_repeat(self, sub: Node) -> int:
        least, most = self.least, self.most
        if most == 0:
            # Nothing below is ever repeated.
            self.product = 1
            return 1
        self.product = sub.product * max(1, least if most == UNBOUNDED else most)
        if most == UNBOUNDED:
            return 2 + sub.weight if least == 0 else 1 + least * sub.weight
        return most * sub.weight + (most - least)
