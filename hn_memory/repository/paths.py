"""How messages name a place on disk without telling whose home it is in."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike


def display(path: str | PathLike[str]) -> str:
    """The path as a message may show it: from the current directory, else from `~`, else absolute.

    The current directory itself is `.`. A home directory is never spelled out, not even when the process
    stands in it or HOME is missing.
    """
    cwd = _cwd()
    text = os.path.normpath(os.path.join(cwd or "", path))  # noqa: PTH118 - Path keeps "..", and wants a cwd
    if cwd is not None:
        inside = _below(text, cwd)
        if inside is not None:
            return inside or "."
    for home in _homes():
        inside = _below(text, home)
        if inside is not None:
            return f"~/{inside}" if inside else "~"
    return text


def without_homes(text: str) -> str:
    """Text of somebody else (Git's own reason) with the paths of the home directory written as `~`."""
    for home in _homes():
        text = text.replace(home + "/", "~/").replace(f"'{home}'", "'~'")
    return text


def _below(text: str, top: str) -> str | None:
    if text == top:
        return ""
    prefix = top.rstrip("/") + "/"
    return text[len(prefix) :] if text.startswith(prefix) else None


def _cwd() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - a removed directory must not end the message
    except OSError:
        return None


def _homes() -> list[str]:
    """Every spelling of the home directory worth hiding, the longest first; `/` hides nothing."""
    names = {os.environ.get("HOME", "")}
    if not names - {""}:
        names.add(os.path.expanduser("~"))  # noqa: PTH111 - asks the user database when HOME is missing
    names |= {os.path.realpath(name) for name in names if name}
    return sorted((n.rstrip("/") for n in names if n.startswith("/") and n.rstrip("/")), key=len, reverse=True)
