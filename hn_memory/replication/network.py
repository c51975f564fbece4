"""Run a Git child that talks to a remote: bounded in time and file size, ended with its whole process group.

Only Git talks to the network. Unless a person sits at a terminal nothing may ask for a password; whatever Git
or the remote says is taken as text, with credentials blotted out before anybody sees it.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from hn_memory.errors import HnError
from hn_memory.repository.discover import git_environment
from hn_memory.repository.paths import without_homes
from hn_memory.repository.spawn import limited
from hn_memory.values import NamedTuple

DEFAULT_TIMEOUT: Final = 600.0

_CHUNK: Final = 1 << 16
_KEPT: Final = 1 << 16
_LINE: Final = 1000
_SIGINT, _SIGKILL, _SIGPIPE, _SIGTERM = 2, 9, 13, 15
_TICK: Final = 0.1
_GRACE: Final = 1.0
_UNREACHED: Final = "fatal: Could not read from remote repository."

PercentProgress = Callable[[str, int], None]
"""Called with Git's own phase and a percentage."""


class Ended(NamedTuple):
    """How a network child ended. `status` is negative for a signal; `timed_out` says that we ended it."""

    status: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False

    @property
    def words(self) -> str:
        """Why it failed, in Git's and the remote's own words, on one line."""
        if self.timed_out:
            return "the time limit was reached"
        lines = [line for line in clean_lines(self.stderr) if line and not line.startswith(("hint:", "warning:"))]
        told = [line for line in lines if line.startswith(("fatal: ", "error: ", "remote: "))] or lines
        if told[:1] == [_UNREACHED]:
            # What ssh said before that is the reason, and what Git says after it is advice.
            told = lines[: lines.index(_UNREACHED) + 1]
        # Of many, the first says what happened and the last what came of it.
        chosen = told if len(told) <= 4 else [*told[:3], told[-1]]
        words = "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in chosen)
        if words:
            return words
        return f"it was ended by signal {-self.status}" if self.status < 0 else "no reason given"


def network_environment(*, interactive: bool, ssh_command: str | None) -> dict[str, str]:
    """The environment of a child that talks to a remote.

    Args:
        interactive: a person may be asked for a password.
        ssh_command: the repository's core.sshCommand.
    """
    env = git_environment()
    if interactive:
        env.pop("GIT_TERMINAL_PROMPT", None)
        return env
    command = env.get("GIT_SSH_COMMAND") or ssh_command or ("" if "GIT_SSH" in env else "ssh")
    # Another program than OpenSSH may not know the option.
    if command and command.split()[0].rpartition("/")[2] == "ssh":
        env["GIT_SSH_COMMAND"] = f"{command} -o BatchMode=yes"
    return env


def run_network(
    argv: Sequence[str],
    env: Mapping[str, str],
    *,
    deadline: float,
    stdin: bytes = b"",
    file_limit: int | None = None,
    memory_limit: int | None = None,
    output_limit: int = 1 << 28,
    interactive: bool = False,
    progress: PercentProgress | None = None,
    secrets: Sequence[str] = (),
) -> Ended:
    """Run a child to its end, or to the deadline (of the monotonic clock).

    Args:
        file_limit: most bytes of any file that the child or its children write.
        secrets: blotted out of whatever is said: a server may repeat what it was sent.
        memory_limit: most bytes of data that each of them may hold in memory, where the system can say so.

    Raises:
        HnError `git-missing`, `git-output-too-large`.
    """
    child = _GroupChild(limited(argv, file_limit=file_limit, memory_limit=memory_limit), env)
    with _foreground(child.pid) if interactive else contextlib.nullcontext():
        try:
            done = child.collect(stdin, deadline, output_limit, progress)
        finally:
            child.end()
    for secret in secrets:
        data = os.fsencode(secret)
        done = done._replace(stdout=done.stdout.replace(data, b"***"), stderr=done.stderr.replace(data, b"***"))
    return done


def clean_lines(stderr: bytes) -> list[str]:
    """Lines of a child's stderr as they may be shown: no progress, no homes, no credentials."""
    text = stderr.decode("utf-8", "replace")
    # Of a line that was overwritten on a terminal only the last state counts.
    lines = [line.rstrip("\r").rpartition("\r")[2].strip() for line in text.split("\n")]
    shown = (redact(without_homes(line)) for line in lines if line)
    return [line if len(line) <= _LINE else f"{line[:_LINE]}..." for line in shown]


def redact(text: str) -> str:
    """Text with user names and passwords inside URLs blotted out."""
    parts = text.split("://")
    for at in range(1, len(parts)):
        end = next((i for i, mark in enumerate(parts[at]) if mark in "/ \t'\"?#"), len(parts[at]))
        authority = parts[at][:end]
        if "@" in authority:
            parts[at] = "***@" + authority.rpartition("@")[2] + parts[at][end:]
    return "://".join(parts)


class _GroupChild:
    """A child in a process group of its own."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        child_in, self._stdin = os.pipe()
        self._stdout, child_out = os.pipe()
        self._stderr, child_err = os.pipe()
        try:
            self.pid = os.posix_spawnp(
                argv[0],
                list(argv),
                dict(env),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, child_in, 0),
                    (os.POSIX_SPAWN_DUP2, child_out, 1),
                    (os.POSIX_SPAWN_DUP2, child_err, 2),
                ],
                setpgroup=0,
                setsigdef=(_SIGPIPE,),
            )
        except OSError as error:
            for handle in (self._stdin, self._stdout, self._stderr):
                os.close(handle)
            raise HnError("git-missing", f"{argv[0]} cannot be run: it is not on PATH") from error
        finally:
            for handle in (child_in, child_out, child_err):
                os.close(handle)
        self._status: int | None = None
        self._stopped = False

    def collect(self, stdin: bytes, deadline: float, output_limit: int, progress: PercentProgress | None) -> Ended:
        """Feed it, read it, wait for it."""
        out, err = bytearray(), bytearray()
        outgoing = memoryview(stdin)
        poll = select.poll()
        for handle in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(handle, False)
            poll.register(handle, select.POLLOUT if handle == self._stdin else select.POLLIN)
        open_ends = {self._stdout, self._stderr}
        last_words = None
        while open_ends:
            if time.monotonic() > deadline:
                self.end()
                return Ended(-_SIGTERM, bytes(out), bytes(err), timed_out=True)
            ready = poll.poll(int(_TICK * 1000))
            for handle, _ in ready:
                if handle == self._stdin:
                    outgoing = self._feed(poll, outgoing)
                    continue
                data = os.read(handle, _CHUNK)
                if not data:
                    poll.unregister(handle)
                    open_ends.discard(handle)
                elif handle == self._stdout:
                    out += data
                    if len(out) > output_limit:
                        raise HnError("git-output-too-large", f"git answered with more than {output_limit} bytes")
                else:
                    err += data
                    if progress is not None:
                        _report(data, progress)
                    # The first words are the reason as often as the last ones; a flood in between is nobody's.
                    del err[_KEPT // 2 : -_KEPT // 2]
            # A helper that goes on in the background may hold our pipes open; what counts is Git's own end.
            if not ready and self._ended():
                if last_words is not None:
                    break
                last_words = time.monotonic()
        while not self._ended():
            if time.monotonic() > deadline:
                self.end()
                return Ended(-_SIGTERM, bytes(out), bytes(err), timed_out=True)
            time.sleep(0.001)
        status = self._status or 0
        if status == -_SIGINT:
            raise KeyboardInterrupt
        if status == 127 and not out:
            raise HnError("git-missing", "git cannot be run: it is not on PATH", hint="install Git 2.31 or newer")
        return Ended(status, bytes(out), bytes(err))

    def _feed(self, poll: select.poll, outgoing: memoryview) -> memoryview:
        try:
            while outgoing:
                outgoing = outgoing[os.write(self._stdin, outgoing[:_CHUNK]) :]
        except BlockingIOError:
            return outgoing
        except BrokenPipeError:
            outgoing = outgoing[:0]
        poll.unregister(self._stdin)
        os.close(self._stdin)
        self._stdin = -1
        return outgoing

    def _ended(self) -> bool:
        if self._status is None:
            try:
                pid, raw = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, raw = self.pid, 0
            if pid:
                self._status = os.waitstatus_to_exitcode(raw)
        return self._status is not None

    def end(self) -> None:
        """Close everything; a child that still runs is ended with its group. Safe to call twice."""
        for handle in (self._stdin, self._stdout, self._stderr):
            if handle >= 0 and not self._stopped:
                with contextlib.suppress(OSError):
                    os.close(handle)
        self._stopped = True
        if self._ended():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, _SIGTERM)
        give_up = time.monotonic() + _GRACE
        while not self._ended() and time.monotonic() < give_up:
            time.sleep(0.01)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, _SIGKILL)
        while not self._ended():
            time.sleep(0.01)


def _report(data: bytes, progress: PercentProgress) -> None:
    """Tell of `Receiving objects:  45% (9/20)` and its like."""
    for piece in data.replace(b"\r", b"\n").split(b"\n"):
        phase, _, rest = piece.removeprefix(b"remote: ").partition(b":")
        percent = rest.strip().partition(b"%")[0]
        if percent.isdigit() and len(percent) <= 3 and len(phase) < 60:
            progress(phase.decode("ascii", "replace"), int(percent))


@contextmanager
def _foreground(group: int) -> Iterator[None]:
    """Let a process group ask its questions on our terminal, and take the terminal back afterwards."""
    take_back = _give_terminal(group)
    try:
        yield
    finally:
        take_back()


def _give_terminal(group: int) -> Callable[[], None]:
    import signal

    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return lambda: None
    ours = os.getpgrp()
    try:
        if os.tcgetpgrp(terminal) != ours:
            raise ValueError("we are in the background")
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(terminal, group)
    except (OSError, ValueError):
        # Nobody can be asked then: no terminal after all, or not the main thread.
        os.close(terminal)
        return lambda: None

    def take_back() -> None:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(terminal, ours)
        signal.signal(signal.SIGTTOU, before)
        os.close(terminal)

    return take_back
