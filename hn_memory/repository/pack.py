"""Write a Git pack in memory: whole objects, no deltas.

It is the cheapest way to hand Git many objects at once: one child, whatever their types.
Source of the format: gitformat-pack(5), pack version 2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from hn_memory.protocol import hashing
from hn_memory.repository.base import ObjectFormat, ObjectType
from hn_memory.repository.deflate import deflate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


_NUMBERS: Final[dict[ObjectType, int]] = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}


def pack(objects: Sequence[tuple[ObjectType, bytes]], object_format: ObjectFormat) -> bytes:
    """A complete pack of these objects, each stored whole, with the trailer of the object format."""
    return b"".join(pack_parts(len(objects), objects, object_format))


def pack_parts(count: int, objects: Iterable[tuple[ObjectType, bytes]], object_format: ObjectFormat) -> Iterator[bytes]:
    """The pack of `count` objects in pieces, as the objects come; none may come twice."""
    digest = hashing.new(object_format)
    head = struct.pack(">4sII", b"PACK", 2, count)
    digest.update(head)
    yield head
    for kind, data in objects:
        part = _header(_NUMBERS[kind], len(data)) + deflate(data)
        digest.update(part)
        yield part
    yield digest.digest()


@lru_cache(maxsize=4096)
def _header(number: int, size: int) -> bytes:
    """Type and size: four bits of size beside the type, then seven at a time, least significant first."""
    out = bytearray()
    byte = number << 4 | size & 15
    size >>= 4
    while size:
        out.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    out.append(byte)
    return bytes(out)
