"""Publication: push local streams whose remote head is an ancestor of theirs, exact refspecs, never forced.

All go in one push, each judged by itself by the remote, whose words are kept. Pushed are memory refs of this clone
and nothing else; accepted refs, evidence, the quarantine and branches never leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from hn_memory.protocol.identifiers import local_ref
from hn_memory.replication.advertise import Offer, said
from hn_memory.replication.network import PercentProgress, clean_lines, redact, run_network
from hn_memory.replication.quarantine import Quarantine
from hn_memory.values import NamedTuple

# Flags of `git push --porcelain`.
_DONE = {" ", "*", "="}
_UNPACK = "error: remote unpack failed: "


class Pushed(NamedTuple):
    """What the remote made of a push: a refusal's words by local ref (None: taken), and its messages."""

    refusals: dict[str, str | None]
    messages: list[str]


def push(
    quarantine: Quarantine,
    name: str,
    candidates: Sequence[Offer],
    *,
    deadline: float,
    interactive: bool,
    progress: PercentProgress | None,
) -> Pushed:
    """Push local heads (`Offer` says which commit to which stream's ref) and say what became of each."""
    refs = {local_ref(offer.actor, offer.stream): offer.commit for offer in candidates}
    # In the configuration of the quarantine there is room for any number of refspecs.
    lines = "".join(f"\tpush = {commit}:{ref}\n" for ref, commit in refs.items())
    with (quarantine.path / "config").open("a") as config:
        config.write(f'[remote "{name}"]\n{lines}')
    done = run_network(
        [
            *quarantine.command, "push", "--porcelain", "--no-verify", "--signed=no", "--no-follow-tags",
            "--recurse-submodules=no", "--progress" if progress else "--quiet", "--", name,
        ],
        quarantine.environment(interactive=interactive),
        deadline=deadline,
        interactive=interactive,
        progress=progress,
        secrets=quarantine.secrets,
    )  # fmt: skip
    told: dict[str, str | None] = {}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        parts = line.split("\t")
        if len(parts) != 3:
            continue
        flag, route, summary = parts
        ref = route.rpartition(":")[2]
        if ref in refs:
            told[ref] = None if flag in _DONE else redact(summary)
    # Why nothing at all could be unpacked is told by Git, in the remote's words.
    unpack = [line.removeprefix(_UNPACK) for line in clean_lines(done.stderr) if line.startswith(_UNPACK)]
    messages = said(done) + unpack
    if done.status == 0:
        # With --quiet Git leaves out what went well.
        return Pushed({ref: told.get(ref) for ref in refs}, messages)
    return Pushed({ref: told.get(ref, done.words) for ref in refs}, messages)
