"""Children with pipes, for the price of one `posix_spawn`.

`subprocess` costs 30 ms to import, more than most `hn` commands take as a whole, so the little of it that
running Git needs is here: three pipes served by one poll loop (no deadlock whoever fills a pipe first),
descriptors closed on exec unless handed over by name, no zombies, and no child left behind by an exception.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
from collections.abc import Iterator, Mapping, Sequence

from hn_memory.errors import HnError
from hn_memory.values import NamedTuple

_CHUNK = 1 << 16
# POSIX fixes the numbers; the module `signal` would first build its enumerations.
_SIGPIPE, _SIGTERM = 13, 15
_STDERR_KEPT = 1 << 14
# What `ulimit -f` counts in, by POSIX.
_BLOCK = 512
# What Linux lets anybody have by default.
_WIDE = 1 << 20


class Completed(NamedTuple):
    """What a child left: exit status (minus the signal if one ended it) and its two outputs in bytes."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def reason(self) -> str:
        """The line of stderr that says why, without Git's `fatal: `; or the signal that left no time to say it."""
        return f"it was ended by signal {-self.status}" if self.status < 0 else reason(self.stderr)


class Child:
    """A running child. Not for use by two threads at once."""

    __slots__ = ("_owner", "_poll", "_status", "errors", "pid", "stderr", "stdin", "stdout")

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], pass_fds: Sequence[int] = ()) -> None:
        """Start `argv[0]`, found on PATH, with pipes on its three standard streams.

        Raises:
            HnError `git-missing`: there is no such program.
        """
        fds: list[int] = []
        try:
            for _ in range(3):
                fds.extend(_high(fd) for fd in os.pipe())
            child_in, self.stdin, self.stdout, child_out, self.stderr, child_err = fds
            actions: list[tuple[int, int, int]] = [
                (os.POSIX_SPAWN_DUP2, child_in, 0),
                (os.POSIX_SPAWN_DUP2, child_out, 1),
                (os.POSIX_SPAWN_DUP2, child_err, 2),
                # Onto itself: the one action that lets a close-on-exec descriptor through.
                *((os.POSIX_SPAWN_DUP2, fd, fd) for fd in pass_fds),
            ]
            # Python ignores SIGPIPE; a Git that inherited that would not stop when its reader leaves.
            self.pid = os.posix_spawnp(argv[0], list(argv), dict(env), file_actions=actions, setsigdef=(_SIGPIPE,))
        except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
            _close(*fds)
            raise HnError(
                "git-missing", f"{argv[0]} cannot be run: it is not on PATH", hint="install Git 2.31 or newer"
            ) from error
        except BaseException:
            _close(*fds)
            raise
        _close(child_in, child_out, child_err)
        self._owner = os.getpid()
        self._status: int | None = None
        self.errors = bytearray()
        self._poll = select.poll()
        for fd in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(fd, False)
        self._poll.register(self.stdout, select.POLLIN)
        self._poll.register(self.stderr, select.POLLIN)

    @property
    def mine(self) -> bool:
        """False in a process forked off the one that started the child: its pipes are not ours to use."""
        return self._owner == os.getpid()

    def widen(self) -> None:
        """Let the pipes hold long questions and answers whole, where the system can, so that neither side waits."""
        widen(self.stdin)
        widen(self.stdout)

    def send(self, outgoing: bytearray) -> bool:
        """Write what the pipe takes, removing it from `outgoing`; False when the child no longer reads."""
        while outgoing:
            try:
                count = os.write(self.stdin, outgoing[:_CHUNK])
            except BlockingIOError:
                return True
            except BrokenPipeError:
                return False
            del outgoing[:count]
        return True

    def receive(self, outgoing: bytearray, *, final: bool = False) -> bytes:
        """Wait for output, writing `outgoing` meanwhile; b"" at the end of the child's stdout.

        With `final` the child's stdin is closed as soon as nothing is left to write.
        """
        waiting = self._offer(outgoing, final)
        if waiting:
            self._poll.register(self.stdin, select.POLLOUT)
        try:
            while True:
                for fd, _ in self._poll.poll():
                    if fd == self.stdout:
                        return os.read(self.stdout, _CHUNK)
                    if fd == self.stderr:
                        self._take_errors()
                    elif waiting:
                        stdin = self.stdin
                        waiting = self._offer(outgoing, final)
                        if not waiting:
                            self._poll.unregister(stdin)
        finally:
            if waiting:
                self._poll.unregister(self.stdin)

    def _offer(self, outgoing: bytearray, final: bool) -> bool:
        """Write what the child takes now; True while something is left for later."""
        if not self.send(outgoing):
            outgoing.clear()
        if final and not outgoing:
            self.end_input()
        return bool(outgoing)

    def end_input(self) -> None:
        """Close the child's stdin."""
        if self.stdin >= 0:
            _close(self.stdin)
            self.stdin = -1

    def wait(self) -> int:
        """Read stderr to its end, close everything, reap the child and answer its status."""
        if self._status is None:
            self.end_input()
            os.set_blocking(self.stderr, True)
            while self._take_errors():
                pass
            self._finish()
        return self._status or 0

    def stop(self) -> None:
        """End the child if it still runs, and reap it. Safe to call twice."""
        if self._status is not None:
            return
        if not self.mine:
            self._status = 0
            self._close_all()
            return
        self.end_input()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, _SIGTERM)
        self._finish()

    def _finish(self) -> None:
        self._close_all()
        try:
            _, raw = os.waitpid(self.pid, 0)
        except ChildProcessError:
            # Whoever ignores SIGCHLD gets no status; like subprocess we then take it for a success.
            raw = 0
        self._status = os.waitstatus_to_exitcode(raw)

    def _close_all(self) -> None:
        _close(self.stdout, self.stderr)
        self.stdout = self.stderr = -1
        self.end_input()

    def _take_errors(self) -> bool:
        try:
            data = os.read(self.stderr, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            with contextlib.suppress(KeyError, ValueError):
                self._poll.unregister(self.stderr)
            return False
        self.errors += data
        del self.errors[:-_STDERR_KEPT]
        return True


def limited(argv: Sequence[str], *, file_limit: int | None = None, memory_limit: int | None = None) -> list[str]:
    """The command, with limits on what it and its children may take.

    Args:
        file_limit: most bytes of any file that each of them writes.
        memory_limit: most bytes of data that each of them may hold in memory, where the system can say so.
    """
    limits = "" if file_limit is None else f"ulimit -f {-(-file_limit // _BLOCK)} && "
    if memory_limit is not None:
        limits += f"{{ ulimit -d {-(-memory_limit // 1024)} 2>/dev/null || :; }} && "
    return ["sh", "-c", f'{limits}exec "$@"', "sh", *argv] if limits else list(argv)


def widen(pipe: int) -> None:
    """Let a pipe hold more than usual, where the system can."""
    with contextlib.suppress(AttributeError, OSError):
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _WIDE)


def run(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: bytes = b"",
    pass_fds: Sequence[int] = (),
    limit: int | None = None,
) -> Completed:
    """Run a child to its end.

    Args:
        argv: program and arguments.
        env: the whole environment of the child.
        stdin: all that the child may read.
        pass_fds: descriptors that stay open in the child (a lock).
        limit: most bytes of stdout to take, None for no bound.

    Raises:
        HnError `git-missing`: no such program.
        HnError `git-output-too-large`: stdout passed `limit`; the child was stopped.
    """
    return collect(Child(argv, env, pass_fds), stdin, limit)


def collect(child: Child, stdin: bytes = b"", limit: int | None = None) -> Completed:
    """Feed a started child, take its output and wait for it; see `run`."""
    out = bytearray()
    outgoing = bytearray(stdin)
    try:
        while True:
            data = child.receive(outgoing, final=True)
            if not data:
                break
            out += data
            if limit is not None and len(out) > limit:
                raise HnError("git-output-too-large", f"git answered with more than {limit} bytes")
        status = child.wait()
    finally:
        child.stop()
    return Completed(status, bytes(out), bytes(child.errors))


def stream(child: Child, stdin: bytes = b"") -> Iterator[bytes]:
    """Chunks of a child's stdout as they come; leaving the loop early ends the child.

    Look at `child.wait()` afterwards for the status.
    """
    outgoing = bytearray(stdin)
    try:
        while True:
            data = child.receive(outgoing, final=True)
            if not data:
                child.wait()
                return
            yield data
    finally:
        child.stop()


def reason(stderr: bytes) -> str:
    """One line of a Git child's stderr that says why it failed, without `fatal: ` or `error: `.

    The first `fatal:` line wins, then the first `error:` line, then the first line that is no hint.
    """
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(("hint:", "warning:"))]
    for mark in ("fatal: ", "error: "):
        for at, line in enumerate(lines):
            if line.startswith(mark):
                # "unknown repository extension found:" is told in two lines.
                more = f" {lines[at + 1]}" if line.endswith(":") and at + 1 < len(lines) else ""
                return line[len(mark) :] + more
    return lines[0] if lines else "no reason given"


def _high(fd: int) -> int:
    """The same pipe end at 3 or above: a parent without stdin must not have its pipes overwritten."""
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def _close(*fds: int) -> None:
    for fd in fds:
        if fd >= 0:
            with contextlib.suppress(OSError):
                os.close(fd)
