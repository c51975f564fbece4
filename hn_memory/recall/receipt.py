"""The receipt: what a recall withheld and why, so that no silence is taken for agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hn_memory.protocol.policy import Policy
from hn_memory.recall.gates import NO_MATCH, REASONS
from hn_memory.recall.select import Callout
from hn_memory.repository.streams import InvalidSource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


CALLOUTS_SHOWN: Final = 20

_HINTS: Final = {
    "policy-missing": "this commit has no memory policy; see `hn help policy`",
    "actor-untrusted": "the policy does not list their actor; see `hn policy show`",
    "kind-untrusted": "the policy does not list their kind; see `hn policy show`",
    "inapplicable": "they are anchored elsewhere in the history; name their commit with --at",
    "anchor-missing": "commits they are anchored to, or that lie between, are not in this clone",
    "anchor-invalid": "the paths they bind do not hold at their anchor commit",
    "evidence-missing": "objects, events or memories they cite are not in this clone",
    "superseded": "newer records replaced them; --lifecycle all shows them",
    "retracted": "their authors took them back; --lifecycle all shows them",
    "branching": "more than one record replaces each of them; --lifecycle branching shows them",
    "dependency-missing": "the record they replace is not in this clone",
    "filtered": "the filters exclude them",
}

TERMS_MISSING: Final = "they do not hold every term of the query"
"""Why records are `no-match` in a recall."""
PATTERN_MISSING: Final = "the pattern is found in none of their fields"
"""And in a search with a pattern."""
WORDS_MISSING: Final = "nothing that the question asks for is in them"
"""And in a search with a question."""


def build_receipt(
    *,
    considered: int,
    matched: int,
    withheld: Mapping[str, int],
    callouts: Sequence[Callout],
    callout_counts: Mapping[str, int],
    commit: str,
    policy: Policy,
    local: int,
    accepted: int,
    invalid: Sequence[InvalidSource],
    index: Mapping[str, Any],
    extra_hints: Sequence[str] = (),
    no_match: str = TERMS_MISSING,
) -> dict[str, Any]:
    """The receipt's JSON value. `withheld` shows the reasons that withheld something, in gate order; `no_match` is
    what to say of those that are `no-match`."""
    counts = {reason: withheld[reason] for reason in REASONS if withheld.get(reason)}
    receipt: dict[str, Any] = {
        "considered": considered,
        "withheld": counts,
        "policy": {"commit": commit, "digest": policy.digest, "state": policy.state},
        "sources": {
            "local": local,
            "accepted": accepted,
            "invalid": [{"ref": source.ref, "reason": source.reason} for source in invalid],
        },
        "index": dict(index),
        "callouts": [
            {"memoryId": item.memory_id, "code": item.code, "successors": list(item.successors)} for item in callouts
        ],
        "hints": [*_hints(matched, counts, callout_counts, invalid, no_match), *extra_hints],
    }
    return receipt


def _hints(
    matched: int,
    counts: Mapping[str, int],
    callouts: Mapping[str, int],
    invalid: Sequence[InvalidSource],
    no_match: str,
) -> list[str]:
    hints: list[str] = []
    if not matched:
        why = {**_HINTS, NO_MATCH: no_match}
        for reason, count in counts.items():
            if reason in why:
                hints.append(f"{count} {_records(count)} {reason}: {why[reason]}")
        if not counts and not invalid:
            hints.append("no record is here yet; `hn memory record --help` shows how to write one")
    branching = callouts.get("branching", 0)
    if branching and matched:
        hints.append(f"{branching} {_records(branching)} branching: {_HINTS['branching']}")
    lost = callouts.get("successor-retracted", 0)
    if lost:
        hints.append(
            f"{lost} {_records(lost)} superseded by something its author retracted: nothing current speaks "
            "for them; --lifecycle all shows them"
        )
    if invalid:
        hints.append(
            f"{len(invalid)} invalid {'source was' if len(invalid) == 1 else 'sources were'} left out; "
            "`hn memory verify` says why"
        )
    return hints


def _records(count: int) -> str:
    return "record is" if count == 1 else "records are"
