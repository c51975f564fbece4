"""The sections of the bench, in the order in which they run. A new one is a module and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from benchlib.bench import Section

NAMES: Final = (
    "floor",
    "startup",
    "recall",
    "commands",
    "fresh",
    "streams",
    "inprocess",
    "append",
    "rebuild",
    "index",
    "grep",
    "search",
    "replication",
    "imports",
)


def section(name: str) -> Section:
    """The section of that name."""
    found = import_module(f"benchlib.{name}").SECTION
    assert isinstance(found, Section)
    return found
