"""What walked commits hold, read many at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hn_memory.protocol import limits
from hn_memory.repository.base import Repository
from hn_memory.repository.streams import Walked, read_walked

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
