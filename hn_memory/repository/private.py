"""Files that belong to one person: `<git-common-dir>/hn/...`, directories 0700 and files 0600 (section 10).

Every access walks down from the Git common directory with directory handles and never through a symbolic
link, so that what was checked is what is used. The rules, for each directory from `hn/` down and the file:

1. no symbolic link; a directory is a directory, a file is a regular file;
2. it belongs to the user who runs this;
3. its mode gives nothing to group or others, and a file is neither executable nor set-id.

What breaks a rule is refused and never repaired in silence. A file is replaced as a whole or not at all: a
temporary file beside it is written, flushed to the disk and renamed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hn_memory.errors import ConflictError, HnError, NotFoundError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path
    from typing import Final, NoReturn, TypeAlias

    Place: TypeAlias = str | PathLike[str]


ROOT: Final = "hn"
# Everything that starts with a dot is passed over by `names`: temporary files of a killed writer and what
# desktop environments leave behind.
_TEMPORARY: Final = ".tmp-"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK the opening of a planted FIFO would wait for its other end.
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NO_DIRECTORY_FLUSH: Final = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EBADF})
_NO_HARD_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class PrivateFiles:
    """The private files of one repository. Names are `/`-separated and relative to `<common>/hn`.

    A name with an empty, `.` or `..` component is a mistake of the program: `ValueError`.

    Error codes of all methods:
        `private-file-unsafe`: a rule above is broken, or a file is larger than the limit.
        `private-read-failed`, `private-write-failed`: the system refused; the message names the place.
    """

    __slots__ = ("_common",)

    def __init__(self, common_dir: Place) -> None:
        self._common = os.fspath(common_dir)

    @property
    def common_dir(self) -> Path:
        """The Git common directory."""
        from pathlib import Path

        return Path(self._common)

    def path(self, name: str = "") -> Path:
        """Where a private file lies. Says nothing about whether it is there or safe."""
        from pathlib import Path

        return Path(self.place(name))

    def place(self, name: str = "") -> str:
        """As `path`, in text."""
        return "/".join((self._common, ROOT, *_split(name)))

    def read(self, name: str, limit: int) -> bytes:
        """The content of a file of at most `limit` bytes.

        Raises:
            NotFoundError `private-file-missing`.
        """
        parent, base = _parent(name)
        with self._directory(parent, create=False) as directory:
            try:
                handle = os.open(base, os.O_RDONLY | _FILE, dir_fd=directory)
            except OSError as error:
                self.failed(error, name, writing=False)
            return _read_open(handle, self.place(name), limit)

    def write(self, name: str, data: bytes) -> None:
        """Create a file or replace it as a whole, durably. An unsafe file in its place is refused."""
        parent, base = _parent(name)
        with self._directory(parent, create=True) as directory:
            found = _status(base, directory)
            if found is not None:
                _check(found, self.place(name), directory=False)
            with self._temporary(directory, name, data) as temporary:
                os.rename(temporary, base, src_dir_fd=directory, dst_dir_fd=directory)

    def create(self, name: str, data: bytes) -> None:
        """As `write`, for a file that must not exist yet; of two at once exactly one succeeds.

        Raises:
            ConflictError `private-file-exists`.
        """
        parent, base = _parent(name)
        with (
            self._directory(parent, create=True) as directory,
            self._temporary(directory, name, data) as temporary,
        ):
            try:
                os.link(temporary, base, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
            except FileExistsError:
                self._exists(name)
            except OSError as error:
                if error.errno not in _NO_HARD_LINKS:
                    raise
                if _status(base, directory) is not None:
                    self._exists(name)
                os.rename(temporary, base, src_dir_fd=directory, dst_dir_fd=directory)

    def open(self, name: str) -> int:
        """A read-write descriptor of a file, created empty when it is absent. Not inherited by children."""
        parent, base = _parent(name)
        with self._directory(parent, create=True) as directory:
            try:
                handle = self._open_or_create(directory, base)
            except OSError as error:
                self.failed(error, name, writing=True)
        try:
            if fault := _fault(os.fstat(handle), directory=False):
                _unsafe(self.place(name), *fault)
        except BaseException:
            os.close(handle)
            raise
        return handle

    def remove(self, name: str) -> bool:
        """Delete a file (the name, whatever it is, but no directory). False when there was none."""
        parent, base = _parent(name)
        try:
            with self._directory(parent, create=False) as directory:
                try:
                    os.unlink(base, dir_fd=directory)
                except FileNotFoundError:
                    return False
                except OSError as error:
                    self.failed(error, name, writing=True)
                _flush_directory(directory)
        except NotFoundError:
            return False
        return True

    def names(self, directory: str = "") -> list[str]:
        """Names in a directory, sorted, without those that start with a dot; `[]` when it is absent."""
        try:
            with self._directory(_split(directory), create=False) as handle:
                # By the handle, since a path could lead elsewhere by now.
                listed = os.listdir(handle)  # noqa: PTH208
                return sorted(name for name in listed if not name.startswith("."))
        except NotFoundError:
            return []

    def sweep(self, directory: str) -> None:
        """Delete temporary files of killed writers; only for who alone may be writing there."""
        with suppress(NotFoundError), self._directory(_split(directory), create=False) as handle:
            for name in os.listdir(handle):  # noqa: PTH208
                if name.startswith(_TEMPORARY):
                    with suppress(OSError):
                        os.unlink(name, dir_fd=handle)

    def directory(self, name: str = "") -> Path:
        """The path of a private directory, created (0700) when it is absent and checked on the way."""
        with self._directory(_split(name), create=True):
            return self.path(name)

    # -- inside -------------------------------------------------------------------------------------------

    @contextmanager
    def _directory(self, parts: list[str], *, create: bool) -> Iterator[int]:
        """A handle of `hn/<parts>`, each step checked; what is absent is created or `private-file-missing`."""
        try:
            # How the caller reached the repository is Git's business; the rules start at `hn/`.
            handle = os.open(self._common, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            refuse(error, self._common, self._common, writing=create)
        # Every append comes by here, so nothing is put into words before it is needed.
        steps = (ROOT, *parts)
        try:
            for depth, part in enumerate(steps):
                try:
                    following = _open_directory(part, handle, create=create)
                except OSError as error:
                    where = "/".join((self._common, *steps[:depth]))
                    below = f"{where}/{part}"
                    at_fault = below if os.path.lexists(below) else where
                    refuse(error, below, at_fault, writing=create)
                os.close(handle)
                handle = following
                if fault := _fault(os.fstat(handle), directory=True):
                    _unsafe("/".join((self._common, *steps[: depth + 1])), *fault)
            yield handle
        finally:
            os.close(handle)

    @contextmanager
    def _temporary(self, directory: int, name: str, data: bytes) -> Iterator[str]:
        """The name of a flushed temporary file with `data`; it is gone when the block ends, however it ends."""
        temporary = _TEMPORARY + os.urandom(12).hex()
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=directory)
            try:
                try:
                    os.fchmod(handle, 0o600)
                    _write_all(handle, data)
                    os.fsync(handle)
                finally:
                    os.close(handle)
                yield temporary
                _flush_directory(directory)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=directory)
        except OSError as error:
            self.failed(error, name, writing=True)

    @staticmethod
    def _open_or_create(directory: int, base: str) -> int:
        try:
            return os.open(base, os.O_RDWR | _FILE, dir_fd=directory)
        except FileNotFoundError:
            pass
        try:
            handle = os.open(base, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE, 0o600, dir_fd=directory)
        except FileExistsError:
            return os.open(base, os.O_RDWR | _FILE, dir_fd=directory)
        os.fchmod(handle, 0o600)
        return handle

    def _exists(self, name: str) -> NoReturn:
        raise ConflictError("private-file-exists", f"{_shown(self.place(name))} exists already")

    def failed(self, error: OSError, name: str, *, writing: bool) -> NoReturn:
        """Raise what a refusal of the system at a private file means."""
        place = self.place(name)
        refuse(error, place, os.path.dirname(place), writing=writing)  # noqa: PTH120 - text goes in


def read_outside(path: Place, limit: int) -> bytes:
    """Read a private file that lies anywhere, by the rules for a file; its directories are not looked at.

    Raises:
        NotFoundError `private-file-missing`; HnError `private-file-unsafe`, `private-read-failed`.
    """
    try:
        handle = os.open(path, os.O_RDONLY | _FILE)
    except OSError as error:
        refuse(error, path, os.path.dirname(path), writing=False)  # noqa: PTH120 - as above
    return _read_open(handle, path, limit)


def _read_open(handle: int, path: Place, limit: int) -> bytes:
    try:
        found = os.fstat(handle)
        _check(found, path, directory=False)
        if found.st_size > limit:
            _unsafe(path, f"is larger than {limit} bytes")
        data = _read_up_to(handle, limit + 1)
    except OSError as error:
        refuse(error, path, os.path.dirname(path), writing=False)  # noqa: PTH120 - as above
    finally:
        os.close(handle)
    if len(data) > limit:
        _unsafe(path, f"is larger than {limit} bytes")
    return data


def _check(found: os.stat_result, path: Place, *, directory: bool) -> None:
    """The three rules, on what is open (or about to be replaced)."""
    if fault := _fault(found, directory=directory):
        _unsafe(path, *fault)


def _fault(found: os.stat_result, *, directory: bool) -> tuple[str] | tuple[str, str] | None:
    """Which of the three rules is broken, and what to do about it; None when all hold."""
    if stat.S_ISLNK(found.st_mode):
        return ("is a symbolic link",)
    if directory and not stat.S_ISDIR(found.st_mode):
        return ("is not a directory",)
    if not directory and not stat.S_ISREG(found.st_mode):
        return ("is not a regular file",)
    if found.st_uid != os.geteuid():
        return ("belongs to another user",)
    mode = stat.S_IMODE(found.st_mode)
    # A directory may have inherited the set-group-ID bit of a shared repository; it gives nothing away.
    if mode & (0o077 if directory else ~0o600):
        wanted = "0700" if directory else "0600"
        return f"has mode {mode:04o}, wider than {wanted}", f"Make it {wanted} if it is yours."
    return None


def refuse(error: OSError, path: Place, directory: Place, *, writing: bool) -> NoReturn:
    """Turn a refusal of the system at `path` into ours; a failed write names the directory."""
    if error.errno == errno.ELOOP:
        _unsafe(path, "is a symbolic link")
    if error.errno == errno.ENOTDIR:
        link = os.path.islink(path)  # noqa: PTH114 - as above
        _unsafe(path, "is a symbolic link" if link else "is not a directory")
    if error.errno in (errno.ENXIO, errno.ENODEV, errno.EISDIR):
        _unsafe(path, "is not a regular file")
    if error.errno == errno.ENOENT and not writing:
        raise NotFoundError("private-file-missing", f"{_shown(path)} does not exist") from None
    reason = error.strerror or "unknown reason"
    if writing:
        raise HnError(
            "private-write-failed",
            f"cannot write in {_shown(directory)}: {reason}",
            hint="The Git directory must be writable by the user who runs hn.",
        ) from None
    raise HnError("private-read-failed", f"cannot read {_shown(path)}: {reason}") from None


def _split(name: str) -> list[str]:
    parts = name.split("/") if name else []
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise ValueError(f"not a name of a private file: {name!r}")
    return parts


def _parent(name: str) -> tuple[list[str], str]:
    *parent, base = _split(name) or [""]
    if not base:
        raise ValueError("the name of a private file is empty")
    return parent, base


def _open_directory(name: str, parent: int, *, create: bool) -> int:
    """A handle of a directory, made with mode 0700 when it is absent and `create` is set."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
    except FileExistsError:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o700 != 0o700:
        # A umask that takes the owner's own bits would keep us from opening what we have just made.
        os.chmod(name, 0o700, dir_fd=parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _status(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _read_up_to(handle: int, size: int) -> bytes:
    chunks: list[bytes] = []
    while size > 0:
        chunk = os.read(handle, min(size, 1 << 20))
        if not chunk:
            break
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def _write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _flush_directory(directory: int) -> None:
    try:
        os.fsync(directory)
    except OSError as error:
        # Some file systems cannot flush a directory; the rename itself has happened.
        if error.errno not in _NO_DIRECTORY_FLUSH:
            raise


def _unsafe(path: Place, why: str, hint: str | None = None) -> NoReturn:
    raise HnError("private-file-unsafe", f"{_shown(path)} {why}", hint=hint) from None


def _shown(path: Place) -> str:
    from hn_memory.repository.paths import display

    return display(path)
