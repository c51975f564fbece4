"""`hn memory streams`."""

from __future__ import annotations

from hn_memory.cli.declare import command as declare
from hn_memory.cli.declare import option
from hn_memory.cli.session import Session


@declare(
    "streams",
    "List the streams; choose the default one.",
    option("--use", metavar="ID", help="Write to this stream from now on, in this clone."),
)
def command(session: Session, use: str | None) -> None:
    """List every stream of this clone, or choose the one that your records go to."""
    from hn_memory.cli.render_sources import stream_chosen, streams_listed

    with session.service() as service:
        if use is None:
            session.reply(service.streams(), streams_listed)
        else:
            session.reply(service.use_stream(use), stream_chosen)
