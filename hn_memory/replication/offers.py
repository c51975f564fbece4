"""What each remote offered when it was last asked, for hints that need no network."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Final

from hn_memory.errors import HnError
from hn_memory.protocol.identifiers import is_actor_id, is_digest
from hn_memory.protocol.selection import selection_file
from hn_memory.repository.private import PrivateFiles

OFFERS: Final = "replication/offers"
_REMEMBERED: Final = 10_000
"""A recall reads this file, so a remote must not make it long."""

_OFFERS_BYTES: Final = 4 * 1024 * 1024


def remember_offers(files: PrivateFiles, remote: str, offers: Iterable[tuple[str, str]]) -> None:
    """Note actors and streams that the remote offered, the first of many. Never a reason to fail."""
    data = json.dumps({"version": 1, "streams": [list(offer) for offer in islice(offers, _REMEMBERED)]}).encode()
    name = f"{OFFERS}/{selection_file(remote)}"
    try:
        if _read(files, name) != data:
            files.write(name, data)
    except HnError:
        return


def known_offers(files: PrivateFiles, remote: str) -> list[tuple[str, str]] | None:
    """Actor and stream of what the remote offered when it was last asked; None if it never was."""
    data = _read(files, f"{OFFERS}/{selection_file(remote)}")
    if data is None:
        return None
    try:
        streams = [(actor, stream) for actor, stream in json.loads(data)["streams"]]
    except (ValueError, TypeError, KeyError):
        return None
    whole = all(isinstance(part, str) for pair in streams for part in pair)
    if not whole or not all(is_actor_id(actor) and is_digest(stream) for actor, stream in streams):
        return None
    return streams


def _read(files: PrivateFiles, name: str) -> bytes | None:
    try:
        return files.read(name, _OFFERS_BYTES)
    except HnError:
        return None
