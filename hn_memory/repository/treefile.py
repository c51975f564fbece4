"""One file of the work tree, one directory deep (`.hn/policy.json`), read and replaced as a whole.

Everything goes through directory handles and never through a symbolic link: what Git would commit as a link
is not the file that a reader of the commit will see. Of two of us who edit at once one waits for the other.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

from hn_memory.errors import ConflictError, HnError
from hn_memory.repository.paths import display

_WAIT_SECONDS: Final = 10.0
_PAUSE: Final = 0.01
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK the opening of a planted FIFO would wait for its other end.
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_MODE: Final = 0o644


class TreeFile:
    """The file under edit. `data` is what it holds, None where it does not exist."""

    __slots__ = ("_directory", "_name", "_path", "_status", "data")

    def __init__(self, directory: int, path: Path, limit: int) -> None:
        self._directory = directory
        self._path = path
        self._name = path.name
        self._status = _status(path.name, directory)
        self.data = None if self._status is None else _read(path.name, directory, path, limit)

    def replace(self, data: bytes) -> None:
        """Put other content in its place: the whole of it or nothing, with the mode that the file had.

        Raises:
            ConflictError `work-tree-changed`: somebody (an editor) changed the file since it was read.
            HnError `work-tree-write-failed`: the system refused; names the directory.
        """
        # Mode, and nothing beyond read, write and execute: a copy must not become set-id.
        mode = _NEW_MODE if self._status is None else stat.S_IMODE(self._status.st_mode) & 0o777
        temporary = f".{self._name}.{os.urandom(6).hex()}.tmp"
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, _NEW_MODE, dir_fd=self._directory)
            try:
                try:
                    os.fchmod(handle, mode)
                    _write_all(handle, data)
                    os.fsync(handle)
                finally:
                    os.close(handle)
                if _identity(_status(self._name, self._directory)) != _identity(self._status):
                    raise ConflictError(
                        "work-tree-changed",
                        f"{display(self._path)} was changed by somebody else meanwhile",
                        hint="Nothing was written. Try again.",
                    )
                os.rename(temporary, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=self._directory)
                raise
            with suppress(OSError):
                # Some file systems cannot flush a directory; the rename itself has happened.
                os.fsync(self._directory)
        except OSError as error:
            _failed(error, self._path.parent, writing=True)


def read_tree_file(work_tree: Path, path: str, limit: int) -> bytes | None:
    """The content of the file, None where it or its directory does not exist. It may be `limit` + 1 long.

    Raises:
        HnError `work-tree-unsafe`: a symbolic link, or something that is no file.
        HnError `work-tree-read-failed`: the system refused.
    """
    place = work_tree / path
    with _directory(place.parent, create=False) as (directory, _):
        return None if directory is None else TreeFile(directory, place, limit).data


@contextmanager
def edit_tree_file(work_tree: Path, path: str, limit: int, *, create: bool) -> Iterator[TreeFile | None]:
    """The file, for an edit; nobody else of us edits it as long as the block lasts.

    Args:
        create: make the directory when it is missing; else the answer is None then. A directory in which
            nothing came to stand is taken away again.

    Raises:
        HnError `work-tree-unsafe`, `work-tree-read-failed`, `work-tree-write-failed`.
        ConflictError `work-tree-busy`: another process edits the file all the time.
    """
    place = work_tree / path
    with _directory(place.parent, create=create) as (directory, made):
        if directory is None:
            yield None
            return
        try:
            _lock(directory, place)
            yield TreeFile(directory, place, limit)
        finally:
            if made:
                with suppress(OSError):
                    place.parent.rmdir()


@contextmanager
def _directory(path: Path, *, create: bool) -> Iterator[tuple[int | None, bool]]:
    """A handle of a directory in the root of the work tree, and whether it was made here."""
    made = False
    try:
        root = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        _failed(error, path.parent, writing=create)
    try:
        found = _status(path.name, root)
        if found is None and create:
            with suppress(FileExistsError):
                os.mkdir(path.name, dir_fd=root)
                made = True
        elif found is not None and not stat.S_ISDIR(found.st_mode):
            _unsafe(path, "is a symbolic link" if stat.S_ISLNK(found.st_mode) else "is not a directory")
        handle = os.open(path.name, _DIRECTORY, dir_fd=root) if found is not None or create else None
    except OSError as error:
        _failed(error, path.parent if create else path, writing=create)
    finally:
        os.close(root)
    try:
        yield handle, made
    finally:
        if handle is not None:
            os.close(handle)


def _lock(directory: int, place: Path) -> None:
    """Hold the directory for ourselves; the system lets go of it when we end, however we end."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ConflictError("work-tree-busy", f"{display(place)} is being edited by another process") from None
            time.sleep(_PAUSE)
        except OSError:
            # Some file systems lock no directories; a change under our hands is noticed before the rename.
            return
        else:
            return


def _read(name: str, directory: int, path: Path, limit: int) -> bytes:
    try:
        handle = os.open(name, os.O_RDONLY | _FILE, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            _unsafe(path, "is a symbolic link")
        _failed(error, path, writing=False)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            _unsafe(path, "is not a regular file")
        parts: list[bytes] = []
        left = limit + 1
        while left and (part := os.read(handle, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    except OSError as error:
        _failed(error, path, writing=False)
    finally:
        os.close(handle)


def _status(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _identity(found: os.stat_result | None) -> tuple[int, ...] | None:
    return None if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _unsafe(path: Path, why: str) -> NoReturn:
    raise HnError(
        "work-tree-unsafe",
        f"{display(path)} {why}",
        hint="It must be a regular file in a real directory, as Git will commit it.",
    )


def _failed(error: OSError, path: Path, *, writing: bool) -> NoReturn:
    reason = error.strerror or "unknown reason"
    if writing:
        raise HnError("work-tree-write-failed", f"cannot write in {display(path)}: {reason}") from None
    raise HnError("work-tree-read-failed", f"cannot read {display(path)}: {reason}") from None
