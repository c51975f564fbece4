"""Shallow recovery: fetch exactly the commits that recorded gaps name, never more history.

A shallow clone lacks the commits that older memories are anchored to. Recovery brings each of them in as one more
shallow commit, kept by a ref of its own, and the sync that follows verifies everything again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hn_memory.errors import HnError
from hn_memory.protocol.selection import Selection
from hn_memory.protocol.tips import Gap
from hn_memory.replication.advertise import remote_failed
from hn_memory.replication.network import PercentProgress, network_environment, run_network
from hn_memory.replication.remote import Remote, command_place
from hn_memory.repository.base import Repository

ANCHOR_KIND: Final = "anchor-commit"
PREFIX: Final = "refs/hn/shallow/"
_OFF: Final = (
    "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false", "submodule.recurse=false",
    "fetch.recurseSubmodules=false", "fetch.prune=false", "fetch.writeCommitGraph=false",
)  # fmt: skip


def check_recovery(repository: Repository, selection: Selection | None, remote: str) -> None:
    """May a recovery run here?

    Raises:
        HnError `not-shallow`, `selection-missing`.
    """
    if not repository.layout.shallow:
        raise HnError("not-shallow", "this clone is not shallow, so it has no gaps to recover")
    if selection is None or not selection.exact:
        raise HnError(
            "selection-missing",
            f"shallow recovery needs an exact selection saved for {remote}",
            hint=f"`hn replication select {remote} --memory STREAM` saves one.",
        )


def recover(
    repository: Repository,
    remote: Remote,
    gaps: Sequence[Gap],
    *,
    deadline: float,
    interactive: bool,
    progress: PercentProgress | None,
) -> int:
    """Fetch the commits that gaps name; how many were asked for.

    Raises:
        HnError `remote-failed`: the remote does not give them; its words are in the message.
    """
    missing = sorted({gap.missing_id for gap in gaps if gap.kind == ANCHOR_KIND})
    missing = [oid for oid in missing if oid not in repository.info(missing)]
    if not missing:
        return 0
    settings = [part for setting in _OFF for part in ("-c", setting)]
    flags = [
        "--depth=1", "--no-tags", "--no-auto-maintenance", "--no-recurse-submodules", "--no-write-fetch-head",
        "--refmap=", "--progress" if progress else "--quiet", "--stdin",
    ]  # fmt: skip
    done = run_network(
        [
            *command_place(repository), f"--git-dir={repository.layout.git_dir}", *settings,
            "fetch", *flags, "--", remote.name,
        ],
        network_environment(interactive=interactive, ssh_command=remote.ssh_command),
        deadline=deadline,
        stdin="".join(f"{oid}:{PREFIX}{oid}\n" for oid in missing).encode(),
        secrets=remote.secrets,
        interactive=interactive,
        progress=progress,
    )  # fmt: skip
    if done.status:
        raise remote_failed(remote, done)
    return len(missing)


def gap_command(gap: Gap) -> str:
    """What closes a gap."""
    return f"hn sync {gap.remote} --recover-shallow"
