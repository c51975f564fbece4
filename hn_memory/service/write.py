"""The use cases that append: record, supersede, retract, challenge; and the choice of a stream."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Sequence
from functools import cache

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.index.lookup import find_number, number_of, read_memory, source_tip, valid_edges
from hn_memory.protocol import limits
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.identifiers import (
    derived_stream,
    is_digest,
    is_token,
    memory_prefix,
    require_digest,
)
from hn_memory.protocol.identity import Identity
from hn_memory.protocol.projection import Edges
from hn_memory.protocol.record import (
    anchor_document,
    check_record,
)
from hn_memory.repository.keyring import ACTIVE, IDENTITIES
from hn_memory.repository.private import PrivateFiles
from hn_memory.repository.writer import Appended, Statement, append
from hn_memory.service.building import RecordArguments, build, note_missing_evidence, refuse_secrets
from hn_memory.service.environment import Environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


NEW_STREAM: Final = "new"

_STREAM_FILES: Final = "memory/streams"
_STREAM_FILE_BYTES: Final = 72


def record(
    environment: Environment,
    arguments: RecordArguments,
    *,
    target: str | None = None,
    allow_secrets: Collection[str] = (),
) -> dict[str, Any]:
    """Append a record; with `target`, one that supersedes it.

    Raises:
        HnError `memory-invalid`: a rule of the format, naming the field.
        HnError `secret-found`: the text looks like it holds a credential.
        NotFoundError `revision-unknown`, `path-unknown`, `memory-unknown`.
    """
    request = arguments.request
    identity = identity_in_use(environment, request.actor if request else None)
    built = build(environment.repository, arguments)
    check_record(built)
    refuse_secrets(built, allow_secrets)
    note_missing_evidence(environment, built.evidence)
    if target is not None:
        _check_target(environment, target, "supersede", identity)
    stream = _choose_stream(environment, identity, (request.stream if request else None) or arguments.stream)
    statement = Statement("record" if target is None else "supersede", record=built, target=target, checked=True)
    return _document(_append(environment, identity, stream, [statement])[0])


def record_all(
    environment: Environment,
    arguments: Sequence[RecordArguments],
    *,
    stream: str | None = None,
    allow_secrets: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Append records to one stream, all of them or none, with one write and one move of the ref.

    Raises:
        As `record`; the message does not say which of the records is meant, its field does (`[3].content`).
    """
    if not arguments:
        return []
    identity = identity_in_use(environment)
    statements: list[Statement] = []
    resolve = cache(environment.repository.resolve_commit)
    for at, one in enumerate(arguments):
        try:
            built = build(environment.repository, one, resolve)
            check_record(built)
            refuse_secrets(built, allow_secrets)
        except HnError as error:
            error.field = f"[{at}].{error.field}" if error.field else f"[{at}]"
            raise
        statements.append(Statement("record", record=built, checked=True))
    chosen = _choose_stream(environment, identity, stream)
    return [_document(appended) for appended in _append(environment, identity, chosen, statements)]


def retract(environment: Environment, target: str, reason: str, *, stream: str | None = None) -> dict[str, Any]:
    """Append a retraction of a record of the same actor."""
    identity = identity_in_use(environment)
    _check_reason(reason)
    _check_target(environment, target, "retract", identity)
    statement = Statement("retract", target=target, reason=reason)
    chosen = _choose_stream(environment, identity, stream)
    return _document(_append(environment, identity, chosen, [statement])[0])


def challenge(
    environment: Environment,
    target: str,
    reason: str,
    *,
    evidence: Sequence[str] = (),
    stream: str | None = None,
) -> dict[str, Any]:
    """Append a dispute of a record, by any actor."""
    identity = identity_in_use(environment)
    _check_reason(reason)
    _check_target(environment, target, "challenge", identity)
    statement = Statement("challenge", target=target, reason=reason, evidence=tuple(evidence))
    chosen = _choose_stream(environment, identity, stream)
    return _document(_append(environment, identity, chosen, [statement])[0])


def use_stream(environment: Environment, stream: str) -> dict[str, Any]:
    """Make a stream the default of this clone for the identity in use."""
    identity = identity_in_use(environment)
    require_digest(stream, "a stream", "stream")
    files = PrivateFiles(environment.repository.layout.common_dir)
    files.write(f"{_STREAM_FILES}/{identity.actor}", f"{stream}\n".encode())
    return {"version": 0, "actor": identity.actor, "stream": stream}


def default_stream(environment: Environment, actor: str) -> str:
    """The stream an actor writes to in this clone when none is named."""
    return environment.unchanged(f"{_STREAM_FILES}/{actor}", lambda: _read_default_stream(environment, actor))


def _read_default_stream(environment: Environment, actor: str) -> str:
    files = PrivateFiles(environment.repository.layout.common_dir)
    try:
        data = files.read(f"{_STREAM_FILES}/{actor}", _STREAM_FILE_BYTES)
    except NotFoundError:
        return derived_stream(actor, "default")
    stream = data.decode("ascii", errors="replace").removesuffix("\n")
    if not is_digest(stream):
        raise HnError(
            "stream-file-invalid",
            "the file that names this clone's default stream holds no stream ID",
            hint="Choose again with `hn memory streams --use STREAM`.",
        )
    return stream


def identity_in_use(environment: Environment, actor: str | None = None) -> Identity:
    """Who signs: the actor named, the environment's, or the active one; read again only when its file changed."""
    keyring = environment.keyring
    if actor is None:
        actor = keyring.override or environment.unchanged(ACTIVE, keyring.active_actor)
        if actor is None:
            return keyring.require_active()
    return environment.unchanged(f"{IDENTITIES}/{actor}.json", lambda: keyring.get(actor))


def _choose_stream(environment: Environment, identity: Identity, stream: str | None) -> str:
    if stream is None:
        return default_stream(environment, identity.actor)
    if stream == NEW_STREAM:
        chosen = derived_stream(identity.actor, os.urandom(16).hex())
        environment.notices.append(f"new stream {chosen}; `hn memory streams --use` makes it the default here")
        return chosen
    return require_digest(stream, "a stream", "stream")


def _append(
    environment: Environment, identity: Identity, stream: str, statements: Sequence[Statement]
) -> list[Appended]:
    appended = append(
        environment.repository,
        identity,
        stream,
        statements,
        clock=environment.clock,
        verified_head=lambda ref, commit: _verified_head(environment, ref, commit),
    )
    environment.remember(appended)
    return appended


def _verified_head(environment: Environment, ref: str, commit: str) -> ChainHead:
    """The verified head of a local stream; the chain below it is verified once, by the index."""
    tip = environment.known_tips.get(ref)
    if tip is not None and tip.commit == commit:
        return tip
    # That a commit was verified stays true however the refs move on, so they need not be listed for it.
    tip = environment.open_index().peek(lambda db: source_tip(db, ref, commit), reach=True)
    if tip is not None:
        return tip
    index = environment.index()
    tip = source_tip(index.db, ref, commit)
    if tip is None:
        reason = next((source.reason for source in index.invalid if source.ref == ref), "its ref moved")
        raise HnError(
            "stream-invalid",
            f"the stream does not verify: {reason}",
            hint="See `hn memory verify`; go on in another stream with --stream new.",
        )
    return tip


def _document(appended: Appended) -> dict[str, Any]:
    envelope = appended.envelope
    document: dict[str, Any] = {
        "version": 0,
        "memoryId": appended.memory_id,
        "stream": envelope.stream,
        "actor": envelope.actor,
    }
    if envelope.record is not None:
        document["anchor"] = anchor_document(envelope.record.anchor)
    return document


def _check_reason(reason: str) -> None:
    if not is_token(reason, limits.REASON_BYTES):
        raise UsageError(
            "reason-invalid",
            f"a reason is lower-case letters, digits and inner hyphens, at most {limits.REASON_BYTES} bytes",
            hint="For example: incorrect, outdated, evidence-mismatch.",
            field="reason",
        )


def _check_target(environment: Environment, target: str, operation: str, identity: Identity) -> None:
    """Refuse before signing what projection would set aside (section 5)."""
    db = environment.index().db
    _require_full(db, target)
    number = number_of(db, target)
    if number is None:
        raise NotFoundError(
            "memory-unknown",
            f"{target} is not among the verified memories of this clone",
            hint="`hn memory log` lists what is here.",
            field="target",
        )
    memory = read_memory(db, number)
    if memory.envelope.record is None:
        raise HnError(
            "target-not-record",
            f"{target} is a {memory.envelope.operation}, not a record; only records can be spoken about",
            field="target",
        )
    if operation != "challenge" and memory.envelope.actor != identity.actor:
        raise HnError(
            "target-not-own",
            f"only its own author may {operation} a record; {target[:19]} belongs to {memory.envelope.actor[:12]}",
            hint="Dispute it with `hn memory challenge`.",
            field="target",
        )
    if operation != "challenge":
        _note_earlier(environment, valid_edges(db, number), target, operation)


def _require_full(db: sqlite3.Connection, target: str) -> None:
    """A target carries trust and must be a full ID; one that is cut short is named in the refusal."""
    try:
        require_digest(target, "a target", "target")
    except UsageError as error:
        try:
            full = read_memory(db, find_number(db, memory_prefix(target))).id
        except HnError:
            raise error from None
        raise UsageError(error.code, error.message, hint=f"The full ID is {full}.", field=error.field) from None


def _note_earlier(environment: Environment, edges: Edges, target: str, operation: str) -> None:
    """Say when somebody corrects what was corrected before: it is allowed, and seldom what was meant."""
    if edges.retractions:
        environment.notices.append(f"{target[:19]} was already retracted by {edges.retractions[0]}")
    elif edges.successors and operation == "supersede":
        environment.notices.append(
            f"{target[:19]} was already superseded by {edges.successors[0]}; more than one successor makes it "
            "branching. Supersede the newer one to go on from there"
        )
