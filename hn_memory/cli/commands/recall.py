"""`hn memory recall`."""

from __future__ import annotations

from hn_memory.cli.declare import FILE, argument, option
from hn_memory.cli.declare import command as declare
from hn_memory.cli.inputs import read_bytes
from hn_memory.cli.recall_options import CHECK_EVIDENCE, FLAGS, recall_options, request_of
from hn_memory.cli.session import Session
from hn_memory.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@declare(
    "recall",
    "Find what applies here, with a receipt.",
    argument("extra", "", many=True),
    option("-q", "--query", metavar="WORDS", help="Every word must occur, in content or topics."),
    *recall_options("Bytes of encoded content of a page."),
    option(
        "--input", name="input_file", type=FILE, metavar="FILE", help="Read a JSON request from FILE, or `-`, instead."
    ),
    CHECK_EVIDENCE,
)
def command(
    session: Session, /, extra: tuple[str, ...], input_file: str | None, check_evidence: bool, **values: Any
) -> None:
    """Find the records that apply to a commit, and say what was withheld and why.

    Without flags: what is active at HEAD, whose evidence is here, and whose author
    and kind the policy of that commit trusts.
    """
    if extra:
        raise UsageError(
            "usage",
            f"recall takes no argument, but {len(extra)} {'was' if len(extra) == 1 else 'were'} given",
            hint="Look for words with --query WORDS.",
        )
    from hn_memory.protocol.query import read_request

    if input_file is not None:
        from hn_memory.protocol import limits

        for name, flag in {"query": "--query", **FLAGS}.items():
            if values[name] not in (None, (), False):
                raise UsageError(
                    "usage",
                    f"Other recall flags cannot be combined with --input (here: {flag})",
                    hint="Say it in the JSON, or leave --input out.",
                    field=flag.lstrip("-"),
                )
        request = read_request(read_bytes(input_file, limits.REQUEST_BYTES, "--input"))
    with session.service() as service:
        if input_file is None:
            request = request_of(service, {**values, "query": values["query"] or ""})
        document = service.recall(request, check_evidence=check_evidence)

    def for_people(answer: dict[str, Any]) -> str:
        from hn_memory.cli.render_recall import recalled

        return recalled(answer)

    session.reply(document, for_people)
