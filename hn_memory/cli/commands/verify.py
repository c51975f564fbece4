"""`hn memory verify`."""

from __future__ import annotations

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.errors import InvalidSourceError


@make("verify", "Verify every stream from its first commit.")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Verify every stream from its first commit, trusting nothing remembered.

    Names each bad commit and why. The exit status is 6 when a source does not hold.
    """
    from hn_memory.cli.render_sources import verified

    session = session_of(ctx)
    with session.service() as service:
        document = service.verify()
    session.reply(document, verified, status=0 if document["valid"] else InvalidSourceError.exit_status)
