"""Saved selections: one owner-only file per remote, changed by `select` and by nothing else."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import Final

from hn_memory.errors import HnError, NotFoundError
from hn_memory.protocol.selection import (
    SELECTION_BYTES,
    Selection,
    decode_selection,
    encode_selection,
    selection_file,
)
from hn_memory.repository.private import PrivateFiles

SELECTIONS: Final = "replication/selections"


def save_selection(files: PrivateFiles, selection: Selection) -> Selection:
    """Save a selection in place of an earlier one; what it said of other namespaces is kept."""
    try:
        earlier = load_selection(files, selection.remote)
    except HnError as error:
        if error.code != "selection-invalid":
            raise
        earlier = None
    if earlier is not None and not selection.all:
        selection = selection._replace(actors=earlier.actors, proposals=earlier.proposals)
    files.write(f"{SELECTIONS}/{selection_file(selection.remote)}", encode_selection(selection))
    return selection


def load_selection(files: PrivateFiles, remote: str) -> Selection | None:
    """The saved selection of a remote.

    Raises:
        HnError `selection-invalid`, `private-file-unsafe`.
    """
    try:
        data = files.read(f"{SELECTIONS}/{selection_file(remote)}", SELECTION_BYTES)
    except NotFoundError:
        return None
    try:
        return decode_selection(data, remote)
    except HnError as error:
        raise HnError(
            error.code,
            f"the selection saved for {remote} does not hold: {error.message}",
            hint=f"`hn replication select {remote}` saves a new one.",
            field=error.field,
        ) from None


def saved_remotes(files: PrivateFiles) -> list[str]:
    """Names of the remotes that have a selection, sorted."""
    names: list[str] = []
    for name in files.names(SELECTIONS):
        text = name.removesuffix(".json")
        try:
            remote = urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
        except ValueError:
            continue
        if selection_file(remote) == name:
            names.append(remote)
    return sorted(names)
