"""`hn replication select`, `show`, `discover`, `gaps` and `tips`."""

from __future__ import annotations

import click

from hn_memory.cli.click_types import TEXT
from hn_memory.cli.command import LazyGroup, session_of
from hn_memory.cli.command import command as make
from hn_memory.cli.inputs import can_ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


COMMANDS: Final = {
    "select": "Save which streams a remote may bring.",
    "show": "Show the saved selections.",
    "discover": "List what a remote offers.",
    "gaps": "List what a shallow clone lacks.",
    "tips": "List what remotes showed before.",
}
TIPS: Final = {"accept": "Let a rewind, withdrawal or fork pass."}


@click.command("replication", cls=LazyGroup, table=COMMANDS)
def command() -> None:
    """Say what remotes may bring, and look into what they brought.

    A selection authorizes transport, not trust. `hn sync` obeys it.
    """


@make("select", COMMANDS["select"])
@click.argument("remote", type=TEXT, metavar="REMOTE")
@click.option("--memory", "streams", type=TEXT, metavar="STREAM", multiple=True, help="This stream. Repeatable.")
@click.option("--all", "everything", is_flag=True, help="Every stream, those to come included.")
@click.option("--from-policy", is_flag=True, help="The streams whose owners the policy at HEAD trusts.")
@click.option("--max-events", type=int, metavar="N", help="New commits of a stream.  [default: 10000]")
@click.option("--max-objects", type=int, metavar="N", help="New objects of a stream.  [default: 100000]")
@click.option("--max-object-bytes", type=int, metavar="N", help="Bytes of one object.  [default: 67108864]")
@click.option(
    "--max-attachment-bytes", type=int, metavar="N", help="Bytes of attachments of a stream.  [default: 16777216]"
)
@click.option("--max-total-bytes", type=int, metavar="N", help="Bytes of a stream in all.  [default: 1073741824]")
@click.pass_context
def select(
    ctx: click.Context, /, remote: str, streams: tuple[str, ...], everything: bool, from_policy: bool, **budgets: Any
) -> None:
    """Save which streams REMOTE may bring, and how much of each in one sync.

    Replaces the earlier selection. Budgets count what is new beyond the accepted
    head of a stream.
    """
    from hn_memory.cli.render_replication import selected

    session = session_of(ctx)
    with session.service() as service:
        document = service.replication_select(
            remote,
            streams,
            everything=everything,
            from_policy=from_policy,
            budgets=budgets,
            interactive=can_ask(session.json),
        )
    session.reply(document, selected)


@make("show", COMMANDS["show"])
@click.argument("remote", type=TEXT, metavar="[REMOTE]", required=False)
@click.pass_context
def show(ctx: click.Context, remote: str | None) -> None:
    """Show the selection of REMOTE, or of every remote."""
    from hn_memory.cli.render_replication import selections_shown

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.replication_show(remote), selections_shown)


@make("discover", COMMANDS["discover"])
@click.argument("remote", type=TEXT, metavar="REMOTE")
@click.pass_context
def discover(ctx: click.Context, remote: str) -> None:
    """List the streams that REMOTE offers, and what is known of them here.

    Asks the remote and takes nothing. Ends with what to type next.
    """
    from hn_memory.cli.render_replication import discovered

    session = session_of(ctx)
    with session.service() as service:
        document = service.replication_discover(remote, interactive=can_ask(session.json))
    session.reply(document, discovered)


@make("gaps", COMMANDS["gaps"])
@click.pass_context
def gaps(ctx: click.Context) -> None:
    """List the commits that streams need and this shallow clone does not have."""
    from hn_memory.cli.render_replication import gaps_listed

    session = session_of(ctx)
    with session.service() as service:
        session.reply(service.replication_gaps(), gaps_listed)


@click.command("tips", cls=LazyGroup, table=TIPS, invoke_without_command=True, short_help=COMMANDS["tips"])
@click.pass_context
def tips(ctx: click.Context) -> None:
    """List the highest verified memory of each stream that each remote showed.

    A remote that later shows less, or something else, is told by it.
    """
    if ctx.invoked_subcommand is not None:
        return
    from hn_memory.cli.render_replication import tips_listed

    session = session_of(ctx)
    session.parsed()
    with session.service() as service:
        session.reply(service.replication_tips(), tips_listed)


@make("accept", TIPS["accept"])
@click.argument("remote", type=TEXT, metavar="REMOTE")
@click.argument("stream", type=TEXT, metavar="STREAM")
@click.option("--reason", type=TEXT, metavar="TEXT", required=True, help="Why it is right; it is kept.")
@click.pass_context
def accept(ctx: click.Context, remote: str, stream: str, reason: str) -> None:
    """Record that you looked at what REMOTE did to STREAM.

    Syncs go on saying it, but end well. No ref moves and no evidence is erased.
    Whatever the remote does next is told again.
    """
    from hn_memory.cli.render_replication import tip_accepted

    session = session_of(ctx)
    with session.service() as service:
        document = service.replication_tips_accept(remote, stream, reason, interactive=can_ask(session.json))
    session.reply(document, tip_accepted)


tips.add_command(accept)
for _subcommand in (select, show, discover, gaps, tips):
    command.add_command(_subcommand)
