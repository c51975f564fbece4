"""The use cases of bundles: write one, and verify one without any repository."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.protocol.identifiers import parse_source_ref, require_digest
from hn_memory.repository.policyfile import policy_bytes
from hn_memory.service.environment import Environment


def export_bundle(
    environment: Environment, path: str | os.PathLike[str], streams: Sequence[str] = ()
) -> dict[str, Any]:
    """Write a bundle of verified streams (all, or those named) and the policy at HEAD.

    Raises:
        NotFoundError `stream-unknown`; HnError `file-exists`, `bundle-failed`, `nothing-to-export`.
    """
    from hn_memory.replication.advertise import Offer
    from hn_memory.replication.bundle import POLICY_REF, is_bundle, write_bundle

    for stream in streams:
        require_digest(stream, "a stream", "stream")
    target = _named(path, "bundle")
    if target.exists() and not (target.is_file() and is_bundle(target)):
        raise HnError("file-exists", f"{target.name} exists and is no bundle; it is left alone", field="bundle")
    chosen = _verified_heads(environment)
    if streams:
        missing = [stream for stream in streams if not any(key[1] == stream for key in chosen)]
        if missing:
            raise NotFoundError("stream-unknown", f"no valid stream {missing[0]} is here", field="stream")
        chosen = {key: row for key, row in chosen.items() if key[1] in streams}
    if not chosen:
        raise HnError("nothing-to-export", "no valid stream is here")
    policy = _policy_data(environment)
    write_bundle(environment.repository, [Offer(*key, commit) for key, (_, commit) in chosen.items()], policy, target)
    rows = [
        {"stream": stream, "actor": actor, "memories": sequence, "commit": commit}
        for (actor, stream), (sequence, commit) in chosen.items()
    ]
    return {
        "version": 0,
        "file": target.name,
        "bytes": target.stat().st_size,
        "policy": None if policy is None else POLICY_REF,
        "streams": rows,
    }


def verify_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Verify a bundle without any repository: every stream from its first commit, and the policy's form.

    Raises:
        NotFoundError `file-missing`; HnError `file-unknown`, `bundle-invalid`, `policy-invalid`.
    """
    from hn_memory.replication.bundle import verify_bundle

    content = verify_bundle(_named(path, "file"))
    verified, policy = content.verified, content.policy
    return {
        "version": 0,
        "kind": "bundle",
        "objectFormat": content.object_format,
        "valid": not verified.invalid,
        "memories": len(verified.memories),
        "streams": [
            {
                "ref": source.name.ref,
                "stream": source.name.stream,
                "actor": source.name.actor,
                "memories": verified.tips[source.name.ref].sequence,
                "head": verified.tips[source.name.ref].memory_id,
            }
            for source in verified.valid
        ],
        "invalid": [{"ref": item.ref, "code": item.code, "reason": item.reason} for item in verified.invalid],
        "policy": None
        if policy is None
        else {
            "digest": policy.digest,
            "state": policy.state,
            "trustedActors": sorted(policy.actors),
            "trustedKinds": sorted(policy.kinds),
        },
        "otherRefs": content.other_refs,
    }


# -- inside -----------------------------------------------------------------------------------------------


def _named(path: str | os.PathLike[str], field: str) -> Path:
    """The path. An empty name would be the current directory."""
    if not os.fspath(path):
        raise UsageError("usage", "the name of the bundle is empty", field=field)
    return Path(path)


def _policy_data(environment: Environment) -> bytes | None:
    try:
        return policy_bytes(environment.repository, environment.repository.resolve_commit("HEAD"))
    except NotFoundError:
        return None


def _verified_heads(environment: Environment) -> dict[tuple[str, str], tuple[int, str]]:
    """For each valid stream the furthest head here: how many memories, and the commit."""
    from hn_memory.index.lookup import source_rows

    index = environment.index()
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for ref, head, sequence, _, _ in environment.query(index, lambda db: list(source_rows(db))):
        source = parse_source_ref(ref)
        if source is not None:
            key = (source.actor, source.stream)
            found[key] = max(found.get(key, (0, "")), (sequence, head))
    environment.note_invalid(index.invalid)
    return dict(sorted(found.items()))
