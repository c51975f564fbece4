"""What `hn memory show` shows to people."""

from __future__ import annotations

from collections.abc import Mapping

from hn_memory.cli.render_common import author, dependency_line, paint, record_lines, state_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


_VERBS: Final = {"supersede": "supersedes", "retract": "retracts", "challenge": "challenges"}


def shown(document: Mapping[str, Any]) -> str:
    """One memory: what was signed, what it means at HEAD, and who speaks about whom."""
    envelope = document["envelope"]
    lines = [
        paint(document["warning"], "warning"),
        "",
        f"{paint(envelope['operation'], 'heading')} {paint(document['memoryId'], 'id')}",
        f"  signed by {envelope['actor']} at {author(envelope['timestamp'])}",
        f"  name {author(envelope['actorName'])}",
        f"  stream {envelope['stream']}",
        f"  sequence {envelope['sequence']}, commit {document['commit']}",
    ]
    if "target" in envelope:
        lines.append(f"  {_VERBS[envelope['operation']]} {envelope['target']}")
    if "reason" in envelope:
        lines.append(f"  reason {envelope['reason']}")
    lines += [f"  evidence {item}" for item in envelope.get("evidence", ())]
    if "projection" in document:
        lines += ["", *record_lines(document["projection"]), *state_lines(document, document["memoryId"])]
    if "targetProjection" in document:
        target = document["targetProjection"]
        lines += ["", paint("its target", "heading"), *record_lines(target), *state_lines(document, target["id"])]
    extra = [
        f"{relation['memoryId']} {_VERBS[relation['operation']]} {relation['targetId']}"
        for relation in document["relationships"]
    ]
    extra += [
        f"{item['memoryId']} {item['operation']} counts for nothing: {item['code']}" for item in document["diagnostics"]
    ]
    extra += [dependency_line(dependency) for dependency in document["missingDependencies"]]
    return "\n".join([*lines, "", *extra] if extra else lines)
