"""One sync: finish what was broken off, import, promote, publish. The steps are functions of their own."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from hn_memory.errors import ConflictError, HnError
from hn_memory.index.update import Progress
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.identifiers import LOCAL_PREFIX, REMOTES_PREFIX, accepted_ref, parse_source_ref
from hn_memory.protocol.selection import Selection, default_selection
from hn_memory.protocol.tips import Ledger, Move, Tip
from hn_memory.replication import publish, publishing, shallow
from hn_memory.replication.advertise import Advert, Offer, advertise
from hn_memory.replication.importing import LOCAL, Importer, Job, Judged, nothing_else, walked_heads
from hn_memory.replication.network import DEFAULT_TIMEOUT, PercentProgress
from hn_memory.replication.offers import remember_offers
from hn_memory.replication.outcome import GOOD, Evidence, Outcome, Word
from hn_memory.replication.promote import copy_objects, finish, promote
from hn_memory.replication.quarantine import Fetched, Quarantine, memory_limit, sweep
from hn_memory.replication.remote import Remote
from hn_memory.replication.selection import load_selection
from hn_memory.replication.tips import let_pass, load_gaps, load_ledger, replace_gaps
from hn_memory.replication.verify import Part, verify_parts
from hn_memory.repository.base import Repository
from hn_memory.repository.beside import beside
from hn_memory.repository.private import PrivateFiles
from hn_memory.repository.streams import walk_stream
from hn_memory.repository.workers import load_libraries
from hn_memory.values import NamedTuple

LOCK: Final = "replication/sync.lock"
_LOCK_SECONDS: Final = 10.0
# New streams that Git lists before they are asked about; more would only stand in each other's way.
_AHEAD: Final = 2


class Options(NamedTuple):
    """How to sync. `timeout` is in seconds, for each time that Git talks to the remote."""

    push: bool = True
    recover_shallow: bool = False
    timeout: float = DEFAULT_TIMEOUT
    interactive: bool = False
    progress: Progress | None = None


class Report(NamedTuple):
    """What a sync did. `messages` are the remote's own words; `finished` counts refs of a broken-off promotion."""

    remote: str
    outcomes: tuple[Outcome, ...]
    messages: tuple[str, ...]
    malformed: int
    finished: int
    recovered: int

    @property
    def complete(self) -> bool:
        """Did every stream end well?"""
        return all(outcome.good for outcome in self.outcomes)


class _State(NamedTuple):
    """The refs as they were read, by actor and stream."""

    locals: dict[tuple[str, str], str]
    accepted: dict[tuple[str, str, str], str]


def sync(repository: Repository, remote: Remote, options: Options, *, only: str | None = None) -> Report:
    """Synchronize with a remote, or import from a bundle; with `only`, that stream alone.

    Raises:
        HnError `remote-failed`, `object-format-mismatch`: the remote cannot be reached or used; nothing changed.
        ConflictError `sync-busy`: another sync of this repository is running.
    """
    files = PrivateFiles(repository.layout.common_dir)
    with sync_lock(files):
        return _Sync(repository, files, remote, options, only).run()


@contextmanager
def sync_lock(files: PrivateFiles, timeout: float = _LOCK_SECONDS) -> Iterator[None]:
    """One sync at a time in a repository.

    Raises:
        ConflictError `sync-busy`.
    """
    handle = files.open(LOCK)
    try:
        give_up = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    files.failed(error, LOCK, writing=True)
            if time.monotonic() > give_up:
                raise ConflictError(
                    "sync-busy", "another sync of this repository is running", hint="Try again when it has ended."
                )
            time.sleep(0.02)
        yield
    finally:
        os.close(handle)


class _Sync:
    def __init__(
        self, repository: Repository, files: PrivateFiles, remote: Remote, options: Options, only: str | None
    ) -> None:
        self.main = repository
        self.files = files
        self.remote = remote
        self.options = options
        self.ledger: Ledger = load_ledger(files)
        self.saved: Selection | None = load_selection(files, remote.name)
        self.selection = self.saved or default_selection(remote.name)
        self.only = only
        self.outcomes: list[Outcome] = []
        self.messages: list[str] = []
        self._quarantine: Quarantine | None = None

    def run(self) -> Report:
        """All steps in order."""
        finished = finish(self.main, self.files, self.ledger)
        sweep(self.main)
        recovered = 0
        try:
            if self.options.recover_shallow:
                recovered = self._recover()
            advert = self._advertise()
            remember_offers(self.files, self.remote.name, [offer[:2] for offer in advert.offers])
            state = self._import(advert)
            if not self.remote.bundle:
                self._publish(advert, state)
        finally:
            if self._quarantine is not None:
                self._quarantine.close()
        outcomes = sorted(self.outcomes, key=lambda item: (item.stream, item.actor or "", item.word))
        return Report(self.remote.name, tuple(outcomes), tuple(self.messages), advert.malformed, finished, recovered)

    # -- import -------------------------------------------------------------------------------------------

    def _import(self, advert: Advert) -> _State:
        state = self._read_refs()
        jobs, tips = self._plan(advert, state)
        judged = self._fetch_and_judge(jobs) if jobs else []
        moves: list[Move] = []
        for item in judged:
            if item.outcome is not None:
                self._say(item.outcome)
            elif item.head is not None:
                moves += self._promotion(item, item.head)
                tips.append(_tip(self.remote.name, (item.job.offer.actor, item.job.offer.stream), item.head))
        moves += self._evidence_moves([one for item in judged for one in item.evidence])
        self._promote(moves, tips)
        return self._read_refs() if moves else state

    def _plan(self, advert: Advert, state: _State) -> tuple[list[Job], list[Tip]]:
        """What is to be fetched; what needs no fetch is told at once."""
        name = self.remote.name
        jobs: list[Job] = []
        tips: list[Tip] = []
        others: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for (remote, actor, stream), commit in state.accepted.items():
            if remote != name:
                others.setdefault((actor, stream), []).append((remote, commit))
        for offer in advert.offers:
            if not self._takes(offer.stream):
                continue
            key = (offer.actor, offer.stream)
            accepted = state.accepted.get((name, *key))
            tip = self.ledger.tips.get((name, *key))
            base = tip.head if tip is not None else self._verified_before(offer, accepted)
            if base is not None and accepted == offer.commit == base.commit:
                self._say(Outcome(*key, "unchanged", "nothing new", base.commit, base.sequence, base.memory_id))
                tips.append(_tip(name, key, base))
                continue
            elsewhere = sorted(others.get(key, ()))
            if key in state.locals:
                elsewhere.append((LOCAL, state.locals[key]))
            jobs.append(Job(offer, base, accepted, tuple(elsewhere)))
        self._tell_absent(advert)
        return jobs, tips

    def _tell_absent(self, advert: Advert) -> None:
        """Streams that are selected and cannot be requested: disputed, withdrawn, or never offered."""
        name = self.remote.name
        for stream, owners in advert.disputed.items():
            if self._takes(stream):
                reason = f"it is offered under {len(owners)} owners: {', '.join(owner[:12] for owner in owners[:5])}"
                self._say(Outcome(owners[0], stream, "structurally-invalid", reason))
        offered = {(offer.actor, offer.stream) for offer in advert.offers}
        seen: set[str] = set()
        for remote, actor, stream in sorted(self.ledger.tips):
            if remote != name or not self._takes(stream):
                continue
            seen.add(stream)
            if (actor, stream) in offered or stream in advert.disputed or self.remote.bundle:
                continue
            sequence = self.ledger.tips[remote, actor, stream].sequence
            reason = f"the remote no longer offers it; it held {sequence} before"
            hint = f"When you have looked into it: `hn replication tips accept {name} {stream} --reason TEXT`."
            self._say(Outcome(actor, stream, "withdrawn", reason, hint=hint))
        streams = {stream for _, stream in offered} | set(advert.disputed)
        for stream in self.selection.memories or ():
            if self._takes(stream) and stream not in streams and stream not in seen:
                self._say(Outcome(None, stream, "not-offered", "it is selected, and the remote never offered it"))

    def _verified_before(self, offer: Offer, accepted: str | None) -> ChainHead | None:
        """The link of an accepted ref that the ledger knows nothing of: verified from its first commit."""
        if accepted is None:
            return None
        try:
            walked, _ = walk_stream(self.main, accepted, lambda _: False)
        except HnError:
            return None
        result = verify_parts(self.main, [Part(offer.actor, offer.stream, None, walked)])[0]
        return result.head if result.error is None else None

    def _fetched(self, quarantine: Quarantine, jobs: Sequence[Job]) -> Fetched:
        def fetch() -> Fetched:
            return quarantine.fetch(
                [job.offer for job in jobs],
                self.selection.budgets,
                deadline=self._deadline(),
                interactive=self.options.interactive,
                progress=self._percent("fetch"),
                reachable=self._answers,
            )

        if all(job.base is not None for job in jobs):
            return fetch()
        # A stream that was never here may be a long one: what verifies many commits is loaded meanwhile.
        return beside(lambda: load_libraries("git"), fetch)

    def _fetch_and_judge(self, jobs: list[Job]) -> list[Judged]:
        quarantine = self._enter_quarantine()
        budgets = self.selection.budgets
        fetched = self._fetched(quarantine, jobs)
        for offer, reason, over in fetched.failed:
            word: Word = "over-budget" if over else "structurally-invalid"
            self._say(Outcome(offer.actor, offer.stream, word, reason, offer.commit))
        arrived = set(fetched.arrived)
        wanted = [job for job in jobs if job.offer in arrived]
        for job in [job for job in wanted if job.base is None][:_AHEAD]:
            # Git can list these while it says how large everything is; what it may use for it, the fetch had as well.
            quarantine.repository().expect_parents(job.offer.commit, memory_limit(budgets))
        sizes = quarantine.sizes()
        importer = Importer(self.main, quarantine, self.remote.name, budgets, sizes, self.options.progress)
        judged = importer.judge(wanted)
        replace_gaps(self.files, self.remote.name, {job.offer.stream for job in wanted}, importer.gaps)
        whole = len(wanted) == len(jobs) and nothing_else(judged, sizes)
        self._tell("promote", 0)
        copy_objects(self.main, quarantine, walked_heads(judged), whole=whole, arrived=len(sizes))
        self._tell("promote", 1)
        return judged

    def _promotion(self, item: Judged, head: ChainHead) -> list[Move]:
        offer = item.job.offer
        ref = accepted_ref(self.remote.name, offer.actor, offer.stream)
        new = len(item.walked)
        if item.job.accepted == head.commit:
            reason, word = "nothing new", "unchanged"
        else:
            reason, word = f"{new} new, {head.sequence} in all" if new else f"{head.sequence} in all", "promoted"
        self._say(
            Outcome(offer.actor, offer.stream, word, reason, head.commit, head.sequence, head.memory_id)  # type: ignore[arg-type]
        )
        return [] if item.job.accepted == head.commit else [Move(ref, item.job.accepted, head.commit)]

    def _promote(self, moves: list[Move], tips: list[Tip]) -> None:
        """Move the refs. A stream whose ref somebody else holds locked stops no other, and says so."""
        held = promote(self.main, self.files, self.ledger, moves, tips)
        for ref, error in held.items():
            source = parse_source_ref(ref)
            if source is None:
                # What keeps the evidence of a fork; the outcome would say that it is kept.
                raise error
            key = (source.actor, source.stream)
            told = [item for item in self.outcomes if (item.actor, item.stream) == key]
            taken = any(item.word == "published" for item in told)
            reason = f"the remote took it, but {error.message}" if taken else error.message
            self.outcomes = [item for item in self.outcomes if (item.actor, item.stream) != key]
            self._say(Outcome(*key, "refused", reason, hint=error.hint))

    def _evidence_moves(self, evidence: list[Evidence]) -> list[Move]:
        """Refs that keep both sides of every fork; those that are there already stay."""
        wanted = {item.ref: item.ref.rpartition("/")[2] for item in evidence}
        if not wanted:
            return []
        there = {ref.name for ref in self.main.refs(*wanted)}
        known = self.main.info(wanted.values())
        return [Move(ref, None, commit) for ref, commit in wanted.items() if ref not in there and commit in known]

    # -- publication --------------------------------------------------------------------------------------

    def _publish(self, advert: Advert, state: _State) -> None:
        name = self.remote.name
        barred = {
            (item.actor or "", item.stream) for item in self.outcomes if item.word not in GOOD and item.accepted is None
        }
        locals_ = {key: head for key, head in state.locals.items() if self.only in (None, key[1])}
        candidates = publishing.find_candidates(self.main, name, locals_, advert, self.ledger.tips, barred)
        for outcome in candidates.outcomes:
            self._replace(outcome)
        moves = self._evidence_moves([item for outcome in candidates.outcomes for item in outcome.evidence])
        tips: list[Tip] = []
        if candidates.heads and self.options.push:
            pushed = publish.push(
                self._enter_quarantine(),
                name,
                publishing.as_offers(candidates),
                deadline=self._deadline(),
                interactive=self.options.interactive,
                progress=self._percent("push"),
            )
            outcomes, taken = publishing.told(candidates, pushed)
            self.messages += pushed.messages
            for outcome in outcomes:
                self._replace(outcome)
            for key, head in taken.items():
                before = state.accepted.get((name, *key))
                if before != head.commit:
                    moves.append(Move(accepted_ref(name, *key), before, head.commit))
                tips.append(_tip(name, key, head))
        self._promote(moves, tips)

    # -- shallow recovery ---------------------------------------------------------------------------------

    def _recover(self) -> int:
        shallow.check_recovery(self.main, self.saved, self.remote.name)
        gaps = [gap for gap in load_gaps(self.files) if gap.remote == self.remote.name]
        return shallow.recover(
            self.main,
            self.remote,
            gaps,
            deadline=self._deadline(),
            interactive=self.options.interactive,
            progress=self._percent("recover"),
        )

    def _takes(self, stream: str) -> bool:
        return self.selection.takes(stream) if self.only is None else stream == self.only

    # -- shared -------------------------------------------------------------------------------------------

    def _advertise(self) -> Advert:
        place = self._enter_quarantine().command if self.remote.bundle else None
        interactive = self.options.interactive
        return advertise(self.main, self.remote, deadline=self._deadline(), interactive=interactive, place=place)

    def _answers(self) -> bool:
        try:
            self._advertise()
        except HnError:
            return False
        return True

    def _enter_quarantine(self) -> Quarantine:
        if self._quarantine is None:
            self._quarantine = Quarantine(self.main, self.remote)
        return self._quarantine

    def _read_refs(self) -> _State:
        state = _State({}, {})
        for ref in self.main.refs(LOCAL_PREFIX, REMOTES_PREFIX):
            try:
                source = parse_source_ref(ref.name)
            except HnError:
                continue
            if source is None or ref.target is None:
                continue
            if source.remote is None:
                state.locals[source.actor, source.stream] = ref.target
            else:
                state.accepted[source.remote, source.actor, source.stream] = ref.target
        return state

    def _say(self, outcome: Outcome) -> None:
        self.outcomes.append(let_pass(self.ledger, self.remote.name, outcome))

    def _replace(self, outcome: Outcome) -> None:
        """An outcome of publication stands for the stream's `unchanged`."""
        outcome = let_pass(self.ledger, self.remote.name, outcome)
        key = (outcome.actor, outcome.stream)
        self.outcomes = [item for item in self.outcomes if (item.actor, item.stream) != key or item.word != "unchanged"]
        self.outcomes.append(outcome)

    def _deadline(self) -> float:
        return time.monotonic() + self.options.timeout

    def _tell(self, phase: str, done: int) -> None:
        if self.options.progress is not None:
            self.options.progress(phase, done, 1)

    def _percent(self, phase: str) -> PercentProgress | None:
        progress = self.options.progress
        if progress is None:
            return None
        return lambda _, percent: progress(phase, percent, 100)


def _tip(remote: str, key: tuple[str, str], head: ChainHead) -> Tip:
    return Tip(remote, *key, head.sequence, head.memory_id, head.commit)
