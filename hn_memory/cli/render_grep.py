"""What `hn memory grep` shows to people: of each record the fields that match, and the matches in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hn_memory.cli.render_common import header_lines, paint
from hn_memory.cli.render_recall import recalled
from hn_memory.cli.text import safe
from hn_memory.protocol.searchable import searchable
from hn_memory.recall.grep import WORK_LIMIT
from hn_memory.recall.pattern import Pattern, compile_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


_ELLIPSIS: Final = "…"
_LINE: Final = 240
"""Characters of a line that are shown of a longer one."""
_BEFORE: Final = 60
"""Of those, how many stand before the first match."""
_MATCHES: Final = 64
"""Matches of one field that are marked at most."""

Span = tuple[int, int]


def grepped(document: Mapping[str, Any], pattern: str, ignore_case: bool) -> str:
    """As a recall, but of each record only what matches."""
    finder = _Finder(compile_pattern(pattern, ignore_case=ignore_case))
    return recalled(document, lambda row: [*header_lines(row), *_match_lines(row["data"], finder)])


class _Finder:
    """Finds what to mark, without ever taking much longer than the search that found the records.

    To find one match after another may cost the whole field each time, so matches beyond the first of a field are
    paid from a budget as large as the work limit.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._left = WORK_LIMIT

    def find(self, text: str) -> tuple[list[Span], bool]:
        """Where the pattern is found, and whether it was looked for up to the end."""
        cost = self._pattern.instructions * (len(text.encode()) + 1)
        limit = max(1, min(_MATCHES, self._left // cost))
        spans = self._pattern.spans(text, limit=limit)
        self._left = max(0, self._left - cost * len(spans))
        return spans, len(spans) < limit


def _match_lines(data: Mapping[str, Any], finder: _Finder) -> list[str]:
    lines: list[str] = []
    for field, text in searchable(data):
        spans, complete = finder.find(text)
        for number, line, marks in _matching(text, spans):
            # A field of one line needs no number. Ours is what stands left of the bar.
            label = f"{field}:{number}" if "\n" in text else field
            lines.append(f"  {paint(label, 'heading')} | {_marked(line, marks)}".rstrip(" "))
        if not complete and spans and "\n" in text[spans[-1][1] :]:
            lines.append(f"  {paint(field, 'heading')}: more lines may match")
    return lines


def _matching(text: str, spans: list[Span]) -> Iterator[tuple[int, str, list[Span]]]:
    """The lines that matches touch: number from 1, text, and what of it matches. Lines end at newlines only."""
    start = 0
    for number, line in enumerate(text.split("\n"), 1):
        end = start + len(line)
        # An empty match touches the line it stands in; another one that ends with a newline does not touch the next.
        marks = [
            (max(first, start) - start, min(last, end) - start)
            for first, last in spans
            if first <= end and (last > start or first == last == start)
        ]
        if marks:
            yield number, line, marks
        start = end + 1


def _marked(line: str, marks: list[Span]) -> str:
    """The line made safe with its matches in colour, or the part of a long one around the first match."""
    left = max(0, marks[0][0] - _BEFORE) if len(line) > _LINE else 0
    right = min(len(line), left + _LINE)
    out = [_ELLIPSIS if left else ""]
    at = left
    for first, last in marks:
        first, last = max(first, at), min(last, right)
        if first < last:
            out += (safe(line[at:first]), paint(safe(line[first:last]), "match"))
            at = last
    out.append(safe(line[at:right]))
    if right < len(line):
        out.append(_ELLIPSIS)
    return "".join(out)
