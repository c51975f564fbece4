"""The provider `hn.repository`: streams that this server does not write, as memories to be read.

The tree: one root for the repository, below it a memory per actor, below that one per stream. All streams count that
are no memory of this server: those that the server's own actor writes with the command line, and those of other
actors, local or accepted from a remote. Of others, only records show that the policy at HEAD qualifies. Ids are made
of what they name, so that grants outlive the state being made anew.

A record is one of the stream's own: `x.hn.<kind>`, its content as signed, `written_by` its actor. Nothing is written
here but challenges (`challenge`), which say something about a record and change nothing in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import Any, Final, NamedTuple, NoReturn

from hn_memory.errors import HnError
from hn_memory.protocol.hashing import sha256
from hn_memory.protocol.identifiers import KINDS, derived_stream
from hn_memory.protocol.policy import Policy
from hn_memory.service.environment import Environment
from hn_memory.service.keeping import follow, policy_in_force, sources_here
from hn_memory.uhp.faults import from_hn, malformed, record_not_found, unsupported
from hn_memory.uhp.hn.recalling import answer_question
from hn_memory.uhp.hn.view import View
from hn_memory.uhp.provider import Provider, Witness, unwitnessed
from hn_memory.uhp.values import (
    Author,
    Draft,
    Erased,
    Extent,
    Page,
    Patch,
    Question,
    Recalled,
    Selection,
    Version,
)

REPOSITORY: Final = "hn.repository"
PREFIX: Final = "x.hn."


class Place(NamedTuple):
    """A memory of the tree: the repository (no actor), an actor (no stream), or a stream."""

    id: str
    parent: str | None
    name: str
    description: str


class Stream(NamedTuple):
    """A stream and the ref it is read from."""

    actor: str
    stream: str
    ref: str
    head: str


def external_id(*parts: str) -> str:
    """The id of the memory that stands for the repository of an actor, an actor in it, or a stream."""
    return "hmem_" + sha256("\0".join(("hn-uhp-repository-v0", *parts)).encode()).hexdigest()[:32]


class RepositoryProvider(Provider):
    """Reads streams that are written elsewhere.

    Args:
        reader: an environment of this provider alone.
        actor: the server's own actor.
        own: the streams that are memories of this server, asked at each look around.
    """

    id = REPOSITORY

    def __init__(self, reader: Environment, actor: str, own: Callable[[], set[str]]) -> None:
        self._reader = reader
        self._actor = actor
        self._own = own
        self._streams: dict[str, Stream] = {}
        self._views: dict[str, View] = {}
        self._seen: list[tuple[str, str]] | None = None
        self._lock = RLock()

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "isolation": "container",
            "derivation": "none",
            "observe": {"keeps_episodes": False, "answers": "none"},
            "recall": {"signals": ["query", "text", "filters"], "abstain": True, "max_depth": 3},
            "history": {"content": "versions", "structure": "none"},
            "revise": False,
            "forget": False,
            "erase": {"unreachable": "not_supported"},
            "prime": False,
            "consolidate": False,
            "queries": {"named": False, "free": False},
            "types": True,
            "files": False,
        }

    def close(self) -> None:
        self._reader.close()

    @property
    def root(self) -> str:
        """The id of the memory that stands for the repository."""
        return external_id(self._actor)

    # -- the tree -----------------------------------------------------------------------------------------

    def places(self) -> list[Place] | None:
        """The memories there are now, parents first; None when nothing came or went since the last look."""
        with self._lock:
            found = self._look()
            names = sorted((one.actor, one.stream) for one in found.values())
            if names == self._seen:
                return None
            places = [
                Place(
                    self.root, None, "Repository", "Streams of this repository that are written elsewhere; read-only."
                )
            ]
            actors: set[str] = set()
            for memory, stream in sorted(found.items(), key=lambda pair: (pair[1].actor, pair[1].stream)):
                above = external_id(self._actor, stream.actor)
                view = self._try_view(memory)
                if stream.actor not in actors:
                    actors.add(stream.actor)
                    name = (view.actor_name if view is not None else "") or stream.actor[:12]
                    places.append(Place(above, self.root, name, f"Streams of actor {stream.actor}."))
                default = stream.stream == derived_stream(stream.actor, "default")
                name = "default" if default else stream.stream[7:19]
                places.append(Place(memory, above, name, f"Stream {stream.stream} of actor {stream.actor}."))
            self._seen = names
            return places

    def streams_of_actor(self) -> list[tuple[str, str]]:
        """The streams of the server's own actor as of the last look, as (ref, stream)."""
        with self._lock:
            return [(one.ref, one.stream) for one in self._streams.values() if one.actor == self._actor]

    def forget_places(self) -> None:
        """The state did not take the places; look again next time."""
        with self._lock:
            self._seen = None

    def _look(self) -> dict[str, Stream]:
        own = self._own()
        found: dict[str, Stream] = {}
        for source in sources_here(self._reader):
            name = source.name
            if name.actor == self._actor and name.stream in own:
                continue
            memory = external_id(self._actor, name.actor, name.stream)
            # Refs come sorted, local ones before those of remotes: what is local goes before what was accepted.
            found.setdefault(memory, Stream(name.actor, name.stream, name.ref, source.head))
        self._streams = found
        return found

    # -- reading ------------------------------------------------------------------------------------------

    def extent(self, memory: str) -> Extent:
        with self._lock:
            view = self._try_view(memory)
            if view is None:
                return Extent(0, 0)
            return Extent(sum(1 for _ in self._qualified(view.newest())), view.written_ms)

    def get(self, memory: str, record: str, as_of: int | None = None) -> Version:
        with self._lock:
            view = self._view(memory)
            chain = view.chain(record)
            version = None if chain is None else view.at(chain, as_of)
            if version is None or not self._qualifies(version):
                raise record_not_found()
            return version

    def history(self, memory: str, record: str) -> list[Version]:
        with self._lock:
            view = self._view(memory)
            chain = view.chain(record)
            if chain is None or not self._qualifies(view.latest(chain)):
                raise record_not_found()
            return list(self._qualified(view.history(chain)))

    def listing(self, memory: str, selection: Selection, after: str | None, limit: int) -> Page:
        if after is not None and not (after.isascii() and after.isdigit() and len(after) < 16):
            raise malformed("the cursor is none of this listing", "cursor")
        found: list[tuple[int, Version]] = []
        with self._lock:
            view = self._view(memory)
            policy = self._policy()
            for place, version in view.select(selection, int(after or 0)):
                if self._qualifies(version, policy):
                    found.append((place, version))
                if len(found) > limit:
                    break
        more = str(found[limit - 1][0]) if len(found) > limit else None
        return Page([version for _, version in found[:limit]], more)

    def recall(self, memory: str, question: Question) -> Recalled:
        with self._lock:
            policy = self._policy()
            return answer_question(self._view(memory), question, lambda version: self._qualifies(version, policy))

    def memory_of(self, memory: str, record: str) -> str:
        """The memory ID of a record's latest version, for who speaks about it.

        Raises:
            UhpError `memory_record_not_found`.
        """
        with self._lock:
            view = self._view(memory)
            chain = view.chain(record)
            if chain is None or not self._qualifies(view.latest(chain)):
                raise record_not_found()
            return chain.versions[-1].memory

    # -- writing is done elsewhere ------------------------------------------------------------------------

    def remember(
        self, memory: str, drafts: Sequence[Draft], author: Author, witness: Witness = unwitnessed
    ) -> list[Version]:
        _read_only()

    def revise(
        self,
        memory: str,
        record: str,
        patch: Patch,
        author: Author,
        if_version: int | None = None,
        witness: Witness = unwitnessed,
    ) -> Version:
        _read_only()

    def forget(
        self,
        memory: str,
        record: str,
        author: Author,
        if_version: int | None = None,
        witness: Witness = unwitnessed,
    ) -> Version:
        _read_only()

    def erase(self, memory: str, records: Sequence[str], author: Author) -> Erased:
        _read_only()

    def find(self, memory: str, token: str) -> list[Version] | None:
        return None

    def drop(self, memory: str) -> None:
        """Nothing of ours is there to be dropped."""

    # -- inside -------------------------------------------------------------------------------------------

    def _view(self, memory: str) -> View:
        try:
            stream = self._streams.get(memory) or self._look().get(memory)
            if stream is None:
                return View(memory, foreign=True)
            ref = self._reader.repository.ref(stream.ref)
            if ref is None or ref.target is None:
                return View(memory, foreign=True)
            view = self._views.get(memory)
            if view is not None and view.head is not None and view.head.commit == ref.target:
                return view
            known = None if view is None else view.head
            followed = follow(self._reader, stream.ref, stream.actor, stream.stream, ref.target, known)
            if view is None or followed.whole:
                view = self._views[memory] = View(memory, foreign=True)
            view.extend(followed.memories, followed.head)
            return view
        except HnError as error:
            raise from_hn(error) from None

    def _try_view(self, memory: str) -> View | None:
        """The view, or None for a memory that is no stream, and for a stream that does not verify."""
        if memory not in self._streams:
            return None
        from hn_memory.uhp.faults import UhpError

        try:
            return self._view(memory)
        except UhpError:
            return None

    def _policy(self) -> Policy | None:
        """The policy at HEAD; None where it is none that could qualify anybody."""
        try:
            return policy_in_force(self._reader)
        except HnError:
            return None

    def _qualifies(self, version: Version, policy: Policy | None = None) -> bool:
        if version.written_by.id == self._actor:
            return True
        policy = policy or self._policy()
        kind = version.type.removeprefix(PREFIX)
        return policy is not None and policy.trust(version.written_by.id, kind) == "qualified"

    def _qualified(self, versions: Iterable[Version]) -> Iterable[Version]:
        policy = self._policy()
        return (version for version in versions if self._qualifies(version, policy))


def kind_types() -> list[dict[str, Any]]:
    """The types of records that are written elsewhere, one per kind of hn-memory/0."""
    described = {
        "assumption": "Something taken to be so.",
        "attempt": "Something that was tried, and its outcome.",
        "decision": "Something that was decided.",
        "handoff": "Work handed over: what is done, assumed, in the way and next.",
        "observation": "Something that was seen.",
        "verification": "Something that was checked, with evidence.",
    }
    challenge = {
        "name": "challenge",
        "description": "Dispute the record, signed by the server's actor. It stays as it is, the dispute beside it.",
        "input": {
            "type": "object",
            "properties": {"reason": {"type": "string", "minLength": 1, "maxLength": 128}},
            "required": ["reason"],
        },
        "requires": "write",
    }
    return [
        {
            "type": PREFIX + kind,
            "core": False,
            "description": described[kind],
            "schema": {"type": "object"},
            "text": "the signed content",
            "operations": [challenge],
        }
        for kind in KINDS
    ]


def _read_only() -> NoReturn:
    raise unsupported("this memory shows a stream that is written elsewhere")
