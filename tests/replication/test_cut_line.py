"""The network is cut in a fetch and in a push, at any byte: nothing local changes, the words are shown."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from servers import PASSWORD, USER, Line, line_to, smart_http
from world import Author, Forge, Store, bare, clone, fsck, git, person, refs, say, sync, words

import hn_memory

WORDS = (
    "RPC failed", "hung up", "early EOF", "disconnect", "unable to access", "Failed to connect", "Empty reply",
    "invalid index-pack output", "expected", "unexpected",
)  # fmt: skip
PLACES = 8


def importing(path: Path, store: Store) -> None:
    for number in range(3):
        Forge(store, Author(number)).grow(40, "text " + "x" * 200).publish()


def publishing(path: Path, store: Store) -> None:
    person(path, "Ada")
    say(path, *(f"text {number} {'x' * 200}" for number in range(40)))


def private_files(path: Path) -> dict[str, bytes]:
    """What replication keeps, but for the lock and what the remote offered."""
    top = path / ".git/hn/replication"
    return {
        str(file.relative_to(top)): file.read_bytes()
        for file in top.rglob("*")
        if file.is_file() and "offers" not in file.parts and file.name != "sync.lock"
    }


def cut(path: Path, line: Line, place: int) -> str | None:
    """Sync over a line that is cut there: what was said, or None when the cut came too late to be noticed."""
    before, kept = refs(path), private_files(path)
    line.mend(place)
    try:
        document: dict[str, Any] = sync(path, timeout=20)
        bad = [row for row in document["outcomes"] if row["outcome"] not in ("unchanged", "promoted", "published")]
        if not bad:
            return None
        assert not document["complete"]
        text = " ".join(row["reason"] for row in bad) + " ".join(document["messages"])
    except hn_memory.HnError as error:
        assert error.code == "remote-failed"
        text = error.message
    assert refs(path) == before
    assert private_files(path) == kept
    assert not list((path / ".git/hn/replication/quarantine").glob("*"))
    assert any(word in text for word in WORDS), text
    assert PASSWORD not in text and USER not in text
    return text


@pytest.mark.parametrize(("prepare", "word"), [(importing, "promoted"), (publishing, "published")])
def test_a_cut_at_any_byte(prepare: Callable[[Path, Store], None], word: str, tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.mkdir()
    remote = bare(template / "remote.git")
    git(remote, "config", "http.receivepack", "true")
    path = clone(f"file://{remote}", template / "one")
    prepare(path, Store(remote))
    said: set[str] = set()
    with smart_http(tmp_path) as url, line_to(url) as line:

        def copy(number: int) -> Path:
            shutil.copytree(template, tmp_path / f"copy{number}")
            there = tmp_path / f"copy{number}/one"
            address = f"http://{USER}:{PASSWORD}@127.0.0.1:{line.port}/copy{number}/remote.git"
            git(there, "remote", "set-url", "origin", address)
            return there

        assert set(words(sync(copy(0)))) == {word}
        whole = line.carried
        noticed = 0
        # The last one is in the middle of the answer.
        for number in range(1, PLACES + 1):
            there = copy(number)
            text = cut(there, line, min(whole * number // PLACES, whole - 30))
            if text is not None:
                noticed += 1
                said.add(text)
            line.mend()
            # What had reached the remote without our hearing of it comes back as a promotion.
            assert set(words(sync(there))) <= {word, "promoted", "unchanged"}
            assert refs(there, "refs/hn/remotes")
            fsck(there)
            shutil.rmtree(there.parent)
    assert noticed >= PLACES - 2
    print(*sorted(said), sep="\n")
