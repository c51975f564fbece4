"""What the tests of whole processes share: machines with settings of their own, `hn` as a process, and the truth.

The truth about a stream is read with plain Git and `verify_memory`, past the index and the backends.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hn_memory import verify_memory
from hn_memory.protocol.memory import VerifiedMemory

HERE = Path(__file__).parent
SEED = bytes(range(32))
COMMIT_DATE = "2026-01-02T03:04:05+00:00"

_SCRIPT = Path(sys.executable).with_name("hn")
_CODE = "import sys; from hn_memory.cli.entry import main; sys.argv[0] = 'hn'; sys.exit(main())"
HN: list[str] = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-c", _CODE]


class Answer(NamedTuple):
    """What one process gave."""

    status: int
    out: bytes
    err: bytes

    @property
    def json(self) -> dict[str, Any]:
        """Stdout as exactly one JSON document on one line."""
        assert self.out.endswith(b"\n") and self.out.count(b"\n") == 1, self
        document = json.loads(self.out.decode("utf-8"))
        assert isinstance(document, dict) and document["version"] == 0, self
        return document

    @property
    def error(self) -> dict[str, Any]:
        error = self.json["error"]
        assert {"code", "message", "hint"} <= set(error) <= {"code", "message", "hint", "field"}, self
        assert isinstance(error["message"], str) and error["message"], self
        return dict(error)

    def done(self) -> Answer:
        assert self.status == 0, self
        return self


@dataclass
class Machine:
    """A home directory and an environment; nothing of the real one but where programs are."""

    root: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        base = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        # So that these tests can be run on a tree that is not the installed one.
        base |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        self.env = base | self.env

    @property
    def home(self) -> Path:
        return self.root / "home"

    def run(
        self,
        argv: Sequence[str | bytes],
        cwd: Path,
        *,
        stdin: bytes = b"",
        env: Mapping[str, str | None] | None = None,
        timeout: float = 120,
        **settings: Any,
    ) -> Answer:
        """Run a program; a variable that is None is taken away."""
        merged: dict[str, str | None] = {**self.env, **(env or {})}
        final = {name: value for name, value in merged.items() if value is not None}
        done = subprocess.run(
            argv, cwd=cwd, env=final, input=stdin, capture_output=True, timeout=timeout, check=False, **settings
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def hn(self, cwd: Path, *arguments: str | bytes, **settings: Any) -> Answer:
        return self.run([*HN, *arguments], cwd, **settings)

    def git(self, cwd: Path, *arguments: str, stdin: bytes = b"") -> str:
        return self.run(["git", *arguments], cwd, stdin=stdin).done().out.decode().rstrip("\n")


def make_project(machine: Machine, path: Path, *options: str) -> Path:
    """A repository with one commit that is the same on every machine."""
    path.mkdir(parents=True)
    machine.git(path, "init", "-q", "-b", "main", *options)
    (path / "app.py").write_bytes(b"print('app')\n")
    (path / "docs").mkdir()
    (path / "docs" / "plan.md").write_bytes(b"# Plan\n")
    machine.git(path, "add", ".")
    commit(machine, path, "Start")
    return path


def commit(machine: Machine, path: Path, message: str) -> str:
    """Commit what is staged, with an author and a date of ours and past every hook and setting."""
    who = {"NAME": "Ada", "EMAIL": "ada@example.org", "DATE": COMMIT_DATE}
    env = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in who.items()}
    settings = ("commit.gpgsign=false", "core.hooksPath=/dev/null", "i18n.commitEncoding=utf-8")
    flags = [word for setting in settings for word in ("-c", setting)]
    machine.run(["git", *flags, "commit", "-q", "--allow-empty", "-m", message], path, env=env).done()
    return machine.git(path, "rev-parse", "HEAD").split()[0]


def common_dir(machine: Machine, path: Path) -> Path:
    return Path(machine.git(path, "rev-parse", "--path-format=absolute", "--git-common-dir"))


def trust(machine: Machine, path: Path, *actors: str) -> None:
    """Commit a policy that trusts those actors."""
    machine.hn(path, "policy", "trust", *actors).done()
    machine.git(path, "add", ".hn")
    commit(machine, path, "Trust")


def memory_refs(machine: Machine, path: Path) -> dict[str, str]:
    """Every ref below refs/hn/ with its commit, as Git tells them."""
    lines = machine.git(path, "for-each-ref", "--format=%(refname) %(objectname)", "refs/hn/").splitlines()
    return dict(line.split(" ") for line in lines)  # type: ignore[misc]


def chain(machine: Machine, path: Path, ref: str) -> list[VerifiedMemory]:
    """The memories of a stream, oldest first; every rule that ties them together is asserted."""
    listed = machine.git(path, "rev-list", "--first-parent", "--reverse", ref, "--").split()
    wanted = "".join(f"{oid}:memory.json\n{oid}:signature\n{oid}\n" for oid in listed)
    data = machine.run(["git", "cat-file", "--batch"], path, stdin=wanted.encode()).done().out
    parts: list[bytes] = []
    while data:
        header, data = data.split(b"\n", 1)
        size = int(header.split()[2])
        parts.append(data[:size])
        data = data[size + 1 :]
    memories: list[VerifiedMemory] = []
    for at, oid in enumerate(listed):
        payload, signature, raw = parts[3 * at : 3 * at + 3]
        memory = verify_memory(payload, base64.b64decode(signature + b"=="))
        assert memory.envelope.sequence == at + 1
        assert memory.envelope.previous == (memories[-1].id if memories else None)
        assert ref == f"refs/hn/memory/{memory.envelope.actor}/{memory.envelope.stream.removeprefix('sha256:')}"
        parents = [line[7:].decode() for line in raw.split(b"\n\n")[0].split(b"\n") if line.startswith(b"parent ")]
        assert parents == listed[at - 1 : at], oid
        assert raw.endswith(f"\n\nhn memory {memory.id}\n".encode())
        memories.append(memory)
    return memories


def fsck(machine: Machine, path: Path) -> None:
    """Git finds nothing wrong; what nothing refers to is no fault."""
    done = machine.run(["git", "fsck", "--strict", "--full", "--no-dangling"], path)
    noise = (b"Checking", b"notice: ", b"")
    lines = [line for line in (done.out + done.err).split(b"\n") if not line.startswith(noise[:2]) and line]
    assert done.status == 0 and not lines, done


def copy_of(project: Path, to: Path) -> Path:
    shutil.copytree(project, to, symlinks=True)
    return to
