"""`hn policy show`, `check`, `trust` and `untrust`."""

from __future__ import annotations

import click

from hn_memory.cli.click_types import TEXT
from hn_memory.cli.command import LazyGroup, completing, session_of
from hn_memory.cli.command import command as make
from hn_memory.cli.record_options import kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


COMMANDS: Final = {
    "show": "Show the policy in force at a commit.",
    "check": "Check the policy file.",
    "trust": "Add actors and kinds to the policy file.",
    "untrust": "Remove actors from the policy file.",
}


@click.command("policy", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Say whose memories this repository trusts.

    The policy is the `memory` section of `.hn/policy.json`, as committed: edits
    take effect for the commits that hold them.
    """


@make("show", COMMANDS["show"])
@click.option("--at", type=TEXT, metavar="REV", default="HEAD", show_default=True, help="The commit to look at.")
@click.pass_context
def show(ctx: click.Context, at: str) -> None:
    """Show the policy in force at a commit."""
    from hn_memory.cli.render_admin import policy_shown

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.policy_show(at), policy_shown)


@make("check", COMMANDS["check"])
@click.option("--at", type=TEXT, metavar="REV", help="Check a commit's file, not the work tree's.")
@click.pass_context
def check(ctx: click.Context, at: str | None) -> None:
    """Check the policy file of the work tree, before it is committed, or of a commit."""
    from hn_memory.cli.render_admin import policy_checked

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.policy_check(at), policy_checked)


@make("trust", COMMANDS["trust"])
@click.argument("actors", type=TEXT, metavar="ACTOR...", nargs=-1)
@click.option("--self", "own", is_flag=True, help="Trust the identity in use, too.")
@click.option(
    "-k",
    "--kind",
    "kinds",
    type=TEXT,
    metavar="KIND",
    multiple=True,
    shell_complete=completing(kinds),
    help="A kind to trust them with. Repeatable.  [default: all six, where none is listed yet]",
)
@click.pass_context
def trust(ctx: click.Context, actors: tuple[str, ...], own: bool, kinds: tuple[str, ...]) -> None:
    """Add actors, by full ID, and kinds to the policy file of the work tree.

    The kinds are those of every trusted actor. Nothing is staged or committed.
    """
    from hn_memory.cli.render_admin import policy_edited

    session = session_of(ctx)
    with session.service() as service:
        if own:
            actors = (*actors, service.identity_show()["identity"]["actor"])
        session.reply(service.policy_trust(actors, kinds), policy_edited)


@make("untrust", COMMANDS["untrust"])
@click.argument("actors", type=TEXT, metavar="ACTOR...", nargs=-1, required=True)
@click.pass_context
def untrust(ctx: click.Context, actors: tuple[str, ...]) -> None:
    """Remove actors, by full ID, from the policy file of the work tree.

    The kinds stay. Nothing is staged or committed.
    """
    from hn_memory.cli.render_admin import policy_edited

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.policy_untrust(actors), policy_edited)


for _subcommand in (show, check, trust, untrust):
    command.add_command(_subcommand)
