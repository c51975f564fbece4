"""`hn memory record`."""

from __future__ import annotations

from hn_memory.cli.declare import argument
from hn_memory.cli.declare import command as declare
from hn_memory.cli.record_options import KIND, record_arguments, record_options
from hn_memory.cli.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@declare(
    "record",
    "Sign and append a record.",
    argument("text", "[CONTENT]", required=False),
    KIND,
    *record_options(),
)
def command(session: Session, /, **values: Any) -> None:
    """Sign a record and append it to your stream.

    CONTENT comes from one place: standard input (`-`, best for long texts: the
    system limits an argument to 128 KiB), a file, an argument or --content. It is
    signed byte for byte as given.
    """
    arguments = record_arguments(values)
    with session.service() as service:
        document = service.record(arguments, allow_secrets=values["allow_secret"])

    def for_people(answer: dict[str, Any]) -> str:
        from hn_memory.cli.render_write import written

        return written(answer, "recorded")

    session.reply(document, for_people)
