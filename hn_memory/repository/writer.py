"""Appending to a stream: sign, store, move the ref by compare-and-swap, and do it again when the race is lost.

An envelope that lost its race is worthless, because sequence and `previous` are signed (section 2): the
writer reads again and signs again, a bounded number of times. Success is reported only after the ref moved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


ATTEMPTS: Final = 12
_PAUSE: Final = 0.01
_OBJECTS_EACH: Final = 4

_MANY: Final = 256
"""Memories of one append from which a thread for their signatures is worth it."""
_GROUP: Final = 64


class Statement(NamedTuple):
    """What an actor wants to say: an operation and its parts, before sequence and time are known.

    `checked`: the record has been through `check_record`. Any other one is checked before it is signed.
    """

    operation: str
    record: Record | None = None
    target: str | None = None
    reason: str | None = None
    evidence: tuple[str, ...] = ()
    checked: bool = False


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


class _Draft(NamedTuple):
    """A memory that is to be signed: its name follows from what is said, and so does the next one's `previous`."""

    envelope: Envelope
    payload: bytes
    name: str


def _drafts(
    identity: Identity, stream: str, statements: Iterable[Statement], head: ChainHead | None, clock: Clock
) -> Iterator[_Draft]:
    """What is to be signed, one after the other."""
    sequence, previous = (head.sequence, head.memory_id) if head is not None else (0, None)
    for statement in statements:
        envelope = next_envelope(identity, stream, statement, sequence, previous, timestamp(clock()))
        payload = encode_envelope(envelope, record_checked=statement.checked)
        name = memory_id(payload)
        yield _Draft(envelope, payload, name)
        sequence, previous = envelope.sequence, name


def _prepare_all(
    repository: Repository,
    identity: Identity,
    stream: str,
    statements: Sequence[Statement],
    head: ChainHead | None,
    clock: Clock,
    appended: list[Appended],
) -> Iterator[tuple[ObjectType, bytes]]:
    """Sign the memories into `appended`, handing out on the way the objects that carry them."""
    ref, commit = local_ref(identity.actor, stream), None if head is None else head.commit
    drafts = _drafts(identity, stream, statements, head, clock)
    for draft, signature in _signed(identity.seed, drafts, many=len(statements) >= _MANY):
        envelope, payload, name = draft
        parents = () if commit is None else (commit,)
        commit, objects = memory_objects(
            envelope, payload, encode_signature(signature), name, commit, repository.layout.object_format
        )
        appended.append(Appended(name, commit, parents, ref, envelope, payload))
        yield from objects


def _signed(seed: bytes, drafts: Iterator[_Draft], *, many: bool) -> Iterator[tuple[_Draft, bytes]]:
    """Each draft with its signature.

    No name depends on a signature and signing lets other threads run, so `many` are signed a group at a time in a
    thread of their own, while the next group is written.
    """
    if not many:
        for draft in drafts:
            yield draft, sign(seed, draft.payload)
        return
    from concurrent.futures import ThreadPoolExecutor

    def sign_all(group: Sequence[_Draft]) -> list[bytes]:
        return [sign(seed, draft.payload) for draft in group]

    with ThreadPoolExecutor(1) as signer:
        group = list(islice(drafts, _GROUP))
        signatures = signer.submit(sign_all, group)
        while group:
            following = list(islice(drafts, _GROUP))
            signed = signatures.result()
            signatures = signer.submit(sign_all, following)
            yield from zip(group, signed, strict=True)
            group = following


def next_envelope(
    identity: Identity, stream: str, statement: Statement, sequence: int, previous: str | None, instant: str
) -> Envelope:
    """The envelope after the one of that sequence (0: there is none) and name.

    Raises:
        HnError `stream-full`: the sequence cannot grow.
    """
    if sequence >= SEQUENCE_MAX:
        raise HnError("stream-full", "the stream's sequence is at its end", hint="Go on with --stream new.")
    return Envelope(
        operation=statement.operation,
        actor=identity.actor,
        actor_name=identity.name,
        public_key=encode_base64(identity.public_key),
        stream=stream,
        sequence=sequence + 1,
        timestamp=instant,
        previous=previous,
        record=statement.record,
        target=statement.target,
        reason=statement.reason,
        evidence=statement.evidence,
    )
