"""An empty home, and two clones of one bare remote."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from world import Store, bare, clone


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith(("GIT_", "HN_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (path / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n[gc]\n\tauto = 0\n"
    )
    return path


@pytest.fixture(scope="module")
def fast() -> Iterator[Path]:
    """A directory in memory, where the system has a place for that."""
    memory = Path("/dev/shm")
    where = memory if os.access(memory, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="hn-sync-", dir=where) as path:
        yield Path(path)


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return bare(tmp_path / "remote.git")


@pytest.fixture
def alice(remote: Path, tmp_path: Path) -> Path:
    return clone(f"file://{remote}", tmp_path / "alice")


@pytest.fixture
def bob(alice: Path, remote: Path, tmp_path: Path) -> Path:
    return clone(f"file://{remote}", tmp_path / "bob")


@pytest.fixture
def store(remote: Path) -> Store:
    return Store(remote)
