"""What `hn help uhp` tells of calls and commands is done here as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from uhp_harness import COMMAND, Api, Running, ok

import hn_memory

PAGE = Path(hn_memory.__file__).parent / "help" / "uhp.md"
_ROW = re.compile(r"^\| `(GET|POST|PUT) (/v1/\S+)` \| (.*) \|$", re.MULTILINE)


def calls() -> list[tuple[str, str, str | None]]:
    """Method, path and body of each row of the table."""
    found = []
    for method, path, cell in _ROW.findall(PAGE.read_text()):
        body = re.fullmatch(r"`(\{.*\})`", cell)
        assert (body is None) == (method == "GET"), cell
        found.append((method, path, None if body is None else body[1]))
    return found


def test_the_calls_of_the_table(repository: Path) -> None:
    listed = calls()
    assert len(listed) == 10
    memory = ""
    with Running(repository) as running:
        api = Api(running.client, running.administrator_key)
        for method, path, body in listed:
            payload = None if body is None else json.loads(body.replace("{id}", memory))
            answer = ok(api.call(method, path.replace("{id}", memory), json=payload))
            memory = memory or answer["id"]
            if path.endswith("/recall"):
                assert [one["record"]["content"] for one in answer["results"]] == ["Acme renews in March."]


def test_a_record_is_retracted_by_hand(repository: Path) -> None:
    with Running(repository) as running:
        api = Api(running.client, running.administrator_key)
        memory = ok(api.post("/v1/memories", json={"name": "Sales"}))["id"]
        record = ok(api.post(f"/v1/memories/{memory}/records", json={"content": "Acme renews in March."}))["id"]

        def hn(*arguments: str) -> dict[str, object]:
            done = subprocess.run([*COMMAND, *arguments, "--json"], cwd=repository, capture_output=True, check=True)
            answer: dict[str, object] = json.loads(done.stdout)
            return answer

        (row,) = hn("memory", "recall", "--query", "renews", "--include-untrusted")["memories"]  # type: ignore[misc]
        envelope = hn("memory", "show", row["id"])["envelope"]
        assert isinstance(envelope, dict)
        hn("memory", "retract", row["id"], "--reason", "outdated", "--stream", envelope["stream"])
        assert ok(api.post(f"/v1/memories/{memory}/recall", json={"query": "Acme renews"}))["results"] == []
        assert ok(api.get(f"/v1/memories/{memory}/records/{record}"))["status"] == "forgotten"
