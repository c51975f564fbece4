"""Text and bytes that a caller hands us: arguments, files, standard input. Bytes come through unchanged."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from hn_memory.errors import HnError, NotFoundError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


STDIN: Final = "-"
WRITER_SECONDS: Final = 5
"""How long somebody may take to open the other end of a named pipe."""

_DESCRIPTORS: Final = ("/dev/fd/", "/dev/stdin", "/proc/")


def decode_arguments(arguments: Sequence[str]) -> list[str]:
    """Arguments as UTF-8 whatever the locale, with bytes that are none as lone surrogates (as PEP 383).

    Python decodes them by the locale, and a Latin-1 one would turn signed text into something else.
    """
    return [os.fsencode(argument).decode("utf-8", "surrogateescape") for argument in arguments]


def file_name(argument: str) -> str:
    """A decoded argument as a name for the file system: a name need not be UTF-8."""
    return os.fsdecode(argument.encode("utf-8", "surrogateescape"))


def read_bytes(name: str, bound: int, what: str) -> bytes:
    """The bytes of a file, or of standard input for `-`: at most one more than `bound`.

    Raises:
        NotFoundError `file-missing`; HnError `file-unreadable`.
    """
    if not name:
        raise UsageError("usage", f"{what}: the name of the file is empty")
    try:
        if name == STDIN:
            if sys.stdin is None:
                raise UsageError("usage", f"{what}: standard input is closed")
            return sys.stdin.buffer.read(bound + 1)
        handle, begun = _open(name, what)
        with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
            return begun + file.read(bound + 1 - len(begun))
    except FileNotFoundError:
        raise NotFoundError("file-missing", f"{what}: there is no file {_shown(name)}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        raise HnError("file-unreadable", f"{what}: {_shown(name)} cannot be read: {reason}") from None


def _open(name: str, what: str) -> tuple[int, bytes]:
    """A descriptor to read a file from, and what was read of it already.

    A shell hands over a pipe as `/dev/fd/N`, and somebody writes into that. A named one may be there with nobody at
    its other end, for which an ordinary `open` waits for ever.

    Raises:
        HnError `file-unreadable`: nobody writes into it, or it is a disk.
    """
    import stat

    handle = os.open(file_name(name), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISBLK(mode):
            raise HnError("file-unreadable", f"{what}: {_shown(name)} is a disk and no file")
        begun = b""
        if stat.S_ISFIFO(mode) and not name.startswith(_DESCRIPTORS):
            first = _first(handle)
            if first is None:
                raise HnError("file-unreadable", f"{what}: {_shown(name)} is a pipe that nobody writes into")
            begun = first
        os.set_blocking(handle, True)
        return handle, begun
    except BaseException:
        os.close(handle)
        raise


def _first(handle: int) -> bytes | None:
    """The first byte of a named pipe, or nothing where its writer takes time; None where there is no writer."""
    import select

    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    ready = waiting.poll(WRITER_SECONDS * 1000)
    try:
        return os.read(handle, 1) or (b"" if ready else None)
    except BlockingIOError:
        return b""


def read_text(name: str, bound: int, what: str, field: str) -> str:
    """As `read_bytes`, and valid UTF-8; not a byte is stripped or changed.

    Raises:
        UsageError `text-invalid`, with the offset of the first byte that is wrong; `text-too-long`.
    """
    data = read_bytes(name, bound, what)
    if len(data) > bound:
        raise UsageError("text-too-long", f"{what} has more than {bound} bytes", field=field)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UsageError("text-invalid", f"{what} is not valid UTF-8 at byte {error.start}", field=field) from None


def _shown(name: str) -> str:
    from hn_memory.cli.text import one_line

    return "standard input" if name == STDIN else one_line(name, 200)


def can_ask(json: bool) -> bool:
    """Is a person there who could be asked? A machine that asked for JSON never is."""
    return not json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
