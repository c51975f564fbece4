"""Compress what Git stores, object by object, for the price of an object.

A zlib stream begins by setting up its tables. For a window of 32 KiB, zlib's default, they take a quarter of a
mebibyte, fresh from the system each time. The window need not be wider than the data (RFC 1950, CINFO), and every
reader of Git's objects takes the narrower ones. All is done in one call, since each lets other threads in.
"""

from __future__ import annotations

import struct
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


_LEVEL: Final = 1
"""Git stores objects anew at a level of its own; ours only has to be quick."""

_SHORT: Final = 128
"""Bytes up to which data is stored as it is."""
_SMALL_WINDOW: Final = 12
_SMALL: Final = 1 << _SMALL_WINDOW
"""Bytes that the small window covers."""

_CHECKSUM: Final = struct.Struct(">I").pack
_SIZES: Final = struct.Struct("<HH").pack


def deflate(data: bytes) -> bytes:
    """A zlib stream of the data.

    IDs and signatures look random, so what is short is not worth the attempt: one stored block (RFC 1950 and 1951).
    """
    size = len(data)
    if size > _SMALL:
        return zlib.compress(data, _LEVEL)
    if size > _SHORT:
        return zlib.compress(data, _LEVEL, _SMALL_WINDOW)
    return b"".join((b"\x78\x01\x01", _SIZES(size, size ^ 0xFFFF), data, _CHECKSUM(zlib.adler32(data))))
