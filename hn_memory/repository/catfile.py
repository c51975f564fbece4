"""A long-lived `git cat-file`: many objects read through one child, without a spawn for each."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from hn_memory.errors import HnError
from hn_memory.repository.base import ObjectInfo, ObjectType
from hn_memory.repository.spawn import Child, reason

_BATCH = 256
_LARGE_BATCH = 8192

_MISSING = b" missing"

Content = tuple[str, ObjectType, bytes]


class CatFile:
    """Headers and contents by name. Starts with the first question, and again if the child died meanwhile.

    Git 2.36 and newer answer both kinds of question from one child (`--batch-command`); for an older one two
    children serve. An exception in the middle of an answer ends the child, so that the next question never
    reads the rest of an old answer.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, legacy: bool = False, running: Child | None = None
    ) -> None:
        """`command` is everything before `cat-file`; `legacy` forgoes `--batch-command` from the start.

        `running` is a child with `--batch-command` that runs already and was asked nothing yet.
        """
        self._command = [*command, "cat-file"]
        self._env = dict(env)
        self._legacy = legacy
        self._pipes: dict[str, _Pipe] = {}
        if running is not None:
            self._pipes["command"] = _Pipe(running)
        self._open: _Contents | _Text | None = None

    def close(self) -> None:
        """End the children. The next question starts new ones."""
        pipes, self._pipes = self._pipes, {}
        self._open = None
        for pipe in pipes.values():
            pipe.child.stop()

    def __del__(self) -> None:
        self.close()

    def info(self, names: Sequence[str]) -> list[tuple[str, ObjectInfo] | None]:
        """ID, type and size of each name (an ID, or any revision without a newline); None where absent.

        Raises:
            HnError `object-store-broken`: Git gave up, in its own words.
        """
        found: list[tuple[str, ObjectInfo] | None] = []
        for at in range(0, len(names), _BATCH):
            batch = names[at : at + _BATCH]
            pipe = self._ask("info", batch)
            try:
                found += map(_header_info, pipe.lines(len(batch)))
            except BaseException:
                self.close()
                raise
        return found

    def absent(self, oids: Sequence[str]) -> set[str]:
        """Those of the full IDs that are not here.

        Raises:
            HnError `object-store-broken`: as `info`.
        """
        missing: set[str] = set()
        for at in range(0, len(oids), _LARGE_BATCH):
            batch = oids[at : at + _LARGE_BATCH]
            pipe = self._ask("info", batch)
            try:
                missing |= _missing_of(pipe.text(len(batch)))
            except BaseException:
                self.close()
                raise
        return missing

    def ask_absent(self, oids: Sequence[str]) -> Callable[[], set[str]]:
        """As `absent`, in two steps: the question is on its way, and what is returned waits for the answer.

        The caller may ask other questions in between.
        """
        if len(oids) > _LARGE_BATCH or self._legacy:
            return lambda: self.absent(oids)
        answer = _Text(self._ask("info", oids), len(oids))
        self._open = answer

        def take() -> set[str]:
            if answer.remaining and self._open is not answer:
                # Something went wrong with another question, and the child was given up.
                return self.absent(oids)
            try:
                answer.absorb()
            except BaseException:
                self.close()
                raise
            finally:
                if self._open is answer:
                    self._open = None
            return _missing_of(answer.text)

        answer.send()
        return take

    def contents(self, oids: Sequence[str]) -> Iterator[Content]:
        """ID, type and bytes of each full ID that is here, in order, as they arrive.

        The caller may ask other questions in the middle, and may leave early.

        Raises:
            HnError `object-store-broken`: as `info`.
        """
        for at in range(0, len(oids), _BATCH):
            batch = oids[at : at + _BATCH]
            answer = _Contents(self._ask("contents", batch), len(batch))
            self._open = answer
            try:
                while (item := answer.next()) is not None:
                    yield item
            except BaseException:
                if answer.remaining:
                    self.close()
                raise
            finally:
                if self._open is answer:
                    self._open = None

    def _ask(self, question: str, names: Sequence[str]) -> _Pipe:
        if self._open is not None:
            self._open.absorb()
            self._open = None
        kind = question if self._legacy else "command"
        pipe = self._pipes.get(kind)
        if pipe is not None and not pipe.child.mine:
            # A forked copy of us: those pipes belong to the parent, whose answers we would steal.
            self.close()
            pipe = None
        pipe = pipe or self._start(kind)
        if self._legacy:
            pipe.outgoing += os.fsencode("\n".join(names) + "\n")
            return pipe
        pipe.outgoing += os.fsencode(f"{question} " + f"\n{question} ".join(names) + "\nflush\n")
        if not pipe.proven and not pipe.answers():
            if b"usage:" not in pipe.child.errors:
                raise pipe.broken()
            self.close()
            self._legacy = True
            return self._ask(question, names)
        return pipe

    def _start(self, kind: str) -> _Pipe:
        flags = {"command": ["--batch-command", "--buffer"], "info": ["--batch-check"], "contents": ["--batch"]}
        pipe = _Pipe(Child([*self._command, *flags[kind]], self._env))
        self._pipes[kind] = pipe
        return pipe


def _missing_of(answers: bytes) -> set[str]:
    """Names in the answers to `info` of which Git has nothing."""
    # Mostly all of them are there, and no line need be looked at.
    if _MISSING not in answers:
        return set()
    return {line[: -len(_MISSING)].decode("ascii") for line in answers.split(b"\n") if line.endswith(_MISSING)}


def _kind(name: bytes) -> ObjectType:
    kind: ObjectType = name.decode("ascii")  # type: ignore[assignment]
    return kind


def _header_info(line: bytes) -> tuple[str, ObjectInfo] | None:
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[2].isdigit():
        # "<name> missing" and "<name> ambiguous"; a name with blanks in it is none that exists.
        return None
    return parts[0].decode("ascii"), ObjectInfo(_kind(parts[1]), int(parts[2]))


class _Pipe:
    """One child and the bytes on their way to and from it."""

    __slots__ = ("arrived", "child", "outgoing", "proven")

    def __init__(self, child: Child) -> None:
        self.child = child
        self.outgoing = bytearray()
        self.arrived = bytearray()
        self.proven = False

    def answers(self) -> bool:
        """Wait for the first byte; False when the child ended instead."""
        try:
            self.proven = self._more()
        except BaseException:
            self.child.stop()
            raise
        return self.proven

    def header(self) -> tuple[str, ObjectType, int] | None:
        """The first line of an answer; None when the object is absent or the name says several."""
        while (end := self.arrived.find(b"\n")) < 0:
            if not self._more():
                raise self.broken()
        line = bytes(self.arrived[:end])
        del self.arrived[: end + 1]
        if line.endswith((b" missing", b" ambiguous")):
            return None
        try:
            oid, kind, size = line.split(b" ")
            return oid.decode("ascii"), _kind(kind), int(size)
        except ValueError as error:
            raise self.broken() from error

    def lines(self, count: int) -> list[bytes]:
        """The next lines, without their newlines; all at once, for answers of one line each."""
        return self.text(count).split(b"\n")[:-1]

    def text(self, count: int) -> bytes:
        """The next `count` lines as they are. Nothing else was asked, so nothing may follow them."""
        seen = self.arrived.count(b"\n")
        while seen < count:
            at = len(self.arrived)
            if not self._more():
                raise self.broken()
            seen += self.arrived.count(b"\n", at)
        if seen > count or not self.arrived.endswith(b"\n"):
            raise self.broken()
        text = bytes(self.arrived)
        self.arrived.clear()
        return text

    def body(self, size: int) -> bytes:
        """The bytes of an object and the newline after it."""
        while len(self.arrived) <= size:
            if not self._more():
                raise self.broken()
        data = bytes(self.arrived[:size])
        del self.arrived[: size + 1]
        return data

    def broken(self) -> HnError:
        self.child.wait()
        return HnError("object-store-broken", f"git cat-file gave up: {reason(bytes(self.child.errors))}")

    def _more(self) -> bool:
        data = self.child.receive(self.outgoing)
        self.arrived += data
        return bool(data)


class _Text:
    """Answers of one line each, to be taken all at once."""

    __slots__ = ("_pipe", "remaining", "text")

    def __init__(self, pipe: _Pipe, count: int) -> None:
        self._pipe = pipe
        self.remaining = count
        self.text = b""

    def send(self) -> None:
        """Hand the question over as far as the child takes it."""
        if self.remaining > _BATCH:
            self._pipe.child.widen()
        self._pipe.child.send(self._pipe.outgoing)

    def absorb(self) -> None:
        """Take them off the pipe, so that another question can be asked."""
        if self.remaining:
            self.text = self._pipe.text(self.remaining)
            self.remaining = 0


class _Contents:
    """Answers to one batch, of which the caller may have taken only some."""

    __slots__ = ("_absorbed", "_pipe", "remaining")

    def __init__(self, pipe: _Pipe, count: int) -> None:
        self._pipe = pipe
        self._absorbed: deque[Content] = deque()
        self.remaining = count

    def next(self) -> Content | None:
        if self._absorbed:
            return self._absorbed.popleft()
        while self.remaining:
            header = self._pipe.header()
            item = header and (header[0], header[1], self._pipe.body(header[2]))
            self.remaining -= 1
            if item is not None:
                return item
        return None

    def absorb(self) -> None:
        """Take the rest off the pipe, so that another question can be asked."""
        while self.remaining:
            header = self._pipe.header()
            if header is not None:
                self._absorbed.append((header[0], header[1], self._pipe.body(header[2])))
            self.remaining -= 1
