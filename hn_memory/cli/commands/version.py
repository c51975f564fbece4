"""`hn version`."""

from __future__ import annotations

import click

from hn_memory._version import __version__
from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.session import Session


@make("version", "Print the version.")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Print the version of hn and the protocol that it speaks."""
    answer(session_of(ctx))


def answer(session: Session) -> None:
    """Reply with the version; `hn --version` comes here, too."""
    document = {"version": 0, "release": __version__, "protocol": "hn-memory/0"}
    session.reply(document, lambda _: f"hn {__version__}")
