"""Run a program and kill it at the N-th system call that makes, moves or removes a name below a directory.

    python syscall_tracer.py --below DIR --report FILE [--kill-at N] [--family] [--pass-over DIR] -- PROGRAM ARGUMENT...

The calls of the program and of all its children are counted together, in the order in which they are made. The
process that is about to make the N-th one gets SIGKILL before the kernel acts on it; with `--family` all the
others get it too. The report is JSON: `calls` (what was counted), `killed` (the call that was not made any more,
or null) and `status` of the program. Exit status 75: this system does not let us trace.

This is `strace -f --inject` with one count over all processes, and it needs nothing but Linux.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import struct
import sys
from pathlib import Path

UNAVAILABLE = 75

TRACEME, CONT, SETOPTIONS, SYSCALL_INFO = 0, 7, 0x4200, 0x420E
# TRACEFORK, TRACEVFORK, TRACECLONE, TRACEEXEC, TRACESECCOMP, EXITKILL
OPTIONS = 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000
SECCOMP_STOP = 7
WALL = 0x40000000
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
MAKING = os.O_CREAT | os.O_TRUNC

# name: (number of the argument that is a directory descriptor or None, that is the path, that holds the flags)
SHAPES: dict[str, tuple[int | None, int | None, int | None]] = {
    "open": (None, 0, 1),
    "creat": (None, 0, None),
    "openat": (0, 1, 2),
    "mkdir": (None, 0, None),
    "mkdirat": (0, 1, None),
    "rmdir": (None, 0, None),
    "rename": (None, 1, None),
    "renameat": (2, 3, None),
    "renameat2": (2, 3, None),
    "link": (None, 1, None),
    "linkat": (2, 3, None),
    "symlink": (None, 1, None),
    "symlinkat": (1, 2, None),
    "unlink": (None, 0, None),
    "unlinkat": (0, 1, None),
    "truncate": (None, 0, None),
    "ftruncate": (0, None, None),
    "pwrite64": (0, None, None),
}
NUMBERS = {
    "x86_64": {
        2: "open", 85: "creat", 257: "openat", 83: "mkdir", 258: "mkdirat", 84: "rmdir", 82: "rename",
        264: "renameat", 316: "renameat2", 86: "link", 265: "linkat", 88: "symlink", 266: "symlinkat",
        87: "unlink", 263: "unlinkat", 76: "truncate", 77: "ftruncate", 18: "pwrite64",
    },
    "aarch64": {
        56: "openat", 34: "mkdirat", 38: "renameat", 276: "renameat2", 37: "linkat", 36: "symlinkat",
        35: "unlinkat", 45: "truncate", 46: "ftruncate", 68: "pwrite64",
    },
}  # fmt: skip
AT_FDCWD = -100

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.restype = ctypes.c_long
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request: int, pid: int, address: int = 0, data: int | ctypes.Array[ctypes.c_char] = 0) -> int:
    pointer = data if isinstance(data, int) else ctypes.addressof(data)
    result: int = LIBC.ptrace(request, pid, address, pointer)
    if result == -1:
        raise OSError(ctypes.get_errno(), "ptrace")
    return result


def filter_calls(numbers: dict[int, str]) -> None:
    """Have the kernel stop this process and its children at those calls, and at no others."""
    load, equal, some, give = 0x20, 0x15, 0x45, 0x06
    program: list[tuple[int, int, int, int]] = [(load, 0, 0, 0)]
    for number, name in numbers.items():
        flags = SHAPES[name][2]
        if flags is None:
            program += [(equal, 0, 1, number), (give, 0, 0, 0x7FF00000)]
        else:
            # An opening counts when it may make or empty a file.
            program += [(equal, 0, 4, number), (load, 0, 0, 16 + 8 * flags), (some, 0, 1, MAKING)]
            program += [(give, 0, 0, 0x7FF00000), (give, 0, 0, 0x7FFF0000)]
    program.append((give, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in program))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    if LIBC.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or LIBC.prctl(SECCOMP, FILTER, header, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


class Tracer:
    def __init__(self, below: str, kill_at: int, family: bool, pass_over: list[str]) -> None:
        self.below = os.path.realpath(below)
        self.pass_over = tuple(pass_over)
        self.kill_at = kill_at
        self.family = family
        self.calls: list[str] = []
        self.killed: str | None = None
        self.alive: set[int] = set()
        self.names = NUMBERS.get(os.uname().machine, {})
        self.buffer = ctypes.create_string_buffer(128)

    def run(self, argv: list[str]) -> int:
        first = os.fork()
        if first == 0:
            try:
                ptrace(TRACEME, 0)
                os.kill(os.getpid(), signal.SIGSTOP)
                filter_calls(self.names)
                os.execvp(argv[0], argv)
            finally:
                os._exit(UNAVAILABLE)
        _, status = os.waitpid(first, 0)
        if not os.WIFSTOPPED(status) or not self.names:
            return UNAVAILABLE
        ptrace(SETOPTIONS, first, 0, OPTIONS)
        self.alive.add(first)
        ptrace(CONT, first)
        result = 0
        while self.alive:
            try:
                pid, status = os.waitpid(-1, WALL)
            except ChildProcessError:
                break
            if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                self.alive.discard(pid)
                if pid == first:
                    result = os.waitstatus_to_exitcode(status)
                continue
            try:
                ptrace(CONT, pid, 0, self.stopped(pid, status))
            except ProcessLookupError:
                continue
        return result

    def stopped(self, pid: int, status: int) -> int:
        """See to a stop; the signal with which the process goes on."""
        number = os.WSTOPSIG(status)
        if pid not in self.alive:
            # A new child: it starts with a stop of ours.
            self.alive.add(pid)
            return 0
        if status >> 16 == SECCOMP_STOP:
            self.system_call(pid)
            return 0
        if status >> 16 or number in (signal.SIGTRAP, signal.SIGSTOP):
            return 0
        return number

    def system_call(self, pid: int) -> None:
        size = ptrace(SYSCALL_INFO, pid, len(self.buffer), self.buffer)
        if size < 80:
            return
        number, *arguments = struct.unpack_from("=7Q", self.buffer.raw, 24)
        name = self.names.get(number)
        if name is None:
            return
        place = self.place(pid, name, arguments)
        if place is None:
            return
        call = f"{self.program(pid)}: {name} {place}"
        self.calls.append(call)
        if len(self.calls) == self.kill_at:
            self.killed = call
            for each in [pid, *(self.alive if self.family else ())]:
                os.kill(each, signal.SIGKILL)

    def place(self, pid: int, name: str, arguments: list[int]) -> str | None:
        """Where the call acts, relative to the directory; None when it is no call that counts."""
        directory, path, _ = SHAPES[name]
        try:
            if path is None:
                whole = str(Path(f"/proc/{pid}/fd/{arguments[0]}").readlink())
                if name == "pwrite64" and not whole.endswith("/hn/lock"):
                    return None
            else:
                text = self.text(pid, arguments[path])
                start = f"/proc/{pid}/cwd"
                if directory is not None and arguments[directory] & 0xFFFFFFFF != AT_FDCWD & 0xFFFFFFFF:
                    start = f"/proc/{pid}/fd/{arguments[directory] & 0xFFFFFFFF}"
                whole = os.path.normpath(Path(start).readlink() / text)
        except OSError:
            return None
        if not whole.startswith(self.below + "/"):
            return None
        inside = os.path.relpath(whole, self.below)
        return None if inside.startswith(self.pass_over) else inside

    @staticmethod
    def text(pid: int, address: int) -> str:
        with Path(f"/proc/{pid}/mem").open("rb", 0) as memory:
            memory.seek(address)
            # A page may be the last one of its mapping.
            data = memory.read(4096 - address % 4096)
            if b"\0" not in data:
                data += memory.read(4096)
        return os.fsdecode(data.partition(b"\0")[0])

    @staticmethod
    def program(pid: int) -> str:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if not words[0].endswith(b"git"):
            return "hn"
        known = (b"unpack-objects", b"index-pack", b"update-ref", b"cat-file", b"for-each-ref")
        return "git " + next((word.decode() for word in words if word in known), "")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--below", required=True)
    parser.add_argument("--report", required=True)
    parser.add_argument("--kill-at", type=int, default=0)
    parser.add_argument("--family", action="store_true")
    parser.add_argument("--pass-over", action="append", default=[])
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    tracer = Tracer(options.below, options.kill_at, options.family, options.pass_over)
    try:
        status = tracer.run(options.program)
    except OSError as error:
        print(f"tracing is not possible here: {error}", file=sys.stderr)
        return UNAVAILABLE
    report = {"calls": tracer.calls, "killed": tracer.killed, "status": status}
    Path(options.report).write_text(json.dumps(report))
    return UNAVAILABLE if status == UNAVAILABLE and not tracer.calls else 0


if __name__ == "__main__":
    sys.exit(main())
