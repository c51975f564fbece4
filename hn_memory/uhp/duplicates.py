"""What a consolidation without a model finds: records that say the same, and records whose time is over.

The rules:

1. only facts, notes, procedures and links are looked at: an episode is raw experience, a type of somebody else's is
   carried unchanged, and bytes are not judged;
2. a record whose `valid_to` is past is forgotten;
3. two records say the same when type and valid times are equal, no attribute has two values, and their texts are the
   same or near: `likeness`;
4. of those that say the same, the one written first gets a next version, with the text of the one written last, all
   their attributes and references, and a reference `derived_from` to each of the others; those are forgotten.

Near is narrow on purpose. What changes a word, a number, a name or a negation is never merged: "renews in March" and
"renews in May" are nearly the same text, and a memory that makes one of them would lie.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from hn_memory.uhp.instants import parse_instant
from hn_memory.uhp.values import Change, Draft, Patch, Reference, Version

TYPES: Final = frozenset({"fact", "note", "procedure", "link"})
DERIVED: Final = "derived_from"

_REFERENCES: Final = 64
_ROOM: Final = 60_000
_REFERENCE_BYTES: Final = 160
# What ends or surrounds a clause. Not `?`, which makes it a question, nor what may be a sign or a unit.
_CLAUSE: Final = ".,;:!…“”„«»"
_IDLE: Final = frozenset({"the"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: each group is done whole or not at all.

    `through` is the time of writing up to which every record is dealt with, as text; None where nothing was read.
    """

    groups: list[list[Change]]
    read: int
    through: str | None
    exhausted: bool


@dataclass(slots=True)
class _Cluster:
    """Records that say the same, in the order in which they were written."""

    members: list[tuple[int, Version]]
    attributes: dict[str, Any] = field(default_factory=dict)


def likeness(kind: str, text: str) -> str:
    """What two texts have in common that are the same, or near.

    Near are texts of one line that differ in spacing, in the case of words of letters alone, in the punctuation of
    clauses, or in the word "the". Of several lines only white space at their ends is passed over, and of a link
    nothing: an address is another one in another case.
    """
    text = unicodedata.normalize("NFC", text)
    if kind == "link":
        return text
    if len(text.splitlines()) > 1:
        return "\n".join(line.rstrip() for line in text.splitlines())
    words = [word.strip(_CLAUSE) for word in text.split()]
    folded = [word.casefold() if word.isalpha() else word for word in words if word]
    return " ".join(word for word in folded if word not in _IDLE) or text


def plan(versions: Iterable[Version], now: int, after: str | None, limit: int) -> Plan:
    """What a pass does.

    Args:
        versions: the active records, in the order in which they were first written.
        now: nanoseconds since 1970.
        after: records written up to this time were dealt with by an earlier pass; they are still compared with.
        limit: how many records may be written or forgotten.
    """
    looked_at = [
        (place, version)
        for place, version in enumerate(versions)
        if version.type in TYPES and isinstance(version.content, str)
    ]
    looked_at.sort(key=lambda one: (_written(one[1]), one[0]))
    expired = [version for _, version in looked_at if _is_over(version, now)]
    groups = [[Change(one.record_id, one.number)] for one in expired[:limit]]
    since = -1 if after is None else parse_instant(after) or -1
    if len(expired) > limit:
        return Plan(groups, 0, after, True)
    live = [one for one in looked_at if not _is_over(one[1], now)]
    clusters, stopped = _clusters(live, since, limit - len(groups))
    groups += [merged for cluster in clusters if len(merged := _merge(cluster)) > 1]
    read = [version for _, version in live if _written(version) > since]
    if stopped is not None:
        # Records of the very instant at which the pass stopped are left to the next one.
        read = [version for version in read if _written(version) < stopped]
    return Plan(groups, len(read), read[-1].written_at if read else after, stopped is not None)


def _clusters(live: Sequence[tuple[int, Version]], since: int, limit: int) -> tuple[list[_Cluster], int | None]:
    """Clusters with a record written after `since`, and the time of the record at which the limit was met."""
    known: dict[tuple[Any, ...], list[_Cluster]] = {}
    touched: dict[int, _Cluster] = {}
    spent = 0
    for place, version in live:
        content = version.content
        assert isinstance(content, str)
        key = (version.type, version.valid_from, version.valid_to, likeness(version.type, content))
        fitting = known.setdefault(key, [])
        cluster = next((one for one in fitting if _agree(one.attributes, version.attributes)), None)
        if cluster is None:
            fitting.append(_Cluster([(place, version)], dict(version.attributes)))
            continue
        if _written(version) > since:
            # The first pair of a cluster takes a version and a forgetting, each further record a forgetting.
            cost = len(cluster.members) + 1 if id(cluster) not in touched else 1
            if spent + cost > limit:
                return list(touched.values()), _written(version)
            spent += cost
            touched[id(cluster)] = cluster
        cluster.members.append((place, version))
        cluster.attributes.update(version.attributes)
    return list(touched.values()), None


def _merge(cluster: _Cluster) -> list[Change]:
    """Rule 4, or nothing where what comes out would not fit into a record."""
    kept = min(cluster.members, key=lambda one: one[0])[1]
    latest = cluster.members[-1][1]
    others = [version for _, version in cluster.members if version is not kept]
    references = list(
        dict.fromkeys(
            [
                *(reference for _, version in cluster.members for reference in version.references),
                *(Reference(one.memory_id, one.record_id, DERIVED) for one in others),
            ]
        )
    )[:_REFERENCES]
    assert isinstance(latest.content, str)
    size = len(latest.content.encode()) + len(json.dumps(cluster.attributes).encode())
    if size + _REFERENCE_BYTES * len(references) > _ROOM:
        return []
    draft = Draft(latest.content, kept.type, cluster.attributes, tuple(references), kept.valid_from, kept.valid_to)
    return [Change(kept.record_id, kept.number, draft), *(Change(one.record_id, one.number) for one in others)]


def draft_of(version: Version) -> Draft:
    """The draft of which a version was made."""
    return Patch({}).on(version)


def _written(version: Version) -> int:
    return parse_instant(version.written_at) or 0


def _is_over(version: Version, now: int) -> bool:
    end = None if version.valid_to is None else parse_instant(version.valid_to)
    return end is not None and end <= now


def _agree(left: dict[str, Any], right: Any) -> bool:
    """Has no attribute two values? They are compared as JSON: true is not 1."""
    return all(
        json.dumps(left[name], sort_keys=True) == json.dumps(value, sort_keys=True)
        for name, value in right.items()
        if name in left
    )
