"""What the commands about remotes and bundles say to people. Words of remotes are somebody else's text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hn_memory.cli.render_common import author, counted, invalid_lines, paint, short

_GOOD: Final = ("promoted", "published", "unchanged")
_WIDTH: Final = 600


def synced(document: Mapping[str, Any]) -> str:
    """After `hn sync`: what changed and what went wrong; what stayed is only counted."""
    lines: list[str] = []
    for row in document["outcomes"]:
        if row["outcome"] == "unchanged":
            continue
        passed = row["outcome"] in _GOOD or "accepted" in row
        owner = "" if row["actor"] is None else f" of {short(row['actor'])}"
        word = paint(row["outcome"], "good" if passed else "bad")
        lines.append(f"{word} {paint(row['stream'], 'id')}{owner}: {author(row['reason'], _WIDTH)}")
        lines += [
            f"  {author(item['source'])} has {item['memoryId'] or 'an unreadable memory'}, kept as {item['ref']}"
            for item in row.get("evidence", ())
        ]
        if "accepted" in row:
            lines.append(f"  accepted: {author(row['accepted'])}")
        elif "hint" in row:
            lines.append(f"  hint: {row['hint']}")
    lines += [f"remote: {author(message, _WIDTH)}" for message in document["messages"]]
    counts = document["counts"]
    said = ", ".join(f"{count} {word}" for word, count in counts.items()) or "no stream anywhere yet"
    lines.append(f"{author(document['remote'])}: {said}")
    return "\n".join(lines)


def _selection_lines(row: Mapping[str, Any]) -> list[str]:
    lines = []
    if row["all"]:
        lines.append("  every stream")
    lines += [f"  stream {paint(stream, 'id')}" for stream in row.get("memories", ())]
    for name in ("actors", "proposals"):
        if row[name]:
            lines.append(f"  {name} {', '.join(author(item) for item in row[name])} (another namespace)")
    lines.append("  budgets " + ", ".join(f"{name} {value}" for name, value in row["budgets"].items()))
    return lines


def selected(document: Mapping[str, Any]) -> str:
    """After `select`."""
    row = document["selection"]
    return "\n".join([f"saved for {author(row['remote'])}", *_selection_lines(row)])


def selections_shown(document: Mapping[str, Any]) -> str:
    """Every selection; what is not saved is the default."""
    lines: list[str] = []
    for row in document["selections"]:
        lines.append(f"{author(row['remote'])}: {'saved' if row['saved'] else 'nothing saved, so a sync takes'}")
        lines += _selection_lines(row)
    return "\n".join(lines) if lines else "there is no remote here"


def discovered(document: Mapping[str, Any]) -> str:
    """Every offered stream, one or two lines each."""
    lines: list[str] = []
    for row in document["offers"]:
        known = {"no": "not here", "local": "yours", "accepted": "here"}[row["known"]]
        if row["known"] != "no" and not row["current"]:
            known += ", but not as offered"
        judged = [known, "selected" if row["selected"] else "not selected"]
        judged.append(paint("trusted", "good") if row["trusted"] else "not trusted by the policy at HEAD")
        lines += [paint(row["stream"], "id"), f"    actor {row['actor']}: {', '.join(judged)}"]
    for row in document["disputed"]:
        lines.append(f"{paint('disputed', 'bad')} {row['stream']}: offered under {len(row['actors'])} owners")
    if document["malformed"]:
        lines.append(f"{counted(document['malformed'], 'malformed ref')} passed over")
    lines += [f"hint: {hint}" for hint in document["hints"]]
    return "\n".join(lines)


def gaps_listed(document: Mapping[str, Any]) -> str:
    """Every gap, and the command that closes it."""
    lines: list[str] = []
    for gap in document["gaps"]:
        lines.append(f"{gap['kind']} {paint(gap['missingId'], 'id')}")
        lines.append(f"    needed by {gap['ownerId']} of {short(gap['actor'])}, from {author(gap['remote'])}")
        lines.append(f"    `{gap['command']}`")
    return "\n".join(lines) if lines else "no gap is recorded"


def tips_listed(document: Mapping[str, Any]) -> str:
    """The ledger."""
    lines = [
        f"{author(tip['remote'])} {paint(tip['stream'], 'id')} of {short(tip['actor'])}: "
        f"{counted(tip['sequence'], 'memory', 'memories')}, the last {short(tip['memoryId'])}"
        for tip in document["tips"]
    ]
    lines += [_accepted(item) for item in document["accepted"]]
    return "\n".join(lines) if lines else "no remote has shown anything yet"


def tip_accepted(document: Mapping[str, Any]) -> str:
    """After `tips accept`."""
    return _accepted(document["accepted"])


def _accepted(item: Mapping[str, Any]) -> str:
    where = f"{paint(item['stream'], 'id')} at {author(item['remote'])}"
    return f"accepted {item['outcome']} {where}: {author(item['reason'])}"


def exported(document: Mapping[str, Any]) -> str:
    """After `export`."""
    lines = [
        f"{paint(row['stream'], 'id')} {counted(row['memories'], 'memory', 'memories')}" for row in document["streams"]
    ]
    policy = "with the policy" if document["policy"] else "without a policy: HEAD has none"
    streams = counted(len(document["streams"]), "stream")
    lines.append(f"wrote {author(document['file'])}: {streams}, {document['bytes']} bytes, {policy}")
    return "\n".join(lines)


def file_verified(document: Mapping[str, Any]) -> str:
    """Every stream of a bundle, and the policy in it."""
    lines = [
        f"{paint('valid', 'good')} {author(row['ref'])}: {counted(row['memories'], 'memory', 'memories')}"
        for row in document["streams"]
    ]
    lines += invalid_lines(document["invalid"])
    policy = document["policy"]
    if policy is not None:
        lines.append(f"policy {policy['digest']}")
        lines += [f"  trusts {actor}" for actor in policy["trustedActors"]]
    memories, streams = document["memories"], len(document["streams"])
    lines.append(
        f"{counted(memories, 'memory', 'memories')} in {counted(streams, 'valid stream')}, "
        f"{counted(len(document['invalid']), 'invalid source')}"
    )
    return "\n".join(lines)
