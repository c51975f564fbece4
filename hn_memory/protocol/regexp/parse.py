"""The parser: a pattern in, its syntax tree or a refusal out.

It keeps one stack of finished pieces with marks for the open groups and their bars, as Go's parser does, so a
pattern may nest as deeply as it likes without any recursion here.  The rules that shape the tree, and with it the
number of instructions, are Go's:

* neighbouring letters join into one literal, but a repetition takes only the last of them;
* a class of one letter, or of the two cases of one, is that letter;
* alternatives that match one character each merge while they are read, the rest is factored (see `factor`);
* a group that does not capture leaves no trace but its contents;
* an operator may not follow an operator (`a**`), counts are at most 1,000, and so is the product of nested ones;
* a tree is at most 1,000 levels high, and its rough size at most 3,355,443 instructions.
"""

from __future__ import annotations

from . import factor, fault, scan
from .ast import DOLLAR, DOT_NEWLINE, FOLD, LAZY, ONE_LINE, Node, Op, Ranges
from .classes import orbit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


MAX_HEIGHT: Final = 1000
MAX_PRODUCT: Final = 1000
# 128 MiB of instructions of 40 bytes, which is what Go allows the unexpanded tree to promise.
MAX_WEIGHT: Final = (128 << 20) // 40

_OPERATORS: Final = {"*": Op.STAR, "+": Op.PLUS, "?": Op.QUEST}
_ASSERTIONS: Final = {
    "A": Op.BEGIN_TEXT,
    "b": Op.WORD_BOUNDARY,
    "B": Op.NO_WORD_BOUNDARY,
    "z": Op.END_TEXT,
}


def parse(pattern: str, *, ignore_case: bool = False) -> Node:
    """The tree of `pattern`.  Raises `UsageError` as `fault` words it."""
    return _Parser(pattern, FOLD | ONE_LINE if ignore_case else ONE_LINE).run()


class _Parser:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self.flags = flags
        self.stack: list[Node] = []
        self.at = 0
        # Where the last token began, if that token was a repetition.
        self.operator_at: int | None = None

    def run(self) -> Node:
        pattern, end = self.pattern, len(self.pattern)
        while self.at < end:
            start = self.at
            repeats = self.step(pattern[start])
            self.operator_at = start if repeats else None
        self.end_alternatives()
        if len(self.stack) != 1:
            paren = next(node for node in reversed(self.stack) if node.op is Op.LEFT_PAREN)
            raise fault.invalid(pattern, paren.at, fault.MISSING_PAREN, pattern)
        return self.stack[0]

    def step(self, char: str) -> bool:
        """Read the token that starts with `char`; say whether it was a repetition."""
        match char:
            case "*" | "+" | "?":
                self.repeat(_OPERATORS[char], 0, 0, self.at + 1)
                return True
            case "{":
                count = scan.read_count(self.pattern, self.at)
                if count is not None:
                    self.repeat(Op.REPEAT, *count)
                    return True
                self.letter("{")
                self.at += 1
            case "(":
                self.open_group()
            case "|":
                self.bar()
                self.at += 1
            case ")":
                self.close_group()
                self.at += 1
            case "[":
                ranges, after = scan.read_bracket(self.pattern, self.at, self.flags)
                self.push(Node(Op.CLASS, self.flags, ranges=ranges))
                self.at = after
            case "\\":
                self.backslash()
            case _:
                self.plain(char)
                self.at += 1
        return False

    def plain(self, char: str) -> None:
        match char:
            case "^":
                self.push(Node(Op.BEGIN_TEXT if self.flags & ONE_LINE else Op.BEGIN_LINE, self.flags))
            case "$" if self.flags & ONE_LINE:
                self.push(Node(Op.END_TEXT, self.flags | DOLLAR))
            case "$":
                self.push(Node(Op.END_LINE, self.flags))
            case ".":
                self.push(Node(Op.ANY if self.flags & DOT_NEWLINE else Op.ANY_BUT_NEWLINE, self.flags))
            case _:
                self.letter(char)

    def backslash(self) -> None:
        pattern, at = self.pattern, self.at
        kind = pattern[at + 1 : at + 2]
        if kind in _ASSERTIONS:
            self.push(Node(_ASSERTIONS[kind], self.flags))
            self.at += 2
            return
        if kind == "Q":
            quoted, _, _ = pattern[at + 2 :].partition("\\E")
            for char in quoted:
                self.letter(char)
            self.at = min(len(pattern), at + 4 + len(quoted))
            return
        named = scan.read_class_escape(pattern, at, self.flags)
        if named is not None:
            self.push(Node(Op.CLASS, self.flags, ranges=named[0]))
            self.at = named[1]
            return
        code, self.at = scan.read_escape(pattern, at)
        self.letter(chr(code))

    def letter(self, char: str) -> None:
        if self.flags & FOLD:
            char = chr(orbit(ord(char))[0])
        self.push(Node(Op.LITERAL, self.flags, char))

    def push(self, node: Node) -> None:
        """Put a piece on the stack, joining the two literals below it if there are two."""
        if node.op is Op.CLASS:
            self.simplify_class(node)
        self.join_letters()
        self.stack.append(node)
        self.check(node)

    def simplify_class(self, node: Node) -> None:
        """A class of one letter, or of the two cases of one, becomes that letter."""
        code = _only_letter(node.ranges)
        if code is None:
            return
        folds = len(node.ranges) > 2 or node.ranges[0] != node.ranges[1]
        node.op, node.text, node.ranges = Op.LITERAL, chr(code), ()
        node.flags = self.flags | FOLD if folds else self.flags & ~FOLD

    def join_letters(self) -> None:
        stack = self.stack
        if len(stack) < 2:
            return
        below, top = stack[-2], stack[-1]
        if below.op is Op.LITERAL and top.op is Op.LITERAL and not (below.flags ^ top.flags) & FOLD:
            below.text += top.text
            below.measure()
            stack.pop()

    def check(self, node: Node) -> None:
        if node.height > MAX_HEIGHT:
            raise fault.invalid(self.pattern, self.at, fault.TOO_DEEP, self.pattern)
        if node.weight > MAX_WEIGHT:
            raise fault.too_complex(
                f"pattern too complex at byte {fault.byte_offset(self.pattern, self.at)}: "
                f"{fault.TOO_LARGE}: `{fault.shown(self.pattern)}`"
            )

    def repeat(self, op: Op, least: int, most: int, after: int) -> None:
        flags = self.flags
        if self.pattern[after : after + 1] == "?":
            after += 1
            flags ^= LAZY
        if self.operator_at is not None:
            start = self.operator_at
            raise fault.invalid(self.pattern, start, fault.NESTED_OPERATOR, self.pattern[start:after])
        if not self.stack or self.stack[-1].op >= Op.LEFT_PAREN:
            raise fault.invalid(self.pattern, self.at, fault.NOTHING_TO_REPEAT, self.pattern[self.at : after])
        node = Node(op, flags, subs=[self.stack[-1]], least=least, most=most).measure()
        self.stack[-1] = node
        self.check(node)
        # Go looks at the product only when this count itself repeats.
        if op is Op.REPEAT and max(least, most) >= 2 and node.product > MAX_PRODUCT:
            raise fault.invalid(self.pattern, self.at, fault.BAD_COUNT, self.pattern[self.at : after])
        self.at = after

    def open_group(self) -> None:
        paren = Node(Op.LEFT_PAREN, self.flags, at=self.at, captures=True)
        if self.pattern[self.at + 1 : self.at + 2] != "?":
            self.push(paren)
            self.at += 1
            return
        opens, paren.captures, flags, after = scan.read_group(self.pattern, self.at, self.flags)
        if opens:
            self.push(paren)
        self.flags = flags
        self.at = after

    def close_group(self) -> None:
        self.end_alternatives()
        if len(self.stack) < 2 or self.stack[-2].op is not Op.LEFT_PAREN:
            raise fault.invalid(self.pattern, self.at, fault.UNEXPECTED_PAREN, self.pattern)
        inner = self.stack.pop()
        paren = self.stack.pop()
        self.flags = paren.flags
        if paren.captures:
            inner = Node(Op.CAPTURE, paren.flags, subs=[inner]).measure()
        self.push(inner)

    def bar(self) -> None:
        """End an alternative; finished ones lie below the bar's mark on the stack."""
        self.end_sequence()
        if not self.sink_bar():
            self.push(Node(Op.VERTICAL_BAR, self.flags))

    def pop_pieces(self) -> list[Node]:
        """Take all pieces above the last mark."""
        start = len(self.stack)
        while start and self.stack[start - 1].op < Op.LEFT_PAREN:
            start -= 1
        pieces = self.stack[start:]
        del self.stack[start:]
        return pieces

    def end_sequence(self) -> None:
        self.join_letters()
        pieces = self.pop_pieces()
        self.push(factor.concatenate(pieces) if pieces else Node(Op.EMPTY, self.flags))

    def sink_bar(self) -> bool:
        """Move the alternative on top below the bar under it, or merge it with the one there; False if no bar."""
        stack = self.stack
        if len(stack) < 2 or stack[-2].op is not Op.VERTICAL_BAR:
            return False
        if len(stack) > 2 and stack[-1].is_single() and stack[-3].is_single():
            top = stack.pop()
            low = stack[-2]
            if top.op > low.op:
                top, low = low, top
                stack[-2] = low
            factor.merge_single(low, top)
            return True
        if len(stack) > 2:
            # Nothing can merge with this one any more.
            factor.settle(stack[-3])
        stack[-2], stack[-1] = stack[-1], stack[-2]
        return True

    def end_alternatives(self) -> None:
        self.end_sequence()
        if self.sink_bar():
            self.stack.pop()
        alternatives = self.pop_pieces()
        factor.settle(alternatives[-1])
        self.push(factor.alternate(alternatives, self.check))


def _only_letter(ranges: Ranges) -> int | None:
    """The one letter that `ranges` holds, or the first of exactly two that are each other's only other case."""
    if len(ranges) == 2:
        low, high = ranges
        if low == high or (high == low + 1 and orbit(low) == (low, high)):
            return low
    elif len(ranges) == 4:
        low, high = ranges[0], ranges[2]
        if low == ranges[1] and high == ranges[3] and orbit(low) == (low, high):
            return low
    return None
