"""One import, from what arrived to what may be promoted: measure, verify, relate (steps 3 to 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hn_memory.errors import HnError
from hn_memory.index.update import Progress
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.selection import Budgets
from hn_memory.protocol.tips import Gap
from hn_memory.replication.advertise import Offer
from hn_memory.replication.budgets import OverBudgetError, arrival_fits, measure, walk_bounded
from hn_memory.replication.compare import Histories, Parting, parting
from hn_memory.replication.outcome import Evidence, Outcome
from hn_memory.replication.quarantine import Quarantine
from hn_memory.replication.shallow import ANCHOR_KIND
from hn_memory.replication.verify import Part, Verified, memory_id_at, verify_parts
from hn_memory.repository.base import Repository
from hn_memory.repository.streams import Walked
from hn_memory.values import NamedTuple

LOCAL: Final = ""
"""How a local stream is called among the histories that an offer is compared with."""

WAY_OUT: Final = (
    "The same key was used in two clones. Go on in a new stream: `--stream new` when recording, then "
    "`hn memory streams --use` to make it the default here."
)


class Job(NamedTuple):
    """An offered stream and what is known of it here.

    Attributes:
        base: the highest verified link that this remote showed before.
        accepted: what the accepted ref holds.
        others: heads of the same stream elsewhere: local (`LOCAL`), or accepted from another remote.
    """

    offer: Offer
    base: ChainHead | None
    accepted: str | None
    others: tuple[tuple[str, str], ...]


class Judged(NamedTuple):
    """A job and what came of it: a verified head to promote, or an outcome that says why not.

    `walked` are the new commits below the head, and `evidence` are commits to be kept although nothing is promoted.
    """

    job: Job
    head: ChainHead | None
    outcome: Outcome | None
    walked: Sequence[Walked] = ()
    evidence: tuple[Evidence, ...] = ()


class _Pending(NamedTuple):
    job: Job
    part: Part
    stop: str | None


class Importer:
    """Judges the jobs of one sync."""

    def __init__(
        self,
        main: Repository,
        quarantine: Quarantine,
        remote: str,
        budgets: Budgets,
        sizes: Mapping[str, tuple[str, int]],
        progress: Progress | None,
    ) -> None:
        self._main = main
        self._quarantine = quarantine.repository()
        self._remote = remote
        self._budgets = budgets
        self._sizes = sizes
        self._fits = arrival_fits(sizes, budgets)
        self._progress = progress
        self._histories = Histories(main)
        self.gaps: list[Gap] = []

    def judge(self, jobs: Sequence[Job]) -> list[Judged]:
        """Judge all jobs; one bad stream never stops another."""
        judged: list[Judged] = []
        pending: list[_Pending] = []
        for job in jobs:
            try:
                found = self._measure(job)
            except OverBudgetError as error:
                found = self._bad(job, "over-budget", error.message)
            except HnError as error:
                found = self._bad(job, "structurally-invalid", error.message)
            if isinstance(found, Judged):
                judged.append(found)
            else:
                pending.append(found)
        verified = verify_parts(self._quarantine, [item.part for item in pending], self._progress, self._sizes)
        anchors = [commit for result in verified for _, commit in result.anchors]
        known = {oid: info.type for oid, info in self._main.info(dict.fromkeys(anchors)).items()}
        for item, result in zip(pending, verified, strict=True):
            judged.append(self._relate(item, result, known))
        return judged

    # -- before anything is parsed ------------------------------------------------------------------------

    def _measure(self, job: Job) -> Judged | _Pending:
        base, offer = job.base, job.offer
        history: dict[str, int] | None = None

        def known(commit: str) -> bool:
            nonlocal history
            if base is None:
                return False
            if commit == base.commit:
                return True
            if commit in self._sizes:
                return False
            if history is None:
                history = self._histories.of(base.commit)
            return commit in history

        sizes = None if self._fits else self._sizes
        walked, stop = walk_bounded(self._quarantine, offer.commit, known, self._budgets, sizes)
        if base is not None and not walked and stop != base.commit and history:
            return self._rewound(job, base.sequence, history[offer.commit])
        if not self._fits or any(item.commit not in self._sizes for item in walked):
            measure(self._quarantine, walked, self._budgets, self._sizes)
        start = base
        if stop is not None and base is not None and stop != base.commit:
            # It parts from what was verified before; up to there it is the same history.
            name = memory_id_at(self._main, stop)
            start = None if name is None or history is None else ChainHead(history[stop], name, stop)
        return _Pending(job, Part(offer.actor, offer.stream, start if stop is not None else None, walked), stop)

    # -- after verification -------------------------------------------------------------------------------

    def _relate(self, item: _Pending, result: Verified, known: Mapping[str, str]) -> Judged:
        job, base = item.job, item.job.base
        if result.error is not None or result.head is None:
            reason = result.error.message if result.error else "the ref names no commit"
            return self._bad(job, "structurally-invalid", reason)
        if base is not None and item.stop != base.commit:
            if base.sequence > result.head.sequence and not self._histories.of(base.commit):
                # The commits shown before are not here any more, so the sequence alone must tell.
                return self._rewound(job, base.sequence, result.head.sequence)
            return self._forked(item, result, base)
        conflict = self._conflict(item, result)
        if conflict is not None:
            return conflict
        for memory, anchor in result.anchors:
            if known.get(anchor, "commit") != "commit":
                reason = f"memory {memory} is anchored to {anchor[:12]}, which is a {known[anchor]} and no commit"
                return self._bad(job, "relationship-invalid", reason)
        missing = [(memory, anchor) for memory, anchor in result.anchors if anchor not in known]
        if missing and self._main.layout.shallow:
            offer = job.offer
            self.gaps += [
                Gap(self._remote, offer.actor, offer.stream, ANCHOR_KIND, memory, anchor) for memory, anchor in missing
            ]
            count = len({anchor for _, anchor in missing})
            reason = f"{count} anchor commit{'s are' if count > 1 else ' is'} beyond the history of this shallow clone"
            hint = "`hn replication gaps` lists them, and `--recover-shallow` fetches them."
            return self._bad(job, "dependency-missing", reason, hint)
        return Judged(job, result.head, None, item.part.walked)

    def _forked(self, item: _Pending, result: Verified, base: ChainHead) -> Judged:
        ours = self._histories.of(base.commit)
        theirs = self._line(item, result)
        found = parting(ours, theirs) or Parting(base.sequence, None, theirs[base.sequence - 1])
        return self._kept(item, result, "forked", f"{self._remote} before", base.commit, found, None)

    def _conflict(self, item: _Pending, result: Verified) -> Judged | None:
        """Does the stream have another history elsewhere that does not fit this one?"""
        mine = {step.commit for step in item.part.walked} | {item.stop, item.job.offer.commit}
        for source, head in item.job.others:
            if head in mine:
                continue
            history = self._histories.of(head)
            if item.job.offer.commit in history or not history:
                continue
            found = parting(history, self._line(item, result))
            if found is None:
                continue
            if source == LOCAL:
                return self._kept(item, result, "forked", "this clone", head, found, WAY_OUT)
            return self._kept(item, result, "equivocated", source, head, found, None)
        return None

    def _line(self, item: _Pending, result: Verified) -> list[str]:
        """The whole history that is offered, from its first commit."""
        before: list[str] = []
        if item.stop is not None:
            history = self._histories.of(item.stop)
            before = sorted(history, key=history.__getitem__)
        return [*before, *(link.commit for link in result.links)]

    def _kept(
        self, item: _Pending, result: Verified, word: str, whose: str, head: str, found: Parting, hint: str | None
    ) -> Judged:
        """Two histories that part: both are kept, and both memories are named."""
        offer = item.job.offer
        links = {link.commit: link.memory_id for link in result.links}
        theirs = links.get(found.theirs) or memory_id_at(self._main, found.theirs)
        ours = None if found.ours is None else memory_id_at(self._main, found.ours)
        place = f"refs/hn/evidence/{self._remote}/{offer.actor}/{offer.digest}"
        kept = [Evidence(self._remote, found.theirs, theirs, f"{place}/{offer.commit}")]
        if found.ours is not None:
            kept.append(Evidence(whose, found.ours, ours, f"{place}/{head}"))
        reason = f"at sequence {found.sequence} {self._remote} offers {theirs}, {whose} has {ours or 'another commit'}"
        outcome = Outcome(
            offer.actor, offer.stream, "forked" if word == "forked" else "equivocated", reason, offer.commit,
            evidence=tuple(kept), hint=hint or _look(self._remote, offer.stream),
        )  # fmt: skip
        return Judged(item.job, None, outcome, evidence=tuple(kept))

    def _rewound(self, job: Job, before: int, now: int) -> Judged:
        reason = f"the remote went back from {before} to {now}"
        return self._bad(job, "rewound", reason, _look(self._remote, job.offer.stream))

    def _bad(self, job: Job, word: str, reason: str, hint: str | None = None) -> Judged:
        offer = job.offer
        outcome = Outcome(offer.actor, offer.stream, word, reason, offer.commit, hint=hint)  # type: ignore[arg-type]
        return Judged(job, None, outcome)


def _look(remote: str, stream: str) -> str:
    return f"When you have looked into it: `hn replication tips accept {remote} {stream} --reason TEXT`."


def walked_heads(judged: Sequence[Judged]) -> list[str]:
    """The commits that promotion needs in the main store."""
    good = [item.head.commit for item in judged if item.head is not None]
    return good + [item.job.offer.commit for item in judged if item.evidence]


def nothing_else(judged: Sequence[Judged], sizes: Mapping[str, tuple[str, int]]) -> bool:
    """Is everything that arrived part of a verified stream, so that it may be taken over as it came?

    A verified tree names two blobs and nothing else; which ones need not be looked up again.
    """
    if not all(item.head for item in judged):
        return False
    known = {"commit": {step.commit for item in judged for step in item.walked}}
    known["tree"] = {step.tree for item in judged for step in item.walked}
    blobs = trees = 0
    for oid, (kind, _) in sizes.items():
        if kind == "blob":
            blobs += 1
        elif oid not in known.get(kind, ()):
            return False
        trees += kind == "tree"
    return blobs <= 2 * trees
