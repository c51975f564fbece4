"""`hn memory`: the group of everything that reads and writes memories."""

from __future__ import annotations

import click

from hn_memory.cli.command import LazyGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


COMMANDS: Final = {
    "record": "Sign and append a record.",
    "handoff": "Sign and append a handoff.",
    "supersede": "Replace a record of your own by a new one.",
    "retract": "Take back a record of your own.",
    "challenge": "Dispute a record.",
    "recall": "Find what applies here, with a receipt.",
    "search": "Ask a question, get ranked answers.",
    "grep": "Find by regular expression, with a receipt.",
    "show": "Show one memory in full.",
    "log": "List all memories, newest first.",
    "streams": "List the streams; choose the default one.",
    "verify": "Verify every stream from its first commit.",
    "duplicates": "Find records that say nearly the same.",
    "export": "Write streams and policy to a bundle.",
    "index": "Rebuild, verify or describe the index.",
}


@click.command("memory", cls=LazyGroup, table=COMMANDS, package="hn_memory.cli.commands")
def command() -> None:
    """Record, correct, recall and verify memories."""
