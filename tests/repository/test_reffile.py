"""A ref read out of its own file says what Git says, or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hn_memory.repository.reffile import read_ref_file

from .kinds import World, build, git

NAME = "refs/hn/memory/a/b"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = build("plain", tmp_path / "repo")
    git(made.start, "update-ref", NAME, made.commits["c1"])
    return made


def read(world: World, name: str = NAME) -> str | None:
    return read_ref_file(world.git_dir, name, len(world.commits["c1"]))


def test_a_ref_with_a_file_is_read(world: World) -> None:
    assert read(world) == world.commits["c1"]
    git(world.start, "pack-refs", "--all", "--no-prune")
    git(world.start, "update-ref", NAME, world.commits["c2"])
    assert read(world) == world.commits["c2"]


def _pack(world: World) -> None:
    git(world.start, "pack-refs", "--all")


def _point(world: World) -> None:
    git(world.start, "symbolic-ref", NAME, "refs/heads/main")


def _link(world: World) -> None:
    path = world.git_dir / NAME
    path.rename(path.with_name("c"))
    path.symlink_to("c")


def _fifo(world: World) -> None:
    path = world.git_dir / NAME
    path.unlink()
    os.mkfifo(path)


def _garbage(world: World) -> None:
    (world.git_dir / NAME).write_text(world.commits["c1"] + " \n")


def _cut(world: World) -> None:
    (world.git_dir / NAME).write_text(world.commits["c1"][:-1] + "\n")


@pytest.mark.parametrize("change", [_pack, _point, _link, _fifo, _garbage, _cut])
def test_whatever_else_it_is_is_left_to_git(world: World, change: Callable[[World], None]) -> None:
    change(world)
    assert read(world) is None


def test_no_name_leads_elsewhere(world: World) -> None:
    (world.git_dir / "stray").write_text(world.commits["c1"] + "\n")
    for name in ("refs/hn/../../stray", "refs/heads/main", "refs/hn//memory/a/b", "refs/hn/memory", "refs/hn/a\0b", ""):
        assert read(world, name) is None
