"""What `hn memory recall` shows to people: records, and the receipt."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hn_memory.cli.render_common import author, counted, dependency_line, paint, record_lines, short, state_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


_CALLOUTS: Final = {
    "branching": "is replaced by more than one record",
    "successor-retracted": "was superseded, and what replaced it was retracted",
}


def recalled(document: Mapping[str, Any], lines_of: Callable[[Mapping[str, Any]], list[str]] = record_lines) -> str:
    """The page, then one line that says what was considered and withheld, then hints.

    Args:
        lines_of: how one record is shown.
    """
    lines: list[str] = []
    if document["memories"]:
        lines += [paint(document["warning"], "warning"), ""]
    for row in document["memories"]:
        lines += [*lines_of(row), *state_lines(document, row["id"]), ""]
    lines += [dependency_line(dependency) for dependency in document["missingDependencies"]]
    lines.append(receipt_line(document))
    lines += [_callout_line(callout) for callout in document["receipt"]["callouts"]]
    lines += [f"hint: {author(hint, 1_000)}" for hint in document["receipt"]["hints"]]
    if document["truncated"]:
        more = document["matched"] - document["returned"]
        lines.append(
            f"{counted(document['returned'], 'record')} shown of {document['matched']}; at most {more} follow."
        )
        lines.append(f"Go on with the same command and --cursor {document['nextCursor']}")
    return "\n".join(lines)


def receipt_line(document: Mapping[str, Any]) -> str:
    """The receipt in one line: `10 of 20 considered; withheld: 3 superseded, 2 policy-missing`."""
    receipt = document["receipt"]
    line = f"{document['matched']} of {receipt['considered']} considered"
    withheld = ", ".join(f"{count} {reason}" for reason, count in receipt["withheld"].items())
    if withheld:
        line += f"; withheld: {withheld}"
    invalid = len(receipt["sources"]["invalid"])
    if invalid:
        line += f"; {counted(invalid, 'invalid source')} left out"
    return paint(line, "heading")


def _callout_line(callout: Mapping[str, Any]) -> str:
    successors = ", ".join(short(memory) for memory in callout["successors"])
    what = _CALLOUTS.get(callout["code"], callout["code"])
    return paint(f"note: {short(callout['memoryId'])} {what}: {successors}", "warning")
