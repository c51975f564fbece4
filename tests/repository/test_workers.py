"""Work spread over processes: answers in order, faults as they were, and nobody left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from hn_memory.errors import HnError, NotFoundError
from hn_memory.replication.budgets import OverBudgetError
from hn_memory.repository import workers
from hn_memory.repository.base import Repository
from hn_memory.repository.scan import BrokenStreamError
from hn_memory.repository.streams import Walked
from hn_memory.values import NamedTuple

from .conftest import open_as
from .kinds import World


class Seen(NamedTuple):
    commit: str
    worker: int
    data: bytes


class Missed(NamedTuple):
    commit: str


class Failed(NamedTuple):
    commit: str


Work = Callable[[Repository, Sequence[Walked]], list[Seen | Missed]]


@pytest.fixture
def repository(world_of: Callable[[str], World], monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    monkeypatch.setattr(workers, "worker_count", lambda: 3)
    with open_as("git", Path(world_of("plain").start)) as opened:
        yield opened


def commits(count: int) -> list[Walked]:
    return [Walked(f"{number:040x}", "", ()) for number in range(count)]


def look(repository: Repository, chunk: Sequence[Walked]) -> list[Seen | Missed]:
    assert repository.oid_length == 40
    answers: list[Seen | Missed] = []
    for item in chunk:
        number = int(item.commit, 16)
        # Answers of very different length, some longer than any pipe holds.
        data = bytes([number % 251]) * (3_000_000 if number % 400 == 7 else number)
        answers.append(Missed(item.commit) if number % 5 == 0 else Seen(item.commit, os.getpid(), data))
    return answers


def spread(repository: Repository, walked: Sequence[Walked], work: Work = look) -> Iterator[Seen | Missed]:
    return workers.spread(repository.layout, walked, work, (Missed, Seen), refusal=Failed, prefer="git")


@pytest.fixture
def nobody_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Afterwards every process that was forked off has ended and was waited for."""
    forked: list[int] = []
    fork = os.fork

    def recorded() -> int:
        pid = fork()
        if pid:
            forked.append(pid)
        return pid

    monkeypatch.setattr(os, "fork", recorded)
    yield
    assert len(forked) == 3
    for pid in forked:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


pytestmark = pytest.mark.usefixtures("nobody_is_left")


@pytest.mark.parametrize("count", [0, 1, workers.CHUNK, workers.CHUNK + 1, 5 * workers.CHUNK, 7 * workers.CHUNK + 3])
def test_answers_come_in_the_order_of_the_commits(repository: Repository, count: int) -> None:
    walked = commits(count)
    answers = list(spread(repository, walked))
    assert [answer.commit for answer in answers] == [item.commit for item in walked]
    alone = look(repository, walked)
    for answer, expected in zip(answers, alone, strict=True):
        assert type(answer) is type(expected)
        if isinstance(answer, Seen) and isinstance(expected, Seen):
            assert answer.data == expected.data
            assert answer.worker != os.getpid()
    served = {answer.worker for answer in answers if isinstance(answer, Seen)}
    assert len(served) == len({number // workers.CHUNK % 3 for number in range(count) if number % 5})


@pytest.mark.parametrize(
    "error",
    [
        HnError("object-missing", "gone", hint="look", field="x"),
        NotFoundError("object-missing", "gone"),
        OverBudgetError("too much"),
        BrokenStreamError(HnError("signature-invalid", "no"), "0" * 40, 3),
        ValueError("odd"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_the_work_raises_is_raised(repository: Repository, error: Exception) -> None:
    def work(repository: Repository, chunk: Sequence[Walked]) -> list[Seen | Missed]:
        if int(chunk[0].commit, 16) == 4 * workers.CHUNK:
            raise error
        return look(repository, chunk)

    found: list[str] = []
    with pytest.raises(type(error)) as caught:
        for answer in spread(repository, commits(9 * workers.CHUNK), work):
            found.append(answer.commit)
    assert str(caught.value) == str(error)
    assert vars(caught.value) == vars(error)
    assert found == [item.commit for item in commits(4 * workers.CHUNK)]


@pytest.mark.parametrize("answers", [Missed("x"), Failed("x")], ids=["good", "refused"])
def test_ids_are_compared_where_something_is_refused(repository: Repository, answers: Missed | Failed) -> None:
    (true,) = repository.write_objects([("blob", b"said")])
    false, objects = "e" * 40, repository.layout.objects
    (objects / false[:2]).mkdir(exist_ok=True)
    (objects / false[:2] / false[2:]).write_bytes((objects / true[:2] / true[2:]).read_bytes())

    def work(repository: Repository, chunk: Sequence[Walked]) -> list[Missed | Failed]:
        assert [data for _, _, data in repository.read([false])] == [b"said"]
        return [answers for _ in chunk]

    found = workers.spread(
        repository.layout, commits(5), work, (Missed, Failed), refusal=Failed, prefer="git"
    )  # fmt: skip
    try:
        if isinstance(answers, Missed):
            assert list(found) == [answers] * 5
        else:
            with pytest.raises(HnError) as caught:
                list(found)
            assert caught.value.code == "object-corrupt"
    finally:
        (objects / false[:2] / false[2:]).unlink()


def test_a_worker_that_is_killed_is_told_of(repository: Repository) -> None:
    def work(repository: Repository, chunk: Sequence[Walked]) -> list[Seen | Missed]:
        if int(chunk[0].commit, 16) == 2 * workers.CHUNK:
            os.kill(os.getpid(), signal.SIGKILL)
        return look(repository, chunk)

    with pytest.raises(HnError) as caught:
        list(spread(repository, commits(9 * workers.CHUNK), work))
    assert caught.value.code == "worker-ended"


def test_who_stops_asking_leaves_nobody_behind(repository: Repository) -> None:
    answers = spread(repository, commits(50 * workers.CHUNK))
    assert next(answers).commit == f"{0:040x}"
    answers.close()  # type: ignore[attr-defined]
