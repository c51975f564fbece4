"""`hn sync` and `hn replication` as commands: statuses, one JSON document on every path, progress where one watches."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from servers import PASSWORD, USER, smart_http
from world import Author, Forge, Store, bare, git, person, refs, say, service, sync

CODE = "import sys; from hn_memory.cli.entry import main; sys.argv[0] = 'hn'; sys.exit(main())"
HN = [sys.executable, "-c", CODE]
STREAM = Author(1).stream()
ABSENT = Author(9).stream()


class Answer(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        assert self.out.count("\n") == 1 and self.out.endswith("\n"), self
        found = json.loads(self.out)
        assert isinstance(found, dict) and found["version"] == 0
        return found


def hn(path: Path, *arguments: str, **variables: str) -> Answer:
    env = os.environ | variables
    done = subprocess.run([*HN, *arguments], cwd=path, capture_output=True, text=True, env=env, timeout=120)
    assert "Traceback" not in done.stderr and "internal" not in done.stderr, done
    return Answer(done.returncode, done.stdout, done.stderr)


class Scene(NamedTuple):
    """A clone, its remote, and a stream in it."""

    path: Path
    store: Store
    forge: Forge


Prepare = Callable[[Scene], None]


def as_it_is(_: Scene) -> None:
    """Nothing special."""


def selected(scene: Scene) -> None:
    with service(scene.path) as opened:
        opened.replication_select("origin", everything=True)


def unreadable_selection(scene: Scene) -> None:
    selected(scene)
    (file,) = (scene.path / ".git/hn/replication/selections").iterdir()
    file.write_text("{}")


def unreadable_ledger(scene: Scene) -> None:
    sync(scene.path)
    (scene.path / ".git/hn/replication/tips.json").write_text("{")


def unreadable_gaps(scene: Scene) -> None:
    sync(scene.path)
    (scene.path / ".git/hn/replication/gaps.json").write_text("{")
    (scene.path / ".git/hn/replication/gaps.json").chmod(0o600)
    scene.forge.grow(1).publish()


def open_to_others(scene: Scene) -> None:
    sync(scene.path)
    (scene.path / ".git/hn/replication").chmod(0o755)


def synced(scene: Scene) -> None:
    sync(scene.path)


def gone(scene: Scene) -> None:
    scene.store.path.rename(scene.store.path.with_name("gone"))


def other_format(scene: Scene) -> None:
    gone(scene)
    other = Store(bare(scene.store.path, "--object-format=sha256"), "sha256")
    Forge(other, Author(1)).grow(1).publish()


def two_remotes(scene: Scene) -> None:
    git(scene.path, "remote", "rename", "origin", "one")
    git(scene.path, "remote", "add", "two", "x")


def no_remote(scene: Scene) -> None:
    git(scene.path, "remote", "remove", "origin")


def text_file(scene: Scene) -> None:
    (scene.path / "note").write_text("x")


def bad_bundle(scene: Scene) -> None:
    git(scene.store.path, "bundle", "create", "-q", str(scene.path / "x.bundle"), scene.forge.ref)
    data = (scene.path / "x.bundle").read_bytes()
    (scene.path / "x.bundle").write_bytes(data[:-30])


def locked(scene: Scene) -> None:
    sync(scene.path)
    (ref,) = refs(scene.path, "refs/hn")
    (scene.path / ".git" / f"{ref}.lock").write_bytes(b"")
    scene.forge.grow(1).publish()


def shallow(scene: Scene) -> None:
    git(scene.path, "commit", "-q", "--allow-empty", "-m", "x")
    git(scene.path, "push", "-q", "origin", "HEAD:main")
    git(scene.path, "fetch", "-q", "--depth", "1", "origin", "main")
    assert git(scene.path, "rev-parse", "--is-shallow-repository") == "true"


REFUSED: list[tuple[Prepare, Sequence[str], int, str]] = [
    (as_it_is, ["sync", "nowhere"], 3, "remote-unknown"),
    (as_it_is, ["sync", ".x"], 2, "remote-invalid"),
    (as_it_is, ["sync", "no/such.bundle"], 3, "file-missing"),
    (as_it_is, ["sync", "--as", "x"], 2, "usage"),
    (as_it_is, ["sync", "a", "b"], 2, "usage"),
    (as_it_is, ["sync", "--recover-shallow"], 1, "not-shallow"),
    (shallow, ["sync", "--recover-shallow"], 1, "selection-missing"),
    (text_file, ["sync", "note"], 1, "file-unknown"),
    (bad_bundle, ["sync", "x.bundle", "--recover-shallow"], 2, "usage"),
    (bad_bundle, ["sync", "x.bundle", "--as", "../x"], 2, "remote-invalid"),
    (bad_bundle, ["memory", "verify", "x.bundle"], 1, "bundle-invalid"),
    (text_file, ["memory", "verify", "note"], 1, "file-unknown"),
    (as_it_is, ["memory", "verify", "note"], 3, "file-missing"),
    (no_remote, ["sync"], 3, "remote-unknown"),
    (two_remotes, ["sync"], 2, "remote-missing"),
    (gone, ["sync"], 1, "remote-failed"),
    (other_format, ["sync"], 1, "object-format-mismatch"),
    (unreadable_selection, ["sync"], 1, "selection-invalid"),
    (unreadable_ledger, ["sync"], 1, "ledger-invalid"),
    (unreadable_gaps, ["sync"], 1, "gaps-invalid"),
    (open_to_others, ["sync"], 1, "private-file-unsafe"),
    (as_it_is, ["replication", "select", "origin"], 2, "selection-empty"),
    (as_it_is, ["replication", "select", "origin", "--memory", "x"], 2, "id-invalid"),
    (as_it_is, ["replication", "select", "origin", "--memory", STREAM, "--all"], 2, "selection-conflict"),
    (as_it_is, ["replication", "select", "origin", "--all", "--max-events", "0"], 2, "budget-invalid"),
    (as_it_is, ["replication", "select", "origin", "--all", "--max-events", "many"], 2, "usage"),
    (as_it_is, ["replication", "select", "origin", "--from-policy"], 2, "selection-empty"),
    (as_it_is, ["replication", "select", "-.", "--all"], 2, "usage"),
    (as_it_is, ["replication", "select"], 2, "usage"),
    (as_it_is, ["replication", "bogus"], 2, "usage"),
    (as_it_is, ["replication", "show", "x..y"], 2, "remote-invalid"),
    (unreadable_selection, ["replication", "show"], 1, "selection-invalid"),
    (as_it_is, ["replication", "discover", "nowhere"], 3, "remote-unknown"),
    (as_it_is, ["replication", "discover"], 2, "usage"),
    (gone, ["replication", "discover", "origin"], 1, "remote-failed"),
    (other_format, ["replication", "discover", "origin"], 1, "object-format-mismatch"),
    (unreadable_gaps, ["replication", "gaps"], 1, "gaps-invalid"),
    (unreadable_ledger, ["replication", "tips"], 1, "ledger-invalid"),
    (synced, ["replication", "tips", "accept", "origin", STREAM], 2, "usage"),
    (synced, ["replication", "tips", "accept", "origin", STREAM, "--reason", " "], 2, "reason-invalid"),
    (synced, ["replication", "tips", "accept", "origin", "x", "--reason", "x"], 2, "id-invalid"),
    (synced, ["replication", "tips", "accept", "nowhere", STREAM, "--reason", "x"], 3, "remote-unknown"),
    (synced, ["replication", "tips", "accept", "origin", STREAM, "--reason", "x"], 1, "nothing-to-accept"),
    (as_it_is, ["memory", "export", "--bundle", "x", "--stream", ABSENT], 3, "stream-unknown"),
    (as_it_is, ["memory", "export", "--bundle", "x"], 1, "nothing-to-export"),
    (text_file, ["memory", "export", "--bundle", "note"], 1, "file-exists"),
]


@pytest.fixture
def scene(alice: Path, store: Store) -> Scene:
    return Scene(alice, store, Forge(store, Author(1)).grow(3).publish())


@pytest.mark.parametrize(
    ("prepare", "arguments", "status", "code"),
    REFUSED,
    ids=[f"{' '.join(arguments[:3])} {code}" for _, arguments, _, code in REFUSED],
)
def test_refusals(scene: Scene, prepare: Prepare, arguments: Sequence[str], status: int, code: str) -> None:
    prepare(scene)
    before = refs(scene.path)
    machine = hn(scene.path, *arguments, "--json")
    assert (machine.status, machine.document["error"]["code"]) == (status, code), machine
    person = hn(scene.path, *arguments)
    assert person.status == status and not person.out, person
    errors = [line for line in person.err.splitlines() if line.startswith("hn: error: ")]
    assert len(errors) == 1, person
    assert str(scene.path.parent) not in person.err or "remote.git" in person.err
    assert refs(scene.path) == before


def test_a_bad_time_limit(scene: Scene) -> None:
    for value in ("0", "-1", "x", "nan", "inf"):
        answer = hn(scene.path, "sync", "--json", HN_SYNC_TIMEOUT=value)
        assert (answer.status, answer.document["error"]["code"]) == (2, "timeout-invalid")
        assert "more than 0 and at most 1000000000" in answer.document["error"]["message"]


def partial(scene: Scene, word: str, *arguments: str) -> None:
    """A bad outcome: status 5, one document, said again, and said to people with the reason."""
    before = refs(scene.path, "refs/hn/remotes")
    for _ in range(2):
        answer = hn(scene.path, "sync", *arguments, "--json")
        assert answer.status == 5 and not answer.document["complete"], answer
        assert answer.document["counts"][word] == 1
        (row,) = [row for row in answer.document["outcomes"] if row["outcome"] == word]
        assert row["reason"] and row["stream"].startswith("sha256:")
    person = hn(scene.path, "sync", *arguments)
    assert person.status == 5 and f"{word} {row['stream']}" in person.out and row["reason"] in person.out
    assert refs(scene.path, "refs/hn/remotes") == before


def test_a_locked_ref_is_a_partial_outcome(scene: Scene) -> None:
    locked(scene)
    partial(scene, "refused")


def test_partial_outcomes(scene: Scene) -> None:
    path, store, forge = scene
    assert hn(path, "sync", "--json").status == 0
    forge.publish(forge.commits[0])
    partial(scene, "rewound")
    other = Forge(store, forge.author, forge.stream).grow(4, "other").publish()
    partial(scene, "forked")
    other.append(signature=b"A" * 86)
    other.publish()
    partial(scene, "structurally-invalid")
    git(store.path, "update-ref", "-d", forge.ref)
    partial(scene, "withdrawn")
    # A person lets it pass: it is still said, and the status is 0.
    assert hn(path, "replication", "tips", "accept", "origin", forge.stream, "--reason", "seen", "--json").status == 0
    answer = hn(path, "sync", "--json")
    assert answer.status == 0 and answer.document["outcomes"][0]["accepted"] == "seen"
    forge.publish()
    assert hn(path, "sync").status == 0
    with service(path) as opened:
        opened.replication_select("origin", [forge.stream, ABSENT], budgets={"max_events": 1})
    forge.grow(2).publish()
    partial(scene, "not-offered")
    partial(scene, "over-budget")
    selected(scene)
    assert hn(path, "sync").status == 0
    git(store.path, "config", "receive.hideRefs", "refs/hn")
    person(path, "Ada")
    say(path, "mine")
    partial(scene, "refused")
    assert hn(path, "sync", "--no-push").status == 0


# -- progress ---------------------------------------------------------------------------------------------

TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
LABELS = ("fetching", "verifying memories", "promoting")


def watched(path: Path, *arguments: str) -> Answer:
    """Run on a terminal of its own; what appeared there is in `out`."""
    done = subprocess.run(
        [sys.executable, "-c", TERMINAL, *HN, *arguments],
        cwd=path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=os.environ | {"TERM": "xterm"},
        timeout=120,
    )
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture
def slow(alice: Path, store: Store, home: Path) -> Path:
    """A clone of a remote that takes its time before it sends, and has much to send."""
    for number in range(4):
        Forge(store, Author(number)).grow(800).publish()
    hook = home / "slowly"
    hook.write_text('#!/bin/sh\nsleep 0.5\nexec "$@"\n')
    hook.chmod(0o755)
    with (home / ".gitconfig").open("a") as file:
        file.write(f"[uploadpack]\n\tpackObjectsHook = {hook}\n")
    return alice


def test_progress_on_a_terminal(slow: Path) -> None:
    answer = watched(slow, "sync", "--no-push")
    assert answer.status == 0, answer
    at = [answer.out.find(label) for label in LABELS]
    assert -1 not in at and at == sorted(at), answer.out
    assert "origin: 4 promoted" in answer.out
    assert "Receiving objects" not in answer.out
    # Nothing new: nothing to watch.
    assert not any(label in watched(slow, "sync").out for label in LABELS)


def test_no_progress_where_nobody_watches(slow: Path) -> None:
    answer = hn(slow, "sync", "--json")
    assert answer.status == 0 and answer.document["counts"] == {"promoted": 4}
    assert answer.err == ""


def test_no_question_without_a_terminal_and_none_with_json(tmp_path: Path, scene: Scene) -> None:
    """Git may ask for a password only where a person could answer."""
    git(scene.store.path, "config", "http.receivepack", "true")
    with smart_http(tmp_path) as url:
        git(scene.path, "remote", "set-url", "origin", f"{url}/remote.git")
        for answer in (hn(scene.path, "sync"), watched(scene.path, "sync", "--json")):
            assert answer.status == 1, answer
            told = answer.out + answer.err
            assert "could not read Username" in told and told.count("Username for") == 1, answer
        script = tmp_path / "typist.py"
        script.write_text(TYPES)
        done = subprocess.run(
            [sys.executable, str(script), USER, PASSWORD, *HN, "sync"],
            cwd=scene.path,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done
        assert "origin: 1 promoted" in done.stdout and PASSWORD not in done.stdout


TYPES = """
import os, pty, sys, time
user, password = (word.encode() + b"\\n" for word in sys.argv[1:3])
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[3], sys.argv[3:])
seen = b""
asked = 0
while True:
    try:
        data = os.read(terminal, 4096)
    except OSError:
        break
    if not data:
        break
    seen += data
    while seen.count(b" for 'http") > asked:
        # Git throws away what was typed before it turned the echo off.
        time.sleep(0.3)
        os.write(terminal, password if asked % 2 else user)
        asked += 1
sys.stdout.write(seen.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
