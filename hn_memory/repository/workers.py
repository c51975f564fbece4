"""Work on many commits, spread over all cores: processes forked off this one, each with the repository open.

A worker takes every n-th portion, so nobody hands out work or collects answers: who asked reads the workers' pipes
in turn. A pipe holds a few answers, which keeps the memory flat and lets a worker be ahead. When the one who asked is
gone, the next answer finds no reader, and the worker ends.
"""

from __future__ import annotations

import gc
import marshal
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from hn_memory.errors import HnError
from hn_memory.protocol import hashing, jsonbytes, signing
from hn_memory.repository.base import Layout, Repository
from hn_memory.repository.open import Preference, open_repository
from hn_memory.repository.spawn import widen
from hn_memory.repository.streams import Walked
from hn_memory.values import NamedTuple, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn, TypeVar

    T = TypeVar("T")


CHUNK: Final = 128
"""Commits in a portion."""

_MOST: Final = 16
_LIBRARIES: Final = ("hashlib", "orjson")
_SIZE: Final = 8
"""Bytes before each answer that say how long it is."""


def worker_count() -> int:
    """How many processes share the work; below two, sharing is not worth it."""
    return min(os.cpu_count() or 1, _MOST)


def spread(
    layout: Layout,
    walked: Sequence[Walked],
    work: Callable[[Repository, Sequence[Walked]], list[T]],
    kinds: Sequence[type[Any]],
    *,
    refusal: type[Any],
    prefer: Preference,
) -> Iterator[T]:
    """What `work` makes of the commits, in their order.

    Args:
        work: called in a worker with a portion of the commits. Whatever it refers to is there as it was when the
            workers were forked off.
        kinds: the value classes (tuples with names) that answers are of. What they hold goes from process to
            process by `marshal`, at half the price of pickling objects: texts, bytes, numbers, plain tuples, None.
        refusal: the kind of answer that says of a commit that it does not verify. Where there is none, signatures
            have proved what the objects hold, and nobody computes their IDs; else the portion is looked at again
            with IDs compared, so that a damaged object is called one.
        prefer: the backend with which workers open the repository.

    Raises:
        What `work` raises.
        HnError `worker-ended`: a worker was killed, or none could be started.
    """
    load_libraries(prefer)
    count = worker_count()
    job = _Job(layout, prefer, work, {kind: at for at, kind in enumerate(kinds)}, refusal, walked, count)
    started: list[_Worker] = []
    try:
        while len(started) < count:
            started.append(_fork(job, len(started), [worker.answers for worker in started]))
        for number in range(-(-len(walked) // CHUNK)):
            for kind, values in _answer_of(started[number % count]):
                yield make(kinds[kind], values)
    finally:
        for worker in started:
            os.close(worker.answers)
        for worker in started:
            # Whoever ignores SIGCHLD has nothing to wait for.
            with suppress(ChildProcessError):
                os.waitpid(worker.pid, 0)


def load_libraries(prefer: Preference) -> None:
    """Load once, before forking, what every worker would load by itself; see `spread`."""
    from importlib import import_module

    from hn_memory.protocol import plainform

    for name in _LIBRARIES:
        import_module(name)
    hashing.expect_many()
    jsonbytes.expect_many()
    signing.expect_many()
    plainform.prepare()
    if prefer != "git":
        with suppress(ImportError, OSError):
            import_module("hn_memory.repository.libgit")


class _Job(NamedTuple):
    """What workers work with, and among how many of them it is shared."""

    layout: Layout
    prefer: Preference
    work: Callable[[Repository, Sequence[Walked]], list[Any]]
    kinds: Mapping[type[Any], int]
    refusal: type[Any]
    walked: Sequence[Walked]
    sharers: int


class _Worker(NamedTuple):
    """A worker, and the end of its pipe where its answers come out."""

    pid: int
    answers: int


def _fork(job: _Job, number: int, others: Sequence[int]) -> _Worker:
    answers, ours = os.pipe()
    widen(answers)
    try:
        pid = os.fork()
    except OSError as error:
        os.close(answers)
        os.close(ours)
        raise HnError("worker-ended", f"no process can be started: {error.strerror}", hint="try again later") from error
    if not pid:
        _serve(job, number, ours, [answers, *others])
    os.close(ours)
    return _Worker(pid, answers)


def _serve(job: _Job, number: int, out: int, foreign: Sequence[int]) -> NoReturn:
    """A worker's life. It ends here, whatever happens: nothing of the process that it was forked off is its to end."""
    try:
        # Nothing a worker makes refers to itself, so looking for such things would only take time.
        gc.disable()
        for descriptor in foreign:
            os.close(descriptor)
        kinds = job.kinds
        with open_repository(job.layout, prefer=job.prefer) as repository:
            for at in range(number * CHUNK, len(job.walked), job.sharers * CHUNK):
                answers = _answers(job, repository, job.walked[at : at + CHUNK])
                _tell(out, marshal.dumps([(kinds[type(answer)], tuple(answer)) for answer in answers]))
    except BrokenPipeError:
        # Nobody wants to know any more.
        pass
    except Exception as error:
        import pickle

        with suppress(BrokenPipeError):
            _tell(out, marshal.dumps(pickle.dumps(error)))
    finally:
        os._exit(0)


def _answers(job: _Job, repository: Repository, portion: Sequence[Walked]) -> list[Any]:
    # What goes wrong without comparing is told of as it is with it.
    with suppress(HnError, ValueError), repository.unchecked():
        answers = job.work(repository, portion)
        if not any(type(answer) is job.refusal for answer in answers):
            return answers
    return job.work(repository, portion)


def _tell(out: int, answer: bytes) -> None:
    left = memoryview(len(answer).to_bytes(_SIZE) + answer)
    while left:
        left = left[os.write(out, left) :]


def _answer_of(worker: _Worker) -> list[tuple[int, tuple[Any, ...]]]:
    answer = marshal.loads(_taken(worker, int.from_bytes(_taken(worker, _SIZE))))  # noqa: S302 - of a fork of ours
    if isinstance(answer, bytes):
        import pickle

        raise pickle.loads(answer)  # noqa: S301 - of a fork of ours
    found: list[tuple[int, tuple[Any, ...]]] = answer
    return found


def _taken(worker: _Worker, size: int) -> bytes:
    data = os.read(worker.answers, size)
    while len(data) < size:
        more = os.read(worker.answers, size - len(data))
        if not more:
            raise HnError(
                "worker-ended", "a process that verified memories was killed", hint="try again, with more memory free"
            )
        data += more
    return data
