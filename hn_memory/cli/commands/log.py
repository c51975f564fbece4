"""`hn memory log`."""

from __future__ import annotations

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import TEXT


@make("log", "List all memories, newest first.")
@click.option("-n", "--max-count", type=int, metavar="N", help="Show at most N.")
@click.option("--actor", type=TEXT, metavar="ACTOR", help="Only by this author.")
@click.option("--stream", type=TEXT, metavar="ID", help="Only of this stream.")
@click.option("--graph", is_flag=True, help="Draw who supersedes, retracts and challenges whom.")
@click.option("--oneline", is_flag=True, help="One line each, which is how it is anyway.")
@click.pass_context
def command(
    ctx: click.Context, max_count: int | None, actor: str | None, stream: str | None, graph: bool, oneline: bool
) -> None:
    """List every verified memory, newest first, with the lifecycle of each record.

    Neither commit nor policy plays a part here: this is all that the sources hold.
    """
    session = session_of(ctx)
    with session.service() as service:
        document = service.log(max_count=max_count, actor=actor, stream=stream)
    from hn_memory.cli.render_log import graphed, logged

    session.reply(document, graphed if graph else logged)
