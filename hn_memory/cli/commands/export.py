"""`hn memory export`."""

from __future__ import annotations

from pathlib import Path

import click

from hn_memory.cli.command import command as make
from hn_memory.cli.command import session_of
from hn_memory.cli.inputs import FILE, TEXT, file_name


@make("export", "Write streams and policy to a bundle.")
@click.option("--bundle", type=FILE, metavar="FILE", required=True, help="The bundle to write.")
@click.option("--stream", "streams", type=TEXT, metavar="ID", multiple=True, help="Only this stream. Repeatable.")
@click.pass_context
def command(ctx: click.Context, bundle: str, streams: tuple[str, ...]) -> None:
    """Write verified streams, and the policy at HEAD, to a Git bundle.

    `hn memory verify FILE` checks it anywhere, `hn sync FILE` imports it.
    """
    from hn_memory.cli.render_replication import exported

    session = session_of(ctx)
    with session.service() as service:
        document = service.export_bundle(Path(file_name(bundle)), streams)
    session.reply(document, exported)
