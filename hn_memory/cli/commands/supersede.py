"""`hn memory supersede`."""

from __future__ import annotations

from hn_memory.cli.declare import argument
from hn_memory.cli.declare import command as declare
from hn_memory.cli.record_options import KIND, record_arguments, record_options
from hn_memory.cli.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@declare(
    "supersede",
    "Replace a record of your own by a new one.",
    argument("target", "TARGET"),
    argument("text", "[CONTENT]", required=False),
    KIND,
    *record_options(),
)
def command(session: Session, /, target: str, **values: Any) -> None:
    """Sign a record that replaces TARGET, a record of your own, by its full ID.

    The replaced record stays; recall leaves it out unless asked. CONTENT and the
    flags are those of `hn memory record`.
    """
    arguments = record_arguments(values)
    with session.service() as service:
        document = service.record(arguments, target=target, allow_secrets=values["allow_secret"])

    def for_people(answer: dict[str, Any]) -> str:
        from hn_memory.cli.render_write import written

        return written(answer, "recorded", f"supersedes {target}")

    session.reply(document, for_people)
