"""SHA-1 and SHA-256 without the rest of `hashlib`, until there is enough to hash.

Importing `hashlib` loads OpenSSL's library, which takes a tenth of the time that a short command has. The
interpreter carries implementations of its own, in modules whose names changed with 3.12; where they are
missing, `hashlib` serves. OpenSSL hashes five times faster, so it takes over in a process that hashes much. All
of them give the same digests, as the standards say they must.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, Protocol

    class Hash(Protocol):
        """A running digest."""

        def update(self, data: bytes, /) -> None: ...
        def digest(self) -> bytes: ...
        def hexdigest(self) -> str: ...


WORTH_IT: Final = 2048
"""Digests after which importing `hashlib` pays for itself."""

_sha1: Callable[..., Hash]
_sha256: Callable[..., Hash]

try:
    from _sha1 import sha1 as _sha1  # type: ignore[import-not-found, no-redef]

    try:
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found, no-redef]
    except ImportError:
        from _sha2 import sha256 as _sha256  # type: ignore[import-not-found, no-redef]
except ImportError:
    from hashlib import sha1 as _sha1
    from hashlib import sha256 as _sha256

_makers = {"sha1": _sha1, "sha256": _sha256}
_until_worth_it = WORTH_IT


def expect_many() -> None:
    """Let OpenSSL hash from now on; for a process that is known to hash much."""
    global _until_worth_it
    import hashlib

    _until_worth_it = 0
    _makers.update(sha1=hashlib.sha1, sha256=hashlib.sha256)


def new(object_format: str, data: bytes = b"") -> Hash:
    """A digest by the name of a Git object format: `sha1` or `sha256`."""
    global _until_worth_it
    if _until_worth_it:
        _until_worth_it -= 1
        if not _until_worth_it:
            expect_many()
    # Where a system bars SHA-1 from security's use, Git still names its objects by it.
    return _makers[object_format](data, usedforsecurity=False)


def sha1(data: bytes = b"") -> Hash:
    """A running SHA-1."""
    return new("sha1", data)


def sha256(data: bytes = b"") -> Hash:
    """A running SHA-256."""
    return new("sha256", data)
