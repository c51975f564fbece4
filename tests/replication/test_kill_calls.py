"""Kill -9 at the system calls of a sync's ref moves: each ref old or new, nothing dangling, the next sync completes.

A sync that promotes two streams (one new), keeps evidence of a fork and publishes is killed before every system call
that makes, moves, empties or removes a name in the clone: the ref locks and renames of `git update-ref`, our journals,
the ledger. Objects and the quarantine are left out; `test_kill.py` kills between steps.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from world import Author, Forge, Store, bare, clone, fsck, git, person, refs, say, sync, words

HERE = Path(__file__).parent
TRACER = HERE.parent / "system" / "syscall_tracer.py"
SCRIPT = HERE / "killed_sync.py"
PASS_OVER = (".git/objects", ".git/hn/replication/quarantine", ".git/hn/memory")
UNAVAILABLE = 75
# How many workers share the points of one way to die.
SHARES = 3
FEWEST = 36


class Scene(NamedTuple):
    """A remote and a clone to be copied, and what the clone's refs and tips are before and after a whole sync."""

    template: Path
    before: dict[str, str]
    after: dict[str, str]
    tips: list[Any]


@pytest.fixture
def scratch(fast: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=fast) as path:
        yield Path(path)


@pytest.fixture
def scene(scratch: Path) -> Scene:
    top = scratch / "template"
    top.mkdir()
    remote = bare(top / "remote.git")
    path = clone(f"file://{remote}", top / "alice")
    git(path, "remote", "set-url", "origin", "../remote.git")
    store = Store(remote)
    one, two = (Forge(store, Author(number)).grow(2).publish() for number in range(2))
    person(path, "Ada")
    say(path, "one")
    sync(path)
    one.grow(3).publish()
    Forge(store, Author(7)).grow(2).publish()
    other = Forge(store, two.author, two.stream)
    other.commits, other.ids = two.commits[:1], two.ids[:1]
    other.grow(2, "other").publish()
    say(path, "two")
    whole = scratch / "whole"
    shutil.copytree(top, whole)
    assert words(sync(whole / "alice")) == ["forked", "promoted", "promoted", "published"]
    return Scene(top, refs(path, "refs/hn"), refs(whole / "alice", "refs/hn"), tips(whole / "alice"))


def tips(path: Path) -> list[Any]:
    ledger = json.loads((path / ".git/hn/replication/tips.json").read_text())
    return sorted(ledger["tips"], key=json.dumps)


def traced(path: Path, report: Path, number: int, *flags: str) -> str | None:
    """Sync under the tracer; the call at which it was killed, None if it got through."""
    over = [word for place in PASS_OVER for word in ("--pass-over", place)]
    done = subprocess.run(
        [
            sys.executable, "-I", "-S", str(TRACER), "--below", str(path), "--report", str(report),
            "--kill-at", str(number), *over, *flags, "--", sys.executable, str(SCRIPT), str(path), "",
        ],
        capture_output=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    killed: str | None = json.loads(report.read_text())["killed"]
    return killed


def look(path: Path, scene: Scene, where: object) -> None:
    """Refs are old or new and whole; the next sync completes the set and leaves nothing behind."""
    now = refs(path, "refs/hn")
    assert all(head in (scene.before.get(ref), scene.after.get(ref)) for ref, head in now.items()), where
    assert set(scene.before) <= set(now), where
    fsck(path)
    document = sync(path)
    assert set(words(document)) <= {"forked", "promoted", "published", "unchanged"}, where
    assert words(document).count("forked") == 1, where
    assert refs(path, "refs/hn") == scene.after, where
    assert tips(path) == scene.tips, where
    assert not list((path / ".git/refs").rglob("*.lock")), where
    assert (path / ".git/hn/lock").read_bytes() == b"", where
    assert not (path / ".git/hn/replication/journal.json").exists(), where
    assert not list((path / ".git/hn/replication/quarantine").iterdir()), where
    assert not list((path / ".git/hn/replication").glob(".tmp-*")), where


@contextmanager
def copy(scene: Scene, scratch: Path) -> Iterator[Path]:
    """A copy of the clone, for as long as it is looked at."""
    with tempfile.TemporaryDirectory(dir=scratch) as top:
        shutil.copytree(scene.template, top, dirs_exist_ok=True)
        yield Path(top) / "alice"


def can_trace(scratch: Path) -> bool:
    flags = ["--below", str(scratch), "--report", str(scratch / "trial.json")]
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(TRACER), *flags, "--", "git", "--version"], capture_output=True, check=False
    )
    assert done.returncode in (0, UNAVAILABLE), done
    return done.returncode == 0


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("family", [True, False], ids=["all die", "one dies"])
def test_killed_at_every_system_call_of_the_ref_moves(scene: Scene, scratch: Path, family: bool, share: int) -> None:
    if not can_trace(scratch):
        # Where nobody may trace, the one moment that can be met: Git holds all the locks.
        with copy(scene, scratch) as path:
            done = subprocess.run([sys.executable, str(SCRIPT), str(path), "prepared"], env=os.environ, check=False)
            assert done.returncode == -9
            look(path, scene, "prepared")
        return
    hit: list[str] = []
    for number in count(share + 1, SHARES):
        with copy(scene, scratch) as path:
            killed = traced(path, scratch / "report.json", number, *(["--family"] if family else []))
            look(path, scene, (number, killed))
        if killed is None:
            break
        hit.append(killed)
    print(f"killed at {len(hit)} system calls:", *hit, sep="\n  ")
    assert len(hit) >= FEWEST // SHARES
    moves = {call.split()[2] for call in hit if call.startswith("git update-ref: ") and "refs/hn/" in call}
    assert {name.rstrip("at2") for name in moves} >= {"open", "rename"}


def test_locks_of_dead_processes(scene: Scene, scratch: Path) -> None:
    """What a killed `git pack-refs` leaves does not stop us; a stranger's lock of a ref is named and left alone."""
    with copy(scene, scratch) as path:
        lock = path / ".git/packed-refs.lock"
        lock.write_bytes(b"")
        sync(path)
        assert refs(path, "refs/hn") == scene.after
        lock.unlink()
        look(path, scene, "packed-refs")
    with copy(scene, scratch) as path:
        # And together with what a sync leaves that is killed while Git holds its locks.
        done = subprocess.run([sys.executable, str(SCRIPT), str(path), "prepared"], env=os.environ, check=False)
        assert done.returncode == -9
        assert list((path / ".git/refs/hn").rglob("*.lock"))
        (path / ".git/packed-refs.lock").write_bytes(b"")
        look(path, scene, "prepared, packed-refs")
    # One that import moves; our own stream's moves after it.
    ref = next(
        ref
        for ref, head in scene.before.items()
        if head != scene.after[ref] and ref.replace("remotes/origin/", "") not in scene.before
    )
    with copy(scene, scratch) as path:
        lock = path / ".git" / f"{ref}.lock"
        lock.write_bytes(b"")
        for _ in range(2):
            document = sync(path)
            (row,) = [row for row in document["outcomes"] if row["outcome"] == "refused"]
            assert row["reason"] == f"another writer holds the lock of {ref}" and not document["complete"]
            assert lock.exists()  # no journal of ours names it
            # Nothing else is kept from moving.
            assert refs(path, "refs/hn") == scene.after | {ref: scene.before[ref]}
        lock.unlink()
        look(path, scene, "a stranger's lock")
