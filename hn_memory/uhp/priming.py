"""What a session starts with: the always-relevant records of a memory within a budget, fenced as data.

Records are JSON lines between two marks, with `<` and `>` escaped, so that nothing a record says can end the fence.
Tokens are estimated at four bytes of UTF-8 each, since the server knows no model; the estimate is what is reported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hn_memory.protocol.query import WARNING
from hn_memory.uhp.values import FileReference, Version

DEFAULT_BUDGET: Final = 1000
MOST: Final = 100_000
BYTES_EACH: Final = 4


def tokens(text: str) -> int:
    """The estimated cost of a text."""
    return -(-len(text.encode()) // BYTES_EACH)


def fenced(value: Mapping[str, Any]) -> str:
    """One line of JSON that holds no mark."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def record_line(version: Version) -> str:
    """A record with who wrote it, as one line."""
    content = version.content
    return fenced(
        {
            "record_id": version.record_id,
            "type": version.type,
            "content": {"file": content.document()} if isinstance(content, FileReference) else content,
            "written_by": version.written_by.document(),
            "written_at": version.written_at,
            "trust": "untrusted",
        }
    )


def prime_text(
    memory: Mapping[str, Any], children: Sequence[Mapping[str, Any]], versions: Iterable[Version], budget: int
) -> tuple[str, list[str], int]:
    """The text of one memory: its head always, then records as far as the budget goes, whole ones only.

    Returns:
        The text, the ids of the records in it, and how many were left out.
    """
    head = fenced(
        {
            "memory_id": memory["id"],
            "name": memory["name"],
            "description": memory["description"],
            "children": [{"memory_id": one["id"], "name": one["name"], "description": one["description"]}
                         for one in children],
        }
    )  # fmt: skip
    lines = ["<memory>", head]
    spent = tokens("\n".join([*lines, "</memory>"]))
    placed: list[str] = []
    omitted = 0
    for version in versions:
        line = record_line(version)
        cost = tokens(line + "\n")
        if spent + cost > budget:
            omitted += 1
            continue
        spent += cost
        lines.append(line)
        placed.append(version.record_id)
    return "\n".join([*lines, "</memory>"]), placed, omitted


def instructions(texts: Sequence[str]) -> str:
    """What goes into an agent's instructions."""
    return "\n".join([f"Memories. {WARNING}", *texts])
