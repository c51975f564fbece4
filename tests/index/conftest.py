"""A quiet machine for every test of the index, and the repository that most of them start from."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from index_world import Twins, build_twins, copy_twins


@pytest.fixture(scope="session", autouse=True)
def _quiet_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = A\n\temail = a@example.org\n[gc]\n\tauto = 0\n[init]\n\tdefaultBranch = main\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("GIT_", "HN_"))]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Twins:
    """Two clones with code and no memories; copy it, never change it."""
    return build_twins(tmp_path_factory.mktemp("original"))


@pytest.fixture
def twins(original: Twins, tmp_path: Path) -> Iterator[Twins]:
    """A copy of the two clones for one test."""
    with copy_twins(original, tmp_path / "twins") as copied:
        yield copied
