"""What a sync says of each stream: the outcome words of the replication page, with reasons."""

from __future__ import annotations

from typing import Any, Final, Literal

from hn_memory.values import NamedTuple

Word = Literal[
    "promoted",
    "unchanged",
    "published",
    "over-budget",
    "structurally-invalid",
    "relationship-invalid",
    "dependency-missing",
    "rewound",
    "withdrawn",
    "forked",
    "equivocated",
    "not-offered",
    "refused",
]

GOOD: Final = frozenset({"promoted", "unchanged", "published"})


class Evidence(NamedTuple):
    """One of two histories that do not fit together: what it is called here, and the ref that keeps it."""

    source: str
    commit: str
    memory_id: str | None
    ref: str


class Outcome(NamedTuple):
    """What became of one stream.

    Attributes:
        actor: the owner, None where no owner is known.
        commit: what the remote offers, None where it offers nothing.
        accepted: why a person let this pass (`hn replication tips accept`), or None.
    """

    actor: str | None
    stream: str
    word: Word
    reason: str
    commit: str | None = None
    sequence: int | None = None
    memory_id: str | None = None
    evidence: tuple[Evidence, ...] = ()
    hint: str | None = None
    accepted: str | None = None

    @property
    def good(self) -> bool:
        """Does it leave the exit status alone?"""
        return self.word in GOOD or self.accepted is not None

    def document(self) -> dict[str, Any]:
        """The JSON value."""
        document: dict[str, Any] = {
            "stream": self.stream,
            "actor": self.actor,
            "outcome": self.word,
            "reason": self.reason,
        }
        for name, value in (("sequence", self.sequence), ("memoryId", self.memory_id), ("commit", self.commit)):
            if value is not None:
                document[name] = value
        if self.evidence:
            document["evidence"] = [
                {"source": item.source, "commit": item.commit, "memoryId": item.memory_id, "ref": item.ref}
                for item in self.evidence
            ]
        if self.hint is not None:
            document["hint"] = self.hint
        if self.accepted is not None:
            document["accepted"] = self.accepted
        return document
