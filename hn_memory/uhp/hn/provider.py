"""The provider `hn`: every write a signed record on the memory's own stream, every read out of verified streams.

Two handles of the repository serve two threads: one reads (the server's own), one writes. Both feed the same views,
under one lock; a view is brought up to the ref before each answer, so that what other processes appended is seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from threading import Lock, RLock
from typing import Any, Final

from hn_memory.errors import HnError
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.identifiers import derived_stream, local_ref
from hn_memory.repository.refwriter import BROKEN_OFF
from hn_memory.repository.writer import Statement
from hn_memory.service.environment import Environment
from hn_memory.service.keeping import Followed, Held, Saying, append_decided, follow, head_commit
from hn_memory.service.write import challenge
from hn_memory.uhp.faults import UhpError, from_hn, invalid, malformed, record_not_found, worded
from hn_memory.uhp.hn.elsewhere import Elsewhere
from hn_memory.uhp.hn.files import Files
from hn_memory.uhp.hn.queries import DESCRIPTION, LANGUAGE, Queries
from hn_memory.uhp.hn.recalling import answer_question
from hn_memory.uhp.hn.sayings import chain_of, changed, check_version, next_version, saying, stands
from hn_memory.uhp.hn.turn import Turn
from hn_memory.uhp.hn.view import DELETED, ERASED, FORGOTTEN, View
from hn_memory.uhp.hn.wishes import AgainError, Decide, Wish, dealt, matching, tell
from hn_memory.uhp.precedence import Precedence
from hn_memory.uhp.provider import Provider, Together, Witness, one_by_one, unwitnessed
from hn_memory.uhp.values import (
    Author,
    Change,
    Draft,
    Erased,
    Extent,
    Page,
    Patch,
    Question,
    Recalled,
    Rows,
    Selection,
    Version,
)

_TRIES: Final = 5
_DROP: Final = 500


class HnProvider(Provider):
    """Keeps memories as streams of one actor.

    Args:
        reader, writer: two environments of one repository, each used by one thread at a time.
        actor: whose streams they are.
        first: entered while writes are carried out.
        together: tells the witnesses of several writes at a stroke.
    """

    id = "hn"
    query_note = DESCRIPTION

    def __init__(
        self,
        reader: Environment,
        writer: Environment,
        actor: str,
        first: Precedence | None = None,
        together: Together = one_by_one,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._actor = actor
        self._views: dict[str, View] = {}
        self._lock = RLock()
        self._writing = Lock()
        self._waiting: deque[Wish] = deque()
        self._precedence = first or Precedence()
        self._together = together
        self._turn = Turn(writer.repository.layout.common_dir)
        self._queries = Queries()
        self._files = Files(actor)
        self._elsewhere = Elsewhere(actor)

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "isolation": "container",
            "derivation": "none",
            "observe": {"keeps_episodes": True, "answers": "records"},
            "recall": {"signals": ["query", "text", "filters"], "abstain": True, "max_depth": 3},
            "history": {"content": "versions", "structure": "none"},
            "revise": "native",
            "forget": "native",
            "erase": {"unreachable": "reported"},
            "prime": True,
            "consolidate": "runs",
            "queries": {"named": True, "free": {"languages": [LANGUAGE], "write": False}},
            "types": True,
            "files": True,
        }

    def close(self) -> None:
        self._queries.close()
        self._turn.close()
        self._reader.close()
        self._writer.close()

    def stream(self, memory: str) -> str:
        """The stream that a memory is."""
        return derived_stream(self._actor, f"uhp:{memory}")

    # -- reading ------------------------------------------------------------------------------------------

    def extent(self, memory: str) -> Extent:
        with self._lock:
            view = self._view(memory)
            return Extent(view.active, view.written_ms)

    def get(self, memory: str, record: str, as_of: int | None = None) -> Version:
        with self._lock:
            view = self._view(memory)
            version = view.at(chain_of(view, record), as_of)
            if version is None:
                raise record_not_found()
            return version

    def history(self, memory: str, record: str) -> list[Version]:
        with self._lock:
            view = self._view(memory)
            return view.history(chain_of(view, record))

    def listing(self, memory: str, selection: Selection, after: str | None, limit: int) -> Page:
        if after is not None and not (after.isascii() and after.isdigit() and len(after) < 16):
            raise malformed("the cursor is none of this listing", "cursor")
        with self._lock:
            view = self._view(memory)
            found = list(islice(view.select(selection, int(after or 0)), limit + 1))
        more = str(found[limit - 1][0]) if len(found) > limit else None
        return Page([version for _, version in found[:limit]], more)

    def recall(self, memory: str, question: Question) -> Recalled:
        with self._lock:
            return answer_question(self._view(memory), question)

    def prime(self, memory: str) -> list[Version]:
        with self._lock:
            newest = list(self._view(memory).newest())
        return [version for version in newest if version.attributes.get("pinned") is True] + [
            version for version in newest if version.attributes.get("pinned") is not True
        ]

    def query(self, memory: str, language: str, statement: str, params: Mapping[str, Any]) -> Rows:
        with self._lock:
            view = self._view(memory)
            state = "" if view.head is None else f"{view.head.commit} {view.heeded}"

        def versions() -> list[Version]:
            with self._lock:
                return self._view(memory).everything()

        return self._queries.run(memory, state, versions, language, statement, params)

    def read(self, version: Version) -> bytes:
        with self._lock, worded():
            return self._files.read(self._reader.repository, version)

    def is_here(self, version: Version) -> bool:
        with self._lock, worded():
            return self._files.is_here(self._reader.repository, version)

    def find(self, memory: str, token: str) -> list[Version] | None:
        with self._lock:
            return self._view(memory).written(token.split())

    # -- writing ------------------------------------------------------------------------------------------

    def remember(
        self, memory: str, drafts: Sequence[Draft], author: Author, witness: Witness = unwitnessed
    ) -> list[Version]:
        return self._write(memory, lambda _: [saying(draft, author) for draft in drafts], witness, frozenset())

    def revise(
        self,
        memory: str,
        record: str,
        patch: Patch,
        author: Author,
        if_version: int | None = None,
        witness: Witness = unwitnessed,
    ) -> Version:
        def decide(view: View) -> list[Saying]:
            chain = chain_of(view, record)
            latest = view.latest(chain)
            check_version(latest, if_version)
            if latest.status == FORGOTTEN:
                raise invalid("the record is forgotten; it has no next version")
            if latest.type == "episode":
                raise invalid("an episode is append-only")
            return [next_version(chain, patch.on(latest), author)]

        return self._write(memory, decide, witness, frozenset((record,)))[0]

    def forget(
        self,
        memory: str,
        record: str,
        author: Author,
        if_version: int | None = None,
        witness: Witness = unwitnessed,
    ) -> Version:
        def decide(view: View) -> list[Saying]:
            chain = chain_of(view, record)
            latest = view.latest(chain)
            check_version(latest, if_version)
            if latest.status == FORGOTTEN:
                return []
            return [Saying(target=chain.versions[-1].memory, reason=FORGOTTEN)]

        self._write(memory, decide, witness, frozenset((record,)))
        return self.get(memory, record)

    def rewrite(
        self, memory: str, groups: Sequence[Sequence[Change]], author: Author, witness: Witness = unwitnessed
    ) -> list[Version]:
        def decide(view: View) -> list[Saying]:
            taken: set[str] = set()
            said: list[Saying] = []
            for group in groups:
                names = {change.record_id for change in group}
                if taken.isdisjoint(names) and all(stands(view, change) for change in group):
                    taken |= names
                    said += [changed(chain_of(view, change.record_id), change, author) for change in group]
            return said

        return self._write(memory, decide, witness)

    def erase(self, memory: str, records: Sequence[str], author: Author) -> Erased:
        def decide(view: View) -> list[Saying]:
            chains = view.to_erase(records)
            found[:] = [chain.id for chain in chains]
            return [Saying(target=chain.versions[-1].memory, reason=ERASED) for chain in chains if not chain.erased]

        found: list[str] = []
        self._append(memory, decide, unwitnessed)
        self._queries.forget(memory)
        with self._writing, worded():
            self._files.forget(self._writer.repository, memory, found)
        # The signed commits stay in the stream, here and wherever it was sent: nothing can be promised for them.
        return Erased(tuple(found), tuple(found))

    def drop(self, memory: str) -> None:
        def decide(view: View) -> list[Saying]:
            chains = view.open_chains()[:_DROP]
            return [Saying(target=chain.versions[-1].memory, reason=DELETED) for chain in chains]

        while self._append(memory, decide, unwitnessed):
            pass
        self._queries.forget(memory)
        with self._writing, worded():
            self._files.forget(self._writer.repository, memory)

    def take(self, file: str, created: int, data: bytes) -> str:
        with self._writing, worded():
            return self._files.take(self._writer.repository, file, created, data)

    def release(self, before: int) -> None:
        def stands(memory: str, record: str, number: int) -> bool:
            with self._lock, suppress(UhpError):
                view = self._view(memory)
                # Of a stream that is not here, or does not verify, nobody knows what it said.
                return view.head is None or view.holds(record, number)
            return True

        # In turn, so that no write of another server is between its files and its records.
        with self._writing, self._turn, worded():
            self._files.release(self._writer.repository, before)
            self._files.mend(self._writer.repository, stands)

    def challenge(self, target: str, reason: str) -> dict[str, Any]:
        """Dispute a memory by its ID, signed by this server's actor, in that actor's default stream."""
        try:
            with self._writing:
                return challenge(self._writer, target, reason)
        except HnError as error:
            if error.code == "reason-invalid":
                raise invalid(error.message, "input.reason") from None
            raise from_hn(error) from None

    def heed(self, streams: Iterable[tuple[str, str]]) -> None:
        """Follow what this server's actor says of its records in other streams, given as (ref, stream)."""
        with self._lock:
            self._elsewhere.heed(streams)

    # -- inside -------------------------------------------------------------------------------------------

    def _view(self, memory: str) -> View:
        """The view of a memory brought up to its ref, for the reading thread; the lock is held."""
        try:
            self._look_elsewhere(self._reader)
            for _ in range(_TRIES):
                commit = head_commit(self._reader, self._actor, self.stream(memory))
                view = self._views.get(memory)
                if commit is None:
                    return View(memory)
                try:
                    if view is None or view.head is None or view.head.commit != commit:
                        view = self._catch_up(self._reader, memory, commit)
                    view.heed(self._elsewhere.closings)
                    return view
                except HnError as error:
                    if error.code != "stream-invalid":
                        raise
                    last = error
            raise last
        except HnError as error:
            raise from_hn(error) from None

    def _look_elsewhere(self, environment: Environment) -> None:
        """Before a view is brought up to its ref, so that it holds whatever is spoken of; the lock is held."""
        if not self._elsewhere.look(environment):
            self._views.clear()
            self._elsewhere.look(environment)

    def _catch_up(self, environment: Environment, memory: str, commit: str) -> View:
        view = self._views.get(memory)
        known = None if view is None else view.head
        if view is not None and known is not None and known.commit == commit:
            return view
        stream = self.stream(memory)
        followed: Followed = follow(environment, local_ref(self._actor, stream), self._actor, stream, commit, known)
        if view is None or followed.whole:
            view = self._views[memory] = View(memory)
        view.extend(followed.memories, followed.head)
        return view

    def _write(
        self, memory: str, decide: Decide, witness: Witness, records: frozenset[str] | None = None
    ) -> list[Version]:
        ids = self._append(memory, decide, witness, records)
        with self._lock:
            return self._views[memory].written(ids) or [] if ids else []

    def _append(
        self, memory: str, decide: Decide, witness: Witness, records: frozenset[str] | None = None
    ) -> list[str]:
        """Append what is decided on the very state that it follows; the memory IDs.

        Writes that wait meanwhile are carried out together by whoever is the next to write.

        Args:
            records: those whose state decides; None where the state of all does, so that nothing goes along.
        """
        wish = Wish(memory, decide, witness, records)
        self._waiting.append(wish)
        with self._writing:
            if not wish.settled:
                with self._turn, self._precedence:
                    self._carry_out()
        with worded():
            return wish.result()

    def _carry_out(self) -> None:
        """Carry out all writes that wait, a stream at a time; `_writing` is held."""
        waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
        while waiting:
            together, waiting = matching(waiting)
            try:
                self._append_together(together)
            except Exception as error:  # theirs alone: the other writes are carried out
                for one in together:
                    one.fail(error)

    def _append_together(self, wishes: list[Wish]) -> None:
        """Append what several writes to one memory say: one write of objects, one move of the ref.

        A write that is refused leaves the others alone.
        """
        memory = wishes[0].memory
        stream = self.stream(memory)
        # Refs of files: those of the attempt that counts, and those of attempts before it.
        held: list[str] = []
        idle: list[str] = []

        def verified_head(ref: str, commit: str) -> ChainHead:
            with self._lock:
                self._look_elsewhere(self._writer)
                head = self._catch_up(self._writer, memory, commit).head
            assert head is not None
            return head

        def decided(head: ChainHead | None) -> list[Statement]:
            with self._lock:
                if head is None:
                    self._views[memory] = View(memory)
                view = self._views[memory]
                view.heed(self._elsewhere.closings)
                return [one for wish in wishes for one in wish.say(self._writer, view)]

        def announced(ids: Sequence[str]) -> None:
            idle.extend(held)
            held.clear()
            spoken = [(wish, own) for wish, own in dealt(wishes, ids) if own]
            for wish, own in spoken:
                try:
                    held.extend(self._files.hold(self._writer.repository, self._views[memory], own, wish.said))
                except Exception as error:
                    wish.fail(error)
                    raise AgainError from None
            with self._precedence.paused():
                tell(spoken, self._together)

        while True:
            try:
                appended = append_decided(
                    self._writer, stream, decided, verified_head=verified_head, announce=announced
                )
                break
            except AgainError:
                # Signed in vain: without the refused one the others are other memories.
                continue
            except BaseException as error:
                # Where Git was killed at it, the write may have taken effect.
                if not isinstance(error, HnError) or error.code != BROKEN_OFF:
                    self._files.let_go(self._writer.repository, [*idle, *held])
                raise
        self._files.let_go(self._writer.repository, set(idle) - set(held))
        if appended:
            last = appended[-1]
            head = ChainHead(last.envelope.sequence, last.memory_id, last.commit)
            with self._lock:
                view = self._views[memory]
                if view.head is None or view.head.sequence < head.sequence:
                    view.extend([Held(one.memory_id, one.envelope) for one in appended], head)
        for wish, own in dealt(wishes, [one.memory_id for one in appended]):
            wish.succeed(own)
