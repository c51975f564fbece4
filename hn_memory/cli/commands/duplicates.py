"""`hn memory duplicates`."""

from __future__ import annotations

from typing import Any

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.recall_options import recall_options, request_of


@make("duplicates", "Find records that say nearly the same.")
@recall_options(None, page="Groups that are shown.")
@click.pass_context
def command(ctx: click.Context, /, **values: Any) -> None:
    """Find groups of records that say the same in the same or nearly the same words.

    It looks at what `hn memory recall` with these filters would match. One record
    of a group says enough: supersede or retract the others.
    """
    session = session_of(ctx)
    with session.service() as service:
        document = service.duplicates(request_of(service, values))
    from hn_memory.cli.render_search import grouped

    session.reply(document, grouped)
