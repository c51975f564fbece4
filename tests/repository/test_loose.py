"""Loose objects as Git wants them."""

from __future__ import annotations

import os
import stat
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hn_memory.protocol.gitobject import object_id
from hn_memory.repository.base import ObjectType
from hn_memory.repository.deflate import deflate
from hn_memory.repository.loose import write_loose

BODIES: list[tuple[ObjectType, bytes]] = [
    ("blob", b""),
    ("blob", b"text\n" * 5000),
    ("blob", os.urandom(70_000)),
    ("tree", b""),
    ("blob", b"#" * 4080),
    ("blob", os.urandom(129)),
]


def git(place: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(place), *arguments], capture_output=True, check=True).stdout


def files(place: Path) -> list[Path]:
    return [found for found in place.rglob("*") if found.is_file()]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "--bare", ".")
    return tmp_path


@pytest.mark.parametrize(("kind", "data"), BODIES, ids=["empty", "text", "random", "tree", "small", "smaller"])
def test_git_reads_back_what_was_written(store: Path, kind: ObjectType, data: bytes) -> None:
    oid = object_id(kind, data, "sha1")
    write_loose(str(store / "objects"), oid, kind, data)
    assert git(store, "cat-file", kind, oid) == data
    git(store, "fsck", "--strict", "--full")
    path = store / "objects" / oid[:2] / oid[2:]
    assert stat.S_IMODE(path.stat().st_mode) & 0o222 == 0
    assert files(store / "objects") == [path]


@given(
    st.builds(lambda text, times: (text * times)[:9000], st.binary(min_size=1, max_size=600), st.integers(0, 200))
    | st.sampled_from([os.urandom(size) for size in (127, 128, 129, 4095, 4096, 4097, 70_000)])
)
def test_what_is_compressed_comes_out_again_and_starts_as_git_demands(data: bytes) -> None:
    stream = deflate(data)
    assert zlib.decompress(stream) == data
    # The two bytes by which Git tells a loose object: method 8, a window of at most 32 KiB, a multiple of 31.
    assert stream[0] & 0x8F == 8
    assert int.from_bytes(stream[:2], "big") % 31 == 0


def test_an_object_that_is_there_is_made_young_and_not_written_again(store: Path) -> None:
    oid = object_id("blob", b"old", "sha1")
    write_loose(str(store / "objects"), oid, "blob", b"old")
    path = store / "objects" / oid[:2] / oid[2:]
    inode = path.stat().st_ino
    os.utime(path, (1, 1))
    write_loose(str(store / "objects"), oid, "blob", b"old")
    assert path.stat().st_ino == inode
    assert path.stat().st_mtime > 1


def test_nothing_is_left_of_a_write_that_failed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    oid = object_id("blob", b"never", "sha1")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        write_loose(str(store / "objects"), oid, "blob", b"never")
    assert files(store / "objects") == []


def test_git_clears_away_what_a_killed_writer_leaves(store: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "unlink", lambda _: None)
        patched.setattr(os, "rename", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_loose(str(store / "objects"), "89" * 20, "blob", b"never")
    assert len(files(store / "objects")) == 1
    git(store, "prune")
    assert files(store / "objects") == []
