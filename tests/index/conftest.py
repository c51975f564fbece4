"""A quiet machine for every test of the index, and the repository that most of them start from."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from index_world import Twins, build_twins, copy_twins, new_directory


class Hasty(sqlite3.Connection):
    """A connection that does not wait for the disk."""

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "BEGIN IMMEDIATE":
            super().execute("PRAGMA synchronous = OFF")
        return super().execute(sql, *values)


@pytest.fixture(scope="package", autouse=True)
def _quiet_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = A\n\temail = a@example.org\n[gc]\n\tauto = 0\n[init]\n\tdefaultBranch = main\n"
        "[safe]\n\tdirectory = *\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("GIT_", "HN_"))]:
            patch.delenv(name)
        patch.setenv("HOME", str(home))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        # No test cuts the power, so nothing here has to reach the disk; that would take most of the time.
        patch.setenv("GIT_TEST_FSYNC", "0")
        patch.setattr(os, "fsync", lambda handle: None)
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Hasty))
        yield


@pytest.fixture(scope="package")
def scratch() -> Iterator[Path]:
    """A directory for many small files, which some file systems are slow to remove."""
    with new_directory() as path:
        yield path


@pytest.fixture
def tmp_path(scratch: Path) -> Iterator[Path]:
    """As pytest's own, but quick, and gone after the test."""
    path = Path(tempfile.mkdtemp(dir=scratch))
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="package")
def original(scratch: Path) -> Iterator[Twins]:
    """Two clones with code and no memories; copy it, never change it."""
    with build_twins(scratch / "original") as built:
        yield built


@pytest.fixture
def twins(original: Twins, tmp_path: Path) -> Iterator[Twins]:
    """A copy of the two clones for one test."""
    with copy_twins(original, tmp_path / "twins") as copied:
        yield copied
