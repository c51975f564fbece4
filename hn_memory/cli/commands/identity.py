"""`hn identity new`, `list`, `show`, `public`, `use` and `import`."""

from __future__ import annotations

import click

from hn_memory.cli.click_types import FILE, TEXT
from hn_memory.cli.command import LazyGroup, session_of
from hn_memory.cli.command import command as make
from hn_memory.cli.inputs import file_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


COMMANDS: Final = {
    "new": "Make a further identity.",
    "list": "List the identities of this clone.",
    "show": "Show one identity.",
    "public": "Print what others may know of one.",
    "use": "Sign as another identity from now on.",
    "import": "Take over an identity from elsewhere.",
}


@click.command("identity", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Make, list, choose and import identities.

    An identity is an Ed25519 key in the private part of this repository. No
    command ever prints a private key.
    """


@make("new", COMMANDS["new"])
@click.argument("name", type=TEXT, metavar="NAME")
@click.pass_context
def new(ctx: click.Context, name: str) -> None:
    """Make a further identity called NAME. It signs at once only if it is the first."""
    from hn_memory.cli.render_admin import identity_made

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.identity_new(name), identity_made)


@make("list", COMMANDS["list"])
@click.pass_context
def listing(ctx: click.Context) -> None:
    """List the identities of this clone; `*` marks the one that signs."""
    from hn_memory.cli.render_admin import identities_listed

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.identity_list(), identities_listed)


@make("show", COMMANDS["show"])
@click.argument("actor", type=TEXT, metavar="[ACTOR]", required=False)
@click.pass_context
def show(ctx: click.Context, actor: str | None) -> None:
    """Show the identity of ACTOR, or the one that signs."""
    from hn_memory.cli.render_admin import identity_shown

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.identity_show(actor), identity_shown)


@make("public", COMMANDS["public"])
@click.argument("actor", type=TEXT, metavar="[ACTOR]", required=False)
@click.pass_context
def public(ctx: click.Context, actor: str | None) -> None:
    """Print actor ID, public key and name of ACTOR, or of the identity that signs.

    This is what to hand to somebody who is to trust you: `hn policy trust` wants
    the actor ID.
    """
    from hn_memory.cli.render_admin import identity_public

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.identity_show(actor), identity_public)


@make("use", COMMANDS["use"])
@click.argument("actor", type=TEXT, metavar="ACTOR")
@click.pass_context
def use(ctx: click.Context, actor: str) -> None:
    """Sign as ACTOR from now on. The variable HN_ACTOR does it for one command."""
    from hn_memory.cli.render_admin import identity_used

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.identity_use(actor), identity_used)


@make("import", COMMANDS["import"])
@click.argument("source", type=FILE, metavar="FILE|REPOSITORY")
@click.option("--actor", type=TEXT, metavar="ACTOR", help="Which identity of the repository.")
@click.pass_context
def take(ctx: click.Context, source: str, actor: str | None) -> None:
    """Take over an identity from an identity file or another repository of yours.

    So one person with many clones is one actor. Keep to one clone at a time per
    stream, or use a stream for each.
    """
    from hn_memory.cli.render_admin import identity_imported

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.identity_import(file_name(source), actor), identity_imported)


for _subcommand in (new, listing, show, public, use, take):
    command.add_command(_subcommand)
