"""`hn init`."""

from __future__ import annotations

import sys

import click

from hn_memory.cli.click_types import TEXT
from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.errors import HnError


@make("init", "Make your identity in this repository.")
@click.option("--name", type=TEXT, metavar="NAME", help="Your name.  [default: Git's user.name, else asked for]")
@click.pass_context
def command(ctx: click.Context, name: str | None) -> None:
    """Make your identity in this repository and sign with it from now on.

    The key stays in the private part of the repository, below `.git`; it is never
    transported.
    """
    from hn_memory.cli.render_admin import initialised

    session = session_of(ctx)
    with session.service() as service:
        try:
            document = service.init(name)
        except HnError as error:
            if error.code != "name-missing" or not _can_ask(session.json):
                raise
            document = service.init(click.prompt("Your name", type=TEXT, err=True))
    session.reply(document, initialised)


def _can_ask(json: bool) -> bool:
    """Is a person there? A machine that asked for JSON never is."""
    return not json and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
