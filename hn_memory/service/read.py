"""The use cases that read: recall, show, log, streams, verify."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping

from hn_memory.errors import UsageError
from hn_memory.index.lookup import (
    KnownMemories,
    StoredLifecycles,
    find_number,
    judged_edges,
    lifecycle_of,
    number_of,
    read_memory,
    source_rows,
    valid_edges,
)
from hn_memory.index.store import Index
from hn_memory.protocol.identifiers import memory_prefix, parse_source_ref, require_actor, require_digest
from hn_memory.protocol.policy import POLICY_PATH, Policy
from hn_memory.protocol.projection import Context, Row, SourceMemory, project_one
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
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.streams import InvalidSource
from hn_memory.repository.world import RepositoryWorld
from hn_memory.service.environment import Environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hn_memory.recall.page import Page
    from hn_memory.recall.select import Match, Selection


_STRAY = "It is no stream. If it got there by mistake (a shell variable inside quotes), `git update-ref -d` removes it."


def recall(environment: Environment, request: Request, *, check_evidence: bool = False) -> dict[str, Any]:
    """One page of matches and the receipt (section 7); if asked, with `evidenceStates` beside them.

    Raises:
        UsageError `request-invalid`, `cursor-invalid`, `cursor-stale`.
        NotFoundError `revision-unknown`.
        HnError `policy-invalid`, `bound-too-small`.
    """
    repository = environment.repository
    commit = repository.resolve_commit(request.at)
    world = RepositoryWorld(repository, commit)
    world.expect_ancestry()
    normal = normalise(request, commit)
    policy = policy_at(repository, commit)
    context = Context(commit, policy, world, normal.subject, normal.path)
    index = environment.index(meanwhile=load_answering)
    from hn_memory.recall.select import Selection
    from hn_memory.replication.hints import sync_hints

    fingerprint = source_fingerprint(policy.digest, index.heads)
    digest = query_digest(RECALL_DIGEST_DOMAIN, normal.document(), fingerprint, policy.digest)
    after = None if normal.cursor is None else decode_cursor(RECALL_CURSOR_DOMAIN, normal.cursor, digest)

    def ask(db: sqlite3.Connection) -> dict[str, Any]:
        selection = Selection(db, normal, context, world)
        page = page_of(selection, normal, after)
        rows = project_rows(db, [match.n for match in page.matches], context)
        document = result_document(digest, selection.matched, page, rows, RECALL_CURSOR_DOMAIN)
        document["receipt"] = receipt_document(selection, context, index, db)
        return document

    document = environment.query(index, ask)
    if check_evidence:
        add_evidence_states(environment, document, commit, document["memories"])
    document["receipt"]["hints"] += policy_hints(environment, policy, document["matched"])
    document["receipt"]["hints"] += sync_hints(
        repository.layout.common, index.heads, empty=not document["receipt"]["considered"]
    )
    environment.note_invalid(index.invalid)
    return document


def load_answering() -> None:
    """Load what answers a question once the index is as the refs are; it may have to wait for the disk first."""
    from hn_memory.recall import page, receipt, select  # noqa: F401
    from hn_memory.replication import hints  # noqa: F401


def add_evidence_states(
    environment: Environment, document: dict[str, Any], commit: str, rows: Iterable[Mapping[str, Any]]
) -> None:
    """Say of the anchored paths and Git evidence of rows whether they have changed since."""
    from hn_memory.service.evidence import evidence_states

    document["evidenceStates"] = evidence_states(environment.repository, commit, rows)


def policy_hints(environment: Environment, policy: Policy, matched: int) -> list[str]:
    """Where nothing came back for want of a policy: is there one that only waits to be committed?"""
    tree = environment.repository.layout.tree
    if matched or policy.state == "present" or tree is None or not os.path.isfile(f"{tree}/{POLICY_PATH}"):  # noqa: PTH113
        return []
    return [f"{POLICY_PATH} of the work tree is not committed yet; it takes effect when it is"]


def page_of(selection: Selection, request: NormalRequest, after: str | None) -> Page:
    """The page after a memory ID, or the first one; an explicit bound that one match passes fails before any."""
    from hn_memory.recall.page import bound_too_small, fill_page

    if request.content_bound_given:
        larger = selection.first_larger(request.max_content_bytes)
        if larger is not None:
            raise bound_too_small(larger.memory_id, larger.size, request.max_content_bytes)
    last: Match | None = None
    if after is not None:
        last = selection.find(after)
        if last is None:
            raise stale_cursor()
    return fill_page(selection.matches(last, request.max_records + 1), request, lambda match: match.size)


def project_rows(db: sqlite3.Connection, numbers: list[int], context: Context) -> list[Row]:
    """The rows of records by their numbers, in the order given."""
    memories = {n: read_memory(db, n) for n in numbers}
    lifecycles = StoredLifecycles(db, memories)
    known = KnownMemories(db)
    rows = (project_one(known, lifecycles, context, memory) for memory in memories.values())
    return [row for row in rows if row is not None]


def result_document(digest: str, matched: int, page: Page, rows: list[Row], cursor_domain: str) -> dict[str, Any]:
    """The envelope of section 7, without its receipt."""
    dependencies = sorted((item for row in rows for item in row.dependencies), key=lambda item: item.order())
    document: dict[str, Any] = {
        "version": 0,
        "warning": WARNING,
        "queryDigest": digest,
        "matched": matched,
        "returned": len(rows),
        "truncated": page.truncated,
    }
    if page.last is not None:
        document["nextCursor"] = encode_cursor(cursor_domain, digest, page.last)
    document["memories"] = [row.document() for row in rows]
    document["missingDependencies"] = [item.document() for item in dependencies]
    return document


def receipt_document(
    selection: Selection, context: Context, index: Index, db: sqlite3.Connection, *, no_match: str | None = None
) -> dict[str, Any]:
    """What a selection withheld and why; `no_match` says it of those that lack what was looked for."""
    from hn_memory.recall.receipt import CALLOUTS_SHOWN, TERMS_MISSING, build_receipt

    callouts, callout_counts = selection.callouts(CALLOUTS_SHOWN)
    local, accepted = _source_counts(db)
    return build_receipt(
        considered=selection.considered,
        matched=selection.matched,
        withheld=selection.withheld,
        callouts=callouts,
        callout_counts=callout_counts,
        commit=context.commit,
        policy=context.policy,
        local=local,
        accepted=accepted,
        invalid=index.invalid,
        index={"state": index.state} if index.detail is None else {"state": index.state, "detail": index.detail},
        no_match=no_match or TERMS_MISSING,
    )


def _source_counts(db: sqlite3.Connection) -> tuple[int, int]:
    valid, local = db.execute(
        "SELECT count(*), coalesce(sum(ref LIKE 'refs/hn/memory/%'), 0) FROM source WHERE code IS NULL"
    ).fetchone()
    return local, valid - local


def show(environment: Environment, memory_id: str, *, check_evidence: bool = False) -> dict[str, Any]:
    """One memory, projected at HEAD; if asked, with `evidenceStates` of it and its target.

    Raises:
        NotFoundError `memory-unknown`; UsageError `id-invalid`, `id-ambiguous`.
    """
    repository = environment.repository
    digits = memory_prefix(memory_id)
    index = environment.index()

    def ask(db: sqlite3.Connection) -> dict[str, Any]:
        n = find_number(db, digits)
        commit = repository.resolve_commit("HEAD")
        context = Context(commit, policy_at(repository, commit), RepositoryWorld(repository, commit))
        return _show_document(db, n, context)

    document = environment.query(index, ask)
    if check_evidence:
        rows = [document[name] for name in ("projection", "targetProjection") if name in document]
        add_evidence_states(environment, document, repository.resolve_commit("HEAD"), rows)
    environment.note_invalid(index.invalid)
    return document


def _show_document(db: sqlite3.Connection, n: int, context: Context) -> dict[str, Any]:
    memory = read_memory(db, n)
    target_id = memory.envelope.target
    target = None if target_id is None else number_of(db, target_id)
    rows = {row.memory.id: row for row in project_rows(db, [n] if target is None else [n, target], context)}
    relationships, diagnostics, dependencies = judged_edges(db, n)
    missing = set(dependencies)
    for row in rows.values():
        missing.update(row.dependencies)
    document: dict[str, Any] = {
        "version": 0,
        "warning": WARNING,
        "memoryId": memory.id,
        "commit": memory.commit,
        "envelope": memory.envelope.document(with_record=False) | {"signature": "valid"},
    }
    if memory.id in rows:
        document["projection"] = rows[memory.id].document(show=True)
    if target_id in rows:
        document["targetProjection"] = rows[target_id].document(show=True)
    document["relationships"] = [item.document() for item in relationships]
    document["missingDependencies"] = [item.document() for item in sorted(missing, key=lambda item: item.order())]
    document["diagnostics"] = [item.document() for item in diagnostics]
    return document


def log(
    environment: Environment, *, max_count: int | None = None, actor: str | None = None, stream: str | None = None
) -> dict[str, Any]:
    """All memories, newest first, with lifecycle marks; `total` counts them before `max_count` cuts."""
    if actor is not None:
        require_actor(actor, "actor")
    if stream is not None:
        require_digest(stream, "a stream", "stream")
    if max_count is not None and max_count < 1:
        raise UsageError("request-invalid", "the count must be at least 1", field="maxCount")
    index = environment.index()

    def ask(db: sqlite3.Connection) -> dict[str, Any]:
        chosen = (
            "FROM memory JOIN link ON link.c = (SELECT min(c) FROM (SELECT c FROM link WHERE c = memory.n AND n = c "
            "UNION ALL SELECT c FROM link WHERE n = memory.n AND c <> n)) "
            "JOIN stream ON stream.s = link.s JOIN actor ON actor.a = stream.a "
            "WHERE (?1 IS NULL OR actor.id = ?1) AND (?2 IS NULL OR stream.id = ?2)"
        )
        (total,) = db.execute(f"SELECT count(*) {chosen}", (actor, stream)).fetchone()
        numbers = db.execute(
            f"SELECT memory.n {chosen} ORDER BY ts DESC, sequence DESC, memory.id LIMIT ?3",
            (actor, stream, -1 if max_count is None else max_count),
        ).fetchall()
        return {
            "version": 0,
            "warning": WARNING,
            "total": total,
            "entries": [_log_entry(db, n) for (n,) in numbers],
            "invalid": [_invalid_document(source) for source in index.invalid],
        }

    document = environment.query(index, ask)
    environment.note_invalid(index.invalid)
    return document


def _log_entry(db: sqlite3.Connection, n: int) -> dict[str, Any]:
    memory = read_memory(db, n)
    envelope = memory.envelope
    entry: dict[str, Any] = {
        "id": memory.id,
        "commit": memory.commit,
        "actor": envelope.actor,
        "actorName": envelope.actor_name,
        "stream": envelope.stream,
        "sequence": envelope.sequence,
        "signedTimestamp": envelope.timestamp,
        "operation": envelope.operation,
    }
    if envelope.record is not None:
        edges = valid_edges(db, n)
        entry["kind"] = envelope.record.kind
        entry["lifecycle"] = lifecycle_of(db, n)
        entry["challengers"] = edges.challengers
        entry["successors"] = edges.successors
        entry["retractions"] = edges.retractions
        entry["content"] = envelope.record.content
    if envelope.target is not None:
        entry["target"] = envelope.target
        entry["relationship"] = _relationship(db, n, memory)
    if envelope.reason is not None:
        entry["reason"] = envelope.reason
    return entry


def _relationship(db: sqlite3.Connection, n: int, memory: SourceMemory) -> str:
    """`valid`, or why a relationship counts for nothing."""
    _, diagnostics, dependencies = judged_edges(db, n)
    for diagnostic in diagnostics:
        if diagnostic.memory_id == memory.id:
            return diagnostic.code
    return "target-unavailable" if any(item.owner_id == memory.id for item in dependencies) else "valid"


def streams(environment: Environment) -> dict[str, Any]:
    """Every source, valid or not, and this clone's default stream."""
    from hn_memory.service.write import default_stream

    actor = environment.keyring.active_actor()
    default = None if actor is None else default_stream(environment, actor)
    index = environment.index()

    def ask(db: sqlite3.Connection) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for ref, head, sequence, raw, name in source_rows(db):
            source = parse_source_ref(ref)
            if source is None:
                continue
            rows.append(
                {
                    "ref": ref,
                    "stream": source.stream,
                    "actor": source.actor,
                    "actorName": name,
                    "remote": source.remote,
                    "memories": sequence,
                    "head": "sha256:" + raw.hex(),
                    "commit": head,
                    "default": source.remote is None and (source.actor, source.stream) == (actor, default),
                }
            )
        return rows

    return {
        "version": 0,
        "default": default,
        "streams": environment.query(index, ask),
        "invalid": [_invalid_document(source) for source in index.invalid],
    }


def verify(environment: Environment) -> dict[str, Any]:
    """Verify every stream from its first commit, trusting nothing remembered.

    The document says of each source whether it holds.
    """
    from hn_memory.index.fullscan import verify_sources

    verified = verify_sources(environment.repository)
    return {
        "version": 0,
        "valid": not verified.invalid,
        "memories": len(verified.memory_ids),
        "streams": [
            {
                "ref": source.name.ref,
                "stream": source.name.stream,
                "actor": source.name.actor,
                "remote": source.name.remote,
                "memories": verified.tips[source.name.ref].sequence,
                "head": verified.tips[source.name.ref].memory_id,
            }
            for source in verified.valid
        ],
        "invalid": [_invalid_document(source) for source in verified.invalid],
    }


def _invalid_document(source: InvalidSource) -> dict[str, Any]:
    document: dict[str, Any] = {"ref": source.ref, "code": source.code, "reason": source.reason}
    if source.commit is not None:
        document["commit"] = source.commit
        document["position"] = source.sequence
    if source.code == "source-malformed":
        document["hint"] = _STRAY
    return document


def recall_path(environment: Environment, given: str) -> str:
    """A path as typed, as recall's filter wants it: from the root of the work tree."""
    from hn_memory.service.building import from_root

    return from_root(environment.repository.layout, given)
