"""A load generator for keep-alive HTTP/1.1: raw requests over sockets, so that it costs little beside the server.

Run as a process of its own: settings as JSON on standard input, figures as JSON on standard output.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any


class Client(asyncio.Protocol):
    """One connection that sends its next request when the answer to the last one is whole."""

    def __init__(self, plan: list[tuple[str, bytes]], done: asyncio.Future[None], end: float, seed: int) -> None:
        self.plan = plan
        self.done = done
        self.end = end
        self.random = random.Random(seed)
        self.reads: list[float] = []
        self.writes: list[float] = []
        self.failures: dict[str, int] = {}
        self.number = 0
        self.seed = seed
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.send()

    def send(self) -> None:
        self.number += 1
        kind, request = self.random.choice(self.plan)
        self.times = self.writes if kind == "write" else self.reads
        if b"@KEY@" in request:
            request = request.replace(b"@KEY@", b"%06d-%08d" % (self.seed, self.number))
        self.started = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if not found:
            return
        at = head.lower().index(b"content-length:") + 15
        length = int(head[at:].split(b"\r\n", 1)[0])
        if len(rest) < length:
            return
        self.times.append(time.perf_counter() - self.started)
        status = head[9:12].decode()
        if status != "200":
            key = f"{status} {rest[:200].decode(errors='replace')}"
            self.failures[key] = self.failures.get(key, 0) + 1
        self.buffer = rest[length:]
        if time.perf_counter() < self.end:
            self.send()
        else:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if time.perf_counter() < self.end:
            self.failures["connection lost"] = self.failures.get("connection lost", 0) + 1
        if not self.done.done():
            self.done.set_result(None)


async def run(task: dict[str, Any]) -> dict[str, Any]:
    """Drive the load for some seconds."""
    loop = asyncio.get_running_loop()
    plan = [(kind, request.encode("latin-1")) for kind, request in task["plan"]]
    clients: list[Client] = []
    start = time.perf_counter()
    for number in range(task["clients"]):
        client = Client(plan, loop.create_future(), start + task["seconds"], number + task["seed"])
        await loop.create_connection(lambda client=client: client, task["host"], task["port"])
        clients.append(client)
    await asyncio.gather(*(client.done for client in clients))
    taken = time.perf_counter() - start
    failures: dict[str, int] = {}
    for client in clients:
        for text, count in client.failures.items():
            failures[text] = failures.get(text, 0) + count
    return {
        "seconds": taken,
        "reads": [one for client in clients for one in client.reads],
        "writes": [one for client in clients for one in client.writes],
        "failures": failures,
    }


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.install()
    except ImportError:
        pass
    json.dump(asyncio.run(run(json.load(sys.stdin))), sys.stdout)
