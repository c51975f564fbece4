"""The number of instructions a tree compiles to, by arithmetic.

Go first rewrites counted repetitions (`x{2,4}` is `xx(?:x(?:x)?)?`) and then compiles.  Nothing is rewritten here:
every rule of that rewriting only adds or multiplies, so one pass over the tree as it was written gives the exact
number, and the work does not depend on any count.  The rules:

* a letter, a class, a dot, an assertion and an empty match are one instruction each; a capture is two and its
  contents; an alternation is one for each alternative but the first; `?` and `+` are one more than what they
  repeat; `*` is one more, and two more if what it repeats can match the empty text;
* a repetition of the very empty match is that empty match, and an operator directly on the same operator (both
  greedy or both lazy, no capture between) is one of them;
* `x{0}` is an empty match, `x{1}` is `x`, `x{0,}` is `x*`, `x{1,}` is `x+`, `x{n,}` is n-1 `x` and an `x+`;
* `x{n,m}` is m times `x` and m-n times `?`, of which the innermost is an operator on `x` itself;
* the whole has two more: the failing instruction all programs begin with, and the match.

`estimate` is the same sum with every `*` taken for two.  It is never below the size, and never more than twice
the size: it exceeds it by one for each `*` of which it is true that the size counts at least two, the star and
what it repeats.  So an estimate over twice a limit proves a size over that limit.
"""

from __future__ import annotations

from hn_memory.values import NamedTuple

from .ast import LAZY, UNBOUNDED, Node, Op

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


# The failing instruction and the match.
FIXED_INSTRUCTIONS: Final = 2
# What an estimate can be of the exact size at most.
ESTIMATE_FACTOR: Final = 2


class _Piece(NamedTuple):
    """What the rest of the sum must know of a part: its size, and what it would have become."""

    op: Op
    lazy: bool
    size: int
    nullable: bool


_EMPTY: Final = _Piece(Op.EMPTY, False, 1, True)
_CONSUMING: Final = frozenset((Op.CLASS, Op.ANY, Op.ANY_BUT_NEWLINE))


def instructions(tree: Node) -> int:
    """The exact number of instructions."""
    return _total(tree, wide_star=False)


def estimate(tree: Node) -> int:
    """An upper bound of `instructions`, at most twice as large."""
    return _total(tree, wide_star=True)


def nodes(tree: Node) -> list[Node]:
    """Every node, parts before what they are part of."""
    found = [tree]
    for node in found:
        found += node.subs
    found.reverse()
    return found


def _total(tree: Node, *, wide_star: bool) -> int:
    done: dict[int, _Piece] = {}
    for node in nodes(tree):
        done[id(node)] = _piece(node, [done[id(sub)] for sub in node.subs], wide_star)
    return done[id(tree)].size + FIXED_INSTRUCTIONS


def _piece(node: Node, subs: list[_Piece], wide_star: bool) -> _Piece:
    op, lazy = node.op, bool(node.flags & LAZY)
    if not subs:
        if op is Op.LITERAL:
            return _Piece(op, False, len(node.text), False)
        return _Piece(op, False, 1, op not in _CONSUMING)
    if op is Op.CONCAT:
        return _Piece(op, False, sum(sub.size for sub in subs), all(sub.nullable for sub in subs))
    if op is Op.ALTERNATE:
        size = sum(sub.size for sub in subs) + len(subs) - 1
        return _Piece(op, False, size, any(sub.nullable for sub in subs))
    sub = subs[0]
    if op is Op.CAPTURE:
        return _Piece(op, False, sub.size + 2, sub.nullable)
    if op is Op.REPEAT:
        return _repeated(node.least, node.most, lazy, sub, wide_star)
    return _operator(op, lazy, sub, wide_star)


def _operator(op: Op, lazy: bool, sub: _Piece, wide_star: bool) -> _Piece:
    if sub.op is Op.EMPTY or (sub.op is op and sub.lazy == lazy):
        return sub
    more = 2 if op is Op.STAR and (wide_star or sub.nullable) else 1
    return _Piece(op, lazy, sub.size + more, sub.nullable or op is not Op.PLUS)


def _repeated(least: int, most: int, lazy: bool, sub: _Piece, wide_star: bool) -> _Piece:
    if most == 0:
        return _EMPTY
    if least == most == 1:
        return sub
    if most == UNBOUNDED:
        last = _operator(Op.PLUS if least else Op.STAR, lazy, sub, wide_star)
        if least < 2:
            return last
        return _Piece(Op.CONCAT, False, (least - 1) * sub.size + last.size, sub.nullable and last.nullable)
    size, nullable = least * sub.size, sub.nullable or least == 0
    if most == least:
        return _Piece(Op.CONCAT, False, size, nullable)
    innermost = _operator(Op.QUEST, lazy, sub, wide_star)
    around = most - least - 1
    size += innermost.size + around * (sub.size + 1)
    if least:
        return _Piece(Op.CONCAT, False, size, nullable)
    return _Piece(Op.QUEST, lazy, size, True) if around else innermost
