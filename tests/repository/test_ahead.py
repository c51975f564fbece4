"""Git children started ahead: they answer for the directory they were started in, and none is left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hn_memory.repository.ahead import SOURCE_PREFIXES, Ahead
from hn_memory.repository.discover import discover
from hn_memory.repository.process import ProcessRepository
from hn_memory.service.service import open_repository

from .kinds import BUILDERS, build, git

NAMES = ("layout", "settings", "objects", "refs")


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@pytest.mark.parametrize("kind", sorted(BUILDERS))
def test_what_runs_ahead_answers_as_what_is_started_later(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = build(kind, tmp_path)
    main = world.commits["c3"]
    git(world.start, "update-ref", f"refs/hn/memory/{'a' * 64}/{'b' * 64}", main)
    monkeypatch.chdir(world.start)
    before = children()
    ahead = Ahead(refs=True)
    assert len(children()) == len(before) + len(NAMES)
    layout = discover(None, ahead=ahead)
    assert layout == discover(None)
    with ProcessRepository(layout, ahead=ahead) as early, ProcessRepository(layout) as late:
        assert early.refs(*SOURCE_PREFIXES) == late.refs(*SOURCE_PREFIXES) != []
        assert early.resolve_commit("HEAD") == late.resolve_commit("HEAD")
        assert early.info([main, "0" * len(main)]) == late.info([main, "0" * len(main)])
        # Only the first listing is the early one.
        git(world.start, "update-ref", f"refs/hn/memory/{'c' * 64}/{'b' * 64}", main)
        assert early.refs(*SOURCE_PREFIXES) == late.refs(*SOURCE_PREFIXES)
    assert children() == before


def test_for_another_repository_they_are_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        git(tmp_path / name, "init", "-q")
    monkeypatch.chdir(tmp_path / "here")
    ahead, taken = Ahead(refs=True), []
    try:
        with open_repository(tmp_path / "there", backend="git", ahead=ahead) as service:
            assert service.environment.repository.layout.work_tree == tmp_path / "there"
        # Every one of them still waits to be asked.
        taken = [ahead.take(name) for name in NAMES]
        assert None not in taken
    finally:
        for child in taken:
            child.stop()


def test_stopped_twice_and_without_git_they_are_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = children()
    ahead = Ahead(refs=False)
    assert len(children()) == len(before) + 3
    ahead.stop()
    ahead.stop()
    assert children() == before and ahead.take("objects") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Ahead(refs=True).take("layout") is None
