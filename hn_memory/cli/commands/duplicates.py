"""`hn memory duplicates`."""

from __future__ import annotations

from hn_memory.cli.declare import command as declare
from hn_memory.cli.recall_options import recall_options, request_of
from hn_memory.cli.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@declare(
    "duplicates",
    "Find records that say nearly the same.",
    *recall_options(None, page="Groups that are shown."),
)
def command(session: Session, /, **values: Any) -> None:
    """Find groups of records that say the same in the same or nearly the same words.

    It looks at what `hn memory recall` with these filters would match. One record
    of a group says enough: supersede or retract the others.
    """
    with session.service() as service:
        document = service.duplicates(request_of(service, values))
    from hn_memory.cli.render_search import grouped

    session.reply(document, grouped)
