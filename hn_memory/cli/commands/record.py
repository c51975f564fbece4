"""`hn memory record`."""

from __future__ import annotations

from typing import Any

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import TEXT
from hn_memory.cli.record_options import complete_kinds, record_arguments, record_options


@make("record", "Sign and append a record.")
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
def command(ctx: click.Context, /, **values: Any) -> None:
    """Sign a record and append it to your stream.

    CONTENT comes from one place: standard input (`-`, best for long texts: the
    system limits an argument to 128 KiB), a file, an argument or --content. It is
    signed byte for byte as given.
    """
    session = session_of(ctx)
    arguments = record_arguments(values)
    with session.service() as service:
        document = service.record(arguments, allow_secrets=values["allow_secret"])
    from hn_memory.cli.render_write import written

    session.reply(document, lambda answer: written(answer, "recorded"))
