"""`hn memory log`."""

from __future__ import annotations

from hn_memory.cli.declare import NUMBER, option, switch
from hn_memory.cli.declare import command as declare
from hn_memory.cli.session import Session


@declare(
    "log",
    "List all memories, newest first.",
    option("-n", "--max-count", type=NUMBER, metavar="N", help="Show at most N."),
    option("--actor", metavar="ACTOR", help="Only by this author."),
    option("--stream", metavar="ID", help="Only of this stream."),
    switch("--graph", help="Draw who supersedes, retracts and challenges whom."),
    switch("--oneline", help="One line each, which is how it is anyway."),
)
def command(
    session: Session, max_count: int | None, actor: str | None, stream: str | None, graph: bool, oneline: bool
) -> None:
    """List every verified memory, newest first, with the lifecycle of each record.

    Neither commit nor policy plays a part here: this is all that the sources hold.
    """
    with session.service() as service:
        document = service.log(max_count=max_count, actor=actor, stream=stream)
    from hn_memory.cli.render_log import graphed, logged

    session.reply(document, graphed if graph else logged)
