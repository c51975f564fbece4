"""Section 8: types of records, their operations, and observing later."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from uhp_harness import Api, Running, error, make_repository, ok, run_hn

from hn_memory.errors import HnError
from hn_memory.uhp.types import read_types

TYPES = {
    "types": [
        {
            "type": "x.calendar.event",
            "description": "A meeting.",
            "schema": {"type": "object", "properties": {"starts_at": {"type": "string"}}},
            "operations": [
                {
                    "name": "reschedule",
                    "description": "Move it.",
                    "input": {
                        "type": "object",
                        "properties": {"starts_at": {"type": "string"}},
                        "required": ["starts_at"],
                    },
                    "requires": "write",
                },
                {"name": "when", "input": {"type": "object"}, "requires": "read", "sets": ["starts_at"]},
            ],
        }
    ]
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("types")
    (folder / "types.json").write_text(json.dumps(TYPES))
    path = make_repository(folder / "project")
    run_hn(path, "memory", "record", "-k", "observation", "Written by hand.")
    with Running(path, "--types", str(folder / "types.json"), "--observe-later") as server:
        yield server


def test_types_are_listed(running: Running) -> None:
    listed = {one["type"]: one for one in ok(running.api().get("/v1/memories/types"))["data"]}
    assert {name for name, one in listed.items() if one["core"]} == {"episode", "fact", "note", "procedure", "link"}
    assert {name for name in listed if name.startswith("x.hn.")} == {
        f"x.hn.{kind}" for kind in ("assumption", "attempt", "decision", "handoff", "observation", "verification")
    }
    assert [one["name"] for one in listed["x.hn.decision"]["operations"]] == ["challenge"]
    assert [one["name"] for one in listed["x.calendar.event"]["operations"]] == ["reschedule", "when"]
    assert all(set(one) == {"type", "core", "description", "schema", "text", "operations"} for one in listed.values())


def test_operations_of_a_configured_type(running: Running) -> None:
    api = running.api()
    memory = api.create("Calendar")
    event = api.remember(memory, "Review", type="x.calendar.event", attributes={"starts_at": "nine", "room": 4})["id"]

    def operate(of: Api, name: str, **values: Any) -> Any:
        return of.post(memory, "records", event, "operations", name, json={"input": values})

    moved = ok(operate(api, "reschedule", starts_at="ten"))
    assert moved["name"] == "reschedule" and moved["result"]["record"]["version"] == 2
    assert moved["result"]["record"]["attributes"] == {"starts_at": "ten", "room": 4}
    assert ok(operate(api, "when")) == {"name": "when", "result": {"starts_at": "ten"}}
    error(operate(api, "reschedule"), 422, "memory_invalid")
    error(operate(api, "reschedule", starts_at=1), 422, "memory_invalid")
    error(operate(api, "explode"), 422, "memory_unsupported")
    bea = running.api("person:bea")
    error(operate(bea, "when"), 404, "memory_not_found")
    api.grant(memory, "person:bea", "read")
    assert ok(operate(bea, "when"))["result"] == {"starts_at": "ten"}
    error(operate(bea, "reschedule", starts_at="x"), 403, "memory_forbidden")
    fact = api.remember(memory, "No event.")["id"]
    error(api.post(memory, "records", fact, "operations", "when", json={}), 422, "memory_unsupported")


def test_challenging_what_is_written_elsewhere(running: Running) -> None:
    assert running.administrator_key is not None
    api = Api(running.client, running.administrator_key)
    (root,) = [one for one in ok(api.get("/v1/memories"))["data"] if one["provider"] == "hn.repository"]
    (actor,) = ok(api.get("/v1/memories", params={"parent": root["id"]}))["data"]
    (stream,) = ok(api.get("/v1/memories", params={"parent": actor["id"]}))["data"]
    (record,) = ok(api.get(stream["id"], "records"))["data"]
    path = (stream["id"], "records", record["id"], "operations", "challenge")
    done = ok(api.post(*path, json={"input": {"reason": "not-measured"}}))
    (entry,) = [
        one for one in run_hn(running.repository, "memory", "log")["entries"] if one["operation"] == "challenge"
    ]
    assert (entry["id"], entry["reason"]) == (done["result"]["memoryId"], "not-measured")
    assert ok(api.get(stream["id"], "records", record["id"]))["version"] == 1
    error(api.post(*path, json={"input": {"reason": "Not A Token"}}), 422, "memory_invalid")
    error(api.post(*path, json={"input": {}}), 422, "memory_invalid")


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"types": {}},
        {"types": [{"type": "fact"}]},
        {"types": [{"type": "x.hn.decision"}]},
        {"types": [{"type": "x.y", "schema": {"$ref": "#"}}]},
        {"types": [{"type": "x.y", "operations": [{"name": "a b"}]}]},
        {"types": [{"type": "x.y", "operations": [{"name": "a", "requires": "delete"}]}]},
        {"types": [{"type": "x.y", "operations": [{"name": "a", "sets": [1]}]}]},
    ],
)
def test_unusable_files(tmp_path: Path, value: Any) -> None:
    (tmp_path / "types.json").write_text(json.dumps(value))
    with pytest.raises(HnError) as caught:
        read_types(str(tmp_path / "types.json"))
    assert caught.value.code == "types-invalid" and str(tmp_path) not in caught.value.message


# -- observing later --------------------------------------------------------------------------------------


def finished(api: Api, memory: str, job: str) -> dict[str, Any]:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = ok(api.get(memory, "jobs", job))
        if found["status"] != "pending":
            return found
        time.sleep(0.02)
    raise AssertionError("the job did not end")


def test_observe_answers_at_once_and_the_job_tells_the_rest(running: Running) -> None:
    api = running.api()
    memory = api.create("Later")
    key = {"Idempotency-Key": f"later {memory}"}
    body = {"episodes": [{"content": "asked"}, {"content": "answered", "attributes": {"turn": 1}}]}
    answers = [api.post(memory, "observe", json=body, headers=key) for _ in range(2)]
    assert [one.status_code for one in answers] == [202, 202] and answers[0].content == answers[1].content
    taken = answers[0].json()
    assert taken["data"] == [] and taken["job"]["status"] == "pending"
    done = finished(api, memory, taken["job"]["id"])
    assert (done["object"], done["status"]) == ("memory.job", "completed")
    assert [(one["content"], one["type"], one["attributes"]) for one in done["data"]] == [
        ("asked", "episode", {}), ("answered", "episode", {"turn": 1}),
    ]  # fmt: skip
    assert ok(api.get(memory))["records"] == {"count": 2}
    error(api.get(memory, "jobs", "hjob_0"), 404, "memory_job_not_found")
    error(api.get(api.create("Other"), "jobs", taken["job"]["id"]), 404, "memory_job_not_found")
    error(running.api("person:bea").get(memory, "jobs", taken["job"]["id"]), 404, "memory_not_found")


def test_a_job_that_cannot_be_done_says_so(running: Running) -> None:
    api = running.api()
    memory = api.create("Later")
    taken = api.post(memory, "observe", json={"episodes": [{"content": "x" * 66_000}]}).json()
    failed = finished(api, memory, taken["job"]["id"])
    assert failed["status"] == "failed" and failed["data"] == [] and "bytes" in failed["error"]


def test_jobs_of_a_killed_server_are_done_by_the_next(repository: Path) -> None:
    with Running(repository, "--observe-later") as running:
        api = running.api()
        memory = api.create("Later")
        jobs = [
            api.post(memory, "observe", json={"episodes": [{"content": f"{number} {at}"} for at in range(40)]}).json()
            for number in range(12)
        ]
        os.kill(running.process.pid, signal.SIGKILL)
        running.restart()
        api = running.api()
        for taken in jobs:
            assert len(finished(api, memory, taken["job"]["id"])["data"]) == 40
        assert ok(api.get(memory))["records"] == {"count": 480}
