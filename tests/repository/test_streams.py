"""What walked commits hold, read many at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hn_memory.protocol import limits
from hn_memory.repository import streams
from hn_memory.repository.base import Repository
from hn_memory.repository.streams import Walked, read_walked, walk_stream

from .conftest import BACKENDS, open_as
from .kinds import World


@pytest.fixture(params=[backend for backend in BACKENDS if backend != "git-legacy"])
def repository(request: pytest.FixtureRequest, world_of: Callable[[str], World]) -> Repository:
    world: World = world_of("plain")
    return open_as(request.param, Path(world.start))


def tree(*entries: tuple[str, str, str]) -> bytes:
    """A raw tree of (mode, name, blob)."""
    return b"".join(f"{mode} {name}\0".encode() + bytes.fromhex(oid) for mode, name, oid in entries)


def store(repository: Repository, kind: str, data: bytes) -> str:
    (oid,) = repository.write_objects([(kind, data)])  # type: ignore[list-item]
    return oid


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    files=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), min_size=1, max_size=6),
    known=st.booleans(),
)
def test_what_others_name_as_their_files_changes_nothing(
    repository: Repository, files: list[tuple[int, int, bool]], known: bool
) -> None:
    """Commits read together hold what each of them holds when it is read alone."""
    sizes = (1, 86, limits.FILE_BYTES["signature"], 200, 4_000, limits.FILE_BYTES["memory.json"] + 1)
    blobs = [store(repository, "blob", bytes([65 + at]) * size) for at, size in enumerate(sizes)]
    walked = []
    for number, (memory, signature, ordinary) in enumerate(files):
        entries = [("100644", "memory.json", blobs[memory]), ("100644", "signature", blobs[signature])]
        if not ordinary:
            entries.insert(0, ("120000", "also", blobs[memory]))
        walked.append(Walked(f"{number:040x}", store(repository, "tree", tree(*entries)), ()))
    headers = {oid: (info.type, info.size) for oid, info in repository.info(blobs).items()} if known else None
    together = list(read_walked(repository, walked, headers))
    assert [commit.commit for commit in together] == [item.commit for item in walked]
    for (memory, signature, _), commit in zip(files, together, strict=True):
        assert commit.entries is not None
        by_name = {entry.name: entry for entry in commit.entries if entry.mode == "100644"}
        for name, at in (("memory.json", memory), ("signature", signature)):
            entry = by_name[name]
            assert entry.size == sizes[at]
            if sizes[at] <= limits.FILE_BYTES[name]:
                assert entry.data == bytes([65 + at]) * sizes[at]
        if memory == len(sizes) - 1:
            assert by_name["memory.json"].data is None


@pytest.mark.parametrize("length", [2, 3, 4, 9])
def test_a_long_walk_goes_on_by_other_means(
    world_of: Callable[[str], World], monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    monkeypatch.setattr(streams, "LONG_WALK", 3)
    start = Path(world_of("plain").start)
    with open_as("git", start) as near, open_as("libgit2", start) as far:
        tree_id = store(near, "tree", b"")
        commits: list[str] = []
        for number in range(length):
            parents = "".join(f"parent {parent}\n" for parent in commits[-1:])
            who = f"A <a@example.org> {1_700_000_000 + number} +0000"
            text = f"tree {tree_id}\n{parents}author {who}\ncommitter {who}\n\nlong walk of {length}\n"
            commits.append(store(near, "commit", text.encode()))
        asked: list[str] = []

        def further() -> Repository:
            asked.append("further")
            return far

        for at, known in enumerate([None, *commits]):
            asked.clear()
            walked, stop = walk_stream(near, commits[-1], lambda commit, known=known: commit == known, further)  # type: ignore[misc]
            assert [item.commit for item in walked] == commits[at:]
            assert stop == known
            assert all(item.tree == tree_id for item in walked)
            assert len(asked) == (length - at >= 3 and length > 3)
