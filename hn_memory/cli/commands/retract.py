"""`hn memory retract`."""

from __future__ import annotations

from hn_memory.cli.declare import argument, option
from hn_memory.cli.declare import command as declare
from hn_memory.cli.record_options import STREAM
from hn_memory.cli.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@declare(
    "retract",
    "Take back a record of your own.",
    argument("target", "TARGET"),
    option("-r", "--reason", metavar="TOKEN", required=True, help="Why, as a token: incorrect, outdated, ..."),
    STREAM,
)
def command(session: Session, target: str, reason: str, stream: str | None) -> None:
    """Sign a retraction of TARGET, a record of your own, by its full ID.

    Nothing is erased: the record stays in the repository and in every copy of it.
    """
    with session.service() as service:
        document = service.retract(target, reason, stream=stream)

    def for_people(answer: dict[str, Any]) -> str:
        from hn_memory.cli.render_write import written

        return written(answer, "retracted", f"retracts {target}")

    session.reply(document, for_people)
