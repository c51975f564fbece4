"""Reading the policy that stands at a commit."""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.policy import POLICY_PATH, Policy, missing_policy, parse_policy
from hn_memory.repository.base import Repository


def policy_bytes(repository: Repository, commit: str) -> bytes | None:
    """The exact bytes of the policy file at a commit, or None where there is none.

    Raises:
        HnError `policy-invalid`: something other than a file of bounded size has that name.
        HnError `policy-unavailable`: the file exists but its object is not here.
    """
    entry = repository.entries(commit, [POLICY_PATH])[POLICY_PATH]
    if entry is None:
        return None
    if entry.mode not in ("100644", "100755"):
        raise HnError("policy-invalid", f"{POLICY_PATH} at {commit[:12]} is not a regular file")
    info = repository.info([entry.oid]).get(entry.oid)
    if info is not None and info.size > limits.POLICY_BYTES:
        raise HnError(
            "policy-invalid", f"{POLICY_PATH} has {info.size} bytes, at most {limits.POLICY_BYTES} are allowed"
        )
    for _, _, data in repository.read([entry.oid]):
        return data
    raise HnError(
        "policy-unavailable",
        f"the object of {POLICY_PATH} at {commit[:12]} is not in this clone",
        hint="Fetch it from the remote, or unset GIT_NO_LAZY_FETCH where the clone is partial.",
    )


def policy_at(repository: Repository, commit: str) -> Policy:
    """The policy at a commit; see `policy_bytes` for what it raises."""
    data = policy_bytes(repository, commit)
    return missing_policy() if data is None else parse_policy(data)
