"""`hn memory challenge`."""

from __future__ import annotations

from hn_memory.cli.declare import argument, option
from hn_memory.cli.declare import command as declare
from hn_memory.cli.record_options import EVIDENCE, STREAM
from hn_memory.cli.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@declare(
    "challenge",
    "Dispute a record.",
    argument("target", "TARGET"),
    option("-r", "--reason", metavar="TOKEN", required=True, help="Why, as a token: evidence-mismatch, ..."),
    EVIDENCE,
    STREAM,
)
def command(session: Session, target: str, reason: str, evidence: tuple[str, ...], stream: str | None) -> None:
    """Sign a dispute of TARGET, a record by anybody, by its full ID.

    The record keeps its lifecycle; whoever recalls it sees who disputes it.
    """
    with session.service() as service:
        document = service.challenge(target, reason, evidence=evidence, stream=stream)

    def for_people(answer: dict[str, Any]) -> str:
        from hn_memory.cli.render_write import written

        return written(answer, "challenged", f"disputes {target}")

    session.reply(document, for_people)
