"""`hn memory supersede`."""

from __future__ import annotations

from typing import Any

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import TEXT
from hn_memory.cli.record_options import complete_kinds, record_arguments, record_options


@make("supersede", "Replace a record of your own by a new one.")
@click.argument("target", type=TEXT, metavar="TARGET")
@click.argument("text", type=TEXT, metavar="[CONTENT]", required=False)
@click.option(
    "-k",
    "--kind",
    type=TEXT,
    metavar="KIND",
    shell_complete=complete_kinds,
    help="assumption, attempt, decision, handoff, observation or verification.",
)
@record_options()
@click.pass_context
def command(ctx: click.Context, /, target: str, **values: Any) -> None:
    """Sign a record that replaces TARGET, a record of your own, by its full ID.

    The replaced record stays; recall leaves it out unless asked. CONTENT and the
    flags are those of `hn memory record`.
    """
    session = session_of(ctx)
    arguments = record_arguments(values)
    with session.service() as service:
        document = service.record(arguments, target=target, allow_secrets=values["allow_secret"])
    from hn_memory.cli.render_write import written

    session.reply(document, lambda answer: written(answer, "recorded", f"supersedes {target}"))
