"""`hn memory index rebuild`, `verify` and `status`."""

from __future__ import annotations

import click

from hn_memory.cli.command import LazyGroup, session_of
from hn_memory.cli.command import command as make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


COMMANDS: Final = {
    "rebuild": "Build index and snapshot anew.",
    "verify": "Hold both against their sources.",
    "status": "Say what the index is and holds.",
}


@click.command("index", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Rebuild, verify or describe the index.

    It is derived from the streams, private to this clone, and may be deleted at
    any time.
    """


@make("rebuild", COMMANDS["rebuild"])
@click.pass_context
def rebuild(ctx: click.Context) -> None:
    """Build the index anew from the signed commits, and the snapshot of HEAD from it."""
    from hn_memory.cli.render_sources import index_rebuilt

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.index_rebuild(), index_rebuilt)


@make("verify", COMMANDS["verify"])
@click.pass_context
def verify(ctx: click.Context) -> None:
    """Check that index and snapshot say what their sources say now."""
    from hn_memory.cli.render_sources import index_verified

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.index_verify(), index_verified)


@make("status", COMMANDS["status"])
@click.pass_context
def status(ctx: click.Context) -> None:
    """Say what the index is and holds, without changing it."""
    from hn_memory.cli.render_sources import index_described

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.index_status(), index_described)


for _subcommand in (rebuild, verify, status):
    command.add_command(_subcommand)
