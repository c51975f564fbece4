"""Restarts, kills and several processes: what was acknowledged is there, once."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from uhp_harness import Api, Running, error, ok, run_hn


@pytest.fixture
def served(repository: Path, state_url: str | None) -> Iterator[Running]:
    """A server of two workers, on SQLite and on PostgreSQL."""
    with Running(repository, "--workers", "2", state=state_url) as running:
        yield running


def contents(api: Api, memory: str) -> list[str]:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = ok(api.get(memory, "records", params={"limit": 200, **cursor}))
        found += [one["content"] for one in page["data"]]
        if page["next"] is None:
            return found
        cursor = {"cursor": page["next"]}


def test_a_restart_keeps_everything(served: Running) -> None:
    api = served.api()
    memory = api.create("Kept", restricted=True)
    key = {"Idempotency-Key": "before the restart"}
    first = api.post(memory, "records", json={"content": "Once."}, headers=key)
    ok(api.call("PUT", "/v1/harnesses/chrn_1/memories", json={"memories": [{"memory_id": memory, "access": "read"}]}))
    before = ok(api.get(memory))
    served.restart()
    api = served.api()
    assert ok(api.get(memory)) == before
    assert api.post(memory, "records", json={"content": "Once."}, headers=key).content == first.content
    assert contents(api, memory) == ["Once."]
    assert ok(api.get("/v1/harnesses/chrn_1/memories"))["memories"][0]["memory_id"] == memory
    assert served.stop() == 0


def test_killed_under_load(served: Running) -> None:
    """Every acknowledged write is there after the restart, none twice, and repeats finish what was cut off."""
    api = served.api()
    memories = [api.create(f"Load {number}") for number in range(2)]
    acknowledged: list[str] = []
    sent: list[tuple[str, str]] = []
    killed = threading.Event()

    def write(worker: int) -> None:
        with httpx.Client(base_url=served.url, timeout=60, trust_env=False) as client:
            mine = Api(client, served.key("person:ada"))
            for number in range(10_000):
                text = f"{worker} {number}"
                memory = memories[number % 2]
                sent.append((memory, text))
                try:
                    found = mine.post(
                        memory, "records", json={"content": text}, headers={"Idempotency-Key": f"load {text}"}
                    )
                except httpx.HTTPError:
                    return
                if killed.is_set() and found.status_code != 200:
                    return
                assert found.status_code == 200, found.text
                acknowledged.append(text)

    served.key("person:ada")
    threads = [threading.Thread(target=write, args=(worker,)) for worker in range(6)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 60:
        time.sleep(0.01)
    killed.set()
    for child in children(served.process.pid):
        signal_process(child, signal.SIGKILL)
    signal_process(served.process.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    served.restart()
    api = served.api()
    written = Counter(text for memory in memories for text in contents(api, memory))
    assert set(acknowledged) <= set(written)
    assert set(written.values()) == {1}
    assert set(written) <= {text for _, text in sent}
    # Whoever got no answer sends the same again.
    for memory, text in sent:
        headers = {"Idempotency-Key": f"load {text}"}
        assert ok(api.post(memory, "records", json={"content": text}, headers=headers))["content"] == text
    written = Counter(text for memory in memories for text in contents(api, memory))
    assert written == Counter({text for _, text in sent})
    assert run_hn(served.repository, "memory", "verify")["valid"]


def test_killed_between_the_ref_and_the_answer(repository: Path, tmp_path: Path) -> None:
    """The write took effect, its answer was never stored: a repeat gets it, and does not write again."""
    with Running(repository) as running:
        memory = running.api().create("Cut off")
        token = running.key("person:ada")
    body = b'{"content": "Once."}'
    code = f"""
import asyncio, os, signal
from hn_memory.uhp.server import Settings, open_server
from hn_memory.uhp.http.endpoint import Endpoint
from hn_memory.uhp.http.app import make_app
from hn_memory.uhp.state.idempotency import Ledger
Ledger.finish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
app = make_app(lambda: open_server(Settings(path={str(repository)!r})))
messages = [{{"type": "http.request", "body": {body!r}, "more_body": False}}]
async def receive(): return messages.pop() if messages else await asyncio.sleep(60)
async def send(message): print(message, flush=True)
path = "/v1/memories/{memory}/records"
scope = {{"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
    "root_path": "", "scheme": "http", "http_version": "1.1", "server": ("x", 1), "client": ("x", 1), "headers": [
    (b"authorization", b"Bearer {token}"), (b"idempotency-key", b"cut off")]}}
async def main():
    inner = app._app
    async with inner.router.lifespan_context(inner):
        await app(scope, receive, send)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL and not done.stdout, done.stderr
    with Running(repository) as running:
        api = running.api()
        api = Api(running.client, token)
        assert contents(api, memory) == ["Once."]
        url = f"/v1/memories/{memory}/records"
        headers = {**api.headers, "Idempotency-Key": "cut off"}
        repeats = [running.client.post(url, content=body, headers=headers) for _ in range(2)]
        assert ok(repeats[0]) == ok(repeats[1]) and repeats[0].json()["content"] == "Once."
        assert contents(api, memory) == ["Once."]


def test_two_servers_over_one_repository(served: Running, tmp_path: Path) -> None:
    """What one wrote, changed or took back, the other answers at once."""
    state = served.state
    second = Running.__new__(Running)
    second.__init__(served.repository, state=state)  # type: ignore[misc]
    with second:
        one = served.api()
        other = Api(second.client, served.key("person:ada"))
        memory = one.create("Shared")
        record = other.remember(memory, "By the other.")["id"]
        for number in range(10):
            writer, reader = (one, other) if number % 2 else (other, one)
            ok(writer.call("PATCH", memory, "records", record, json={"content": f"{number}"}))
            assert ok(reader.get(memory, "records", record))["content"] == f"{number}"
            assert ok(reader.get(memory))["records"]["count"] == 1
        one.grant(memory, "person:bea", "read")
        bea = Api(second.client, served.key("person:bea"))
        assert ok(bea.get(memory))["name"] == "Shared"
        with ThreadPoolExecutor(8) as pool:
            tasks = [pool.submit(lambda api=api, at=at: racing(api, memory, record, at)) for at in range(4)
                     for api in (one, other)]  # fmt: skip
            statuses = [task.result() for task in tasks]
        assert Counter(statuses) == {200: 1, 409: 7}
        key = {"Idempotency-Key": "over two"}
        body: Any = {"content": "Once."}
        with ThreadPoolExecutor(8) as pool:
            answers = list(
                pool.map(lambda api: api.post(memory, "records", json=body, headers=key).content, [one, other] * 6)
            )
        assert len(set(answers)) == 1
        assert sorted(contents(other, memory)).count("Once.") == 1
        ok(other.call("DELETE", memory))
        error(one.get(memory), 404, "memory_not_found")
    assert run_hn(served.repository, "memory", "verify")["valid"]


def racing(api: Api, memory: str, record: str, number: int) -> int:
    headers = {"If-Match": '"11"'}
    return api.call("PATCH", memory, "records", record, json={"content": f"race {number}"}, headers=headers).status_code


def test_a_worker_that_dies_is_replaced(served: Running) -> None:
    api = served.api()
    memory = api.create("Kept")
    time.sleep(5.5)  # a worker that ends as soon as it is started is not replaced
    signal_process(children(served.process.pid)[0], signal.SIGKILL)
    end = time.monotonic() + 20
    while len(children(served.process.pid)) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    assert len(children(served.process.pid)) == 2
    served.client.close()
    served.client = httpx.Client(base_url=served.url, timeout=60, trust_env=False)
    assert ok(served.api().get(memory))["name"] == "Kept"


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def signal_process(pid: int, number: int) -> None:
    import os

    os.kill(pid, number)
