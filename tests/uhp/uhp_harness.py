"""A server as a process of its own, and a client that speaks to it over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from json import dumps
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx

from hn_memory import open_repository
from hn_memory.uhp.hn.provider import HnProvider
from hn_memory.uhp.provider import Together, one_by_one
from hn_memory.uhp.server import Settings, open_state
from hn_memory.uhp.state.keys import create_key

COMMAND = [sys.executable, "-c", "import sys; from hn_memory.cli.entry import main; sys.exit(main())"]


def make_repository(path: Path) -> Path:
    """A repository with one commit and an identity."""
    path.mkdir()
    for arguments in (("init", "-q", "-b", "main"), ("commit", "-q", "--allow-empty", "-m", "Start")):
        subprocess.run(["git", *arguments], cwd=path, check=True)
    with open_repository(path) as service:
        service.init("Ada")
    return path


def open_hn(path: Path, together: Together = one_by_one) -> HnProvider:
    reader, writer = open_repository(path).environment, open_repository(path).environment
    actor = reader.keyring.require_active().actor
    return HnProvider(reader, writer, actor, together=together)


class Answer:
    """An answer as `httpx.Response` shows it, as far as the tests look."""

    def __init__(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.status_code = status
        self.headers = headers
        self.content = content

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class PlainClient:
    """One connection of `http.client`: for thousands of requests, at a fifth of what httpx takes for each."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=60)

    def request(
        self, method: str, target: str, *, json: Any = None, params: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        if params:
            target += "?" + urlencode(params)
        body = None if json is None else dumps(json).encode()
        self._connection.request(method, target, body, headers or {})
        found = self._connection.getresponse()
        listed = {name.lower(): value for name, value in found.getheaders()}
        return Answer(found.status, listed, found.read())

    def close(self) -> None:
        self._connection.close()


class Api:
    """Requests of one key. A path without a slash is one of a memory: `api.get(memory, "records")`."""

    def __init__(self, client: httpx.Client, key: str | None) -> None:
        self.client = client
        self.headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def call(self, method: str, *path: str, json: Any = None, **options: Any) -> httpx.Response:
        target = path[0] if path[0].startswith("/") else "/".join(("/v1/memories", *path))
        headers = {**self.headers, **options.pop("headers", {})}
        return self.client.request(method, target, json=json, headers=headers, **options)

    def get(self, *path: str, **options: Any) -> httpx.Response:
        return self.call("GET", *path, **options)

    def post(self, *path: str, json: Any, **options: Any) -> httpx.Response:
        return self.call("POST", *path, json=json, **options)

    def create(self, name: str, parent: str | None = None, **fields: Any) -> str:
        """Create a memory; its id."""
        return str(ok(self.post("/v1/memories", json={"name": name, "parent_id": parent, **fields}))["id"])

    def remember(self, memory: str, content: str, **fields: Any) -> dict[str, Any]:
        """Remember a record; its document."""
        return ok(self.post(memory, "records", json={"content": content, **fields}))

    def recall(self, memory: str, **question: Any) -> dict[str, Any]:
        """Recall; the answer."""
        return ok(self.post(memory, "recall", json=question))

    def grant(self, memory: str, principal: str, *privileges: str) -> dict[str, Any]:
        """Grant privileges on a memory."""
        return ok(self.post(memory, "grants", json={"principal": principal, "privileges": list(privileges)}))


def ok(response: httpx.Response) -> dict[str, Any]:
    """The document of a success, which is always 200."""
    assert response.status_code == 200, (response.status_code, response.text)
    assert response.headers["uhp-version"] == "2026-10-04"
    document = response.json()
    assert isinstance(document, dict)
    return document


def error(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The error of a refusal."""
    assert response.status_code == status, (response.status_code, response.text)
    assert response.headers["uhp-version"] == "2026-10-04"
    found = response.json()["error"]
    assert set(found) == {"type", "code", "message", "param", "detail"}
    assert found["code"] == code, found
    return dict(found)


class Running:
    """`hn uhp serve` on a free port."""

    def __init__(self, repository: Path, *options: str, state: str | None = None) -> None:
        self.repository = repository
        self.state = state
        self.options = options
        self.keys: dict[tuple[str, ...], str] = {}
        self.administrator_key: str | None = None
        self.start()

    def start(self) -> None:
        arguments = ["uhp", "serve", "--port", "0", "--json", *self.options]
        if self.state is not None:
            arguments += ["--state", self.state]
        self.log = (self.repository.parent / "server.log").open("ab")
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], cwd=self.repository, stdout=subprocess.PIPE, stderr=self.log
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.repository.parent / "server.log").read_text()
        document = json.loads(line)
        self.url: str = document["url"]
        self.administrator_key = document.get("administratorKey", self.administrator_key)
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False)

    def key(self, principal: str, *privileges: str) -> str:
        """A key of a principal, made once."""
        if (principal, *privileges) not in self.keys:
            store = open_state(Settings(path=str(self.repository), state=self.state))
            made = create_key(store, principal, privileges or ("read", "write", "create", "delete"))
            store.close()
            self.keys[(principal, *privileges)] = made["key"]
        return self.keys[(principal, *privileges)]

    def api(self, principal: str = "person:ada", *privileges: str) -> Api:
        return Api(self.client, self.key(principal, *privileges))

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; the exit status."""
        self.client.close()
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        status = self.process.wait(30)
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        assert rest == b"", rest
        self.process.stdout.close()
        self.log.close()
        return status

    def restart(self, number: int = signal.SIGTERM) -> None:
        self.stop(number)
        self.start()

    def logs(self) -> str:
        return (self.repository.parent / "server.log").read_text()

    def __enter__(self) -> Running:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.client.is_closed:
            self.stop()


def run_hn(repository: Path, *arguments: str, stdin: bytes = b"") -> Any:
    """One `hn` command; the JSON document of its success."""
    done = subprocess.run([*COMMAND, *arguments, "--json"], cwd=repository, input=stdin, capture_output=True)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout)
