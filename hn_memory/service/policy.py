"""The use cases of the policy: show what is in force, check a file, and edit the one of the work tree.

An edit never stages and never commits. What it wrote holds for nobody before it is committed, since trust is
judged by the policy at the query commit (section 6).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.protocol import limits
from hn_memory.protocol.identifiers import KINDS, require_actor
from hn_memory.protocol.policy import POLICY_PATH, Policy, missing_policy, parse_policy
from hn_memory.protocol.policytext import edit_policy, locate
from hn_memory.repository.policyfile import policy_at, policy_bytes
from hn_memory.repository.treefile import edit_tree_file, read_tree_file
from hn_memory.service.environment import Environment

NOTICE: Final = "takes effect when committed"
WORK_TREE: Final = "work-tree"

_TRUE: Final = frozenset({"true", "yes", "on", "1", ""})


def show(environment: Environment, at: str = "HEAD") -> dict[str, Any]:
    """The policy in force at a commit.

    `names` holds the names of those trusted actors whose identities are in this clone.

    Raises:
        NotFoundError `revision-unknown`; HnError `policy-invalid`, `policy-unavailable`.
    """
    repository = environment.repository
    commit = repository.resolve_commit(at)
    policy = policy_at(repository, commit)
    return {
        "version": 0,
        "commit": commit,
        "digest": policy.digest,
        "state": policy.state,
        **_lists(policy),
        "names": _names(environment, policy.actors),
    }


def check(environment: Environment, at: str | None = None) -> dict[str, Any]:
    """Check the policy file of the work tree, or of a commit. No file is valid: nobody is trusted then.

    Raises:
        HnError `policy-invalid`: names the field, and line and column where they can be told.
        HnError `no-work-tree`, `work-tree-unsafe`, `work-tree-read-failed`.
        NotFoundError `revision-unknown`; HnError `policy-unavailable`.
    """
    if at is None:
        root = _work_tree(environment, "Name a commit to check with --at.")
        _refuse_sparse(environment, root)
        source, data = WORK_TREE, read_tree_file(root, POLICY_PATH, limits.POLICY_BYTES)
    else:
        source = environment.repository.resolve_commit(at)
        data = policy_bytes(environment.repository, source)
    policy = _parse(data)
    return {"version": 0, "source": source, "state": policy.state, "digest": policy.digest, "valid": True}


def trust(environment: Environment, actors: Sequence[str], kinds: Sequence[str] = ()) -> dict[str, Any]:
    """Add actors and kinds to the policy file of the work tree.

    Without kinds a section that trusts none gets all six, and one that has some keeps them.

    Raises:
        UsageError `actor-invalid`, `kind-unknown`, `actor-missing`.
        HnError `policy-invalid`, `no-work-tree`, `work-tree-unsafe`, `work-tree-write-failed`,
            `policy-not-checked-out`; ConflictError `work-tree-busy`, `work-tree-changed`.
    """
    if not actors and not kinds:
        raise UsageError("actor-missing", "name at least one actor to trust", field="actor")
    for actor in actors:
        require_actor(actor, "actor")
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError("kind-unknown", f"unknown kind {kind[:40]!a}; one of {', '.join(KINDS)}", field="kind")
    root = _work_tree(environment)
    _refuse_sparse(environment, root)
    with edit_tree_file(root, POLICY_PATH, limits.POLICY_BYTES, create=True) as file:
        assert file is not None
        before = _parse(file.data)
        granted = set(kinds) or (set() if before.kinds else set(KINDS))
        after = edit_policy(file.data, before.actors | set(actors), before.kinds | granted)
        changed = after != file.data
        if changed:
            file.replace(after)
    return _edited(after, changed)


def untrust(environment: Environment, actors: Sequence[str]) -> dict[str, Any]:
    """Remove actors from the policy file of the work tree; kinds stay.

    Raises:
        NotFoundError `actor-not-trusted`: one of them is not listed; nothing is written.
        As `trust`.
    """
    if not actors:
        raise UsageError("actor-missing", "name at least one actor", field="actor")
    for actor in actors:
        require_actor(actor, "actor")
    root = _work_tree(environment)
    _refuse_sparse(environment, root)
    with edit_tree_file(root, POLICY_PATH, limits.POLICY_BYTES, create=False) as file:
        before = missing_policy() if file is None else _parse(file.data)
        for actor in actors:
            if actor not in before.actors:
                raise NotFoundError(
                    "actor-not-trusted",
                    f"{POLICY_PATH} does not list {actor}",
                    hint="`hn policy show` prints the actors of the committed policy.",
                    field="actor",
                )
        assert file is not None
        after = edit_policy(file.data, before.actors - set(actors), before.kinds)
        file.replace(after)
    return _edited(after, True)


# -- inside -----------------------------------------------------------------------------------------------


def _work_tree(environment: Environment, hint: str = "Run this in a clone that has one.") -> Path:
    root = environment.repository.layout.work_tree
    if root is None:
        raise HnError("no-work-tree", f"this repository has no work tree to hold {POLICY_PATH}", hint=hint)
    return root


def _refuse_sparse(environment: Environment, root: Path) -> None:
    """Refuse where the file is committed but kept out of the work tree: a new one would drop its sections."""
    repository = environment.repository
    setting = repository.config("core.sparseCheckout")
    if setting is None or setting.lower() not in _TRUE or os.path.lexists(root / POLICY_PATH):
        return
    try:
        commit = repository.resolve_commit("HEAD")
    except NotFoundError:
        return
    if repository.entries(commit, [POLICY_PATH])[POLICY_PATH] is not None:
        raise HnError(
            "policy-not-checked-out",
            f"{POLICY_PATH} is in HEAD, but the sparse checkout keeps it out of the work tree",
            hint="Add .hn to the sparse checkout (`git help sparse-checkout`).",
        )


def _parse(data: bytes | None) -> Policy:
    if data is None:
        return missing_policy()
    try:
        return parse_policy(data)
    except HnError as error:
        place = locate(data, error.field) if len(data) <= limits.POLICY_BYTES else None
        if place is None:
            raise
        message = f"{error.message} (line {place[0]}, column {place[1]})"
        raise HnError(error.code, message, hint=error.hint, field=error.field) from None


def _edited(data: bytes, changed: bool) -> dict[str, Any]:
    return {"version": 0, "path": POLICY_PATH, "changed": changed, **_lists(parse_policy(data)), "notice": NOTICE}


def _lists(policy: Policy) -> dict[str, Any]:
    return {"trustedActors": sorted(policy.actors), "trustedKinds": sorted(policy.kinds)}


def _names(environment: Environment, actors: Iterable[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for actor in sorted(actors):
        try:
            names[actor] = environment.keyring.get(actor).name
        except HnError:
            # Most trusted actors are somebody else; what is wrong with a file of ours is not asked here.
            continue
    return names
