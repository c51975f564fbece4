"""Recall without an index: everything verified afresh, each record taken through the gates by itself.

Slow and plain on purpose. It shares with the product what the format prescribes (verification, projection of
one record, digests, cursors) and the wording of the receipt; it shares nothing that selects, counts, orders
or cuts pages. `Oracle.recall` answers what `Service.recall` must answer, but for `receipt.index`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hn_memory.errors import HnError
from hn_memory.protocol.canonical import encode
from hn_memory.protocol.lifecycle import judge_lifecycles
from hn_memory.protocol.projection import Context, Row, project_one
from hn_memory.protocol.query import (
    RECALL_CURSOR_DOMAIN,
    RECALL_DIGEST_DOMAIN,
    WARNING,
    NormalRequest,
    Request,
    decode_cursor,
    encode_cursor,
    normalise,
    query_digest,
    source_fingerprint,
    stale_cursor,
)
from hn_memory.protocol.unicode import terms
from hn_memory.recall.receipt import build_receipt
from hn_memory.recall.select import Callout
from hn_memory.repository.base import Repository
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.scan import scan
from hn_memory.repository.world import RepositoryWorld

CALLOUTS = 20


class Oracle:
    """A full scan of one repository as it is now; make another one when anything may have changed."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.verified = scan(repository)
        self.memories = self.verified.memories
        self.lifecycles = judge_lifecycles(self.memories)
        self._worlds: dict[str, RepositoryWorld] = {}

    def recall(self, request: Request) -> dict[str, Any]:
        """The document of a recall. Raises what the service raises."""
        commit = self.repository.resolve_commit(request.at)
        normal = normalise(request, commit)
        policy = policy_at(self.repository, commit)
        world = self._worlds.setdefault(commit, RepositoryWorld(self.repository, commit))
        context = Context(commit, policy, world, normal.subject, normal.path)
        fingerprint = source_fingerprint(policy.digest, self.verified.heads)
        digest = query_digest(RECALL_DIGEST_DOMAIN, normal.document(), fingerprint, policy.digest)
        after = None if normal.cursor is None else decode_cursor(RECALL_CURSOR_DOMAIN, normal.cursor, digest)

        withheld: Counter[str] = Counter()
        matches: list[Row] = []
        callouts: list[Callout] = []
        considered = 0
        for memory in self.memories.values():
            row = project_one(self.memories, self.lifecycles, context, memory)
            if row is None:
                continue
            considered += 1
            failed = failed_gates(row, normal)
            if not failed:
                matches.append(row)
                continue
            withheld[failed[0]] += 1
            code = self._callout(row)
            if code is not None and failed == [row.lifecycle]:
                callouts.append(Callout(row.memory.id, code, tuple(row.edges.successors)))
        in_order(matches)
        callouts.sort(key=lambda item: item.memory_id)

        page, truncated = self._page(matches, normal, after)
        document: dict[str, Any] = {
            "version": 0,
            "warning": WARNING,
            "queryDigest": digest,
            "matched": len(matches),
            "returned": len(page),
            "truncated": truncated,
        }
        if truncated:
            document["nextCursor"] = encode_cursor(RECALL_CURSOR_DOMAIN, digest, page[-1].memory.id)
        document["memories"] = [row.document() for row in page]
        missing = sorted((item for row in page for item in row.dependencies), key=lambda item: item.order())
        document["missingDependencies"] = [item.document() for item in missing]
        document["receipt"] = build_receipt(
            considered=considered,
            matched=len(matches),
            withheld=withheld,
            callouts=callouts[:CALLOUTS],
            callout_counts=Counter(item.code for item in callouts),
            commit=commit,
            policy=policy,
            local=self.verified.local,
            accepted=self.verified.accepted,
            invalid=self.verified.invalid,
            index={},
        )
        del document["receipt"]["index"]
        return document

    def _callout(self, row: Row) -> str | None:
        """Why silence about a record would mislead, if it would."""
        if row.lifecycle == "branching":
            return "branching"
        if row.lifecycle == "superseded" and all(
            self.lifecycles.state(successor) == "retracted" for successor in row.edges.successors
        ):
            return "successor-retracted"
        return None

    @staticmethod
    def _page(matches: list[Row], request: NormalRequest, after: str | None) -> tuple[list[Row], bool]:
        if request.content_bound_given:
            for row in matches:
                if size(row) > request.max_content_bytes:
                    raise HnError(
                        "bound-too-small",
                        f"{row.memory.id} alone needs {size(row)} bytes, more than the bound of "
                        f"{request.max_content_bytes}",
                    )
        rest = matches
        if after is not None:
            places = [at for at, row in enumerate(matches) if row.memory.id == after]
            if not places:
                raise stale_cursor()
            rest = matches[places[0] + 1 :]
        page: list[Row] = []
        for row in rest:
            full = len(page) == request.max_records
            if full or (page and sum(map(size, [*page, row])) > request.max_content_bytes):
                return page, True
            page.append(row)
        return page, False


def failed_gates(row: Row, request: NormalRequest) -> list[str]:
    """The gates that a record does not pass, in the order in which they are asked."""
    record, envelope = row.record, row.memory.envelope
    failed: list[str] = []
    if (
        (request.kinds and record.kind not in request.kinds)
        or (request.actors and envelope.actor not in request.actors)
        or not set(request.topics) <= set(record.topics)
        or (request.path is not None and request.path not in [pair.path for pair in record.anchor.paths])
        or (request.subject is not None and request.subject != record.anchor.subject)
    ):
        failed.append("filtered")
    if row.applicability != "applicable":
        failed.append(row.applicability)
    if row.evidence != "resolved":
        failed.append(f"evidence-{row.evidence}")
    if request.lifecycle and row.lifecycle not in request.lifecycle:
        failed.append(row.lifecycle)
    if request.trust and row.trust not in request.trust:
        failed.append(row.trust)
    if request.terms:
        held: set[str] = set()
        for text in (record.content, *record.topics):
            held.update(terms(text))
        if not held.issuperset(request.terms):
            failed.append("no-match")
    return failed


def in_order(rows: list[Row]) -> None:
    """Matches are all applicable: lifecycle, then the signed time backwards as text, then the memory ID."""
    lifecycles = ["active", "superseded", "retracted", "branching", "dependency-missing"]
    rows.sort(key=lambda row: row.memory.id)
    rows.sort(key=lambda row: row.memory.envelope.timestamp, reverse=True)
    rows.sort(key=lambda row: lifecycles.index(row.lifecycle))


def size(row: Row) -> int:
    """What a record takes of the content budget."""
    return len(encode(row.record.content))
