"""`hn memory retract`."""

from __future__ import annotations

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import TEXT


@make("retract", "Take back a record of your own.")
@click.argument("target", type=TEXT, metavar="TARGET")
@click.option(
    "-r", "--reason", type=TEXT, metavar="TOKEN", required=True, help="Why, as a token: incorrect, outdated, ..."
)
@click.option("--stream", type=TEXT, metavar="ID", help="The stream to append to, or `new`.")
@click.pass_context
def command(ctx: click.Context, target: str, reason: str, stream: str | None) -> None:
    """Sign a retraction of TARGET, a record of your own, by its full ID.

    Nothing is erased: the record stays in the repository and in every copy of it.
    """
    session = session_of(ctx)
    with session.service() as service:
        document = service.retract(target, reason, stream=stream)
    from hn_memory.cli.render_write import written

    session.reply(document, lambda answer: written(answer, "retracted", f"retracts {target}"))
