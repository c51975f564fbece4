"""What the renderers share. Ours is what stands left of the gutter; right of it speaks an author."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from hn_memory.cli.output import use_colour
from hn_memory.cli.text import gutter, one_line, style

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


SHORT: Final = 12
_FIELD_WIDTH: Final = 200
_LIFECYCLE_STYLES: Final = {"active": "good", "superseded": "quiet", "retracted": "quiet"}


@cache
def _coloured() -> bool:
    return use_colour()


def paint(text: str, name: str) -> str:
    """Our own words in a style, where there are colours."""
    return style(text, name, _coloured())


def short(identifier: str) -> str:
    """The first digits of an ID; `hn memory show` finds a memory by them."""
    return identifier.removeprefix("sha256:")[:SHORT]


def author(text: str, width: int = _FIELD_WIDTH) -> str:
    """Author text inside a line of ours: safe, on one line, cut."""
    return one_line(text, width)


def lifecycle(state: str) -> str:
    """A lifecycle in its colour."""
    return paint(state, _LIFECYCLE_STYLES.get(state, "bad"))


def trust(state: str) -> str:
    """A trust class in its colour."""
    return paint(state, "good" if state == "qualified" else "warning")


def listed(values: Iterable[str]) -> str:
    """Author words (topics, paths) with commas between."""
    return ", ".join(author(value) for value in values)


def record_lines(row: Mapping[str, Any]) -> list[str]:
    """A projected record: our header, then what its author wrote, every line of it behind the gutter."""
    data = row["data"]
    lines = [*header_lines(row), gutter(data["content"])]
    for name, items in (data.get("handoff") or {}).items():
        if items:
            lines.append(f"  {paint(name, 'heading')} ({len(items)})")
            # A number of ours before every line: no item can look like two.
            lines += [gutter(item, f"{number:>3} | ") for number, item in enumerate(items, 1)]
    return lines


def header_lines(row: Mapping[str, Any]) -> list[str]:
    """What we say of a projected record; of its author's words only topics, paths and the like, cut to one line."""
    data = row["data"]
    lines = [f"{paint(row['kind'], 'heading')} {paint(row['id'], 'id')}"]
    signed = f" at {author(row['signedTimestamp'])}" if "signedTimestamp" in row else ""
    lines.append(f"  actor {row['actor']}{signed}")
    judged = [row["applicability"], lifecycle(row["lifecycle"]), trust(row["trust"])]
    if row["evidence"] != "resolved":
        judged.append(paint(f"evidence {row['evidence']}", "bad"))
    mode = data["applicability"]["mode"]
    lines.append(f"  anchor {short(row['anchor']['commit'])} {mode}: {', '.join(judged)}")
    if row["anchor"].get("paths"):
        lines.append(f"  paths {listed(pair['path'] for pair in row['anchor']['paths'])}")
    if row["anchor"].get("subject"):
        lines.append(f"  subject {row['anchor']['subject']}")
    if data["topics"]:
        lines.append(f"  topics {listed(data['topics'])}")
    if data.get("attemptOutcome"):
        lines.append(f"  outcome {data['attemptOutcome']}")
    lines += [
        f"  evidence {detail['type']}:{detail['requested']} {detail['status']}" for detail in row["evidenceDetails"]
    ]
    for field, verb in (("successors", "superseded"), ("retractions", "retracted"), ("challengers", "challenged")):
        lines += [paint(f"  {verb} by {memory}", "warning") for memory in row[field]]
    return lines


def state_lines(document: Mapping[str, Any], memory_id: str) -> list[str]:
    """What has become of the paths and objects under a record, where that was asked."""
    lines: list[str] = []
    for item in document.get("evidenceStates", {}).get(memory_id, ()):
        state = item["state"]
        kind, _, name = item["item"].partition(":")
        now = f": now {author(item['now'])}" if "now" in item else ""
        lines.append(f"  {kind} {author(name)} {paint(state, 'good' if state == 'unchanged' else 'warning')}{now}")
    return lines


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 record`, `2 records`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def dependency_line(dependency: Mapping[str, Any]) -> str:
    """One missing dependency."""
    return f"missing {dependency['kind']} {dependency['missingId']} ({dependency['reason']})"


def invalid_lines(sources: Iterable[Mapping[str, Any]]) -> list[str]:
    """Invalid sources with the reason and the commit that broke them; a ref's name is somebody's text."""
    lines: list[str] = []
    for source in sources:
        lines.append(f"{paint('invalid', 'bad')} {author(source['ref'])}: {author(source['reason'])}")
        lines += [f"  hint: {source['hint']}"] if "hint" in source else []
    return lines
