"""The IDs of Git objects, computed as Git does."""

from __future__ import annotations

import hashlib
from typing import Literal

ObjectKind = Literal["blob", "tree", "commit", "tag"]


def object_id(kind: ObjectKind, data: bytes, object_format: str) -> str:
    """The ID Git gives an object: the hash of its header and its bytes, by `sha1` or `sha256`."""
    digest = hashlib.new(object_format, b"%s %d\0" % (kind.encode("ascii"), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()
