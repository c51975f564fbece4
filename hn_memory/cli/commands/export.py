"""`hn memory export`."""

from __future__ import annotations

from hn_memory.cli.declare import FILE, option
from hn_memory.cli.declare import command as declare
from hn_memory.cli.inputs import file_name
from hn_memory.cli.session import Session


@declare(
    "export",
    "Write streams and policy to a bundle.",
    option("--bundle", type=FILE, metavar="FILE", required=True, help="The bundle to write."),
    option("--stream", name="streams", metavar="ID", multiple=True, help="Only this stream. Repeatable."),
)
def command(session: Session, bundle: str, streams: tuple[str, ...]) -> None:
    """Write verified streams, and the policy at HEAD, to a Git bundle.

    `hn memory verify FILE` checks it anywhere, `hn sync FILE` imports it.
    """
    from hn_memory.cli.render_replication import exported

    with session.service() as service:
        document = service.export_bundle(file_name(bundle), streams)
    session.reply(document, exported)
