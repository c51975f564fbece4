"""Appending to a stream: sign, store, move the ref by compare-and-swap, and do it again when the race is lost.

An envelope that lost its race is worthless, because sequence and `previous` are signed (section 2): the
writer reads again and signs again, a bounded number of times. Success is reported only after the ref moved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hn_memory.errors import ConflictError, HnError
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.commit import REFLOG_MESSAGE, memory_objects
from hn_memory.protocol.envelope import Envelope, encode_envelope
from hn_memory.protocol.identifiers import local_ref, memory_id
from hn_memory.protocol.identity import Identity
from hn_memory.protocol.limits import SEQUENCE_MAX
from hn_memory.protocol.record import Record
from hn_memory.protocol.signing import encode_base64, encode_signature, sign
from hn_memory.repository.base import ObjectType, RefUpdate, Repository
from hn_memory.repository.clock import Clock, timestamp
from hn_memory.repository.locks import WriterLock
from hn_memory.repository.refwriter import BROKEN_OFF
from hn_memory.values import NamedTuple

ATTEMPTS: Final = 12
_PAUSE: Final = 0.01
_OBJECTS_EACH: Final = 4


class Statement(NamedTuple):
    """What an actor wants to say: an operation and its parts, before sequence and time are known."""

    operation: str
    record: Record | None = None
    target: str | None = None
    reason: str | None = None
    evidence: tuple[str, ...] = ()


class Appended(NamedTuple):
    """A memory whose ref has moved."""

    memory_id: str
    commit: str
    parents: tuple[str, ...]
    ref: str
    envelope: Envelope
    payload: bytes


HeadReader = Callable[[str, str], ChainHead]
"""Given a local ref and the commit it holds: the verified head of the stream, or an `HnError`."""

Decision = Callable[[ChainHead | None], Sequence[Statement]]
"""Given the head that is to be followed, under the writers' lock: what to say. It may refuse by raising."""


def append(
    repository: Repository,
    identity: Identity,
    stream: str,
    statements: Sequence[Statement] | Decision,
    *,
    clock: Clock,
    verified_head: HeadReader,
    timeout: float = 10.0,
    announce: Callable[[Sequence[Appended]], None] | None = None,
) -> list[Appended]:
    """Append statements to a stream of the identity, all of them or none: one write, one move of the ref.

    Args:
        statements: what to say, or a decision to be made anew for each head that is met.
        announce: told what is signed and stored, before the ref moves; with each new attempt again.

    Raises:
        ConflictError `append-conflict`: other writers moved the ref every time.
        ConflictError `ref-locked`: the lock of the ref was there every time, and no lock of ours.
        HnError `ref-move-broken-off`: Git was killed at its work; whether the ref moved is not known.
        ConflictError `repository-busy`: another writer held the lock for `timeout` seconds.
        HnError `memory-invalid`: the statement breaks a rule of the format; nothing was written.
        HnError `stream-invalid`: what stands on the stream does not verify, so nothing may follow it.
    """
    ref = local_ref(identity.actor, stream)
    layout = repository.layout
    with WriterLock(layout.common_dir, ref_format=layout.ref_format, timeout=timeout) as lock:
        conflict: ConflictError | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                import random  # it brings in hashlib, which the first attempt has no need of

                time.sleep(_PAUSE * attempt * (0.5 + random.random()))  # noqa: S311 - jitter, no secret
            current = repository.ref(ref)
            if current is not None and current.target is None:
                raise HnError("stream-invalid", f"{ref} is a symbolic ref; a memory ref must not be")
            head = None if current is None or current.target is None else verified_head(ref, current.target)
            appended: list[Appended] = []
            said = statements(head) if callable(statements) else statements
            if not said:
                return []
            objects = _prepare_all(repository, identity, stream, said, head, clock, appended)
            repository.write_pack(_OBJECTS_EACH * len(said), objects)
            if announce is not None:
                announce(appended)
            update = RefUpdate(ref, appended[-1].commit, None if head is None else head.commit)
            lock.journal([ref])
            try:
                repository.update_refs([update], REFLOG_MESSAGE, (lock.fileno(),))
            except ConflictError as error:
                lock.clear()
                conflict = error
                continue
            except HnError as error:
                if error.code != BROKEN_OFF:
                    lock.clear()
                raise
            # Anything else (an interrupt, a crash, Git killed) leaves the journal to whoever takes the lock next.
            lock.clear()
            return appended
    if conflict is not None and conflict.code == "ref-locked":
        raise conflict
    raise ConflictError(
        "append-conflict",
        f"other writers moved the stream {ATTEMPTS} times in a row; nothing was recorded",
        hint="Run the command again.",
    )


def prepare(
    repository: Repository,
    identity: Identity,
    stream: str,
    statement: Statement,
    head: ChainHead | None,
    instant: str,
) -> tuple[Appended, list[tuple[ObjectType, bytes]]]:
    """Sign the next memory of a stream; the objects that carry it are not stored yet."""
    envelope = next_envelope(identity, stream, statement, head, instant)
    payload = encode_envelope(envelope)
    name = memory_id(payload)
    commit, objects = memory_objects(
        envelope,
        payload,
        encode_signature(sign(identity.seed, payload)),
        name,
        None if head is None else head.commit,
        repository.layout.object_format,
    )
    parents = () if head is None else (head.commit,)
    return Appended(name, commit, parents, local_ref(identity.actor, stream), envelope, payload), objects


def _prepare_all(
    repository: Repository,
    identity: Identity,
    stream: str,
    statements: Sequence[Statement],
    head: ChainHead | None,
    clock: Clock,
    appended: list[Appended],
) -> Iterator[tuple[ObjectType, bytes]]:
    """Sign one after the other into `appended`, handing out the objects on the way."""
    for statement in statements:
        one, objects = prepare(repository, identity, stream, statement, head, timestamp(clock()))
        appended.append(one)
        head = ChainHead(one.envelope.sequence, one.memory_id, one.commit)
        yield from objects


def next_envelope(
    identity: Identity, stream: str, statement: Statement, head: ChainHead | None, instant: str
) -> Envelope:
    """The envelope that follows `head`.

    Raises:
        HnError `stream-full`: the sequence cannot grow.
    """
    if head is not None and head.sequence >= SEQUENCE_MAX:
        raise HnError("stream-full", "the stream's sequence is at its end", hint="Go on with --stream new.")
    return Envelope(
        operation=statement.operation,
        actor=identity.actor,
        actor_name=identity.name,
        public_key=encode_base64(identity.public_key),
        stream=stream,
        sequence=1 if head is None else head.sequence + 1,
        timestamp=instant,
        previous=None if head is None else head.memory_id,
        record=statement.record,
        target=statement.target,
        reason=statement.reason,
        evidence=statement.evidence,
    )
