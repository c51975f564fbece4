"""Reads stand back while a write is at work, for a bounded time, and run one a round of the event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from uhp_harness import make_repository, open_hn

from hn_memory.repository.private import PrivateFiles
from hn_memory.uhp.http.admission import Admission
from hn_memory.uhp.precedence import PATIENCE, Precedence
from hn_memory.uhp.state.idempotency import Ledger, Mine, Running, Stored
from hn_memory.uhp.state.store import open_store
from hn_memory.uhp.values import Author, Draft

ADA = Author("person", "ada")


def test_a_read_waits_until_no_write_is_at_work() -> None:
    async def run() -> None:
        precedence = Precedence()
        reads = Admission(precedence)
        done: list[str] = []

        async def read(name: str) -> None:
            await reads.wait()
            done.append(name)

        for _ in range(3):
            with precedence:
                with precedence:
                    tasks = [asyncio.create_task(read("a")), asyncio.create_task(read("b"))]
                    for _ in range(20):
                        await asyncio.sleep(0)
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not done  # the first of two has ended, the other is still at it
                ended = time.monotonic()
            await asyncio.wait_for(asyncio.gather(*tasks), 10)
            assert done == ["a", "b"] and time.monotonic() - ended < 5
            done.clear()

    asyncio.run(run())


def test_a_long_write_does_not_stop_reads() -> None:
    async def run() -> None:
        precedence = Precedence()
        reads = Admission(precedence)
        ending = threading.Event()

        def write() -> None:
            with precedence:
                assert ending.wait(30)

        thread = threading.Thread(target=write)
        thread.start()
        while not precedence.delay(lambda: None):
            await asyncio.sleep(0)
        begun = time.monotonic()
        for _ in range(3):
            await asyncio.wait_for(reads.wait(), 10)
        assert time.monotonic() - begun < 20 * PATIENCE and thread.is_alive()
        ending.set()
        thread.join()
        await asyncio.wait_for(reads.wait(), 10)

    asyncio.run(run())


def test_between_two_reads_the_loop_looks_at_what_has_arrived() -> None:
    async def run() -> None:
        reads = Admission(Precedence())
        order: list[str] = []

        async def read(number: int) -> None:
            await reads.wait()
            order.append(f"read {number}")
            if number == 0:
                asyncio.get_running_loop().call_soon(order.append, "arrived")

        tasks = [asyncio.create_task(read(number)) for number in range(5)]
        await asyncio.sleep(0)
        tasks[2].cancel()  # who left is passed over
        await asyncio.wait(tasks)
        assert [one for one in order if one != "arrived"] == ["read 0", "read 1", "read 3", "read 4"]
        assert order.index("arrived") <= 2
        # Nothing is left over: the next one need not wait for anybody.
        await asyncio.wait_for(reads.wait(), 10)

    asyncio.run(run())


@pytest.fixture
def ledger(tmp_path: Path, state_url: str | None) -> Iterator[Ledger]:
    (tmp_path / "hn").mkdir(mode=0o700)
    store = open_store(PrivateFiles(tmp_path), state_url, "a" * 64)
    yield Ledger(store)
    store.close()


def test_of_all_who_claim_a_key_at_once_one_runs_the_request(ledger: Ledger) -> None:
    with ThreadPoolExecutor(4) as pool:
        claims = list(pool.map(lambda at: ledger.claim("person:ada", f"k{at % 5}", b"x" * 32), range(40)))
    assert Counter(type(state) for state, _ in claims) == {Mine: 5, Running: 35}
    name, owner = next((f"k{at % 5}", owner) for at, (state, owner) in enumerate(claims) if isinstance(state, Mine))
    ledger.announce("person:ada", name, owner, "hmem_1", "sha256:1")
    ledger.finish("person:ada", name, owner, Stored(200, b"{}"))
    assert ledger.claim("person:ada", name, b"x" * 32)[0] == Stored(200, b"{}")


def test_a_worker_can_fork_off_helpers(tmp_path: Path) -> None:
    """A thread of it waits for the end of its standard input, which a process that is forked off closes at once."""
    place = make_repository(tmp_path / "project")
    provider = open_hn(place)
    provider.remember("hmem_" + "1" * 32, [Draft("one"), Draft("two")], ADA)
    provider.close()
    code = f"""
import threading, time
from hn_memory import open_repository
from hn_memory.index import ingest
from hn_memory.uhp import supervise
ingest.PARALLEL_FROM = 1
threading.Thread(target=supervise._end_with_parent, daemon=True).start()
time.sleep(0.2)
with open_repository({str(place)!r}) as service:
    print(service.index_rebuild()["memories"])
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.wait(20) == 0
            assert process.stdout is not None and process.stdout.read() == "2\n"
        finally:
            process.kill()
