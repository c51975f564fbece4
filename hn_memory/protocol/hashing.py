"""SHA-1 and SHA-256 without the rest of `hashlib`.

Importing `hashlib` loads OpenSSL's library, which takes a tenth of the time that a short command has. The
interpreter carries implementations of its own, in modules whose names changed with 3.12; where they are
missing, `hashlib` serves. All of them give the same digests, as the standards say they must.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Hash(Protocol):
        """A running digest."""

        def update(self, data: bytes, /) -> None: ...
        def digest(self) -> bytes: ...
        def hexdigest(self) -> str: ...


sha1: Callable[[bytes], Hash]
sha256: Callable[[bytes], Hash]

try:
    from _sha1 import sha1  # type: ignore[import-not-found, no-redef]

    try:
        from _sha256 import sha256  # type: ignore[import-not-found, no-redef]
    except ImportError:
        from _sha2 import sha256  # type: ignore[import-not-found, no-redef]
except ImportError:
    from hashlib import sha1, sha256


def new(object_format: str, data: bytes = b"") -> Hash:
    """A digest by the name of a Git object format: `sha1` or `sha256`."""
    return {"sha1": sha1, "sha256": sha256}[object_format](data)
