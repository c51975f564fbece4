"""`hn memory handoff`."""

from __future__ import annotations

from hn_memory.cli.declare import argument
from hn_memory.cli.declare import command as declare
from hn_memory.cli.record_options import record_arguments, record_options
from hn_memory.cli.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@declare(
    "handoff",
    "Sign and append a handoff.",
    argument("text", "[CONTENT]", required=False),
    *record_options(handoff=True),
)
def command(session: Session, /, **values: Any) -> None:
    """Sign a handoff: a summary and four lists of what is done, assumed, in the way and next.

    With --input, --at and --applies may supply what the request leaves out. A next
    action is inert text; nothing ever runs it.
    """
    arguments = record_arguments(values, kind="handoff")
    with session.service() as service:
        document = service.record(arguments, allow_secrets=values["allow_secret"])

    def for_people(answer: dict[str, Any]) -> str:
        from hn_memory.cli.render_write import written

        return written(answer, "recorded")

    session.reply(document, for_people)
