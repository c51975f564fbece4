"""`hn memory show`."""

from __future__ import annotations

from hn_memory.cli.declare import argument
from hn_memory.cli.declare import command as declare
from hn_memory.cli.recall_options import CHECK_EVIDENCE
from hn_memory.cli.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@declare(
    "show",
    "Show one memory in full.",
    argument("memory", "ID"),
    CHECK_EVIDENCE,
)
def command(session: Session, memory: str, check_evidence: bool) -> None:
    """Show the memory ID, whatever its lifecycle and trust, as HEAD sees it.

    An unambiguous beginning of at least 8 hex digits will do.
    """
    with session.service() as service:
        document = service.show(memory, check_evidence=check_evidence)

    def for_people(answer: dict[str, Any]) -> str:
        from hn_memory.cli.render_show import shown

        return shown(answer)

    session.reply(document, for_people)
