"""`hn memory show`."""

from __future__ import annotations

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import TEXT
from hn_memory.cli.recall_options import check_evidence_option


@make("show", "Show one memory in full.")
@click.argument("memory", type=TEXT, metavar="ID")
@check_evidence_option
@click.pass_context
def command(ctx: click.Context, memory: str, check_evidence: bool) -> None:
    """Show the memory ID, whatever its lifecycle and trust, as HEAD sees it.

    An unambiguous beginning of at least 8 hex digits will do.
    """
    session = session_of(ctx)
    with session.service() as service:
        document = service.show(memory, check_evidence=check_evidence)
    from hn_memory.cli.render_show import shown

    session.reply(document, shown)
