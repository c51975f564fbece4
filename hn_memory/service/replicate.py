"""The use cases of replication: select, discover, sync, gaps, tips.

Documents never hold a URL: it may carry credentials.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.protocol.identifiers import local_ref, require_digest
from hn_memory.protocol.policy import Policy
from hn_memory.protocol.selection import (
    Selection,
    budgets_document,
    check_remote,
    default_selection,
    make_selection,
    selection_document,
)
from hn_memory.protocol.tips import (
    ACCEPTABLE,
    Acceptance,
    Gap,
    acceptance_document,
    gap_document,
    tip_document,
)
from hn_memory.replication.network import DEFAULT_TIMEOUT
from hn_memory.replication.selection import load_selection, save_selection, saved_remotes
from hn_memory.repository.clock import timestamp
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.private import PrivateFiles
from hn_memory.service.environment import Environment, seconds_of

TIMEOUT_VARIABLE: Final = "HN_SYNC_TIMEOUT"
BUNDLE: Final = "bundle"
_REASON_BYTES: Final = 1024
_TIMEOUT_MAX: Final = 1_000_000_000


def sync(
    environment: Environment,
    target: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    push: bool = True,
    recover_shallow: bool = False,
    interactive: bool = False,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Synchronize with a remote, or import a bundle file.

    Args:
        target: a remote's name, or a bundle: a text with `/` in it, or an existing file that is no remote's name.
        name: the remote that a bundle stands in for, by default `bundle`.
        timeout: seconds for each time that Git talks to the remote.

    Raises:
        HnError `remote-failed`, `object-format-mismatch`, `not-shallow`, `selection-missing`.
        NotFoundError `remote-unknown`, `file-missing`; UsageError `remote-invalid`, `timeout-invalid`.
        ConflictError `sync-busy`, `repository-busy`, `ref-moved`.
    """
    from hn_memory.replication.remote import bundle_remote, find_remote
    from hn_memory.replication.sync import Options
    from hn_memory.replication.sync import sync as run

    repository = environment.repository
    if target is not None and _is_url(os.fspath(target)):
        raise UsageError(
            "remote-invalid",
            "sync takes the name of a remote or a bundle file, not a URL",
            hint="`git remote add NAME URL`, then `hn sync NAME`.",
            field="remote",
        )
    if target is not None and _is_file(environment, os.fspath(target)):
        from hn_memory.replication.bundle import check_whole, is_bundle

        path = Path(target)
        if not is_bundle(path):
            raise HnError("file-unknown", f"{path.name} is no Git bundle", field="remote")
        if recover_shallow:
            raise UsageError("usage", "--recover-shallow needs a remote, not a file", field="recover-shallow")
        remote = bundle_remote(name or BUNDLE, path)
        check_whole(path)
    else:
        if name is not None:
            raise UsageError("usage", "--as names what a bundle file stands in for", field="as")
        remote = find_remote(repository, None if target is None else os.fspath(target))
    options = Options(
        push=push,
        recover_shallow=recover_shallow,
        timeout=_time_limit() if timeout is None else timeout,
        interactive=interactive,
        progress=environment.progress,
    )
    report = run(repository, remote, options)
    if report.finished:
        environment.notices.append(f"finished a promotion of {report.finished} ref(s) that was broken off")
    if report.malformed:
        environment.notices.append(f"passed over {report.malformed} malformed ref name(s) of the remote")
    counts = Counter(outcome.word for outcome in report.outcomes)
    return {
        "version": 0,
        "remote": report.remote,
        "complete": report.complete,
        "counts": {word: counts[word] for word in sorted(counts)},
        "outcomes": [outcome.document() for outcome in report.outcomes],
        "messages": list(report.messages),
    }


def select(
    environment: Environment,
    remote: str,
    streams: Sequence[str] = (),
    *,
    everything: bool = False,
    from_policy: bool = False,
    budgets: Mapping[str, int | None] | None = None,
    interactive: bool = False,
) -> dict[str, Any]:
    """Save what a remote may bring. With `from_policy`, the remote is asked and the policy at HEAD chooses.

    Raises:
        UsageError `selection-empty`, `selection-conflict`, `id-invalid`, `budget-invalid`, `remote-invalid`.
        NotFoundError `remote-unknown`.
    """
    from hn_memory.replication.remote import remote_names

    files = _files(environment)
    check_remote(remote)
    if from_policy:
        if everything or streams:
            raise UsageError("selection-conflict", "--from-policy excludes --all and --memory", field="from-policy")
        offers = _ask(environment, remote, interactive).offers
        policy = _policy(environment)
        streams = [offer.stream for offer in offers if policy is not None and offer.actor in policy.actors]
        if not streams:
            raise UsageError(
                "selection-empty",
                f"{remote} offers no stream of an actor that the policy at HEAD trusts",
                hint=f"`hn replication discover {remote}` lists what it offers; `hn help policy`.",
                field="from-policy",
            )
    elif remote not in remote_names(environment.repository):
        environment.notices.append(f"there is no remote {remote} yet; a bundle may stand in for it (--as {remote})")
    chosen = make_selection(remote, tuple(streams), everything=everything, budgets=budgets or {})
    return {"version": 0, "saved": True, "selection": _selection(save_selection(files, chosen))}


def show(environment: Environment, remote: str | None = None) -> dict[str, Any]:
    """What is saved for one remote or for all; where nothing is, what a sync takes then.

    Raises:
        HnError `selection-invalid`; UsageError `remote-invalid`.
    """
    from hn_memory.replication.remote import remote_names

    files = _files(environment)
    if remote is not None:
        names = [check_remote(remote)]
    else:
        names = sorted({*saved_remotes(files), *remote_names(environment.repository)})
    rows: list[dict[str, Any]] = []
    for name in names:
        saved = load_selection(files, name)
        rows.append({"saved": saved is not None, **_selection(saved or default_selection(name))})
    return {"version": 0, "selections": rows}


def discover(environment: Environment, remote: str, *, interactive: bool = False) -> dict[str, Any]:
    """What a remote offers, and what is known of it here. Takes nothing and changes no selection.

    Raises:
        NotFoundError `remote-unknown`; HnError `remote-failed`, `object-format-mismatch`.
    """
    from hn_memory.protocol.identifiers import accepted_ref

    files = _files(environment)
    advert = _ask(environment, remote, interactive)
    selection = load_selection(files, remote)
    policy = _policy(environment)
    heads = {ref.name: ref.target for ref in environment.repository.refs("refs/hn/memory/", "refs/hn/remotes/")}
    rows: list[dict[str, Any]] = []
    for offer in advert.offers:
        local, accepted = (
            heads.get(local_ref(offer.actor, offer.stream)),
            heads.get(accepted_ref(remote, offer.actor, offer.stream)),
        )
        rows.append(
            {
                "stream": offer.stream,
                "actor": offer.actor,
                "commit": offer.commit,
                "known": "local" if local is not None else "accepted" if accepted is not None else "no",
                "current": offer.commit in (local, accepted),
                "selected": (selection or default_selection(remote)).takes(offer.stream),
                "trusted": policy is not None and offer.actor in policy.actors,
            }
        )
    return {
        "version": 0,
        "remote": remote,
        "saved": selection is not None,
        "offers": rows,
        "disputed": [{"stream": stream, "actors": list(owners)} for stream, owners in advert.disputed.items()],
        "malformed": advert.malformed,
        "hints": _what_to_type(remote, rows, selection),
    }


def gaps(environment: Environment) -> dict[str, Any]:
    """What streams need that this shallow clone does not have.

    Raises:
        HnError `gaps-invalid`.
    """
    from hn_memory.replication.shallow import gap_command
    from hn_memory.replication.tips import load_gaps

    found: list[Gap] = load_gaps(_files(environment))
    return {"version": 0, "gaps": [gap_document(gap) | {"command": gap_command(gap)} for gap in found]}


def tips(environment: Environment) -> dict[str, Any]:
    """The highest verified link that each remote showed of each stream, and what a person let pass.

    Raises:
        HnError `ledger-invalid`.
    """
    from hn_memory.replication.tips import load_ledger

    ledger = load_ledger(_files(environment))
    return {
        "version": 0,
        "tips": [tip_document(ledger.tips[key]) for key in sorted(ledger.tips)],
        "accepted": [acceptance_document(item) for item in ledger.accepted],
    }


def tips_accept(
    environment: Environment, remote: str, stream: str, reason: str, *, interactive: bool = False
) -> dict[str, Any]:
    """Record that a person looked at what a remote did to a stream. Moves no ref and erases no evidence.

    The remote is asked once more, so that what is let pass is what it offers now.

    Raises:
        UsageError `reason-invalid`, `id-invalid`; NotFoundError `tip-unknown`, `remote-unknown`.
        HnError `nothing-to-accept`: nothing is wrong with the stream at this remote.
    """
    from hn_memory.replication.judge import current_trouble
    from hn_memory.replication.remote import find_remote
    from hn_memory.replication.sync import Options, sync_lock
    from hn_memory.replication.tips import accept, load_ledger

    require_digest(stream, "a stream", "stream")
    if not reason.strip() or len(reason.encode("utf-8", "replace")) > _REASON_BYTES or not reason.isprintable():
        raise UsageError(
            "reason-invalid", f"a reason is one line of at most {_REASON_BYTES} bytes, and not blank", field="reason"
        )
    files = _files(environment)
    options = Options(push=False, timeout=_time_limit(), interactive=interactive)
    trouble = current_trouble(environment.repository, find_remote(environment.repository, remote), stream, options)
    if trouble is None or trouble.word not in ACCEPTABLE or trouble.actor is None:
        raise HnError(
            "nothing-to-accept",
            f"{remote} did not rewind, withdraw or fork that stream",
            hint="`hn replication tips` lists what it showed before.",
            field="stream",
        )
    instant = timestamp(environment.clock())
    note = Acceptance(remote, trouble.actor, stream, trouble.word, trouble.commit, reason, instant)
    with sync_lock(files):
        accept(files, load_ledger(files), note)
    return {"version": 0, "accepted": acceptance_document(note)}


# -- inside -----------------------------------------------------------------------------------------------


def _files(environment: Environment) -> PrivateFiles:
    return PrivateFiles(environment.repository.layout.common_dir)


def _is_url(target: str) -> bool:
    """Would Git take it for a URL (a scheme, a transport, `host:path`)? What is there is a file, whatever its name."""
    return ":" in target.partition("/")[0] and not os.path.lexists(target)


def _is_file(environment: Environment, target: str) -> bool:
    from hn_memory.replication.remote import remote_names

    if "/" in target:
        return True
    return Path(target).is_file() and target not in remote_names(environment.repository)


def _time_limit() -> float:
    return seconds_of(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT, _TIMEOUT_MAX)


def _ask(environment: Environment, remote: str, interactive: bool) -> Any:
    import time

    from hn_memory.replication.advertise import advertise
    from hn_memory.replication.offers import remember_offers
    from hn_memory.replication.remote import find_remote

    repository = environment.repository
    deadline = time.monotonic() + _time_limit()
    advert = advertise(repository, find_remote(repository, remote), deadline=deadline, interactive=interactive)
    remember_offers(_files(environment), remote, [offer[:2] for offer in advert.offers])
    return advert


def _policy(environment: Environment) -> Policy | None:
    """The policy at HEAD; None where there is no commit yet or the policy does not hold, which is told."""
    try:
        return policy_at(environment.repository, environment.repository.resolve_commit("HEAD"))
    except NotFoundError:
        return None
    except HnError as error:
        environment.notices.append(f"the policy at HEAD does not hold: {error.message}")
        return None


def _selection(selection: Selection) -> dict[str, Any]:
    document = selection_document(selection)
    del document["version"]
    return document | {"budgets": budgets_document(selection.budgets)}


def _what_to_type(remote: str, rows: Sequence[Mapping[str, Any]], selection: Selection | None) -> list[str]:
    if not rows:
        return [f"{remote} offers no memories yet; `hn sync {remote}` publishes yours"]
    hints: list[str] = []
    if all(row["current"] for row in rows):
        return ["everything it offers is here"]
    if selection is None:
        hints.append(f"`hn sync {remote}` takes all of them, since nothing is selected")
        if any(row["trusted"] for row in rows):
            hints.append(f"`hn replication select {remote} --from-policy` keeps to the streams of trusted actors")
        else:
            stream = rows[0]["stream"]
            hints.append(f"`hn replication select {remote} --memory {stream}` keeps to chosen streams")
    else:
        hints.append(f"`hn sync {remote}` takes the selected ones")
        if not all(row["selected"] for row in rows):
            hints.append(f"`hn replication select {remote} --all` selects every stream")
    return hints
