"""Many memories in one append: signed in another thread, and the same chain all the same."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hn_memory import HnError, RecordArguments, open_repository
from hn_memory.protocol.record import Anchor, Applicability, Record
from hn_memory.repository import writer


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for command in (
        ["init", "-q", "-b", "main", "project"],
        ["-C", "project", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    with open_repository(tmp_path / "project") as service:
        service.init("Ada")
    return tmp_path / "project"


@pytest.mark.parametrize("backend", ["git", "libgit2"])
@pytest.mark.parametrize("count", [writer._MANY - 1, writer._MANY, writer._MANY + writer._GROUP + 1])
def test_every_number_makes_one_valid_chain(repository: Path, backend: str, count: int) -> None:
    with open_repository(repository, backend=backend) as service:
        service.record_all([RecordArguments(kind="observation", content=f"first {at}") for at in range(2)])
        rows = service.record_all([RecordArguments(kind="observation", content=f"note {at}") for at in range(count)])
        assert len({row["memoryId"] for row in rows}) == count
    with open_repository(repository) as service:
        document = service.verify()
        assert document["valid"] and document["memories"] == count + 2
        for at in (0, count // 2, count - 1):
            shown = service.show(rows[at]["memoryId"])
            assert shown["envelope"]["sequence"] == at + 3
            assert shown["projection"]["data"]["content"] == f"note {at}"
    subprocess.run(["git", "-C", str(repository), "fsck", "--strict"], check=True, capture_output=True)


def test_a_record_that_nobody_has_checked_is_checked_before_it_is_signed(repository: Path) -> None:
    with open_repository(repository) as service:
        environment = service.environment
        blank = Record("observation", " ", Anchor("a" * 40), Applicability("descendants"))
        with pytest.raises(HnError, match="blank"):
            writer.append(
                environment.repository,
                environment.keyring.require_active(),
                "sha256:" + "b" * 64,
                [writer.Statement("record", record=blank)],
                clock=environment.clock,
                verified_head=lambda ref, commit: pytest.fail("nothing stands there"),
            )
        assert service.streams()["streams"] == []


def test_one_that_may_not_be_said_leaves_nothing(repository: Path) -> None:
    said = [RecordArguments(kind="observation", content=f"note {at}") for at in range(writer._MANY)]
    with open_repository(repository) as service, pytest.raises(HnError):
        service.record_all([*said, RecordArguments(kind="observation", content="")])
    with open_repository(repository) as service:
        assert service.streams()["streams"] == []
