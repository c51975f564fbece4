"""Text and bytes that a caller hands us: arguments, files, standard input. Bytes come through unchanged."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from hn_memory.errors import HnError, NotFoundError, UsageError

STDIN: Final = "-"


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
    try:
        if name == STDIN:
            if sys.stdin is None:
                raise UsageError("usage", f"{what}: standard input is closed")
            return sys.stdin.buffer.read(bound + 1)
        with open(file_name(name), "rb") as file:  # noqa: PTH123 - a name, not a path of ours
            return file.read(bound + 1)
    except FileNotFoundError:
        raise NotFoundError("file-missing", f"{what}: there is no file {_shown(name)}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a file name"
        raise HnError("file-unreadable", f"{what}: {_shown(name)} cannot be read: {reason}") from None


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
