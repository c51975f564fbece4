"""`hn memory handoff`."""

from __future__ import annotations

from typing import Any

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import TEXT
from hn_memory.cli.record_options import record_arguments, record_options


@make("handoff", "Sign and append a handoff.")
@click.argument("text", type=TEXT, metavar="[CONTENT]", required=False)
@record_options(handoff=True)
@click.pass_context
def command(ctx: click.Context, /, **values: Any) -> None:
    """Sign a handoff: a summary and four lists of what is done, assumed, in the way and next.

    With --input, --at and --applies may supply what the request leaves out. A next
    action is inert text; nothing ever runs it.
    """
    session = session_of(ctx)
    arguments = record_arguments(values, kind="handoff")
    with session.service() as service:
        document = service.record(arguments, allow_secrets=values["allow_secret"])
    from hn_memory.cli.render_write import written

    session.reply(document, lambda answer: written(answer, "recorded"))
