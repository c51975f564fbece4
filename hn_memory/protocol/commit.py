"""The raw Git objects of a memory commit (section 2), built by hand so that every backend writes alike.

No configuration of Git, user or machine has a say in these bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from hn_memory.protocol.envelope import Envelope
from hn_memory.protocol.gitobject import ObjectKind, object_id
from hn_memory.protocol.identifiers import MEMORY_FILE, SIGNATURE_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


REFLOG_MESSAGE: Final = "hn: append memory"

_DROPPED: Final = str.maketrans("", "", "<>\n")
_CRUD: Final = "".join(map(chr, range(0x21))) + ".,:;\"'\\"


@lru_cache(maxsize=64)
def ident_name(actor_name: str, actor: str) -> str:
    """The name as Git would write it, or the actor's first 12 digits when nothing is left of it."""
    return actor_name.translate(_DROPPED).strip(_CRUD) or actor[:12]


@lru_cache(maxsize=64)
def _local_seconds(instant: str) -> int:
    """A date and time to the second, without a zone, as if it were UTC. Many memories are made in one second."""
    local = datetime.fromisoformat(f"{instant}+00:00")
    delta = local - datetime(1970, 1, 1, tzinfo=UTC)
    return delta.days * 86400 + delta.seconds


def epoch_seconds(timestamp: str) -> int:
    """An envelope's timestamp as Unix seconds, its fraction cut off.

    Year 0000 is legal in the format and unknown to the standard library: it lies 366 days before year 1.
    """
    year = int(timestamp[:4])
    shift = 0
    if year == 0:
        # Year 4 has the same calendar as year 0 and lies four years (1,461 days) later.
        timestamp, shift = "0004" + timestamp[4:], 1461 * 86400
    offset = 0
    if not timestamp.endswith("Z"):
        sign = 1 if timestamp[-6] == "+" else -1
        offset = sign * (int(timestamp[-5:-3]) * 3600 + int(timestamp[-2:]) * 60)
    return _local_seconds(timestamp[:19]) - offset - shift


def memory_objects(
    envelope: Envelope, payload: bytes, signature: bytes, memory_id: str, parent: str | None, object_format: str
) -> tuple[str, list[tuple[ObjectKind, bytes]]]:
    """The commit ID and the four objects of a memory: two blobs, the tree, the commit.

    Args:
        signature: the content of the `signature` file.
    """
    tree = tree_object(object_id("blob", payload, object_format), object_id("blob", signature, object_format))
    commit = commit_object(envelope, memory_id, object_id("tree", tree, object_format), parent)
    objects: list[tuple[ObjectKind, bytes]] = [
        ("blob", payload),
        ("blob", signature),
        ("tree", tree),
        ("commit", commit),
    ]
    return object_id("commit", commit, object_format), objects


def tree_object(memory_oid: str, signature_oid: str) -> bytes:
    """The tree that holds exactly the two files."""
    return b"".join(
        b"100644 " + name.encode() + b"\0" + bytes.fromhex(oid)
        for name, oid in ((MEMORY_FILE, memory_oid), (SIGNATURE_FILE, signature_oid))
    )


def commit_object(envelope: Envelope, memory_id: str, tree: str, parent: str | None) -> bytes:
    """The commit that carries an envelope."""
    ident = (
        f"{ident_name(envelope.actor_name, envelope.actor)} <{envelope.actor[:12]}@hn.invalid> "
        f"{epoch_seconds(envelope.timestamp)} +0000"
    )
    lines = [f"tree {tree}"]
    if parent is not None:
        lines.append(f"parent {parent}")
    lines += [f"author {ident}", f"committer {ident}", "", f"hn memory {memory_id}", ""]
    return "\n".join(lines).encode()
