"""The file of the `index-v0.json` snapshot: private, replaced atomically, refused when unsafe (section 9)."""

from __future__ import annotations

from typing import Final

from hn_memory.errors import NotFoundError
from hn_memory.protocol import limits
from hn_memory.protocol.snapshot import Snapshot, decode_snapshot, encode_snapshot
from hn_memory.repository.private import PrivateFiles

SNAPSHOT_FILE: Final = "memory/index-v0.json"


def write_snapshot(files: PrivateFiles, snapshot: Snapshot) -> int:
    """Replace the snapshot; the size of the file in bytes."""
    data = encode_snapshot(snapshot)
    files.write(SNAPSHOT_FILE, data)
    return len(data)


def read_snapshot(files: PrivateFiles) -> Snapshot:
    """The snapshot that is there.

    Raises:
        NotFoundError `index-missing`; HnError `index-corrupt`, `index-incompatible`, `private-file-unsafe`.
    """
    try:
        data = files.read(SNAPSHOT_FILE, limits.SNAPSHOT_BYTES)
    except NotFoundError:
        raise NotFoundError(
            "index-missing", "there is no index snapshot", hint="`hn memory index rebuild` writes it."
        ) from None
    return decode_snapshot(data)
