"""The use cases that read: recall, show, log, streams, verify."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hn_memory.errors import InvalidSourceError, NotFoundError, UsageError
from hn_memory.protocol.envelope import envelope_document
from hn_memory.protocol.identifiers import memory_prefix, require_actor, require_digest
from hn_memory.protocol.projection import (
    Context,
    Lifecycles,
    SourceMemory,
    judge_lifecycles,
    project_one,
)
from hn_memory.protocol.query import (
    RECALL_CURSOR_DOMAIN,
    RECALL_DIGEST_DOMAIN,
    WARNING,
    Request,
    decode_cursor,
    encode_cursor,
    normalise,
    query_digest,
    source_fingerprint,
)
from hn_memory.recall.page import content_size, paginate
from hn_memory.recall.receipt import build_receipt
from hn_memory.recall.select import prepare_world, select
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.scan import VerifiedSet
from hn_memory.repository.streams import InvalidSource
from hn_memory.repository.world import RepositoryWorld
from hn_memory.service.environment import Environment
from hn_memory.service.verified import VerifiedView
from hn_memory.service.write import default_stream, from_root


def recall(environment: Environment, request: Request) -> dict[str, Any]:
    """One page of matches and the receipt (section 7).

    Raises:
        UsageError `request-invalid`, `cursor-invalid`, `cursor-stale`.
        NotFoundError `revision-unknown`.
        HnError `policy-invalid`, `bound-too-small`.
    """
    repository = environment.repository
    commit = repository.resolve_commit(request.at)
    normal = normalise(request, commit)
    policy = policy_at(repository, commit)
    verified = VerifiedView(environment).all()
    lifecycles = judge_lifecycles(verified.memories)
    world = RepositoryWorld(repository, commit)
    context = Context(commit, policy, world, normal.subject, normal.path)
    selection = select(verified.memories, lifecycles, context, world, normal)
    fingerprint = source_fingerprint(policy.digest, verified.heads)
    digest = query_digest(RECALL_DIGEST_DOMAIN, normal.document(), fingerprint, policy.digest)
    after = None if normal.cursor is None else decode_cursor(RECALL_CURSOR_DOMAIN, normal.cursor, digest)
    page = paginate(selection.matches, normal, after, content_size)
    dependencies = sorted((dep for row in page.rows for dep in row.dependencies), key=lambda dep: dep.order())
    document: dict[str, Any] = {
        "version": 0,
        "warning": WARNING,
        "queryDigest": digest,
        "matched": len(selection.matches),
        "returned": len(page.rows),
        "truncated": page.truncated,
    }
    if page.last is not None:
        document["nextCursor"] = encode_cursor(RECALL_CURSOR_DOMAIN, digest, page.last)
    document["memories"] = [row.document() for row in page.rows]
    document["missingDependencies"] = [dependency.document() for dependency in dependencies]
    document["receipt"] = build_receipt(
        considered=selection.considered,
        matched=len(selection.matches),
        withheld=selection.withheld,
        callouts=selection.callouts,
        commit=commit,
        policy=policy,
        local=verified.local,
        accepted=verified.accepted,
        invalid=verified.invalid,
        index={"state": "unused"},
    )
    _note_invalid(environment, verified)
    return document


def recall_path(environment: Environment, given: str) -> str:
    """A path as typed, as recall's filter wants it: from the root of the work tree."""
    return from_root(environment.repository.layout.prefix, given)


def show(environment: Environment, memory_id: str) -> dict[str, Any]:
    """One memory, projected at HEAD.

    Raises:
        NotFoundError `memory-unknown`; UsageError `id-invalid`, `id-ambiguous`.
    """
    repository = environment.repository
    verified = VerifiedView(environment).all()
    memory = _find(verified.memories, memory_prefix(memory_id))
    lifecycles = judge_lifecycles(verified.memories)
    commit = repository.resolve_commit("HEAD")
    policy = policy_at(repository, commit)
    world = RepositoryWorld(repository, commit)
    context = Context(commit, policy, world)
    target = None if memory.envelope.target is None else verified.memories.get(memory.envelope.target)
    prepare_world(world, [memory] if target is None else [memory, target])
    document: dict[str, Any] = {
        "version": 0,
        "warning": WARNING,
        "memoryId": memory.id,
        "commit": memory.commit,
        "envelope": envelope_document(memory.envelope, with_record=False) | {"signature": "valid"},
    }
    row = project_one(verified.memories, lifecycles, context, memory)
    target_row = None if target is None else project_one(verified.memories, lifecycles, context, target)
    if row is not None:
        document["projection"] = row.document(show=True)
    if target_row is not None:
        document["targetProjection"] = target_row.document(show=True)
    named = {memory.id} if target is None else {memory.id, target.id}
    dependencies = {dep for dep in lifecycles.dependencies if dep.owner_id in named or dep.missing_id in named}
    for one in (row, target_row):
        if one is not None:
            dependencies.update(one.dependencies)
    document["relationships"] = [
        relation.document()
        for relation in lifecycles.relationships
        if relation.memory_id == memory.id or relation.target_id == memory.id
    ]
    document["missingDependencies"] = [dep.document() for dep in sorted(dependencies, key=lambda dep: dep.order())]
    document["diagnostics"] = [
        item.document() for item in lifecycles.diagnostics if memory.id in (item.memory_id, item.target_id)
    ]
    _note_invalid(environment, verified)
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
    verified = VerifiedView(environment).all()
    lifecycles = judge_lifecycles(verified.memories)
    chosen = [
        memory
        for memory in verified.memories.values()
        if actor in (None, memory.envelope.actor) and stream in (None, memory.envelope.stream)
    ]
    chosen.sort(key=lambda memory: memory.id)
    chosen.sort(key=lambda memory: (memory.envelope.timestamp, memory.envelope.sequence), reverse=True)
    _note_invalid(environment, verified)
    return {
        "version": 0,
        "warning": WARNING,
        "total": len(chosen),
        "entries": [_log_entry(memory, lifecycles) for memory in chosen[:max_count]],
        "invalid": [_invalid_document(source) for source in verified.invalid],
    }


def _log_entry(memory: SourceMemory, lifecycles: Lifecycles) -> dict[str, Any]:
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
        edges = lifecycles.edges.get(memory.id)
        entry["kind"] = envelope.record.kind
        entry["lifecycle"] = lifecycles.state(memory.id)
        entry["challengers"] = list(edges.challengers) if edges else []
        entry["successors"] = list(edges.successors) if edges else []
        entry["retractions"] = list(edges.retractions) if edges else []
        entry["content"] = envelope.record.content
    if envelope.target is not None:
        entry["target"] = envelope.target
        codes = [item.code for item in lifecycles.diagnostics if item.memory_id == memory.id]
        missing = any(dep.owner_id == memory.id for dep in lifecycles.dependencies)
        entry["relationship"] = codes[0] if codes else ("target-unavailable" if missing else "valid")
    if envelope.reason is not None:
        entry["reason"] = envelope.reason
    return entry


def streams(environment: Environment) -> dict[str, Any]:
    """Every source, valid or not, and this clone's default stream."""
    verified = VerifiedView(environment).all()
    actor = environment.keyring.active_actor()
    default = None if actor is None else default_stream(environment, actor)
    names: dict[str, str] = {}
    counts: dict[str, int] = {}
    for memory in verified.memories.values():
        names.setdefault(memory.envelope.actor, memory.envelope.actor_name)
    rows: list[dict[str, Any]] = []
    for source in verified.valid:
        tip = verified.tips[source.name.ref]
        counts[source.name.ref] = tip.sequence
        rows.append(
            {
                "ref": source.name.ref,
                "stream": source.name.stream,
                "actor": source.name.actor,
                "actorName": names.get(source.name.actor, ""),
                "remote": source.name.remote,
                "memories": tip.sequence,
                "head": tip.memory_id,
                "commit": tip.commit,
                "default": source.name.remote is None and (source.name.actor, source.name.stream) == (actor, default),
            }
        )
    return {
        "version": 0,
        "default": default,
        "streams": rows,
        "invalid": [_invalid_document(source) for source in verified.invalid],
    }


def verify(environment: Environment) -> dict[str, Any]:
    """Verify every stream from its first commit, trusting nothing remembered.

    The document says of each source whether it holds; a door turns `invalid` into the exit status 6.
    """
    verified = VerifiedView(environment, fresh=True).all()
    return {
        "version": 0,
        "valid": not verified.invalid,
        "memories": len(verified.memories),
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


def require_valid(document: Mapping[str, Any]) -> None:
    """Raise `InvalidSourceError source-invalid` when a `verify` document names an invalid source."""
    invalid = document["invalid"]
    if invalid:
        raise InvalidSourceError("source-invalid", f"{len(invalid)} invalid source(s): {invalid[0]['ref']}")


def _invalid_document(source: InvalidSource) -> dict[str, Any]:
    document: dict[str, Any] = {"ref": source.ref, "code": source.code, "reason": source.reason}
    if source.commit is not None:
        document["commit"] = source.commit
        document["position"] = source.sequence
    return document


def _note_invalid(environment: Environment, verified: VerifiedSet) -> None:
    for source in verified.invalid:
        environment.notices.append(f"left out {source.ref}: {source.reason}")


def _find(memories: Mapping[str, SourceMemory], digits: str) -> SourceMemory:
    full = "sha256:" + digits
    if full in memories:
        return memories[full]
    found = [memory_id for memory_id in memories if memory_id.startswith(full)]
    if not found:
        raise NotFoundError(
            "memory-unknown",
            f"no verified memory of this clone has an ID that begins with {digits}",
            hint="`hn memory log` lists what is here; `hn memory verify` names sources that are left out.",
            field="id",
        )
    if len(found) > 1:
        raise UsageError(
            "id-ambiguous",
            f"{len(found)} memories have an ID that begins with {digits}",
            hint="Give more digits.",
            field="id",
        )
    return memories[found[0]]
