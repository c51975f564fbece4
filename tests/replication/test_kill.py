"""Kill -9 at every step of import and publication: refs old or new, nothing dangling, the next sync completes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from world import Author, Forge, Store, fsck, git, outcome, person, refs, say, service, sync, texts, words

from hn_memory.protocol.identifiers import accepted_ref
from hn_memory.protocol.tips import Journal, Move
from hn_memory.replication.promote import finish, write_journal
from hn_memory.replication.tips import load_ledger
from hn_memory.repository.private import PrivateFiles

SCRIPT = Path(__file__).with_name("killed_sync.py")
STEPS = [
    f"{module}:{function}:{when}"
    for module, function in (
        ("sync", "finish"),
        ("sync", "advertise"),
        ("sync", "copy_objects"),
        ("promote", "write_journal"),
        ("promote", "move_accepted"),
        ("promote", "write_tips"),
        ("promote", "clear_journal"),
        ("publish", "run_network"),
        ("quarantine", "run_network"),
    )
    for when in ("before", "after")
]


def dying_sync(path: Path, place: str, env: dict[str, str] | None = None) -> int:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(path), place], env=os.environ | (env or {}), capture_output=True, check=False
    )
    return done.returncode


def prepare(alice: Path, store: Store, streams: int = 4, length: int = 30) -> tuple[dict[str, str], list[Forge]]:
    """A clone that has something to import and something to publish; its refs, and what is to come."""
    forges = [Forge(store, Author(number)).grow(2).publish() for number in range(streams)]
    person(alice, "Ada")
    say(alice, "one")
    sync(alice)
    for forge in forges:
        forge.grow(length).publish()
    say(alice, "two")
    return refs(alice, "refs/hn"), forges


def check_and_complete(alice: Path, store: Store, before: dict[str, str], forges: list[Forge], own: int = 2) -> None:
    """After a kill: every ref old or new, everything whole; after the next sync: all new, and no trace."""
    local = next(head for ref, head in before.items() if ref.startswith("refs/hn/memory/"))
    new = {forge.ref.replace("refs/hn/", "refs/hn/remotes/origin/"): forge.commits[-1] for forge in forges}
    for ref, head in refs(alice, "refs/hn").items():
        assert head in (before.get(ref), new.get(ref), local), ref
    fsck(alice)
    document = sync(alice)
    assert document["complete"]
    assert {row["outcome"] for row in document["outcomes"]} <= {"promoted", "published", "unchanged"}
    after = refs(alice, "refs/hn")
    for ref, head in new.items():
        assert after[ref] == head
    assert {row["outcome"] for row in sync(alice)["outcomes"]} == {"unchanged"}
    assert not list((alice / ".git").rglob("refs/**/*.lock"))
    assert not (alice / ".git/hn/replication/journal.json").exists()
    assert not list((alice / ".git/hn/replication/quarantine").iterdir())
    assert len(texts(alice)) == sum(len(forge.commits) for forge in forges) + own
    fsck(alice)


@pytest.mark.parametrize("place", [*STEPS, "prepared"])
def test_killed_between_steps(alice: Path, store: Store, place: str) -> None:
    before, forges = prepare(alice, store)
    assert dying_sync(alice, place) == -9
    check_and_complete(alice, store, before, forges)


def test_killed_at_every_call_of_git(alice: Path, store: Store, tmp_path: Path) -> None:
    """A `git` on PATH that kills whoever calls it for the n-th time, before or after the real one ran."""
    real = git(alice, "--exec-path") + "/git"
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    counter = tmp_path / "count"
    wrapper.write_text(
        f'#!/bin/sh\necho x >> {counter}\n[ $(wc -l < {counter}) -eq $HN_TEST_KILL_AT ] || exec {real} "$@"\n'
        f'[ $HN_TEST_KILL_WHEN = before ] || {real} "$@"\nkill -9 $PPID\n'
    )
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    hits, own = 0, 2
    before, forges = prepare(alice, store, streams=2, length=3)
    for number in range(1, 100):
        for when in ("before", "after"):
            counter.write_text("")
            env = {"PATH": path, "HN_TEST_KILL_AT": str(number), "HN_TEST_KILL_WHEN": when}
            status = dying_sync(alice, "", env)
            calls = len(counter.read_text().split())
            # A long-lived reader is stopped before it ends, and so never gets to kill.
            assert status in (-9, 0)
            hits += status == -9
            check_and_complete(alice, store, before, forges, own)
            own += 1
            for forge in forges:
                forge.grow(1).publish()
            say(alice, "more")
            before = refs(alice, "refs/hn")
        if calls < number:
            break
    assert status == 0
    assert hits >= 20
    print(f"killed at {hits} places")


def test_a_foreign_lock_stops_its_stream_alone(bob: Path, store: Store) -> None:
    forges = [Forge(store, Author(number)).grow(2).publish() for number in range(5)]
    held = accepted_ref("origin", forges[3].author.actor, forges[3].stream)
    lock = bob / ".git" / f"{held}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    for others in ("promoted", "unchanged"):
        document = sync(bob)
        row = outcome(document, forges[3].stream)
        assert row["outcome"] == "refused" and row["reason"] == f"another writer holds the lock of {held}"
        assert "crashed" in row["hint"] and not document["complete"]
        assert words(document) == sorted([*[others] * 4, "refused"])
        assert lock.exists() and held not in refs(bob, "refs/hn/remotes")
        assert all(tip["stream"] != forges[3].stream for tip in service(bob).replication_tips()["tips"])
    # A promotion that was broken off finishes what it can, too.
    moves = [Move(accepted_ref("origin", one.author.actor, one.stream), None, one.commits[-1]) for one in forges[2:4]]
    git(bob, "update-ref", "-d", moves[0].ref)
    with service(bob) as opened:
        files = PrivateFiles(opened.environment.repository.layout.common_dir)
        write_journal(files, Journal(tuple(moves), ()))
        assert finish(opened.environment.repository, files, load_ledger(files)) == 1
    assert moves[0].ref in refs(bob, "refs/hn/remotes")
    lock.unlink()
    assert outcome(sync(bob), forges[3].stream)["outcome"] == "promoted"
    assert words(sync(bob)) == ["unchanged"] * 5
    fsck(bob)
