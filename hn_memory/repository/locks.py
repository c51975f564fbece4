"""One writer at a time, and what a killed writer leaves behind (replication, step 7).

Appends and promotions run under a lock of ours: flock on `<common>/hn/lock`. The file is the journal too.
The rules:

1. before refs are moved their names stand in the file, with the process that moves them;
2. the file is emptied when the move has ended by itself, done or refused; one that was broken off leaves it;
3. children of Git inherit the descriptor, so the lock ends when the last of them does, not when we do;
4. who acquires the lock and finds a journal whose process is gone (or has left the lock, or is itself)
   removes `<ref>.lock` of exactly the refs in it, in a repository whose refs are files, and nothing else.

Rule 3 is what makes rule 4 sound: by the time the lock can be had, nobody of that move is left. The check of
the process is the second bolt, for file systems whose locks are not what they seem.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType

from hn_memory.errors import ConflictError
from hn_memory.repository.private import PrivateFiles, refuse
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NoReturn


LOCK: Final = "lock"
DEFAULT_TIMEOUT: Final = 10.0

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.02
_MAGIC: Final = b"hn-lock-0"
_END: Final = b"end"
# Some 200,000 refs of the longest kind; a longer file is nobody's journal.
_JOURNAL_BYTES: Final = 64 * 1024 * 1024
_NAMESPACE: Final = "refs/hn/"
_REF_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Process(NamedTuple):
    """A process that cannot be mistaken for a later one of the same number.

    `start` is `<boot ID>:<start in clock ticks>` where the system tells it (`/proc`), else `-`.
    """

    pid: int
    start: str


class Journal(NamedTuple):
    """The refs somebody was about to move. `left`: they gave the lock back without an end of the move."""

    process: Process
    left: bool
    refs: tuple[str, ...]


class WriterLock:
    """The writers' lock of one repository, held for the length of a `with` block.

    Args:
        common_dir: the Git common directory. The lock is shared by all work trees of the repository.
        ref_format: the repository's `layout.ref_format`; only for `files` a leftover ref lock is removed.
        timeout: seconds to wait for another writer.

    Entering raises:
        ConflictError `repository-busy`: another writer held the lock all the time.
        HnError `private-write-failed`: `hn/` cannot be written; at once, naming the directory.
        HnError `private-file-unsafe`: the lock file or `hn/` is not ours alone.

    Attributes:
        removed: names of the refs whose leftover lock was removed on entering.
    """

    __slots__ = ("_empty", "_files", "_handle", "_moving", "_ref_format", "_timeout", "removed")

    def __init__(self, common_dir: Path, *, ref_format: str = "files", timeout: float = DEFAULT_TIMEOUT) -> None:
        self._files = PrivateFiles(common_dir)
        self._ref_format = ref_format
        self._timeout = timeout
        self._handle: int | None = None
        self._moving = False
        self._empty = False
        self.removed: tuple[str, ...] = ()

    def __enter__(self) -> WriterLock:
        if self._handle is not None:
            raise RuntimeError("the lock is held already")
        self._handle = self._acquire()
        try:
            self._recover()
        except BaseException:
            self._release()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._release()

    def fileno(self) -> int:
        """The descriptor that holds the lock. A child that moves refs must inherit it (`pass_fds`)."""
        if self._handle is None:
            raise RuntimeError("the lock is not held")
        return self._handle

    def journal(self, ref_names: Sequence[str], pid: int | None = None) -> None:
        """Note the refs that are about to be moved; replaces an earlier note.

        The note outlives this process, not a crash of the machine: making it durable would cost every append
        more than its signature, and after a crash Git itself names the lock that stands in the way.

        Args:
            ref_names: full names below `refs/hn/`; another name is a mistake of the program (`ValueError`).
            pid: the process that will move them, this one when left out.
        """
        for name in ref_names:
            if not _is_movable(name):
                raise ValueError(f"not a ref of ours: {name!r}")
        process = identify(os.getpid() if pid is None else pid)
        self._store(encode_journal(Journal(process, False, tuple(ref_names))))
        self._moving = True

    def clear(self) -> None:
        """The move is over: empty the journal."""
        try:
            os.ftruncate(self.fileno(), 0)
        except OSError as error:
            self._write_failed(error)
        self._moving = False
        self._empty = True

    # -- inside -------------------------------------------------------------------------------------------

    def _acquire(self) -> int:
        deadline = time.monotonic() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            handle = self._files.open(LOCK)
            try:
                while not self._try(handle):
                    left = deadline - time.monotonic()
                    if left <= 0:
                        _busy(self._timeout)
                    # Half to whole pauses, so that waiting writers do not knock in step for ever.
                    time.sleep(min(left, pause * (128 + os.urandom(1)[0] / 2) / 256))
                    pause = min(2 * pause, _LONGEST_PAUSE)
                if self._is_current(handle):
                    return handle
            except BaseException:
                os.close(handle)
                raise
            # Somebody deleted the file while we waited; a lock on a file without a name guards nothing.
            os.close(handle)

    def _try(self, handle: int) -> bool:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            self._write_failed(error)
        return True

    def _is_current(self, handle: int) -> bool:
        try:
            named = os.lstat(self._files.place(LOCK))  # without the cost of path objects
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(handle))

    def _release(self) -> None:
        handle, self._handle = self._handle, None
        moving, self._moving = self._moving, False
        if handle is None:
            return
        try:
            # A journal of ours that is still there says that a move was broken off. We take no part in it any
            # more; a child that inherited the lock may.
            journal = decode_journal(_read(handle, os.fstat(handle).st_size)) if moving else None
            if journal is not None:
                # Of the same length, so a kill in between leaves the one journal or the other.
                _write(handle, encode_journal(journal._replace(left=True)))
        except OSError:
            # Then the journal speaks of a living process until we end. That is late, not wrong.
            pass
        finally:
            # Closing, not unlocking: an explicit unlock would take the lock from our children too.
            os.close(handle)

    def _recover(self) -> None:
        self.removed = ()
        try:
            size = os.fstat(self.fileno()).st_size
            journal = decode_journal(_read(self.fileno(), size)) if size else None
        except OSError as error:
            self._write_failed(error)
        self._empty = not size
        if journal is None:
            # Empty, or cut short by a kill while it was written: then no ref had been touched.
            return
        if not (journal.left or journal.process == identify(os.getpid()) or is_gone(journal.process)):
            return
        if self._ref_format == "files":
            self.removed = tuple(ref for ref in journal.refs if self._remove_ref_lock(ref))
        self.clear()

    def _remove_ref_lock(self, ref: str) -> bool:
        """Remove `<common>/<ref>.lock`, a regular file reached through no symbolic link."""
        if not _is_movable(ref):
            return False
        path = self._files.common_dir / f"{ref}.lock"
        try:
            return _remove_regular(self._files.common_dir, f"{ref}.lock")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            refuse(error, path, path.parent, writing=True)

    def _store(self, data: bytes) -> None:
        handle = self.fileno()
        try:
            if not self._empty:
                os.ftruncate(handle, 0)
            self._empty = False
            _write(handle, data)
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(handle, 0)
            self._write_failed(error)

    def _write_failed(self, error: OSError) -> NoReturn:
        self._files.failed(error, LOCK, writing=True)


def encode_journal(journal: Journal) -> bytes:
    """The journal as lines: a head, the refs, an end that tells a whole journal from a broken-off one."""
    state = "parted" if journal.left else "moving"
    head = b"%s %d %s %s" % (_MAGIC, journal.process.pid, journal.process.start.encode(), state.encode())
    return b"\n".join([head, *(os.fsencode(ref) for ref in journal.refs), _END, b""])


def decode_journal(data: bytes) -> Journal | None:
    """The journal in the lock file; None when there is none or it is not whole."""
    lines = data.split(b"\n")
    head = lines[0].split(b" ")
    if len(lines) < 3 or lines[-2:] != [_END, b""] or len(head) != 4 or head[0] != _MAGIC:
        return None
    if not head[1].isdigit() or len(head[1]) > 10 or head[3] not in (b"parted", b"moving"):
        return None
    process = Process(int(head[1]), head[2].decode("ascii", "replace"))
    return Journal(process, head[3] == b"parted", tuple(os.fsdecode(line) for line in lines[1:-2]))


def identify(pid: int) -> Process:
    """The process of that number as it is now."""
    if pid == os.getpid():
        return _identify_self(pid)
    return _identify(pid)


@lru_cache(maxsize=1)
def _identify_self(pid: int) -> Process:
    # The number is the key, since a fork inherits the cache.
    return _identify(pid)


def _identify(pid: int) -> Process:
    fields = _stat_fields(pid)
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = ""
    return Process(pid, f"{boot}:{fields[19]}" if boot and fields else "-")


def is_gone(process: Process) -> bool:
    """True when no process of that number and start is alive (a zombie is not)."""
    fields = _stat_fields(process.pid)
    if fields is not None:
        return fields[0] in ("Z", "X") or (process.start != "-" and process.start != identify(process.pid).start)
    try:
        os.kill(process.pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def _stat_fields(pid: int) -> list[str] | None:
    """Fields of `/proc/<pid>/stat` from the state on (index 19 is the start), None where it cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    # The second field is the program's name in brackets and may hold anything, brackets included.
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > 19 else None


def _is_movable(ref: str) -> bool:
    """A full name in our namespace that cannot lead out of it and stays one line."""
    parts = ref.split("/")
    return (
        ref.startswith(_NAMESPACE)
        and not any(part in ("", ".", "..") or part.endswith(".lock") for part in parts)
        and not any(character in ref for character in "\0\n\r\\")
    )


def _remove_regular(root: Path, name: str) -> bool:
    """Delete a regular file below `root`, reached through directories only and through no link."""
    *parents, base = name.split("/")
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parents:
            following = os.open(part, _REF_DIRECTORY, dir_fd=handle)
            os.close(handle)
            handle = following
        if not stat.S_ISREG(os.stat(base, dir_fd=handle, follow_symlinks=False).st_mode):
            return False
        os.unlink(base, dir_fd=handle)
    finally:
        os.close(handle)
    return True


def _read(handle: int, size: int) -> bytes:
    return os.pread(handle, size, 0) if 0 < size <= _JOURNAL_BYTES else b""


def _write(handle: int, data: bytes) -> None:
    at = 0
    while at < len(data):
        at += os.pwrite(handle, data[at:], at)


def _busy(timeout: float) -> NoReturn:
    raise ConflictError(
        "repository-busy",
        f"another hn process has been writing to this repository for {timeout:g} seconds",
        hint="Try again when it has ended.",
    )
