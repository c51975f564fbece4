"""The use cases that append: record, supersede, retract, challenge; and the choice of a stream."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.index.lookup import number_of, read_memory, source_tip
from hn_memory.protocol import limits
from hn_memory.protocol.canonical import require_text
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.identifiers import ABSENT, derived_stream, is_digest, is_token, require_digest, require_subject
from hn_memory.protocol.identity import Identity
from hn_memory.protocol.record import (
    MODES,
    Anchor,
    Applicability,
    Handoff,
    PathAnchor,
    Record,
    anchor_document,
    check_record,
)
from hn_memory.protocol.requests import RecordRequest, normal_topics
from hn_memory.repository.base import Repository
from hn_memory.repository.keyring import ACTIVE, IDENTITIES
from hn_memory.repository.private import PrivateFiles
from hn_memory.repository.writer import Appended, Statement, append
from hn_memory.service.environment import Environment

NEW_STREAM: Final = "new"

_STREAM_FILES: Final = "memory/streams"
_STREAM_FILE_BYTES: Final = 72
_BLOB_MODES: Final = frozenset({"100644", "100755", "120000"})


class RecordArguments(NamedTuple):
    """What a caller wants recorded, before defaults and look-ups.

    `paths` are pairs of a path as given (relative to the caller's directory, or from the root after `:/`)
    and an expected blob, or None to look it up. A `request` (from `--input`) replaces everything but `at`
    and `applies`, which then only supply what the request leaves out.
    """

    kind: str = ""
    content: str = ""
    at: str | None = None
    applies: str | None = None
    topics: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    paths: tuple[tuple[str, str | None], ...] = ()
    subject: str | None = None
    outcome: str | None = None
    handoff: Handoff | None = None
    stream: str | None = None
    request: RecordRequest | None = None


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
    identity = _identity(environment, request.actor if request else None)
    built = _build(environment.repository, arguments)
    check_record(built)
    _refuse_secrets(built, allow_secrets)
    if target is not None:
        _check_target(environment, target, "supersede", identity)
    stream = _choose_stream(environment, identity, (request.stream if request else None) or arguments.stream)
    statement = Statement("record" if target is None else "supersede", record=built, target=target)
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
    identity = _identity(environment)
    statements: list[Statement] = []
    resolve = cache(environment.repository.resolve_commit)
    for at, one in enumerate(arguments):
        try:
            built = _build(environment.repository, one, resolve)
            check_record(built)
            _refuse_secrets(built, allow_secrets)
        except HnError as error:
            error.field = f"[{at}].{error.field}" if error.field else f"[{at}]"
            raise
        statements.append(Statement("record", record=built))
    chosen = _choose_stream(environment, identity, stream)
    return [_document(appended) for appended in _append(environment, identity, chosen, statements)]


def retract(environment: Environment, target: str, reason: str, *, stream: str | None = None) -> dict[str, Any]:
    """Append a retraction of a record of the same actor."""
    identity = _identity(environment)
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
    identity = _identity(environment)
    _check_reason(reason)
    _check_target(environment, target, "challenge", identity)
    statement = Statement("challenge", target=target, reason=reason, evidence=tuple(evidence))
    chosen = _choose_stream(environment, identity, stream)
    return _document(_append(environment, identity, chosen, [statement])[0])


def use_stream(environment: Environment, stream: str) -> dict[str, Any]:
    """Make a stream the default of this clone for the identity in use."""
    identity = _identity(environment)
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


def _identity(environment: Environment, actor: str | None = None) -> Identity:
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
    require_digest(target, "a target", "target")
    db = environment.index().db
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
        raise UsageError(
            "target-not-record",
            f"{target} is a {memory.envelope.operation}, not a record; only records can be spoken about",
            field="target",
        )
    if operation != "challenge" and memory.envelope.actor != identity.actor:
        raise UsageError(
            "target-not-own",
            f"only its own author may {operation} a record; {target[:19]} belongs to {memory.envelope.actor[:12]}",
            hint="Dispute it with `hn memory challenge`.",
            field="target",
        )


# -- building a record ------------------------------------------------------------------------------------


def _build(repository: Repository, arguments: RecordArguments, resolve: Callable[[str], str] | None = None) -> Record:
    resolve = resolve or repository.resolve_commit
    request = arguments.request
    if request is None:
        for value, name in ((arguments.content, "record.content"), (arguments.subject or "", "record.anchor.subject")):
            require_text(value, name)
        if arguments.subject is not None:
            require_subject(arguments.subject, "subject")
        commit = resolve(arguments.at or "HEAD")
        anchor = Anchor(commit, _look_up(repository, commit, arguments.paths), arguments.subject)
        applicability = _applicability(arguments.applies, anchor)
        return Record(
            kind=arguments.kind,
            content=arguments.content,
            anchor=anchor,
            applicability=applicability,
            topics=normal_topics([require_text(topic, "record.topics") for topic in arguments.topics]),
            evidence=arguments.evidence,
            attempt_outcome=arguments.outcome,
            handoff=arguments.handoff,
        )
    anchor = _request_anchor(repository, arguments, request)
    applicability = request.applicability or _applicability(arguments.applies, anchor)
    if request.applicability and arguments.applies and request.applicability.mode != arguments.applies:
        raise UsageError(
            "request-conflict", "--applies differs from the request's applicability", field="applicability"
        )
    return Record(
        kind=request.kind,
        content=request.content,
        anchor=anchor,
        applicability=applicability,
        topics=request.topics,
        evidence=request.evidence,
        attempt_outcome=request.attempt_outcome,
        handoff=request.handoff,
    )


def _applicability(applies: str | None, anchor: Anchor) -> Applicability:
    mode = applies or "descendants"
    if mode not in MODES:
        raise UsageError("applies-invalid", f"--applies must be one of {', '.join(MODES)}", field="applies")
    if mode == "subject":
        if anchor.subject is None:
            raise UsageError("subject-missing", "--applies subject needs --subject", field="subject")
        return Applicability(mode, anchor.subject)
    return Applicability(mode)


def _request_anchor(repository: Repository, arguments: RecordArguments, request: RecordRequest) -> Anchor:
    if request.anchor is None:
        return Anchor(repository.resolve_commit(arguments.at or "HEAD"))
    if arguments.at is not None and repository.resolve_commit(arguments.at) != request.anchor.commit:
        raise UsageError("request-conflict", "--at differs from the request's anchor", field="anchor.commit")
    anchor = request.anchor
    if repository.resolve_commit(anchor.commit) != anchor.commit:
        raise UsageError("request-invalid", "anchor.commit must be the ID of a commit", field="anchor.commit")
    _look_up(repository, anchor.commit, tuple((f":/{pair.path}", pair.blob) for pair in anchor.paths))
    return anchor


def _look_up(repository: Repository, commit: str, paths: Iterable[tuple[str, str | None]]) -> tuple[PathAnchor, ...]:
    """Bind paths to the blobs they have at a commit (section 4: a file, symbolic links included)."""
    wanted = [(from_root(repository.layout.prefix, given), blob) for given, blob in paths]
    if not wanted:
        return ()
    entries = repository.entries(commit, [path for path, _ in wanted])
    pairs: dict[str, PathAnchor] = {}
    for path, expected in wanted:
        entry = entries[path]
        if entry is not None and entry.mode not in _BLOB_MODES:
            what = "a directory" if entry.mode == "040000" else "a submodule"
            raise UsageError(
                "path-not-file",
                f"{path!a} is {what} at {commit[:12]}; an anchor binds a file",
                hint="Name the files it is about.",
                field="path",
            )
        actual = ABSENT if entry is None else entry.oid
        if expected is None and entry is None:
            raise NotFoundError(
                "path-unknown",
                f"{path!a} is not in the tree of {commit[:12]}",
                hint="Commit it first, choose another --at, or bind its absence with --blob absent.",
                field="path",
            )
        if expected is not None and expected != actual:
            raise HnError(
                "path-mismatch",
                f"{path!a} is {actual[:12]} at {commit[:12]}, not {expected[:12]}",
                hint="Leave --blob out to bind what is there.",
                field="path",
            )
        pairs[path] = PathAnchor(path, actual)
    return tuple(pairs[path] for path in sorted(pairs))


def from_root(prefix: str, given: str) -> str:
    """A path as the caller wrote it, as a clean path from the root of the work tree.

    Raises:
        UsageError `path-invalid`: it is absolute or leaves the work tree.
    """
    require_text(given, "path")
    path = given[2:] if given.startswith(":/") else posixpath.join(prefix, given)
    clean = posixpath.normpath(path) if path else ""
    if not given or clean in ("", ".") or clean.startswith(("/", "../")) or clean == "..":
        raise UsageError(
            "path-invalid",
            f"path {given[:200]!a} does not name a file inside the work tree",
            hint="Paths are relative to the current directory; :/ starts at the root.",
            field="path",
        )
    return clean


def _refuse_secrets(built: Record, allowed: Collection[str]) -> None:
    from hn_memory.service import secrets

    fields: list[tuple[str, str]] = [("content", built.content)]
    fields += [(f"topics[{at}]", topic) for at, topic in enumerate(built.topics)]
    if built.handoff is not None:
        for name, items in built.handoff.lists():
            fields += [(f"handoff.{name}[{at}]", item) for at, item in enumerate(items)]
    secrets.refuse(secrets.scan(fields), allowed)
