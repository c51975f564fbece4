"""`hn`: the options before the command, and the commands."""

from __future__ import annotations

import os
from typing import Final

import click

from hn_memory.cli.click_types import FILE
from hn_memory.cli.command import LazyGroup, session_of
from hn_memory.cli.inputs import file_name
from hn_memory.errors import NotFoundError

COMMANDS: Final = {
    "init": "Make your identity in this repository.",
    "identity": "Make, list, choose and import identities.",
    "memory": "Record, correct, recall and verify memories.",
    "sync": "Exchange memories with a remote.",
    "replication": "Say what remotes may bring, and look into it.",
    "policy": "Say whose memories this repository trusts.",
    "uhp": "Serve memories to harnesses over HTTP.",
    "help": "Explain a topic or a command.",
    "version": "Print the version.",
}


class Root(LazyGroup):
    """The outermost group; it knows that people forget the word `memory`."""

    def guess(self, name: str) -> str | None:
        from hn_memory.cli.commands.memory import COMMANDS as MEMORY_COMMANDS

        return f"memory {name}" if name in MEMORY_COMMANDS else super().guess(name)


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from hn_memory.cli.commands.version import answer

        answer(session_of(ctx))
        ctx.exit()


@click.command(
    "hn",
    cls=Root,
    table=COMMANDS,
    package="hn_memory.cli.commands",
    epilog="Topics of `hn help`: exit-codes, identities, json, limits, policy, recall, record and more.",
)
@click.option("-C", "directories", type=FILE, metavar="DIR", multiple=True, help="Run as if started in DIR.")
@click.option("--git-dir", type=FILE, metavar="DIR", help="Use this Git directory.")
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
@click.pass_context
def root(ctx: click.Context, directories: tuple[str, ...], git_dir: str | None) -> None:
    """Memory that agents sign and repositories carry.

    Decisions, attempts, observations and handoffs as Ed25519-signed commits on
    append-only Git refs: recorded, corrected, disputed and recalled, with a
    receipt of what was withheld.
    """
    for directory in directories:
        try:
            os.chdir(file_name(directory))
        except (OSError, ValueError) as error:
            from hn_memory.cli.text import one_line

            reason = error.strerror if isinstance(error, OSError) else "not a directory name"
            raise NotFoundError(
                "directory-missing", f"cannot change to {one_line(directory, 200)}: {reason}", field="C"
            ) from None
    session_of(ctx).git_dir = None if git_dir is None else file_name(git_dir)
