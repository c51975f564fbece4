"""`hn memory streams`."""

from __future__ import annotations

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import TEXT


@make("streams", "List the streams; choose the default one.")
@click.option("--use", type=TEXT, metavar="ID", help="Write to this stream from now on, in this clone.")
@click.pass_context
def command(ctx: click.Context, use: str | None) -> None:
    """List every stream of this clone, or choose the one that your records go to."""
    from hn_memory.cli.render_sources import stream_chosen, streams_listed

    session = session_of(ctx)
    with session.service() as service:
        if use is None:
            session.reply(service.streams(), streams_listed)
        else:
            session.reply(service.use_stream(use), stream_chosen)
