"""Shallow clones: gaps are recorded, recovery fetches exactly them, and nothing else is unshallowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from world import Author, Forge, Store, bare, clone, fsck, git, outcome, person, refs, say, service, sync, texts, words

import hn_memory


@pytest.fixture
def history(remote: Path, tmp_path: Path) -> Path:
    """A clone with six commits, a record anchored at each of three of them, all published."""
    path = clone(f"file://{remote}", tmp_path / "full")
    person(path, "Ada")
    for number in range(6):
        git(path, "commit", "-q", "--allow-empty", "-m", f"c{number}")
        if number in (1, 3, 5):
            say(path, f"at c{number}")
    git(path, "push", "-q", "origin", "HEAD:main")
    assert words(sync(path)) == ["published"]
    return path


@pytest.fixture
def shallow(history: Path, remote: Path, tmp_path: Path) -> Path:
    path = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{remote}", str(path))
    return path


def test_gaps_and_recovery(history: Path, shallow: Path, store: Store) -> None:
    document = sync(shallow)
    (row,) = document["outcomes"]
    assert row["outcome"] == "dependency-missing" and "2 anchor commits" in row["reason"]
    assert not refs(shallow, "refs/hn")
    with service(shallow) as opened:
        gaps = opened.replication_gaps()["gaps"]
    expected = {git(history, "rev-parse", f"HEAD~{back}") for back in (2, 4)}
    assert {gap["missingId"] for gap in gaps} == expected
    for gap in gaps:
        assert gap["kind"] == "anchor-commit" and gap["remote"] == "origin"
        assert gap["ownerId"].startswith("sha256:") and gap["command"] == "hn sync origin --recover-shallow"
    # Durable, and said again.
    assert words(sync(shallow)) == ["dependency-missing"]
    with pytest.raises(hn_memory.HnError) as caught:
        sync(shallow, recover_shallow=True)
    assert caught.value.code == "selection-missing"
    with service(shallow) as opened:
        opened.replication_select("origin", [row["stream"]])
        selection = (shallow / ".git/hn/replication/selections").iterdir().__next__().read_bytes()
    before = git(shallow, "rev-list", "--count", "HEAD")
    assert words(sync(shallow, recover_shallow=True)) == ["promoted"]
    assert texts(shallow) == ["at c1", "at c3", "at c5"]
    with service(shallow) as opened:
        assert opened.replication_gaps()["gaps"] == []
    assert git(shallow, "rev-list", "--count", "HEAD") == before == "1"
    assert git(shallow, "rev-parse", "--is-shallow-repository") == "true"
    assert (shallow / ".git/hn/replication/selections").iterdir().__next__().read_bytes() == selection
    # Exactly these commits, kept by refs of their own.
    assert set(refs(shallow, "refs/hn/shallow").values()) == expected
    present = git(shallow, "cat-file", "--batch-all-objects", "--batch-check")
    assert git(history, "rev-parse", "HEAD~3") not in present
    fsck(shallow)
    git(shallow, "gc", "-q", "--prune=now")
    assert words(sync(shallow)) == ["unchanged"]
    assert not refs(store.path, "refs/hn/shallow")


def test_a_stream_without_gaps_is_promoted_beside(history: Path, shallow: Path, store: Store) -> None:
    here = Forge(store, Author(3))
    here.append(anchor=git(shallow, "rev-parse", "HEAD"))
    here.publish()
    document = sync(shallow)
    assert outcome(document, here.stream)["outcome"] == "promoted"
    assert words(document) == ["dependency-missing", "promoted"]


def test_gaps_close_when_the_user_unshallows(history: Path, shallow: Path) -> None:
    sync(shallow)
    git(shallow, "fetch", "-q", "--unshallow")
    assert words(sync(shallow)) == ["promoted"]
    with service(shallow) as opened:
        assert opened.replication_gaps()["gaps"] == []


def test_a_commit_that_the_remote_does_not_have(shallow: Path, store: Store) -> None:
    lost = Forge(store, Author(3)).grow(1).publish()
    with service(shallow) as opened:
        opened.replication_select("origin", [lost.stream])
    assert words(sync(shallow)) == ["dependency-missing"]
    with pytest.raises(hn_memory.HnError) as caught:
        sync(shallow, recover_shallow=True)
    assert caught.value.code == "remote-failed" and "not our ref" in caught.value.message
    with service(shallow) as opened:
        assert len(opened.replication_gaps()["gaps"]) == 1


def test_only_in_a_shallow_clone(alice: Path) -> None:
    with pytest.raises(hn_memory.HnError) as caught:
        sync(alice, recover_shallow=True)
    assert caught.value.code == "not-shallow"


def test_a_shallow_clone_publishes(shallow: Path, tmp_path: Path) -> None:
    person(shallow, "Bea")
    say(shallow, "from the shallows")
    git(shallow, "remote", "add", "other", f"file://{bare(tmp_path / 'other.git')}")
    assert words(sync(shallow, "other")) == ["published"]
    assert "published" in words(sync(shallow))
