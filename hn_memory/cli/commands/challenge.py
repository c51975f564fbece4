"""`hn memory challenge`."""

from __future__ import annotations

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import TEXT


@make("challenge", "Dispute a record.")
@click.argument("target", type=TEXT, metavar="TARGET")
@click.option(
    "-r", "--reason", type=TEXT, metavar="TOKEN", required=True, help="Why, as a token: evidence-mismatch, ..."
)
@click.option(
    "-e",
    "--evidence",
    type=TEXT,
    metavar="ID",
    multiple=True,
    help="git:OID, event:sha256:HEX or memory:sha256:HEX. Repeatable.",
)
@click.option("--stream", type=TEXT, metavar="ID", help="The stream to append to, or `new`.")
@click.pass_context
def command(ctx: click.Context, target: str, reason: str, evidence: tuple[str, ...], stream: str | None) -> None:
    """Sign a dispute of TARGET, a record by anybody, by its full ID.

    The record keeps its lifecycle; whoever recalls it sees who disputes it.
    """
    session = session_of(ctx)
    with session.service() as service:
        document = service.challenge(target, reason, evidence=evidence, stream=stream)
    from hn_memory.cli.render_write import written

    session.reply(document, lambda answer: written(answer, "challenged", f"disputes {target}"))
