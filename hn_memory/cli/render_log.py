"""What `hn memory log` shows to people: a line for each memory, or a graph of who speaks about whom.

A line is ours up to its `|`: ID, what it is, marks. After it stand the author's name and the beginning of
what was written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hn_memory.cli.output import line_width
from hn_memory.cli.render_common import author, paint, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, TypeAlias


_NAME_WIDTH: Final = 24
_SHOWN_DEPTH: Final = 12
_MARKS: Final = {"retract": "x", "challenge": "!"}
_VERBS: Final = {"supersede": "supersedes", "retract": "retracts", "challenge": "challenges"}

Entry: TypeAlias = "Mapping[str, Any]"


def logged(document: Mapping[str, Any]) -> str:
    """Newest first, one line each."""
    width = line_width()
    lines = [_line(entry, "", width) for entry in document["entries"]]
    return "\n".join([*lines, *_rest(document)])


def graphed(document: Mapping[str, Any]) -> str:
    """Every record with those that speak about it below it; what was last active comes first.

    A single successor goes on in the column of what it replaces. Where there are several, all but the last get
    a column of their own.
    """
    width = line_width()
    entries: Sequence[Entry] = document["entries"]
    known = {entry["id"] for entry in entries}
    below: dict[str, list[Entry]] = {}
    roots: list[Entry] = []
    for entry in reversed(entries):
        target = entry.get("target")
        # Only a forest can be drawn: a memory that names itself stands alone, as does one of an unknown target.
        if target is not None and target in known and target != entry["id"]:
            below.setdefault(target, []).append(entry)
        else:
            roots.append(entry)
    newest = {entry["id"]: place for place, entry in enumerate(entries)}
    blocks = [_block(root, below, newest, width) for root in roots]
    blocks.sort(key=lambda block: block[0])
    lines: list[str] = []
    for _, drawn in blocks:
        lines += drawn
    return "\n".join([*lines, *_rest(document)])


def _block(
    root: Entry, below: Mapping[str, Sequence[Entry]], newest: Mapping[str, int], width: int
) -> tuple[int, list[str]]:
    """The lines of one tree, and the place in the log of its newest memory. A chain may be long: no recursion."""
    lines: list[str] = []
    place = newest[root["id"]]
    pending: list[tuple[Entry, int, bool]] = [(root, 0, False)]
    while pending:
        entry, depth, goes_on = pending.pop()
        place = min(place, newest[entry["id"]])
        prefix = "| " * min(depth, _SHOWN_DEPTH)
        if goes_on:
            lines.append(f"{prefix}|")
        lines.append(_line(entry, f"{prefix}{_MARKS.get(entry['operation'], '*')} ", width))
        children = below.get(entry["id"], ())
        remarks = [child for child in children if child["operation"] != "supersede"]
        successors = [child for child in children if child["operation"] == "supersede"]
        pending += [(child, depth, True) for child in successors[-1:]]
        pending += [(child, depth + 1, False) for child in reversed(successors[:-1])]
        pending += [(child, depth + 1, False) for child in reversed(remarks)]
    return place, lines


def _line(entry: Entry, prefix: str, width: int) -> str:
    words = [entry["kind"] if "kind" in entry else entry["operation"]]
    marks: list[str] = []
    if "lifecycle" in entry:
        if entry["lifecycle"] != "active":
            marks.append(entry["lifecycle"])
        if entry["challengers"]:
            marks.append("challenged")
    if "target" in entry:
        if "kind" in entry:
            words.append(_VERBS[entry["operation"]])
        words.append(short(entry["target"]))
        if entry["relationship"] != "valid":
            marks.append(entry["relationship"])
    what = " ".join(words)
    mark = f" ({', '.join(marks)})" if marks else ""
    said = entry["content"].split("\n", 1)[0] if "content" in entry else entry["reason"]
    name = author(entry["actorName"], _NAME_WIDTH)
    used = len(prefix) + len(short(entry["id"])) + len(what) + len(mark) + len(name) + 6
    text = author(said, max(20, width - used))
    coloured = paint(mark, "warning") if mark else ""
    return f"{prefix}{paint(short(entry['id']), 'id')} {what}{coloured} | {name}: {text}"


def _rest(document: Mapping[str, Any]) -> list[str]:
    shown, total = len(document["entries"]), document["total"]
    if not total:
        return ["no memory is here yet; `hn memory record --help` shows how to write one"]
    return [f"... and {total - shown} more"] if shown < total else []
