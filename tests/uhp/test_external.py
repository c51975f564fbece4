"""Streams that are written elsewhere, as memories: this actor's own by the command line, and those of others."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from uhp_harness import Api, Running, error, make_repository, ok, run_hn

from hn_memory import open_repository


def trust(path: Path, *actors: str) -> None:
    with open_repository(path) as service:
        service.policy_trust(actors, ["decision"])
    for arguments in (("add", ".hn"), ("commit", "-qm", "Trust")):
        subprocess.run(["git", *arguments], cwd=path, check=True)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[tuple[Running, Path, Api]]:
    path = make_repository(tmp_path / "project")
    run_hn(path, "memory", "record", "-k", "observation", "Written by hand.")
    with Running(path) as running:
        assert running.administrator_key is not None
        yield running, path, Api(running.client, running.administrator_key)


def below(api: Api, memory: str) -> list[dict[str, Any]]:
    return list(ok(api.get("/v1/memories", params={"parent": memory}))["data"])


def test_a_stream_of_the_command_line(world: tuple[Running, Path, Api]) -> None:
    _, path, api = world
    (root,) = [one for one in ok(api.get("/v1/memories"))["data"] if one["provider"] == "hn.repository"]
    (actor,) = below(api, root["id"])
    (stream,) = below(api, actor["id"])
    assert (actor["name"], stream["name"], stream["records"]) == ("Ada", "default", {"count": 1})
    (record,) = ok(api.get(stream["id"], "records"))["data"]
    actor_id = run_hn(path, "identity", "show")["identity"]["actor"]
    assert (record["type"], record["content"]) == ("x.hn.observation", "Written by hand.")
    assert record["written_by"] == {"kind": "actor", "id": actor_id}
    assert record["trust"] == "untrusted" and record["version"] == 1
    found = api.recall(stream["id"], query="what was written by hand?")
    assert [one["record"]["id"] for one in found["results"]] == [record["id"]]
    # What the command line does next is seen at once.
    memory_id = run_hn(path, "memory", "log")["entries"][0]["id"]
    assert record["id"] == "hrec_" + memory_id[7:39]
    run_hn(path, "memory", "supersede", memory_id, "-k", "decision", "Written again.")
    again = ok(api.get(stream["id"], "records", record["id"]))
    assert (again["version"], again["type"], again["content"]) == (2, "x.hn.decision", "Written again.")
    history = ok(api.get(stream["id"], "records", record["id"], "history"))["data"]
    assert [one["status"] for one in history] == ["superseded", "active"]


def test_it_is_read_only_and_granted_as_any_other(world: tuple[Running, Path, Api]) -> None:
    running, _, api = world
    (root,) = [one for one in ok(api.get("/v1/memories"))["data"] if one["provider"] == "hn.repository"]
    stream = below(api, below(api, root["id"])[0]["id"])[0]["id"]
    record = ok(api.get(stream, "records"))["data"][0]["id"]
    for found in (
        api.post(stream, "records", json={"content": "x"}),
        api.post(stream, "observe", json={"episodes": [{"content": "x"}]}),
        api.call("PATCH", stream, "records", record, json={"content": "x"}),
        api.call("DELETE", stream, "records", record),
        api.post(stream, "erase", json={"record_ids": [record]}),
        api.call("PUT", stream, json={"name": "x"}),
        api.call("DELETE", stream),
        api.post("/v1/memories", json={"name": "x", "parent_id": stream}),
        api.post("/v1/memories", json={"name": "x", "provider": "hn.repository"}),
    ):
        assert found.status_code == 422 and found.json()["error"]["code"] in ("memory_unsupported", "memory_invalid")
    bea = running.api("person:bea")
    error(bea.get(stream), 404, "memory_not_found")
    api.grant(stream, "person:bea", "read")
    assert [one["id"] for one in ok(bea.get("/v1/memories"))["data"]] == [stream]
    assert ok(bea.get(stream))["ancestors"] == []
    own = bea.create("Own")
    error(bea.call("PUT", own, json={"parent_id": stream}), 403, "memory_forbidden")


def test_of_others_what_the_policy_qualifies(world: tuple[Running, Path, Api], tmp_path: Path) -> None:
    _, path, api = world
    remote, clone = tmp_path / "remote.git", tmp_path / "clone"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    for arguments in (("remote", "add", "origin", str(remote)), ("push", "-q", "origin", "HEAD:main")):
        subprocess.run(["git", *arguments], cwd=path, check=True)
    subprocess.run(["git", "clone", "-q", "-b", "main", str(remote), str(clone)], check=True)
    bea = run_hn(clone, "init", "--name", "Bea")["identity"]["actor"]
    run_hn(clone, "memory", "record", "-k", "decision", "Decided by Bea.")
    run_hn(clone, "memory", "record", "-k", "observation", "Seen by Bea.")
    run_hn(clone, "sync")
    run_hn(path, "sync", "--no-push")
    (root,) = [one for one in ok(api.get("/v1/memories"))["data"] if one["provider"] == "hn.repository"]
    (actor,) = [one for one in below(api, root["id"]) if one["name"] == "Bea"]
    (stream,) = below(api, actor["id"])
    assert stream["records"] == {"count": 0}
    assert ok(api.get(stream["id"], "records", params={"include": "all"}))["data"] == []
    assert api.recall(stream["id"], query="bea")["results"] == []
    trust(path, bea)
    (record,) = ok(api.get(stream["id"], "records"))["data"]
    assert (record["content"], record["written_by"]["id"]) == ("Decided by Bea.", bea)
    assert [one["record"]["id"] for one in api.recall(stream["id"], text="bea")["results"]] == [record["id"]]
    assert ok(api.get(stream["id"]))["records"] == {"count": 1}


def test_a_lost_state_leaves_the_grants_ids_and_the_records(world: tuple[Running, Path, Api]) -> None:
    running, path, api = world
    memory = running.api().create("Kept in Git alone")
    running.api().remember(memory, "Still there.")
    (before,) = [one for one in ok(api.get("/v1/memories"))["data"] if one["provider"] == "hn.repository"]
    running.stop()
    shutil.rmtree(path / ".git" / "hn" / "uhp")
    running.keys.clear()
    running.start()
    assert running.administrator_key is not None
    again = Api(running.client, running.administrator_key)
    (root,) = [one for one in ok(again.get("/v1/memories"))["data"] if one["provider"] == "hn.repository"]
    assert root["id"] == before["id"]
    streams = below(again, below(again, root["id"])[0]["id"])
    contents = [one["content"] for stream in streams for one in ok(again.get(stream["id"], "records"))["data"]]
    assert sorted(contents) == ["Still there.\n\nUhp-Type: fact\nUhp-Written-By: person ada", "Written by hand."]
