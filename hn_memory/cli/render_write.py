"""What the commands that append say to people."""

from __future__ import annotations

from collections.abc import Mapping

from hn_memory.cli.render_common import counted, paint, short

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def written(document: Mapping[str, Any], verb: str, relation: str | None = None) -> str:
    """The new memory's ID, and what it is tied to."""
    lines = [f"{verb} {paint(document['memoryId'], 'id')}"]
    if relation is not None:
        lines.append(f"  {relation}")
    anchor = document.get("anchor")
    if anchor is not None:
        paths = f" ({counted(len(anchor['paths']), 'path')})" if anchor.get("paths") else ""
        lines.append(f"  anchored to {short(anchor['commit'])}{paths}")
    return "\n".join(lines)
