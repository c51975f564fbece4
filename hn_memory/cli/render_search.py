"""What `hn memory search` and `hn memory duplicates` show to people."""

from __future__ import annotations

from collections.abc import Mapping

from hn_memory.cli.render_common import author, counted, paint, record_lines, short
from hn_memory.cli.render_recall import recalled, receipt_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


_SUMMARY: Final = 160


def found(document: Mapping[str, Any]) -> str:
    """As a recall, with the score and the signals of each record; first of all, whether anything is plausible."""
    text = recalled(document, _ranked_lines)
    if document["abstain"] and document["memories"]:
        text = paint("nothing found is a plausible answer; what comes nearest:", "warning") + "\n" + text
    return text


def _ranked_lines(row: Mapping[str, Any]) -> list[str]:
    first, *rest = record_lines(row)
    return [first, f"  score {row['score']:.6f} ({', '.join(row['why'])})", *rest]


def grouped(document: Mapping[str, Any]) -> str:
    """Groups of records that say nearly the same, each record on a line."""
    lines: list[str] = []
    if document["groups"]:
        lines += [paint(document["warning"], "warning"), ""]
    for group in document["groups"]:
        alike = "the same content" if group["similarity"] == 1 else f"similarity {group['similarity']:.2f}"
        lines.append(paint(f"{counted(len(group['memories']), 'record')}, {alike}", "heading"))
        for memory in group["memories"]:
            lines.append(
                f"  {paint(short(memory['id']), 'id')} {memory['kind']} by {short(memory['actor'])} "
                f"at {author(memory['signedTimestamp'])} | {author(memory['summary'], _SUMMARY)}"
            )
        lines.append("")
    lines.append(receipt_line(document))
    lines += [f"hint: {author(hint, 1_000)}" for hint in document["receipt"]["hints"]]
    if document["truncated"]:
        lines.append(f"{counted(document['returned'], 'group')} shown of {document['found']}; -n shows more")
    return "\n".join(lines)
