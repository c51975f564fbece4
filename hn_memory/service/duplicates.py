"""The use case of finding records that say nearly the same, before they pile up."""

from __future__ import annotations

import sqlite3
from collections import defaultdict

from hn_memory.protocol.hashing import sha256
from hn_memory.protocol.jsonbytes import loads
from hn_memory.protocol.projection import Context
from hn_memory.protocol.query import WARNING, Request, normalise
from hn_memory.recall.alike import ALIKE, alike
from hn_memory.recall.select import Match, Selection
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.world import RepositoryWorld
from hn_memory.service.environment import Environment
from hn_memory.service.read import policy_hints, receipt_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


_SUMMARY: Final = 200


def duplicates(environment: Environment, request: Request) -> dict[str, Any]:
    """Groups of the records that a recall with this request matches, the most alike first; `maxRecords` bounds the
    groups. `found` counts all of them.

    Raises:
        UsageError `request-invalid`; NotFoundError `revision-unknown`; HnError `policy-invalid`.
    """
    repository = environment.repository
    commit = repository.resolve_commit(request.at)
    normal = normalise(request, commit)
    policy = policy_at(repository, commit)
    world = RepositoryWorld(repository, commit)
    context = Context(commit, policy, world, normal.subject, normal.path)
    index = environment.index()

    def ask(db: sqlite3.Connection) -> dict[str, Any]:
        selection = Selection(db, normal, context, world)
        groups = _groups(environment, db, list(selection.matches(None, selection.matched)))
        shown = groups[: normal.max_records]
        document: dict[str, Any] = {
            "version": 0,
            "warning": WARNING,
            "threshold": ALIKE,
            "matched": selection.matched,
            "found": len(groups),
            "returned": len(shown),
            "truncated": len(shown) < len(groups),
            "groups": shown,
        }
        document["receipt"] = receipt_document(selection, context, index, db)
        return document

    document = environment.query(index, ask)
    document["receipt"]["hints"] += policy_hints(environment, policy, document["matched"])
    environment.note_invalid(index.invalid)
    return document


def _groups(environment: Environment, db: sqlite3.Connection, matches: list[Match]) -> list[dict[str, Any]]:
    sayers: dict[bytes, list[Match]] = defaultdict(list)
    contents: dict[bytes, str] = {}
    for match in matches:
        content = _record(db, match)["record"]["content"]
        digest = sha256(content.encode()).digest()
        contents.setdefault(digest, content)
        sayers[digest].append(match)
    near = alike(contents, environment.progress)
    grouped = {digest for group in near for digest in group.keys}
    found = [(group.similarity, [match for digest in group.keys for match in sayers[digest]]) for group in near]
    found += [(1.0, who) for digest, who in sayers.items() if len(who) > 1 and digest not in grouped]
    for _, members in found:
        members.sort(key=lambda match: match.memory_id)
        members.sort(key=lambda match: match.timestamp, reverse=True)
    found.sort(key=lambda group: (-group[0], -len(group[1]), group[1][0].memory_id))
    return [
        {"similarity": round(similarity, 4), "memories": [_described(db, match) for match in members]}
        for similarity, members in found
    ]


def _record(db: sqlite3.Connection, match: Match) -> dict[str, Any]:
    (payload,) = db.execute("SELECT data FROM payload WHERE n = ?", (match.n,)).fetchone()
    envelope: dict[str, Any] = loads(payload)
    return envelope


def _described(db: sqlite3.Connection, match: Match) -> dict[str, Any]:
    envelope = _record(db, match)
    content = envelope["record"]["content"]
    return {
        "id": match.memory_id,
        "kind": envelope["record"]["kind"],
        "actor": envelope["actor"],
        "stream": envelope["stream"],
        "signedTimestamp": match.timestamp,
        "lifecycle": match.lifecycle,
        "contentDigest": "sha256:" + sha256(content.encode()).hexdigest(),
        "summary": content[:_SUMMARY],
    }
