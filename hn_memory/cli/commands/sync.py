"""`hn sync`."""

from __future__ import annotations

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import FILE, TEXT, can_ask, file_name
from hn_memory.errors import PartialError


@make("sync", "Exchange memories with a remote.")
@click.argument("target", type=FILE, metavar="[REMOTE|FILE]", required=False)
@click.option("--as", "name", type=TEXT, metavar="NAME", help="Import a bundle as this remote.  [default: bundle]")
@click.option("--recover-shallow", is_flag=True, help="Fetch the commits that recorded gaps name, in a shallow clone.")
@click.option("--no-push", is_flag=True, help="Import only; publish nothing.")
@click.pass_context
def command(ctx: click.Context, target: str | None, name: str | None, recover_shallow: bool, no_push: bool) -> None:
    """Import what a remote offers and publish your streams to it.

    Without REMOTE: the only one, or `origin`. An argument with `/`, or an existing
    file that is no remote's name, is a bundle to import. Everything is verified
    before it is taken over. The exit status is 5 when a stream did not end well.
    """
    from hn_memory.cli.render_replication import synced

    session = session_of(ctx)
    with session.service() as service:
        document = service.sync(
            None if target is None else file_name(target),
            name=name,
            push=not no_push,
            recover_shallow=recover_shallow,
            interactive=can_ask(session.json),
        )
    session.reply(document, synced, status=0 if document["complete"] else PartialError.exit_status)
