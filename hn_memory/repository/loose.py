"""Write loose objects: what Git and libgit2 would write, in a third of the system calls.

Source of the format: gitrepository-layout(5) and the Git book, "Git Internals - Git Objects". An object is a zlib
stream of `<type> <size>`, a zero byte and its content, in a file named by its ID. It appears whole under its name or
not at all, and is read-only. As with Git's own default for loose objects, nothing waits for the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from hn_memory.protocol.gitobject import object_id
from hn_memory.repository.base import ObjectFormat, ObjectType
from hn_memory.repository.deflate import deflate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_MODE: Final = 0o444
_TEMPORARY: Final = "tmp_obj_"


def write_all(objects: str, named: Iterable[tuple[ObjectType, bytes]], object_format: ObjectFormat) -> list[str]:
    """Store objects below a directory; their IDs.

    Raises:
        OSError: as `write_loose`; what was stored before stays, and is no harm.
    """
    oids: list[str] = []
    for kind, data in named:
        oid = object_id(kind, data, object_format)
        write_loose(objects, oid, kind, data)
        oids.append(oid)
    return oids


def write_loose(objects: str, oid: str, kind: ObjectType, data: bytes) -> None:
    """Store one object under its ID, which the caller has computed.

    Args:
        objects: the directory of the object store.

    Raises:
        OSError: the store cannot be written.
    """
    directory = f"{objects}/{oid[:2]}"
    path = f"{directory}/{oid[2:]}"
    # Hardly ever there, so it is asked first what costs no exception to answer.
    if os.access(path, os.F_OK):
        with suppress(FileNotFoundError):
            # As Git does, so that nobody prunes as old what is needed anew.
            os.utime(path)
            return
    stream = deflate(b"%s %d\0" % (kind.encode("ascii"), len(data)) + data)
    # A name that `git gc` knows for an unfinished object, should we be killed. It stands where libgit2 has its own: how
    # long a file system looks for room depends on the directory, and 256 of them can differ much.
    temporary = f"{objects}/{_TEMPORARY}{os.urandom(6).hex()}"
    handle = os.open(temporary, _NEW, _MODE)
    try:
        try:
            rest = memoryview(stream)
            while rest:
                rest = rest[os.write(handle, rest) :]
        finally:
            os.close(handle)
        try:
            os.rename(temporary, path)  # noqa: PTH104 - strings all the way, for speed
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(directory)  # noqa: PTH102
            os.rename(temporary, path)  # noqa: PTH104
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
