"""Repositories to search: one commit, one trusted identity, and its records."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from hn_memory import RecordArguments, Request, Service, open_repository

_SECOND = 1_000_000_000


def git(place: Path, *arguments: str) -> None:
    """Run Git in a repository."""
    subprocess.run(["git", "-C", str(place), *arguments], check=True, capture_output=True)


def _clock() -> Iterator[int]:
    """An hour between two records, so that the order of the stream is the order of time."""
    at = 1_700_000_000
    while True:
        yield at * _SECOND
        at += 3_600


def new_repository(place: Path, embedder: str) -> Service:
    """An empty repository with an identity that its policy trusts."""
    place.mkdir(parents=True)
    git(place, "init", "-q")
    with open_repository(place) as service:
        actor = service.init("Evaluation")["identity"]["actor"]
        service.policy_trust([actor])
    git(place, "add", ".")
    git(place, "-c", "user.name=E", "-c", "user.email=e@example.org", "commit", "-qm", "Start")
    if embedder:
        git(place, "config", "hn.embedder", embedder)
    ticks = _clock()
    return open_repository(place, clock=lambda: next(ticks))


def record_all(service: Service, contents: Sequence[str]) -> list[str]:
    """The memory IDs of observations that say these things, in order."""
    arguments = [RecordArguments(kind="observation", content=content) for content in contents]
    return [document["memoryId"] for document in service.record_all(arguments, allow_secrets=())]


def found(service: Service, question: str, mode: str, count: int = 50) -> list[str]:
    """The IDs that a search returns, in order."""
    page = service.search(Request(at="HEAD", max_records=count, max_content_bytes=None), question, mode)
    return [row["id"] for row in page["memories"]]
