"""Joining pieces into concatenations and alternations, and factoring alternatives.

What Go's parser does to the alternatives of one group, in four rounds, each over the result of the one before:

1. neighbours that begin with the same letters (and agree on folding) share that prefix: `abc|abd` is `ab(c|d)`;
2. neighbours that begin with the same class, or the same fixed count of one class, share it: `.a|.b` is `.(a|b)`;
3. neighbours that match one character each become one class: `a|[0-9]`;
4. neighbours that match only the empty text become one.

The rests of a factored run are an alternation of their own and are factored again.  That nesting can be
thousands deep, so it runs on an explicit stack of generators, not on the interpreter's.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from .ast import FOLD, LAZY, Node, Op, Ranges
from .classes import ALL_BUT_NEWLINE, EVERYTHING, contains, orbit, union

# A factoring in progress: it yields a run of rests, is sent their alternation, and returns the node.
_Steps = Generator[list[Node], Node, Node]

_NEWLINE = ord("\n")


def concatenate(subs: list[Node]) -> Node:
    """The concatenation of `subs`: itself if there is one, with inner concatenations dissolved."""
    return subs[0] if len(subs) == 1 else _joined(Op.CONCAT, subs)


def alternate(subs: list[Node], check: Callable[[Node], None]) -> Node:
    """The factored alternation of `subs`; `check` is called with every rest that a prefix was taken from."""
    if len(subs) == 1:
        return subs[0]
    running = [_alternation(subs, check)]
    result: Node | None = None
    while running:
        try:
            rests = next(running[-1]) if result is None else running[-1].send(result)
        except StopIteration as finished:
            running.pop()
            result = finished.value
        else:
            running.append(_alternation(rests, check))
            result = None
    assert result is not None
    return result


def merge_single(into: Node, other: Node) -> None:
    """Make `into` match what either matches; both match single characters and `into` is not the lower kind."""
    if into.op is Op.ANY:
        return
    if into.op is Op.ANY_BUT_NEWLINE:
        if _matches_newline(other):
            into.op = Op.ANY
        return
    if into.op is Op.LITERAL:
        if other.text == into.text and other.flags == into.flags:
            return
        _add(into.pending, _letter_set(into))
        into.op, into.text, into.ranges = Op.CLASS, "", ()
    if other.op is Op.LITERAL:
        _add(into.pending, _letter_set(other))
    else:
        _add(into.pending, other.ranges)
        into.pending.update(other.pending)


def settle(node: Node) -> None:
    """Compute the union a class still owes; a class of everything (but the newline) becomes a dot."""
    if node.op is not Op.CLASS:
        return
    if node.pending:
        _add(node.pending, node.ranges)
        node.ranges = union(node.pending.values())
        node.pending = {}
    if node.ranges == EVERYTHING:
        node.op, node.ranges = Op.ANY, ()
    elif node.ranges == ALL_BUT_NEWLINE:
        node.op, node.ranges = Op.ANY_BUT_NEWLINE, ()


def _add(pending: dict[int, Ranges], ranges: Ranges) -> None:
    # The dictionary keeps what it holds alive, so an identity stands for one set.
    pending[id(ranges)] = ranges


def _letter_set(node: Node) -> Ranges:
    code = ord(node.text)
    if not node.flags & FOLD:
        return (code, code)
    return union((tuple(edge for other in orbit(code) for edge in (other, other)),))


def _matches_newline(node: Node) -> bool:
    if node.op is Op.LITERAL:
        return node.text == "\n"
    if node.op is Op.CLASS:
        return any(contains(part, _NEWLINE) for part in (node.ranges, *node.pending.values()))
    return node.op is Op.ANY


def _joined(op: Op, subs: list[Node]) -> Node:
    flat: list[Node] = []
    for sub in subs:
        if sub.op is op:
            flat += sub.subs
        else:
            flat.append(sub)
    return Node(op, subs=flat).measure()


def _alternation(subs: list[Node], check: Callable[[Node], None]) -> _Steps:
    node = _joined(Op.ALTERNATE, subs)
    alternatives = yield from _share(node.subs, _same_text, _cut_text, check)
    alternatives = yield from _share(alternatives, _same_piece, _cut_piece, check)
    alternatives = list(_without_repeated_empties(_merge_singles(alternatives)))
    if len(alternatives) == 1:
        return alternatives[0]
    node.subs = alternatives
    return node.measure()


def _share(
    subs: list[Node],
    shared: Callable[[Node | None, Node], Node | None],
    cut: Callable[[Node, Node], Node],
    check: Callable[[Node], None],
) -> Generator[list[Node], Node, list[Node]]:
    """Rounds 1 and 2: take the common beginning out of every run of neighbours that have one.

    `shared(beginning so far, next alternative)` is what they have in common; with None in front, what the
    alternative could share; and None if nothing.  `cut(alternative, beginning)` is what is left of it.
    """
    out: list[Node] = []
    start, common = 0, shared(None, subs[0])
    for index in range(1, len(subs) + 1):
        if index < len(subs) and common is not None:
            still = shared(common, subs[index])
            if still is not None:
                common = still
                continue
        if common is None or index == start + 1:
            out.append(subs[start])
        else:
            rests = [cut(sub, common) for sub in subs[start:index]]
            for rest in rests:
                check(rest)
            suffix = yield rests
            out.append(Node(Op.CONCAT, subs=[common.measure(), suffix]).measure())
        if index < len(subs):
            start, common = index, shared(None, subs[index])
    return out


def _leading(node: Node) -> Node:
    return node.subs[0] if node.op is Op.CONCAT else node


def _same_text(common: Node | None, node: Node) -> Node | None:
    first = _leading(node)
    if first.op is not Op.LITERAL:
        return None
    text = first.text
    if common is None:
        return Node(Op.LITERAL, first.flags & FOLD, text)
    if common.flags != first.flags & FOLD:
        return None
    same = 0
    for mine, other in zip(common.text, text, strict=False):
        if mine != other:
            break
        same += 1
    return Node(Op.LITERAL, common.flags, text[:same]) if same else None


def _cut_text(node: Node, common: Node) -> Node:
    if node.op is Op.LITERAL:
        node.text = node.text[len(common.text) :]
        if not node.text:
            node.op = Op.EMPTY
        return node.measure()
    first = node.subs[0]
    if len(first.text) == len(common.text):
        return _without_first(node)
    first.text = first.text[len(common.text) :]
    first.measure()
    node.weight -= len(common.text)
    return node


def _same_piece(common: Node | None, node: Node) -> Node | None:
    first = _leading(node)
    fixed = first.op is Op.REPEAT and first.least == first.most and first.subs[0].is_single()
    if not fixed and not first.is_single():
        return None
    return first if common is None or _equal_pieces(common, first) else None


def _equal_pieces(one: Node, other: Node) -> bool:
    if one.op is not other.op:
        return False
    if one.op is Op.REPEAT:
        same_count = (one.least, one.most) == (other.least, other.most)
        same_greed = not (one.flags ^ other.flags) & LAZY
        return same_count and same_greed and _equal_pieces(one.subs[0], other.subs[0])
    if one.op is Op.LITERAL or one.op is Op.CLASS:
        # Folding counts even for a class, to which it no longer makes a difference.
        same_fold = not (one.flags ^ other.flags) & FOLD
        return same_fold and one.text == other.text and one.ranges == other.ranges
    return True


def _cut_piece(node: Node, common: Node) -> Node:
    return _without_first(node) if node.op is Op.CONCAT else Node(Op.EMPTY)


def _without_first(node: Node) -> Node:
    if len(node.subs) == 2:
        return node.subs[1]
    gone = node.subs.pop(0)
    if gone.height > 1 or gone.product > 1:
        return node.measure()
    # What was so low cannot have set the height, and a whole new measure at each of many steps would cost a square.
    node.weight -= gone.weight
    return node


def _merge_singles(subs: list[Node]) -> Iterator[Node]:
    """Round 3."""
    start = 0
    for index in range(len(subs) + 1):
        if index < len(subs) and subs[index].is_single():
            continue
        if index > start:
            run = subs[start:index]
            # The highest kind takes the others in; of classes, the one in most pieces; of equals, the first.
            into = max(run, key=lambda node: (node.op, len(node.ranges)))
            for other in run:
                if other is not into:
                    merge_single(into, other)
            if len(run) > 1:
                settle(into)
            yield into
        if index < len(subs):
            yield subs[index]
        start = index + 1


def _without_repeated_empties(subs: Iterator[Node]) -> Iterator[Node]:
    """Round 4."""
    last: Node | None = None
    for node in subs:
        if last is not None and not (last.op is Op.EMPTY and node.op is Op.EMPTY):
            yield last
        last = node
    if last is not None:
        yield last
