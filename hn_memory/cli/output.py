"""What reaches stdout and stderr, and nothing else does.

Stdout gets one piece of bytes per command, UTF-8 whatever the locale says, when the work is done: so with
`--json` it is exactly one document on every path. Everything for people beside the answer goes to stderr.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from hn_memory.errors import HnError

OUTPUT_FAILED: Final = 1
BROKEN_PIPE: Final = 141  # as a shell reports a program that died of SIGPIPE, which is what Git does
PIPE_WIDTH: Final = 100
"""Cells of a line of `hn memory log` where no terminal tells."""

_MESSAGE_WIDTH: Final = 4_000


def write_out(data: bytes) -> int:
    """Write the whole answer; the exit status: 0, or why it could not be written."""
    try:
        stream = sys.stdout.buffer
        stream.write(data)
        stream.flush()
    except BrokenPipeError:
        _silence(1)
        return BROKEN_PIPE
    except (OSError, AttributeError, ValueError) as error:  # AttributeError, ValueError: stdout is closed
        reason = error.strerror if isinstance(error, OSError) else None
        write_error(f"hn: error: the answer could not be written: {reason or 'standard output is closed'}")
        _silence(1)
        return OUTPUT_FAILED
    return 0


def write_error(line: str) -> None:
    """Write one line to stderr; nobody listening is no reason to fail."""
    try:
        sys.stderr.buffer.write(line.encode("utf-8", "backslashreplace") + b"\n")
        sys.stderr.buffer.flush()
    except BrokenPipeError:
        _silence(2)
    except (OSError, AttributeError, ValueError):
        return


def _silence(descriptor: int) -> None:
    # Python flushes once more when it ends and would complain.
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)
    except OSError:
        return


def json_bytes(document: Any) -> bytes:
    """One document on one line.

    On a terminal everything beyond ASCII is escaped: the same JSON, and no character of an author acts there.
    """
    from hn_memory.protocol.jsonbytes import compose

    text = compose(document, ascii_only=_is_terminal(), finite=False)
    return (text.replace("\x7f", "\\u007f") + "\n").encode()


def error_document(error: HnError) -> dict[str, Any]:
    """The JSON value of a refusal."""
    from hn_memory.cli.text import safe

    body: dict[str, Any] = {
        "code": error.code,
        "message": safe(error.message),
        "hint": None if error.hint is None else safe(error.hint),
    }
    if error.field is not None:
        body["field"] = safe(error.field)
    return {"version": 0, "error": body}


def report(error: HnError) -> None:
    """A refusal for people: one line, and one more that says what to do."""
    write_error(f"hn: error: {_line(error.message)}")
    if error.hint:
        write_error(f"hint: {_line(error.hint)}")


def notice(line: str) -> None:
    """Something worth knowing beside the answer."""
    write_error(f"hn: note: {_line(line)}")


def _line(text: str) -> str:
    from hn_memory.cli.text import one_line

    return one_line(text, _MESSAGE_WIDTH)


def use_colour() -> bool:
    """Colours go to terminals only, and never where NO_COLOR is set (https://no-color.org)."""
    return _is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def line_width() -> int:
    """Cells of a line on the terminal, or a fixed number of them where stdout is none."""
    if not _is_terminal():
        return PIPE_WIDTH
    from shutil import get_terminal_size

    return max(40, get_terminal_size((PIPE_WIDTH, 24)).columns)


def _is_terminal() -> bool:
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False


def watched() -> bool:
    """Does a person look at stderr?"""
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
