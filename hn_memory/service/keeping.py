"""The use cases of a program that keeps streams of its own: append under a decision, and follow a stream.

A door that stays (a server) holds what a stream says in memory and wants two things of the repository: what came
after the link it knows, verified; and an append whose content depends on what stands there at that very moment.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from hn_memory.errors import HnError
from hn_memory.index.lookup import source_tip
from hn_memory.protocol.chain import ChainHead, StreamChain
from hn_memory.protocol.identifiers import local_ref
from hn_memory.protocol.policy import Policy
from hn_memory.protocol.record import check_record
from hn_memory.protocol.shapes import EnvelopeLike
from hn_memory.protocol.stored import read_stored
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.streams import Source, Walked, list_sources, read_walked
from hn_memory.repository.writer import Appended, Statement, append
from hn_memory.service.building import RecordArguments, build, refuse_secrets
from hn_memory.values import NamedTuple

if TYPE_CHECKING:
    from hn_memory.protocol.shapes import EnvelopeLike
from hn_memory.service.environment import Environment
from hn_memory.service.write import identity_in_use

_WALK: Final = 64
"""Commits that are verified one by one; a longer gap is left to the index, which uses all cores and remembers."""

_PENDING: Final = 256


class Held(NamedTuple):
    """A verified memory of a stream, in its place."""

    id: str
    envelope: EnvelopeLike


class Followed(NamedTuple):
    """What a stream says: all of it (`whole`), or what came after the link that was known."""

    memories: list[Held]
    head: ChainHead
    whole: bool


class Saying(NamedTuple):
    """What to append: a record, with `target` one that supersedes it; or, with `reason`, a retraction of `target`."""

    arguments: RecordArguments | None = None
    target: str | None = None
    reason: str | None = None


def head_commit(environment: Environment, actor: str, stream: str) -> str | None:
    """The commit that a local stream's ref holds now, None where there is no such stream.

    Raises:
        HnError `stream-invalid`: the ref is symbolic.
    """
    ref = environment.repository.ref(local_ref(actor, stream))
    if ref is None:
        return None
    if ref.target is None:
        raise HnError("stream-invalid", "a memory ref must not be symbolic")
    return ref.target


def sources_here(environment: Environment) -> list[Source]:
    """Every well-named source of this repository that can be read, sorted by ref."""
    sources, _ = list_sources(environment.repository)
    return [source for source in sources if source.invalid is None]


def policy_in_force(environment: Environment) -> Policy:
    """The policy at HEAD.

    Raises:
        HnError `policy-invalid`; NotFoundError `revision-unknown`.
    """
    return policy_at(environment.repository, environment.repository.resolve_commit("HEAD"))


def follow(
    environment: Environment, ref: str, actor: str, stream: str, commit: str, known: ChainHead | None
) -> Followed:
    """What the stream at `commit` says after the link that is known, verified.

    A stream that does not hold the known link (it was rewound) is told whole.

    Raises:
        HnError: it does not verify, and why.
    """
    walked: list[Walked] = []
    met = False
    for oid, tree, parents in islice(environment.repository.parents(commit), _WALK):
        if known is not None and oid == known.commit:
            met = True
            break
        walked.append(Walked(oid, tree, parents))
    walked.reverse()
    if met or (walked and not walked[0].parents):
        chain = StreamChain(actor, stream, known if met else None)
        memories = [Held(*chain.accept(read)) for read in read_walked(environment.repository, walked)]
        assert chain.head is not None
        return Followed(memories, chain.head, not met)
    return _from_index(environment, ref, commit)


def append_decided(
    environment: Environment,
    stream: str,
    decide: Callable[[ChainHead | None], Sequence[Statement]],
    *,
    verified_head: Callable[[str, str], ChainHead],
    announce: Callable[[Sequence[str]], None] | None = None,
) -> list[Appended]:
    """Append what `decide` says, under the writers' lock, to a stream of the identity in use.

    Args:
        decide: given the head that is to be followed; what it raises ends the append with nothing written.
        announce: told the memory IDs, signed and stored, before the ref moves.

    Raises:
        As `service.write.record`.
    """
    identity = identity_in_use(environment)
    appended = append(
        environment.repository,
        identity,
        stream,
        decide,
        clock=environment.clock,
        verified_head=verified_head,
        announce=None if announce is None else lambda signed: announce([one.memory_id for one in signed]),
    )
    if appended:
        environment.remember(appended)
        environment.settle(_PENDING)
    return appended


def state(environment: Environment, saying: Saying) -> Statement:
    """What is to be signed, checked and without a credential.

    Raises:
        As `service.write.record`.
    """
    if saying.arguments is None:
        return Statement("retract", target=saying.target, reason=saying.reason)
    record = build(environment.repository, saying.arguments)
    check_record(record)
    refuse_secrets(record, ())
    operation = "record" if saying.target is None else "supersede"
    return Statement(operation, record=record, target=saying.target, checked=True)


def _from_index(environment: Environment, ref: str, commit: str) -> Followed:
    index = environment.index()

    def ask(db: sqlite3.Connection) -> Followed | None:
        head = source_tip(db, ref, commit)
        if head is None:
            return None
        rows = db.execute(
            "WITH RECURSIVE chain(c) AS (SELECT tip FROM source WHERE ref = ? UNION ALL "
            "SELECT link.parent FROM link JOIN chain USING(c) WHERE link.parent IS NOT NULL) "
            "SELECT memory.id, payload.data FROM chain JOIN link USING(c) JOIN memory USING(n) JOIN payload USING(n) "
            "ORDER BY link.sequence",
            (ref,),
        )
        return Followed([Held("sha256:" + raw.hex(), read_stored(raw, data)) for raw, data in rows], head, True)

    found = index.query(ask)
    if found is None:
        reason = next((source.reason for source in index.invalid if source.ref == ref), "its ref moved")
        raise HnError("stream-invalid", f"the stream does not verify: {reason}")
    return found
