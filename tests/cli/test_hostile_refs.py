"""What a fetch may bring below our namespace never stops a reader, and reports of it are text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    assert hn(tmp_path, "init", "--name", "Alice").returncode == 0
    assert hn(tmp_path, "memory", "record", "-k", "decision", "-m", "kept").returncode == 0
    return tmp_path


def git(where: Path, *arguments: str | bytes) -> str:
    done = subprocess.run(["git", "-C", str(where), *arguments], capture_output=True, check=True)
    return done.stdout.decode().strip()


def hn(where: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    code = "import sys; from hn_memory.cli.entry import main; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *arguments], cwd=where, capture_output=True)


@pytest.mark.parametrize("command", ["recall", "log", "streams", "verify"])
def test_a_ref_name_of_other_bytes_is_reported_as_text(repository: Path, command: str) -> None:
    git(repository, "update-ref", b"refs/hn/memory/\xff", "HEAD")
    done = hn(repository, "memory", command, "--json")
    document = json.loads(done.stdout)
    assert b"refs/hn/memory/\\\\xff" in done.stdout
    assert "error" not in document
    assert done.returncode == (6 if command == "verify" else 0)


def test_a_ref_to_something_else_than_a_commit_leaves_the_index_valid(repository: Path) -> None:
    actor = json.loads(hn(repository, "identity", "show", "--json").stdout)["identity"]["actor"]
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    git(repository, "update-ref", f"refs/hn/memory/{actor}/{'e' * 64}", tree)
    assert hn(repository, "memory", "index", "rebuild").returncode == 0
    assert hn(repository, "memory", "index", "verify").returncode == 0
    (invalid,) = json.loads(hn(repository, "memory", "verify", "--json").stdout)["invalid"]
    assert "is a tree, not a commit" in invalid["reason"]


@pytest.mark.parametrize("arguments", [("recall", "--at", ""), ("record", "-k", "decision", "-m", "x", "--at", "")])
def test_an_empty_revision_is_no_revision(repository: Path, arguments: tuple[str, ...]) -> None:
    done = hn(repository, "memory", *arguments, "--json")
    assert json.loads(done.stdout)["error"]["code"] == "revision-unknown"
    assert done.returncode == 3


def test_a_symbolic_memory_ref_of_other_bytes_stops_no_reader(repository: Path) -> None:
    actor = json.loads(hn(repository, "identity", "show", "--json").stdout)["identity"]["actor"]
    git(repository, "update-ref", b"refs/heads/b\xff", "HEAD")
    git(repository, "symbolic-ref", f"refs/hn/memory/{actor}/{'e' * 64}", b"refs/heads/b\xff")
    document = json.loads(hn(repository, "memory", "recall", "--json").stdout)
    assert [source["reason"] for source in document["receipt"]["sources"]["invalid"]] == [
        "a memory ref must not be symbolic"
    ]


def test_verify_names_what_git_passes_over(repository: Path) -> None:
    """A symbolic ref to nothing and a file without an ID are listed by no Git command."""
    actor = json.loads(hn(repository, "identity", "show", "--json").stdout)["identity"]["actor"]
    dangling, empty = (f"refs/hn/memory/{actor}/{digit * 64}" for digit in "ef")
    git(repository, "symbolic-ref", dangling, "refs/heads/nowhere")
    (repository / ".git" / empty).write_text("")
    (repository / ".git" / f"refs/hn/memory/{actor}/{'d' * 64}.lock").write_text("")
    done = hn(repository, "memory", "verify", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 6 and not document["valid"] and document["memories"] == 1
    assert {(row["ref"], row["code"]) for row in document["invalid"]} == {
        (dangling, "source-symbolic"),
        (empty, "source-broken"),
    }
    assert "refs/heads/nowhere, which does not exist" in done.stdout.decode()


def test_a_stray_ref_is_named_with_a_way_out(repository: Path) -> None:
    git(repository, "update-ref", "refs/hn/memory/$A", "HEAD")
    done = hn(repository, "memory", "verify")
    assert done.returncode == 6
    assert b"refs/hn/memory/$A" in done.stdout and b"hint: It is no stream." in done.stdout
    assert b"update-ref -d refs" not in done.stdout
