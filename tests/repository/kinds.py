"""Every kind of repository that Git makes, built by Git, around one small history.

c1 --- c2 --- c3   (main, HEAD; c3 merges s1; the tag v1 is annotated and names c2)
  `--- s1 ---'
       `--- s2     (side)
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CLEAN = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "protocol.file.allow",
    "GIT_CONFIG_VALUE_0": "always",
}


def git(where: Path, *arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> str:
    """Run Git there, in an environment of our own, and answer what it printed."""
    command = ["git", "-C", str(where), *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, env=CLEAN | (env or {}), check=False)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def git_version() -> tuple[int, ...]:
    text = subprocess.run(["git", "version"], capture_output=True, check=True).stdout.decode().split()[2]
    return tuple(int(part) for part in text.split(".")[:2])


@dataclass(frozen=True)
class World:
    """One built repository: where to stand in it, and the commits of its history by name."""

    kind: str
    start: Path
    commits: dict[str, str]
    git_dir: Path

    @property
    def complete(self) -> bool:
        return not self.kind.startswith("shallow")

    @property
    def blobless(self) -> bool:
        return self.kind.startswith("partial")

    @property
    def bare(self) -> bool:
        return self.kind == "bare"

    @property
    def libgit2(self) -> bool:
        return self.kind not in {"sha256", "reftable"} and not self.blobless


def source(where: Path, *flags: str) -> dict[str, str]:
    """Make the history in a new repository there; answers its commits by name."""
    where.mkdir(parents=True)
    git(where, "init", "-q", "-b", "main", *flags)
    (where / "dir" / "deep").mkdir(parents=True)
    (where / "a.txt").write_text("one\n")
    (where / "dir" / "deep" / "b.txt").write_text("two\n")
    (where / "dir" / "naïve 메모.txt").write_text("three\n")
    (where / "run.sh").write_text("#!/bin/sh\n")
    (where / "run.sh").chmod(0o755)
    (where / "link").symlink_to("a.txt")
    git(where, "add", ".")
    commits = {}

    def commit(name: str) -> None:
        git(where, "commit", "-q", "--allow-empty", "-m", name)
        commits[name] = git(where, "rev-parse", "HEAD")

    commit("c1")
    git(where, "checkout", "-q", "-b", "side")
    commit("s1")
    git(where, "checkout", "-q", "main")
    (where / "a.txt").write_text("more\n")
    git(where, "add", ".")
    commit("c2")
    git(where, "tag", "-a", "-m", "a tag", "v1")
    git(where, "merge", "-q", "--no-ff", "-m", "c3", "side")
    commits["c3"] = git(where, "rev-parse", "HEAD")
    git(where, "checkout", "-q", "side")
    commit("s2")
    git(where, "checkout", "-q", "main")
    git(where, "config", "uploadpack.allowFilter", "true")
    git(where, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(where, "config", "gc.auto", "0")
    return commits


def _clone(top: Path, *flags: str) -> Path:
    there = top / "clone"
    git(top, "clone", "-q", *flags, f"file://{top}/source", str(there))
    if "--depth" not in flags:
        git(there, "update-ref", "refs/heads/side", "refs/remotes/origin/side")
    return there


def _plain(top: Path) -> Path:
    return top / "source"


def _bare(top: Path) -> Path:
    git(top, "clone", "-q", "--bare", "source", "bare.git")
    return top / "bare.git"


def _worktree(top: Path) -> Path:
    git(top / "source", "worktree", "add", "-q", "--detach", str(top / "linked"))
    return top / "linked"


def _worktree_of_bare(top: Path) -> Path:
    git(_bare(top), "worktree", "add", "-q", "--detach", str(top / "linked"))
    return top / "linked"


def _separate(top: Path) -> Path:
    return _clone(top, f"--separate-git-dir={top}/elsewhere")


def _shallow(top: Path) -> Path:
    return _clone(top, "--depth", "1")


def _shared(top: Path) -> Path:
    git(top, "clone", "-q", "--shared", "source", "clone")
    git(top / "clone", "update-ref", "refs/heads/side", "refs/remotes/origin/side")
    return top / "clone"


def _partial(top: Path) -> Path:
    there = _clone(top, "--filter=blob:none", "--no-checkout")
    git(there, "config", "protocol.file.allow", "always")
    return there


def _packed(top: Path) -> Path:
    git(top / "source", "pack-refs", "--all")
    git(top / "source", "gc", "-q", "--prune=now")
    return top / "source"


def _worktree_config(top: Path) -> Path:
    git(top / "source", "config", "extensions.worktreeConfig", "true")
    git(top / "source", "config", "core.repositoryFormatVersion", "1")
    git(top / "source", "config", "--worktree", "hn.only", "here")
    return top / "source"


def _odd_path(top: Path) -> Path:
    odd = top / "a b é 메모리 'q'"
    (top / "source").rename(odd)
    return odd


BUILDERS: dict[str, Callable[[Path], Path]] = {
    "plain": _plain,
    "bare": _bare,
    "worktree": _worktree,
    "worktree-of-bare": _worktree_of_bare,
    "separate-git-dir": _separate,
    "sha256": _plain,
    "shallow": _shallow,
    "shared": _shared,
    "partial": _partial,
    "partial-no-fetch": _partial,
    "packed": _packed,
    "worktree-config": _worktree_config,
    "odd-path": _odd_path,
}
# Known before the tests are collected, so that no test has to be skipped.
if git_version() >= (2, 45):
    BUILDERS["reftable"] = _plain

_FLAGS = {"sha256": ["--object-format=sha256"], "reftable": ["--ref-format=reftable"]}


def build(kind: str, top: Path) -> World:
    """Make a repository of that kind below `top`."""
    commits = source(top / "source", *_FLAGS.get(kind, []))
    start = BUILDERS[kind](top)
    git_dir = Path(git(start, "rev-parse", "--path-format=absolute", "--git-common-dir"))
    return World(kind, start, commits, git_dir)
