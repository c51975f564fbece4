"""The IDs of Git objects, computed as Git does."""

from __future__ import annotations

from hn_memory.protocol import hashing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, Literal, TypeAlias


_TOGETHER: Final = 4096
"""Bytes that are copied quicker than hashed in two steps."""

ObjectKind: TypeAlias = "Literal['blob', 'tree', 'commit', 'tag']"


def object_id(kind: ObjectKind, data: bytes, object_format: str) -> str:
    """The ID Git gives an object: the hash of its header and its bytes, by `sha1` or `sha256`."""
    head = b"%s %d\0" % (kind.encode("ascii"), len(data))
    if len(data) <= _TOGETHER:
        return hashing.new(object_format, head + data).hexdigest()
    digest = hashing.new(object_format, head)
    digest.update(data)
    return digest.hexdigest()
