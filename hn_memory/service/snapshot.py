"""The use cases of the `index-v0.json` snapshot: HEAD, no filter."""

from __future__ import annotations

from typing import Any

from hn_memory.errors import HnError
from hn_memory.index.snapshotfile import read_snapshot, write_snapshot
from hn_memory.protocol.projection import Context, judge_lifecycles, project
from hn_memory.protocol.query import source_fingerprint
from hn_memory.protocol.snapshot import Snapshot, build_snapshot
from hn_memory.recall.select import prepare_world
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.private import PrivateFiles
from hn_memory.repository.world import RepositoryWorld
from hn_memory.service.environment import Environment
from hn_memory.service.verified import VerifiedView


def rebuild(environment: Environment) -> dict[str, Any]:
    """Write the snapshot of every record at HEAD."""
    snapshot = _current(environment)
    size = write_snapshot(_files(environment), snapshot)
    return {
        "version": 0,
        "state": "rebuilt",
        "records": len(snapshot.records),
        "tokens": len(snapshot.tokens),
        "bytes": size,
        "sourceFingerprint": snapshot.source_fingerprint,
    }


def verify(environment: Environment) -> dict[str, Any]:
    """Check the snapshot against the sources as they are now.

    Raises:
        NotFoundError `index-missing`; HnError `index-corrupt`, `index-incompatible`, `index-stale`.
    """
    stored = read_snapshot(_files(environment))
    current = _current(environment)
    if stored.source_fingerprint != current.source_fingerprint:
        raise HnError(
            "index-stale",
            "the snapshot was made from other sources or another policy",
            hint="`hn memory index rebuild` writes it again.",
        )
    if stored != current:
        raise HnError(
            "index-corrupt",
            "the snapshot does not say what its sources say",
            hint="`hn memory index rebuild` writes it again.",
        )
    return {
        "version": 0,
        "state": "valid",
        "records": len(current.records),
        "tokens": len(current.tokens),
        "sourceFingerprint": current.source_fingerprint,
    }


def _files(environment: Environment) -> PrivateFiles:
    return PrivateFiles(environment.repository.layout.common_dir)


def _current(environment: Environment) -> Snapshot:
    repository = environment.repository
    commit = repository.resolve_commit("HEAD")
    policy = policy_at(repository, commit)
    verified = VerifiedView(environment).all()
    world = RepositoryWorld(repository, commit)
    prepare_world(world, verified.memories.values())
    rows = project(verified.memories, judge_lifecycles(verified.memories), Context(commit, policy, world))
    for source in verified.invalid:
        environment.notices.append(f"left out {source.ref}: {source.reason}")
    return build_snapshot(source_fingerprint(policy.digest, verified.heads), (row.document() for row in rows))
