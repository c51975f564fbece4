"""Searching texts with a judged pattern.

Matching is linear in the text whatever the pattern: RE2 does it, through `google-re2`, and never an engine that
backtracks.  RE2 gets the pattern and the texts in the reduced alphabet of `protocol.regexp.render`, so that what
matches is decided by the rules of the protocol (Go's syntax, Unicode 17.0.0) and not by RE2's version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate

from hn_memory.errors import UsageError
from hn_memory.protocol.regexp import judge
from hn_memory.protocol.regexp.ast import Node
from hn_memory.protocol.regexp.fault import FIELD
from hn_memory.protocol.regexp.render import FIRST_KIND, SEPARATOR, Rendered, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


# RE2's allowance for a program and for the states it keeps while it searches.  8 MiB, its default, admit 698,000
# of its instructions, and 64 MiB about four million.  The largest program found for a legal pattern, of classes
# made to cut each other up, has 145,000; `\pL{1000}` four times over has 8,004 (as written it would be 4,948,004,
# and want 128 MiB).  The rest is room for states: with too little RE2 falls back to a slower search.
MAX_MEMORY: Final = 64 << 20
# Matches reported for one text unless more are asked for.
MAX_SPANS: Final = 64
# Valid patterns that cannot be searched with.  There are none: every class is written out for RE2, and no name of
# one reaches it.
UNSUPPORTED: Final[tuple[str, ...]] = ()

_LATIN1_KINDS: Final = 0x100 - FIRST_KIND
_SEPARATOR: Final = bytes((SEPARATOR,))


class Pattern:
    """A pattern that may run, made by `compile_pattern`.

    Attributes:
        pattern: as it was given.
        ignore_case: whether all of it folds case.
        instructions: its exact size, by which the work limit counts.
        estimate: the upper bound of that from before expansion.
    """

    def __init__(self, pattern: str, ignore_case: bool, instructions: int, estimate: int, tree: Node) -> None:
        self.pattern = pattern
        self.ignore_case = ignore_case
        self.instructions = instructions
        self.estimate = estimate
        self._tree = tree

    def __repr__(self) -> str:
        return f"<Pattern {self.pattern!r}{' ignoring case' if self.ignore_case else ''}>"

    def search(self, text: str) -> bool:
        """Whether it matches anywhere in `text`."""
        return self._matcher.holds(self._matcher.translate(text))

    def spans(self, text: str, *, limit: int = MAX_SPANS) -> list[tuple[int, int]]:
        """Where it matches in `text`: start and end in characters, leftmost first, at most `limit` of them.

        As Go finds all matches: they do not overlap, and an empty one right after another match does not count.
        """
        matcher = self._matcher
        data = matcher.translate(text)
        found: list[tuple[int, int]] = []
        at, last_end = 0, -1
        while len(found) < limit and at <= len(data):
            match = matcher.find(data, at)
            if match is None:
                break
            start, end = match
            if end > at or start != last_end:
                found.append(match)
            at = end if end > at else matcher.next_char(data, at)
            last_end = end
        return matcher.in_characters(data, found)

    def prepare(self) -> None:
        """Load RE2 and compile for it what the first search would compile.

        Raises:
            UsageError `pattern-unsupported`.
        """
        self._matcher.prepare()

    def haystack(self, texts: Sequence[bytes]) -> bytes:
        """Texts in UTF-8 as one, for `sift`."""
        return self._matcher.haystack(texts)

    def sift(self, haystacks: Sequence[bytes], texts_of: Callable[[int], Sequence[bytes]]) -> Iterator[int]:
        """The numbers of the haystacks in whose texts the pattern is found, ascending.

        Args:
            haystacks: each is what `haystack` makes of its texts, or ASCII that has every one of them somewhere in it.
            texts_of: the texts, in UTF-8, of the haystack of that number; each is searched alone.
        """
        return self._matcher.sift(haystacks, texts_of)

    @cached_property
    def _matcher(self) -> _Matcher:
        return _Matcher(render(self._tree))


def compile_pattern(pattern: str, *, ignore_case: bool = False) -> Pattern:
    """Judge `pattern` and make it ready; RE2 is loaded by the first search only.

    Raises:
        UsageError: `pattern-invalid`, `pattern-too-large` or `pattern-too-complex`, on the field `pattern`.
    """
    judged = judge(pattern, ignore_case=ignore_case)
    return Pattern(pattern, ignore_case, judged.instructions, judged.estimate, judged.tree)


class _Matcher:
    """A compiled RE2 program and the translation of texts for it."""

    def __init__(self, rendered: Rendered) -> None:
        self.alphabet = rendered.alphabet
        self.narrow = self.alphabet.kinds <= _LATIN1_KINDS
        self.program = self._compile(rendered.pattern)
        self._rendered = rendered
        # Room for a letter that no text has.
        self._can_join = self.alphabet.kinds < _LATIN1_KINDS

    def _compile(self, pattern: str) -> Any:
        import re2  # type: ignore[import-untyped, import-not-found, unused-ignore]

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1 if self.narrow else re2.Options.Encoding.UTF8
        options.max_mem = MAX_MEMORY
        options.log_errors = False
        options.never_nl = False
        options.longest_match = False
        options.never_capture = True
        try:
            return re2.compile(pattern.encode("ascii"), options)
        except re2.error as error:
            raise UsageError(
                "pattern-unsupported", f"the matcher cannot compile this pattern: {error}", field=FIELD
            ) from None
        finally:
            # The module keeps 128 programs alive, each with its allowance of memory; this one is ours to keep.
            re2.purge()

    def translate(self, text: str) -> bytes:
        """`text` in the alphabet of the pattern."""
        if text.isascii():
            return text.encode("ascii")
        return text.translate(self.alphabet).encode("latin-1" if self.narrow else "utf-8")

    @cached_property
    def loose(self) -> Any:
        """A program for joined texts: see `Rendered.loose`."""
        rendered = self._rendered
        return self.program if rendered.loose == rendered.pattern else self._compile(rendered.loose)

    def prepare(self) -> None:
        """Compile all that `sift` needs."""
        if self._can_join:
            _ = self.loose

    def haystack(self, texts: Sequence[bytes]) -> bytes:
        """As `Pattern.haystack`."""
        return _SEPARATOR.join(map(self.encode, texts)) if self._can_join else b""

    def encode(self, text: bytes) -> bytes:
        """A text in UTF-8 in the alphabet of the pattern."""
        return text if text.isascii() else self.translate(text.decode())

    def sift(self, haystacks: Sequence[bytes], texts_of: Callable[[int], Sequence[bytes]]) -> Iterator[int]:
        """As `Pattern.sift`.

        A call of RE2 from Python takes longer than it searches most texts.  So all of them are joined, a loose
        pattern that cannot cross from one to the next looks for candidates, and only those are searched alone.
        """
        starts = list(accumulate((len(haystack) + 1 for haystack in haystacks), initial=0))[:-1]
        joined = _SEPARATOR.join(haystacks) if self._can_join else b""
        place = 0
        while place < len(starts):
            if self._can_join:
                found = self.loose.search(joined, starts[place])
                if found is None:
                    return
                place = bisect_right(starts, found.start()) - 1
            for text in texts_of(place):
                if self.holds(self.encode(text)):
                    yield place
                    break
            place += 1

    def holds(self, data: bytes) -> bool:
        """Whether there is a match anywhere."""
        # The first match is one, but for what `find` is careful about.
        return (self.program.search(data) if self.narrow else self.find(data, 0)) is not None

    def find(self, data: bytes, at: int) -> tuple[int, int] | None:
        """The leftmost match at or after byte `at`, in bytes; assertions see what stands before `at`."""
        while True:
            match = self.program.search(data, at)
            if match is None:
                return None
            start, end = match.span()
            # In UTF-8 RE2 lets `\\B` match inside a character, where it can only match the empty text.
            if self.narrow or start == len(data) or data[start] & 0xC0 != 0x80:
                return start, end
            at = self.next_char(data, start)

    def next_char(self, data: bytes, at: int) -> int:
        """The byte after the character at `at`."""
        at += 1
        while not self.narrow and at < len(data) and data[at] & 0xC0 == 0x80:
            at += 1
        return at

    def in_characters(self, data: bytes, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Spans of bytes as spans of characters."""
        if self.narrow:
            return spans
        out: list[tuple[int, int]] = []
        seen = chars = 0
        for start, end in spans:
            first = chars + len(data[seen:start].decode())
            chars = first + len(data[start:end].decode())
            seen = end
            out.append((first, chars))
        return out
