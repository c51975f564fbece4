"""What is wrong with one stream at a remote right now: a sync of that stream alone that publishes nothing."""

from __future__ import annotations

from hn_memory.replication.outcome import Outcome
from hn_memory.replication.remote import Remote
from hn_memory.replication.sync import Options, sync
from hn_memory.repository.base import Repository


def current_trouble(repository: Repository, remote: Remote, stream: str, options: Options) -> Outcome | None:
    """The outcome that a sync would give for the stream, None where it is not a bad one."""
    report = sync(repository, remote, options, only=stream)
    return next((item for item in report.outcomes if item.stream == stream and not item.good), None)
