"""`hn sync`."""

from __future__ import annotations

from hn_memory.cli.declare import FILE, argument, option, switch
from hn_memory.cli.declare import command as declare
from hn_memory.cli.inputs import can_ask, file_name
from hn_memory.cli.session import Session
from hn_memory.errors import PartialError


@declare(
    "sync",
    "Exchange memories with a remote.",
    argument("target", "[REMOTE|FILE]", type=FILE, required=False),
    option("--as", name="name", metavar="NAME", help="Import a bundle as this remote.  [default: bundle]"),
    switch("--recover-shallow", help="Fetch the commits that recorded gaps name, in a shallow clone."),
    switch("--no-push", help="Import only; publish nothing."),
)
def command(session: Session, target: str | None, name: str | None, recover_shallow: bool, no_push: bool) -> None:
    """Import what a remote offers and publish your streams to it.

    Without REMOTE: the only one, or `origin`. An argument with `/`, or an existing
    file that is no remote's name, is a bundle to import. Everything is verified
    before it is taken over. The exit status is 5 when a stream did not end well.
    """
    from hn_memory.cli.render_replication import synced

    with session.service() as service:
        document = service.sync(
            None if target is None else file_name(target),
            name=name,
            push=not no_push,
            recover_shallow=recover_shallow,
            interactive=can_ask(session.json),
        )
    session.reply(document, synced, status=0 if document["complete"] else PartialError.exit_status)
