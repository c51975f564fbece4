"""`hn memory grep`."""

from __future__ import annotations

from hn_memory.cli.declare import RAW, argument, switch
from hn_memory.cli.declare import command as declare
from hn_memory.cli.recall_options import recall_options, request_of
from hn_memory.cli.session import Session
from hn_memory.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@declare(
    "grep",
    "Find by regular expression, with a receipt.",
    argument("patterns", "PATTERN", type=RAW, many=True),
    switch("-i", "--ignore-case", help="Upper and lower case alike, as Unicode folds them."),
    *recall_options("Bytes of encoded data of a page, every field counted."),
    hint="Put `--` before a pattern that begins with a hyphen.",
)
def command(session: Session, /, patterns: tuple[str, ...], ignore_case: bool, **values: Any) -> None:
    """Find the records that apply to a commit and in which PATTERN, a regular
    expression, is found: in their content, a topic, or an entry of a handoff.

    The syntax is that of RE2 and Go; `hn help grep` explains it. Quote PATTERN, and
    put -- before one that begins with a hyphen. Filters are those of `hn memory
    recall`.
    """
    pattern = _the_one(patterns)
    with session.service() as service:
        document = service.grep(request_of(service, values), pattern, ignore_case)

    def for_people(answer: dict[str, Any]) -> str:
        from hn_memory.cli.render_grep import grepped

        return grepped(answer, pattern, ignore_case)

    session.reply(document, for_people)


def _the_one(patterns: tuple[str, ...]) -> str:
    if len(patterns) != 1:
        given = f"{len(patterns)} were" if patterns else "none was"
        raise UsageError(
            "usage",
            f"grep takes exactly one pattern, but {given} given",
            hint="Put the pattern into quotes, so that the shell passes it as one; `hn help grep` has examples.",
            field="pattern",
        )
    (pattern,) = patterns
    try:
        pattern.encode()
    except UnicodeEncodeError as error:
        at = len(pattern[: error.start].encode("utf-8", "surrogateescape"))
        raise UsageError("pattern-invalid", f"invalid pattern at byte {at}: invalid UTF-8", field="pattern") from None
    return pattern
