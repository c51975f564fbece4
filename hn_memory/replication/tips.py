"""The ledger of tips on disk, and what a person let pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hn_memory.errors import HnError, NotFoundError
from hn_memory.protocol.tips import (
    LEDGER_BYTES,
    Acceptance,
    Gap,
    Ledger,
    Tip,
    decode_gaps,
    decode_ledger,
    encode_gaps,
    encode_ledger,
)
from hn_memory.replication.outcome import Outcome
from hn_memory.repository.private import PrivateFiles

TIPS: Final = "replication/tips.json"
GAPS: Final = "replication/gaps.json"


def load_ledger(files: PrivateFiles) -> Ledger:
    """The ledger; empty when there is none.

    Raises:
        HnError `ledger-invalid`: it is damaged. It is never made anew in silence, because it guards against rewinds.
    """
    try:
        data = files.read(TIPS, LEDGER_BYTES)
    except NotFoundError:
        return Ledger({}, [])
    try:
        return decode_ledger(data)
    except HnError as error:
        raise HnError(
            error.code,
            f"the ledger of tips does not hold: {error.message}",
            hint="It remembers what remotes showed before; look at hn/replication/tips.json in the Git directory.",
            field=error.field,
        ) from None


def save_tips(files: PrivateFiles, ledger: Ledger, tips: Iterable[Tip]) -> None:
    """Note verified tips. Nothing is written when nothing changes."""
    changed = False
    for tip in tips:
        if ledger.tips.get(tip.key) != tip:
            ledger.tips[tip.key] = tip
            changed = True
    if changed:
        files.write(TIPS, encode_ledger(ledger))


def accept(files: PrivateFiles, ledger: Ledger, acceptance: Acceptance) -> None:
    """Note that a person looked at what a remote did to a stream; replaces an earlier note on that stream."""
    place = acceptance[:3]
    ledger.accepted[:] = [*(item for item in ledger.accepted if item[:3] != place), acceptance]
    files.write(TIPS, encode_ledger(ledger))


def let_pass(ledger: Ledger, remote: str, outcome: Outcome) -> Outcome:
    """The outcome, marked when a person has looked at exactly this."""
    for item in ledger.accepted:
        looked_at = (item.remote, item.actor, item.stream, item.outcome, item.offered)
        if looked_at == (remote, outcome.actor, outcome.stream, outcome.word, outcome.commit):
            return outcome._replace(accepted=item.reason, hint=None)
    return outcome


def load_gaps(files: PrivateFiles) -> list[Gap]:
    """The recorded gaps of this clone.

    Raises:
        HnError `gaps-invalid`.
    """
    try:
        return decode_gaps(files.read(GAPS, LEDGER_BYTES))
    except NotFoundError:
        return []


def replace_gaps(files: PrivateFiles, remote: str, streams: set[str], gaps: list[Gap]) -> None:
    """Put new findings about streams of a remote in place of the recorded ones."""
    before = load_gaps(files)
    after = sorted({*(gap for gap in before if gap.remote != remote or gap.stream not in streams), *gaps})
    if after != sorted(before):
        files.write(GAPS, encode_gaps(after))
