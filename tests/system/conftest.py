"""A machine of our own for every test, and the environment of this process to match."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from system_harness import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A fresh home. The service, when a test opens it in this process, sees the same environment."""
    made = Machine(tmp_path / "machine")
    for name in [name for name in os.environ if name.startswith(("GIT_", "HN_", "_HN_"))]:
        monkeypatch.delenv(name)
    for name, value in made.env.items():
        monkeypatch.setenv(name, value)
    return made
