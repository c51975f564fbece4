"""What the commands about streams, their verification and the index say to people."""

from __future__ import annotations

from collections.abc import Mapping

from hn_memory.cli.render_common import author, counted, invalid_lines, paint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def streams_listed(document: Mapping[str, Any]) -> str:
    """Every stream; `*` marks the one that new records go to."""
    lines: list[str] = []
    for row in document["streams"]:
        mark = "*" if row["default"] else " "
        origin = "local" if row["remote"] is None else f"from {author(row['remote'])}"
        lines.append(f"{mark} {paint(row['stream'], 'id')} {counted(row['memories'], 'memory', 'memories')}, {origin}")
        lines.append(f"    actor {row['actor']} | {author(row['actorName'])}")
    lines += invalid_lines(document["invalid"])
    if document["default"] is not None and not any(row["default"] for row in document["streams"]):
        lines.append(f"* {paint(document['default'], 'id')} holds nothing yet")
    return "\n".join(lines) if lines else "no stream is here yet"


def stream_chosen(document: Mapping[str, Any]) -> str:
    """After `--use`."""
    return f"records of {document['actor']} now go to stream {paint(document['stream'], 'id')}"


def verified(document: Mapping[str, Any]) -> str:
    """Every source, and whether it holds."""
    lines = []
    for row in document["streams"]:
        lines.append(f"{paint('valid', 'good')} {author(row['ref'])}: {counted(row['memories'], 'memory', 'memories')}")
    lines += invalid_lines(document["invalid"])
    memories, valid, invalid = document["memories"], len(document["streams"]), len(document["invalid"])
    lines.append(
        f"{counted(memories, 'memory', 'memories')} in {counted(valid, 'valid stream')}, "
        f"{counted(invalid, 'invalid source')}"
    )
    return "\n".join(lines)


def index_rebuilt(document: Mapping[str, Any]) -> str:
    """After `index rebuild`."""
    return f"index rebuilt: {counted(document['records'], 'record')}, {counted(document['tokens'], 'term')}"


def index_verified(document: Mapping[str, Any]) -> str:
    """After `index verify`; what does not hold is an error."""
    states = (f"{part} {_state(document[part])}" for part in ("database", "snapshot"))
    return f"index {_state(document['state'])}: {', '.join(states)}"


def index_described(document: Mapping[str, Any]) -> str:
    """What `index status` found."""
    lines = [f"index {_state(document['state'])}"]
    if "memories" in document:
        lines.append(f"  holds {counted(document['memories'], 'memory', 'memories')}")
    for field, what in (("bytes", "in all"), ("payloadBytes", "of signed payloads"), ("searchBytes", "to search by")):
        if field in document:
            lines.append(f"  {document[field]:,} bytes {what}")
    return "\n".join(lines)


def _state(state: str) -> str:
    return paint(state, "good" if state == "valid" else "warning")
