"""The IDs of Git objects, computed as Git does."""

from __future__ import annotations

from typing import Literal

from hn_memory.protocol import hashing

ObjectKind = Literal["blob", "tree", "commit", "tag"]


def object_id(kind: ObjectKind, data: bytes, object_format: str) -> str:
    """The ID Git gives an object: the hash of its header and its bytes, by `sha1` or `sha256`."""
    digest = hashing.new(object_format, b"%s %d\0" % (kind.encode("ascii"), len(data)))
    digest.update(data)
    return digest.hexdigest()
