"""A second provider, in memory, with other abilities: no full text, no word of an instant before its last change.

It shares no code with the provider on streams beyond the values of the contract, so that the contract suite says
something about the contract.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hn_memory.uhp.faults import UhpError, invalid, record_not_found
from hn_memory.uhp.instants import parse_instant
from hn_memory.uhp.provider import Provider, Witness, unwitnessed
from hn_memory.uhp.values import (
    Author,
    Draft,
    Erased,
    Extent,
    Hit,
    Page,
    Patch,
    Question,
    Recalled,
    Selection,
    Version,
)


def now() -> str:
    ns = time.time_ns()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(ns // 10**9)) + f".{ns % 10**9:09d}Z"


def at(text: str | None) -> int:
    value = parse_instant(text or "")
    assert value is not None
    return value


class MemoryProvider(Provider):
    """Keeps every version in a list per record."""

    id = "test"

    def __init__(self) -> None:
        self.memories: dict[str, dict[str, list[Version]]] = {}
        self.tokens: dict[str, list[tuple[str, int]]] = {}
        self.erased: dict[str, set[str]] = {}
        self.lock = threading.RLock()

    def describe(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "isolation": "enforced_filter",
            "derivation": "none",
            "observe": {"keeps_episodes": True, "answers": "records"},
            "recall": {"signals": ["query", "filters"], "abstain": True, "max_depth": 1},
            "history": {"content": "versions", "structure": "none"},
            "revise": "native",
            "forget": "native",
            "erase": {"unreachable": "none"},
            "prime": False,
            "consolidate": False,
            "queries": {"named": False, "free": False},
            "types": False,
            "files": False,
        }

    def _chains(self, memory: str) -> dict[str, list[Version]]:
        return self.memories.setdefault(memory, {})

    def _chain(self, memory: str, record: str) -> list[Version]:
        chain = self._chains(memory).get(record)
        if chain is None:
            raise record_not_found()
        return chain

    def extent(self, memory: str) -> Extent:
        latest = [chain[-1] for chain in self._chains(memory).values()]
        times = [at(one.invalidated_at or one.written_at) // 10**6 for one in latest]
        return Extent(sum(one.status == "active" for one in latest), max(times, default=0))

    def get(self, memory: str, record: str, as_of: int | None = None) -> Version:
        with self.lock:
            version = self._at(self._chain(memory, record), as_of)
            if version is None:
                raise record_not_found()
            return version

    def _at(self, chain: list[Version], as_of: int | None) -> Version | None:
        if as_of is None:
            return chain[-1]
        standing = [one for one in chain if at(one.written_at) <= as_of]
        if not standing:
            return None
        last = standing[-1]
        if last.invalidated_at is not None and at(last.invalidated_at) > as_of:
            return replace(last, status="active", invalidated_at=None)
        return last

    def history(self, memory: str, record: str) -> list[Version]:
        with self.lock:
            return list(self._chain(memory, record))

    def listing(self, memory: str, selection: Selection, after: str | None, limit: int) -> Page:
        with self.lock:
            chains = list(self._chains(memory).values())
        start = 0
        if after is not None:
            if not after.isdigit():
                raise UhpError("invalid_input", "no such cursor", param="cursor")
            start = int(after)
        found: list[Version] = []
        for number, chain in enumerate(chains[start:], start):
            version = self._at(chain, selection.as_of)
            if version is None or (version.status == "forgotten" and not selection.forgotten):
                continue
            if selection.types and version.type not in selection.types:
                continue
            if len(found) == limit:
                return Page(found, str(number))
            found.append(version)
        return Page(found, None)

    def recall(self, memory: str, question: Question) -> Recalled:
        degraded = () if question.text is None else ("text:not_supported",)
        versions = self.listing(memory, question.selection, None, 10**9).versions
        why = []
        if question.filters is not None:
            why.append("filters")
            versions = [one for one in versions if question.filters(one)]
        if question.query is not None:
            words = set(question.query.lower().split())
            versions = [one for one in versions if words & set(str(one.content).lower().split())]
            why.append("query")
        if not why:
            versions = []
        hits = [Hit(one, None if question.query is None else 1.0, tuple(why)) for one in versions[: question.limit]]
        return Recalled(hits, degraded, not hits)

    def remember(
        self, memory: str, drafts: Sequence[Draft], author: Author, witness: Witness = unwitnessed
    ) -> list[Version]:
        with self.lock:
            ids = ["hrec_" + os.urandom(16).hex() for _ in drafts]
            token = os.urandom(8).hex()
            witness(token)
            written = [
                self._version(memory, record, 1, draft, author) for record, draft in zip(ids, drafts, strict=True)
            ]
            for version in written:
                self._chains(memory)[version.record_id] = [version]
            self.tokens[token] = [(record, 0) for record in ids]
            return written

    def _version(self, memory: str, record: str, number: int, draft: Draft, author: Author) -> Version:
        return Version(
            memory, record, number, draft.type, draft.content, draft.attributes, draft.references,
            draft.valid_from, draft.valid_to, now(), author,
        )  # fmt: skip

    def _current(self, memory: str, record: str, if_version: int | None) -> list[Version]:
        chain = self._chain(memory, record)
        if if_version is not None and if_version != chain[-1].number:
            raise UhpError("memory_conflict", "another version", param="If-Match", detail={"version": len(chain)})
        return chain

    def revise(
        self, memory: str, record: str, patch: Patch, author: Author, if_version: int | None = None,
        witness: Witness = unwitnessed,
    ) -> Version:  # fmt: skip
        with self.lock:
            chain = self._current(memory, record, if_version)
            if chain[-1].status == "forgotten":
                raise invalid("it is forgotten")
            if chain[-1].type == "episode":
                raise invalid("an episode is append-only")
            token = os.urandom(8).hex()
            witness(token)
            version = self._version(memory, record, len(chain) + 1, patch.on(chain[-1]), author)
            chain[-1] = replace(chain[-1], status="superseded", invalidated_at=version.written_at)
            chain.append(version)
            self.tokens[token] = [(record, len(chain) - 1)]
            return version

    def forget(
        self, memory: str, record: str, author: Author, if_version: int | None = None, witness: Witness = unwitnessed
    ) -> Version:
        with self.lock:
            chain = self._current(memory, record, if_version)
            if chain[-1].status != "forgotten":
                token = os.urandom(8).hex()
                witness(token)
                chain[-1] = replace(chain[-1], status="forgotten", invalidated_at=now())
                self.tokens[token] = [(record, len(chain) - 1)]
            return chain[-1]

    def erase(self, memory: str, records: Sequence[str], author: Author) -> Erased:
        with self.lock:
            erased = self.erased.setdefault(memory, set())
            erased |= {record for record in records if self._chains(memory).pop(record, None) is not None}
            gone = [record for record in dict.fromkeys(records) if record in erased]
        return Erased(tuple(gone), ())

    def find(self, memory: str, token: str) -> list[Version] | None:
        places = self.tokens.get(token)
        if places is None or any(record not in self._chains(memory) for record, _ in places):
            return None
        return [self._chains(memory)[record][number] for record, number in places]

    def drop(self, memory: str) -> None:
        self.memories.pop(memory, None)
