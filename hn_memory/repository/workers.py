"""Work on many commits, spread over all cores: processes forked off this one, each with the repository open."""

from __future__ import annotations

import gc
import marshal
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from hn_memory.protocol import hashing, jsonbytes, signing
from hn_memory.repository.base import Layout, Repository
from hn_memory.repository.open import Preference, open_repository
from hn_memory.repository.streams import Walked
from hn_memory.values import NamedTuple, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess
    from typing import Any, Final, TypeVar

    T = TypeVar("T")


CHUNK: Final = 256
"""Commits that a worker is handed at a time."""

_MOST: Final = 16
_WAITING_EACH: Final = 4
_LIBRARIES: Final = ("hashlib", "orjson")


def worker_count() -> int:
    """How many processes share the work; below two, sharing is not worth it."""
    return min(os.cpu_count() or 1, _MOST)


def spread(
    layout: Layout,
    walked: Sequence[Walked],
    work: Callable[[Repository, Sequence[Walked]], list[T]],
    kinds: Sequence[type[Any]],
    *,
    prefer: Preference,
) -> Iterator[T]:
    """What `work` makes of the commits, in their order.

    Args:
        work: called in a worker with a portion of the commits. Whatever it refers to is there as it was when the
            workers were forked off.
        kinds: the value classes (tuples with names) that answers are of. What they hold goes from process to
            process by `marshal`, at half the price of pickling objects: texts, bytes, numbers, plain tuples, None.
        prefer: the backend with which workers open the repository.

    Raises:
        What `work` raises.
    """  # fmt: skip
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    _load_libraries(libgit2=prefer != "git")
    starts = iter(range(0, len(walked), CHUNK))
    workers = worker_count()
    with ProcessPoolExecutor(
        workers, mp_context=get_context("fork"), initializer=_start, initargs=(layout, prefer, work, kinds, walked)
    ) as pool:
        # A bounded window keeps the memory flat: results wait no longer than their turn.
        pending = deque(pool.submit(_work, at) for at in islice(starts, workers * _WAITING_EACH))
        while pending:
            answers = marshal.loads(pending.popleft().result())  # noqa: S302 - made by a fork of this process
            pending.extend(pool.submit(_work, at) for at in islice(starts, 1))
            for kind, values in answers:
                yield make(kinds[kind], values)


def _load_libraries(*, libgit2: bool) -> None:
    """Load once, before forking, what every worker would load by itself."""
    from contextlib import suppress
    from importlib import import_module

    for name in _LIBRARIES:
        import_module(name)
    hashing.expect_many()
    jsonbytes.expect_many()
    signing.expect_many()
    if libgit2:
        with suppress(ImportError, OSError):
            import_module("hn_memory.repository.libgit")


class _Job(NamedTuple):
    """What a worker works with."""

    repository: Repository
    work: Callable[[Repository, Sequence[Walked]], list[Any]]
    kinds: Mapping[type[Any], int]
    walked: Sequence[Walked]


_job: _Job | None = None


def _start(
    layout: Layout,
    prefer: Preference,
    work: Callable[[Repository, Sequence[Walked]], list[Any]],
    kinds: Sequence[type[Any]],
    walked: Sequence[Walked],
) -> None:
    global _job
    from multiprocessing import parent_process
    from threading import Thread

    # Nothing a worker makes refers to itself, so looking for such things would only take time.
    gc.disable()
    # Without its parent a worker would wait for work for ever, and keep the parent's locks with it.
    Thread(target=_leave_with, args=(parent_process(),), daemon=True).start()
    repository = open_repository(layout, prefer=prefer)
    _job = _Job(repository, work, {kind: at for at, kind in enumerate(kinds)}, walked)


def _leave_with(parent: BaseProcess | None) -> None:
    if parent is not None:
        parent.join()
    os._exit(1)


def _work(at: int) -> bytes:
    if _job is None:
        raise RuntimeError("the worker was not started")
    kinds = _job.kinds
    answers = _job.work(_job.repository, _job.walked[at : at + CHUNK])
    return marshal.dumps([(kinds[type(answer)], tuple(answer)) for answer in answers])
