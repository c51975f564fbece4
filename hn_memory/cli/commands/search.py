"""`hn memory search`."""

from __future__ import annotations

from hn_memory.cli.declare import argument, option
from hn_memory.cli.declare import command as declare
from hn_memory.cli.recall_options import CHECK_EVIDENCE, recall_options, request_of
from hn_memory.cli.session import Session
from hn_memory.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _modes() -> tuple[str, ...]:
    from hn_memory.recall.ranking import MODES

    return MODES


@declare(
    "search",
    "Ask a question, get ranked answers.",
    argument("question", "[QUESTION...]", many=True),
    option(
        "--mode",
        metavar="MODE",
        values=_modes,
        help="lexical, meaning or hybrid.  [default: hybrid where an embedder is configured, else lexical]",
    ),
    *recall_options("Bytes of encoded content of a page.", "What concerns this file; QUESTION may be left out."),
    CHECK_EVIDENCE,
)
def command(
    session: Session, /, question: tuple[str, ...], mode: str | None, check_evidence: bool, **values: Any
) -> None:
    """Find the records that apply to a commit and answer QUESTION, the best first.

    QUESTION is text, never syntax. What was superseded or retracted does not come
    back, and the answer says so when nothing found is plausible. Filters are those
    of `hn memory recall`; `hn help search` explains the ranking.
    """
    if not question and values["path"] is None:
        raise UsageError(
            "usage",
            "search takes a question, but none was given",
            hint='Ask one: hn memory search "why was the queue dropped?", or name a file with --path.',
            field="question",
        )
    with session.service() as service:
        document = service.search(request_of(service, values), " ".join(question), mode, check_evidence=check_evidence)

    def for_people(answer: dict[str, Any]) -> str:
        from hn_memory.cli.render_search import found

        return found(answer)

    session.reply(document, for_people)
