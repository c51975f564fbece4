"""Fixtures: worlds built once per session, and the backends over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hn_memory.repository.base import Repository
from hn_memory.repository.discover import discover
from hn_memory.repository.libgit import LibgitRepository
from hn_memory.repository.process import ProcessRepository

from .fake import FakeRepository
from .kinds import BUILDERS, World, build, git

BACKENDS = ("git", "git-legacy", "libgit2")


@pytest.fixture(scope="session")
def quiet_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text("[gc]\n\tauto = 0\n")
    return home


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch, quiet_home: Path) -> None:
    monkeypatch.setenv("HOME", str(quiet_home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("GIT_NO_LAZY_FETCH", raising=False)


@pytest.fixture(scope="session")
def world_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], World]:
    """The world of a kind, built when it is first asked for. Tests add refs of their own to it."""
    built: dict[str, World] = {}

    def world(kind: str) -> World:
        if kind not in built:
            built[kind] = build(kind, tmp_path_factory.mktemp(kind))
        return built[kind]

    return world


def open_as(backend: str, start: Path) -> Repository:
    """A backend over the repository around a directory."""
    layout = discover(start)
    if backend == "libgit2":
        return LibgitRepository(layout)
    return ProcessRepository(layout, legacy_cat_file=backend == "git-legacy")


def imitate(world: World, ref_format: str = "files") -> FakeRepository:
    """A fake that holds everything a plain world holds."""
    fake = FakeRepository(ref_format=ref_format)
    with open_as("git", world.start) as real:
        listing = git(world.start, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split()
        fake.objects = {oid: (kind, data) for oid, kind, data in real.read(listing)}
        fake.held = {ref.name: ref for ref in [*real.refs("refs/heads", "refs/tags"), real.ref("HEAD")] if ref}
        fake.settings = {"core.repositoryformatversion": "0"}
    return fake


def _cases() -> list[tuple[str, str]]:
    cases = [("fake", "plain"), ("fake-reftable", "plain")]
    for kind in BUILDERS:
        cases += [("git", kind)]
        if World(kind, Path(), {}, Path()).libgit2:
            cases += [("libgit2", kind)]
    return [*cases, ("git-legacy", "plain"), ("git-legacy", "partial")]


@pytest.fixture(params=_cases(), ids=lambda case: f"{case[0]}-{case[1]}")
def case(request: pytest.FixtureRequest) -> tuple[str, str]:
    backend, kind = request.param
    return backend, kind


@pytest.fixture
def world(case: tuple[str, str], world_of: Callable[[str], World], monkeypatch: pytest.MonkeyPatch) -> World:
    if case[1] == "partial-no-fetch":
        monkeypatch.setenv("GIT_NO_LAZY_FETCH", "1")
    return world_of(case[1])


@pytest.fixture
def repository(case: tuple[str, str], world: World) -> Iterator[Repository]:
    backend = case[0]
    if backend.startswith("fake"):
        yield imitate(world, "reftable" if backend == "fake-reftable" else "files")
        return
    with open_as(backend, world.start) as opened:
        yield opened
