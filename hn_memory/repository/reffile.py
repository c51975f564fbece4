"""Read a ref out of its own file, where a child of Git would take as long as the rest of an append.

Source of the format: gitrepository-layout(5). A ref that has a file of its own has its value there, whatever
`packed-refs` says; the file is replaced as a whole. Everything else (a ref that is packed or symbolic, or is none) is
left to Git.
"""

from __future__ import annotations

import os

from hn_memory.repository.reading import is_full_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


_SHARED: Final = "refs/hn/"
"""What no work tree has refs of its own below."""

_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_ref_file(common: str, name: str, oid_length: int) -> str | None:
    """The object ID in the file of a ref; None where there is no such file or something else in it.

    Args:
        common: the common directory of a repository whose refs are files.
        name: the full name of a ref; only those below `refs/hn/` are looked for.
    """
    if not name.startswith(_SHARED) or any(part in ("", ".", "..") for part in name.split("/")):
        return None
    try:
        handle = os.open(f"{common}/{name}", _OPEN)
    except (OSError, ValueError):
        return None
    try:
        data = os.read(handle, oid_length + 2)
    except OSError:
        return None
    finally:
        os.close(handle)
    oid = data[:-1].decode("ascii", "replace")
    return oid if data[-1:] == b"\n" and is_full_id(oid, oid_length) else None
