"""A repository with a person in it, and a command line that runs in this process."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_harness import Answer, Hn, Stream, git

from hn_memory.cli import run as run_module


@pytest.fixture
def hn(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hn]:
    """Run `hn` in this process, in the current directory."""

    def call(*arguments: str | bytes, stdin: bytes = b"", env: dict[str, str] | None = None) -> Answer:
        streams = Stream(stdin), Stream(), Stream()
        with monkeypatch.context() as patch:
            for name, stream in zip(("stdin", "stdout", "stderr"), streams, strict=True):
                patch.setattr(sys, name, stream)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            here = Path.cwd()
            try:
                status = run_module.run([os.fsdecode(argument) for argument in arguments])
            finally:
                os.chdir(here)
        return Answer(status, streams[1].bytes.getvalue(), streams[2].bytes.getvalue().decode())

    return call


@pytest.fixture
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, no settings of the machine, no repository."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "HN_", "_HN_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    return tmp_path


@pytest.fixture
def repository(clean: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one commit; we stand in it."""
    path = clean / "project"
    path.mkdir()
    monkeypatch.chdir(path)
    git("init", "-q")
    (path / "app.py").write_text("print('app')\n")
    (path / "docs").mkdir()
    (path / "docs" / "plan.md").write_text("# Plan\n")
    git("add", ".")
    git("commit", "-qm", "Start")
    return path


@pytest.fixture
def ada(repository: Path, hn: Hn) -> str:
    """The actor ID of an identity that the committed policy trusts."""
    actor: str = hn("init", "--json").done().json["identity"]["actor"]
    hn("policy", "trust", actor).done()
    git("add", ".hn")
    git("commit", "-qm", "Trust Ada")
    return actor
