"""Consolidation runs and snapshots over HTTP."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from uhp_harness import Api, Running, error, make_repository, ok, open_hn, run_hn

from hn_memory.uhp.consolidation import AUTHOR, Runs
from hn_memory.uhp.server import Settings, open_state
from hn_memory.uhp.values import Author, Change, Draft

OVER = {"valid_to": "2020-01-01T00:00:00Z"}


@pytest.fixture(scope="module")
def api(running: Running) -> Api:
    return running.api("person:ada")


def start(api: Api, memory: str, **body: Any) -> dict[str, Any]:
    queued = ok(api.post(memory, "consolidations", json=body))
    assert queued["object"] == "memory.consolidation" and queued["id"].startswith("hcon_")
    assert queued["status"] in ("queued", "running", "completed", "stopped") and queued["memory_id"] == memory
    return ended(api, memory, queued["id"])


def ended(api: Api, memory: str, run: str) -> dict[str, Any]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        document = ok(api.get(memory, "consolidations", run))
        if document["status"] not in ("queued", "running"):
            return document
        time.sleep(0.05)
    raise AssertionError("the run does not end")


def contents(api: Api, memory: str) -> list[str]:
    return [one["content"] for one in ok(api.get(memory, "records"))["data"]]


def filled(api: Api) -> tuple[str, list[str]]:
    """A memory with a pair that is near, one exact copy, one record that is over, and two that stand alone."""
    memory = api.create("Sales")
    said = (
        ("Acme renews in March.", {"attributes": {"account": "acme"}}), ("Acme renews in May.", {}),
        ("acme renews in march", {"attributes": {"sure": True}}), ("Acme renews in March.", {}),
        ("The offer stands.", {"time": OVER}), ("Acme renews in March.", {"type": "episode"}),
    )  # fmt: skip
    return memory, [api.remember(memory, content, **fields)["id"] for content, fields in said]


def test_a_run_and_its_reversal(running: Running, api: Api) -> None:
    memory, ids = filled(api)
    before = ok(api.get(memory, "records"))["data"]
    run = start(api, memory)
    assert run["status"] == "completed" and run["error"] == "" and run["trigger"] == "manual"
    assert run["changes"] == {"created": 0, "superseded": 1, "forgotten": 3}
    assert run["budget"] == {"limit": 1000, "unit": "records", "exhausted": False}
    assert run["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert run["written_by"] == {"kind": "consolidator", "id": "native"} and run["reverted"] is None
    assert run["read"]["episodes"] == 4 and run["read"]["through"] == before[3]["time"]["written_at"]
    assert run["started_at"] <= run["finished_at"] <= time.time() + 1
    assert contents(api, memory) == ["Acme renews in March.", "Acme renews in May.", "Acme renews in March."]

    merged = ok(api.get(memory, "records", ids[0]))
    assert (merged["version"], merged["written_by"]) == (2, run["written_by"])
    assert merged["attributes"] == {"account": "acme", "sure": True}
    assert [(one["rel"], one["record_id"]) for one in merged["references"]] == [
        ("derived_from", ids[2]), ("derived_from", ids[3]),
    ]  # fmt: skip
    first = ok(api.get(memory, "records", ids[0], "history"))["data"][0]
    assert first["written_by"] == {"kind": "person", "id": "ada"}

    changes = ok(api.get(memory, "consolidations", run["id"], "changes"))["data"]
    assert {(one["change"], one["record_id"], one["version"]) for one in changes} == {
        ("forgotten", ids[4], 1), ("superseded", ids[0], 2), ("forgotten", ids[2], 1), ("forgotten", ids[3], 1),
    }  # fmt: skip
    assert all(one["record"]["id"] == one["record_id"] and one["record"]["trust"] == "untrusted" for one in changes)
    page = ok(api.get(memory, "consolidations", run["id"], "changes", params={"limit": 3}))
    rest = ok(api.get(memory, "consolidations", run["id"], "changes", params={"cursor": page["next"]}))
    assert page["data"] + rest["data"] == changes and rest["next"] is None

    reverted = ok(api.call("POST", memory, "consolidations", run["id"], "revert"))
    assert reverted["reverted"]["restored"] == 4 and reverted["reverted"]["kept"] == []
    after = ok(api.get(memory, "records"))["data"]
    assert [(one["id"], one["content"], one["attributes"], one["status"]) for one in after] == [
        (one["id"], one["content"], one["attributes"], "active") for one in before
    ]
    assert [one["references"] for one in after] == [[]] * 6
    assert [one["version"] for one in after] == [3, 1, 2, 2, 2, 1]
    history = ok(api.get(memory, "records", ids[0], "history"))["data"]
    assert [(one["version"], one["status"], one["written_by"]["kind"]) for one in history] == [
        (1, "superseded", "person"), (2, "superseded", "consolidator"), (3, "active", "person"),
    ]  # fmt: skip
    assert ok(api.call("POST", memory, "consolidations", run["id"], "revert")) == reverted
    assert ok(api.get(memory, "records"))["data"] == after
    run_hn(running.repository, "memory", "verify")
    # Taken back, it is not done again before somebody changes it.
    assert start(api, memory)["changes"] == {"created": 0, "superseded": 0, "forgotten": 0}
    for record in (ids[0], ids[2]):
        ok(api.call("PATCH", memory, "records", record, json={"attributes": {}}))
    assert start(api, memory)["changes"] == {"created": 0, "superseded": 1, "forgotten": 1}


def test_runs_are_listed_newest_first_and_resume(api: Api) -> None:
    memory = api.create("Many")
    for at in range(6):
        for content in (f"Fact number {at}.", f"fact number {at}"):
            api.remember(memory, content)
    runs = [start(api, memory, budget={"limit": 5})]
    assert (runs[0]["status"], runs[0]["budget"]["exhausted"]) == ("stopped", True)
    assert runs[0]["changes"] == {"created": 0, "superseded": 2, "forgotten": 2}
    while runs[-1]["status"] == "stopped":
        runs.append(start(api, memory, budget={"limit": 5, "unit": "records"}))
        assert runs[-1]["read"]["through"] > runs[-2]["read"]["through"]
    assert len(runs) == 3 and runs[-1]["status"] == "completed"
    assert contents(api, memory) == [f"fact number {at}" for at in range(6)]
    listed = ok(api.get(memory, "consolidations", params={"limit": 2}))
    rest = ok(api.get(memory, "consolidations", params={"limit": 2, "cursor": listed["next"]}))
    assert [one["id"] for one in listed["data"] + rest["data"]] == [one["id"] for one in reversed(runs)]
    idle = ended(api, memory, ok(api.call("POST", memory, "consolidations"))["id"])
    assert idle["changes"] == {"created": 0, "superseded": 0, "forgotten": 0}


def test_a_revert_leaves_what_was_said_since(api: Api) -> None:
    memory, ids = filled(api)
    run = start(api, memory)
    ok(api.call("PATCH", memory, "records", ids[0], json={"content": "Acme renewed."}))
    ok(api.post(memory, "erase", json={"record_ids": [ids[2]]}))
    reverted = ok(api.call("POST", memory, "consolidations", run["id"], "revert"))["reverted"]
    assert reverted["restored"] == 2 and set(reverted["kept"]) == {ids[0], ids[2]}
    assert ok(api.get(memory, "records", ids[0]))["content"] == "Acme renewed."
    changes = ok(api.get(memory, "consolidations", run["id"], "changes"))["data"]
    assert next(one for one in changes if one["record_id"] == ids[2])["record"] is None


def test_who_may(running: Running, api: Api) -> None:
    memory, _ = filled(api)
    bob = running.api("person:bob")
    error(bob.post(memory, "consolidations", json={}), 404, "memory_not_found")
    api.grant(memory, "person:bob", "read")
    error(bob.post(memory, "consolidations", json={}), 403, "memory_forbidden")
    assert ok(bob.get(memory, "consolidations"))["data"] == []
    api.grant(memory, "person:bob", "read", "write")
    run = start(bob, memory)
    error(bob.call("POST", memory, "consolidations", run["id"], "revert"), 403, "memory_forbidden")
    other = api.create("Other")
    for path in (("consolidations", run["id"]), ("consolidations", run["id"], "changes")):
        error(api.get(other, *path), 404, "memory_run_not_found")
    error(api.call("POST", other, "consolidations", run["id"], "revert"), 404, "memory_run_not_found")
    for budget in ({"limit": 0}, {"limit": 1001}, {"limit": 1, "unit": "tokens"}):
        error(api.post(memory, "consolidations", json={"budget": budget}), 422, "memory_invalid")
    error(api.post(memory, "consolidations", json={"budget": 5}), 400, "invalid_input")


def test_a_repeat_is_the_first_run(api: Api) -> None:
    memory, _ = filled(api)
    key = {"Idempotency-Key": f"run-{memory}"}
    first = ok(api.post(memory, "consolidations", json={}, headers=key))
    ended(api, memory, first["id"])
    assert ok(api.post(memory, "consolidations", json={}, headers=key)) == first
    assert len(ok(api.get(memory, "consolidations"))["data"]) == 1


def test_busy_while_a_run_goes_on(running: Running, api: Api) -> None:
    """A run of another process, which lives: this one."""
    parent, memory = api.create("Parent"), api.create("Elsewhere")
    child = api.create("Child", parent)
    store = open_state(Settings(path=str(running.repository)))
    runs = Runs(store, lambda _: None)
    with store.writing() as connection:
        run = runs.queue(connection, child, 10)
    try:
        error(api.post(child, "consolidations", json={}), 409, "memory_busy")
        error(api.call("DELETE", parent), 409, "memory_busy")
        error(api.call("PUT", parent, json={"parent_id": memory}), 409, "memory_busy")
        error(api.call("POST", child, "consolidations", run["id"], "revert"), 409, "memory_busy")
    finally:
        runs.do(child, run["id"])
        store.close()
    assert ok(api.get(child, "consolidations", run["id"]))["status"] == "failed"
    ok(api.call("DELETE", parent))


def test_a_run_whose_process_was_killed_is_brought_to_an_end(tmp_path: Path) -> None:
    """It had announced a step: one that took effect counts, one that did not is not made up."""
    repository = make_repository(tmp_path / "project")
    with Running(repository) as server:
        api = server.api("person:ada")
        written, unwritten = filled(api), filled(api)
        runs = {}
        for memory, ids in (written, unwritten):
            run = start(api, memory, budget={"limit": 1})
            runs[memory] = (run["id"], ids)
        server.stop(signal.SIGKILL)
        provider = open_hn(repository)
        tokens: dict[str, str] = {unwritten[0]: "sha256:" + "0" * 64}
        provider.rewrite(
            written[0], [[Change(written[1][1], 1)]], AUTHOR, lambda token: tokens.__setitem__(written[0], token)
        )
        provider.close()
        # The rows as the killed process would have left them between a step and its note.
        state = next(repository.rglob("state.sqlite"))
        with sqlite3.connect(state) as database:
            for memory, (run, _) in runs.items():
                (text,) = database.execute("SELECT document FROM consolidation WHERE id = ?", (run,)).fetchone()
                held = json.loads(text)
                held["run"]["status"], held["token"] = "running", tokens[memory]
                database.execute(
                    "UPDATE consolidation SET status = 'running', document = ? WHERE id = ?", (json.dumps(held), run)
                )
        database.close()
        server.start()
        api = server.api("person:ada")
        run, ids = runs[written[0]]
        document = ended(api, written[0], run)
        assert document["status"] == "failed" and "ended" in document["error"]
        assert document["changes"]["forgotten"] == 2
        reverted = ok(api.call("POST", written[0], "consolidations", run, "revert"))["reverted"]
        assert reverted["restored"] == 2 and ok(api.get(written[0]))["records"] == {"count": 6}
        assert ended(api, unwritten[0], runs[unwritten[0]][0])["changes"]["forgotten"] == 1
        assert start(api, unwritten[0])["status"] == "completed"


def test_runs_begin_by_themselves_where_there_is_something_to_do(tmp_path: Path) -> None:
    with Running(make_repository(tmp_path / "project"), "--consolidate", "0.0002") as server:
        api = server.api("person:ada")
        idle = api.create("Idle")
        api.remember(idle, "Alone.")
        memory = api.create("Due")
        ids = [api.remember(memory, "Said twice.")["id"], api.remember(memory, "said twice")["id"]]
        until = time.monotonic() + 60
        runs: list[dict[str, Any]] = []
        while not runs and time.monotonic() < until:
            time.sleep(0.1)
            runs = ok(api.get(memory, "consolidations"))["data"]
        run = ended(api, memory, runs[0]["id"])
        assert (run["trigger"], run["status"]) == ("schedule", "completed")
        assert run["changes"] == {"created": 0, "superseded": 1, "forgotten": 1}
        ok(api.call("POST", memory, "consolidations", run["id"], "revert"))
        time.sleep(2.5)
        assert len(ok(api.get(memory, "consolidations"))["data"]) == 1
        assert ok(api.get(idle, "consolidations"))["data"] == []
        assert [one["id"] for one in ok(api.get(memory, "records"))["data"]] == ids


def test_rewrite_is_whole_groups_on_what_stands(tmp_path: Path) -> None:
    provider = open_hn(make_repository(tmp_path / "project"))
    memory, ada = "hmem_" + "1" * 32, Author("person", "ada")
    one, two, three = (v.record_id for v in provider.remember(memory, [Draft(text) for text in "abc"], ada))
    groups = [
        [Change(one, 1, Draft("A")), Change(two, 1)],
        [Change(three, 1), Change(one, 1)],  # `one` is taken
        [Change(three, 2)],
        [Change(three, 1, status="forgotten")],
    ]
    written = provider.rewrite(memory, groups, AUTHOR)
    assert [(v.record_id, v.number, v.status, v.content) for v in written] == [
        (one, 2, "active", "A"), (two, 1, "forgotten", "b"),
    ]  # fmt: skip
    assert provider.rewrite(memory, groups, AUTHOR) == []
    back = provider.rewrite(memory, [[Change(two, 1, Draft("b"), "forgotten")]], ada)
    assert [(v.number, v.status) for v in back] == [(2, "active")]
    assert provider.extent(memory).count == 3
    provider.close()


# -- snapshots --------------------------------------------------------------------------------------------


def test_a_snapshot_is_an_instant(running: Running, api: Api) -> None:
    memory = api.create("Story")
    record = api.remember(memory, "Before.")["id"]
    first = ok(api.post(memory, "snapshots", json={"name": "first", "message": "As it was."}))
    assert first["object"] == "memory.snapshot" and first["memory_id"] == memory
    assert (first["name"], first["message"]) == ("first", "As it was.")
    ok(api.call("PATCH", memory, "records", record, json={"content": "After."}))
    api.remember(memory, "More.")
    second = ok(api.post(memory, "snapshots", json={"name": "first"}))
    assert second["id"] != first["id"] and second["message"] == ""
    ok(api.call("DELETE", memory, "records", record))

    def at(snapshot: dict[str, Any]) -> list[str]:
        listed = ok(api.get(memory, "records", params={"as_of": snapshot["at"]}))["data"]
        recalled = api.recall(memory, text="before", as_of=snapshot["at"])["results"]
        assert len(recalled) == (snapshot is first)
        return [one["content"] for one in listed]

    assert at(first) == ["Before."] and at(second) == ["After.", "More."] and contents(api, memory) == ["More."]
    listed = ok(api.get(memory, "snapshots", params={"limit": 1}))
    rest = ok(api.get(memory, "snapshots", params={"cursor": listed["next"]}))
    assert listed["data"] + rest["data"] == [first, second] and rest["next"] is None


def test_who_may_name_an_instant(running: Running, api: Api) -> None:
    memory = api.create("Named")
    bob = running.api("person:rob")
    error(bob.post(memory, "snapshots", json={"name": "x"}), 404, "memory_not_found")
    api.grant(memory, "person:rob", "read")
    error(bob.post(memory, "snapshots", json={"name": "x"}), 403, "memory_forbidden")
    assert ok(bob.get(memory, "snapshots"))["data"] == []
    for bad in ({"name": ""}, {"name": "a\nb"}, {"name": "x" * 513}):
        error(api.post(memory, "snapshots", json=bad), 422, "memory_invalid")
    error(api.post(memory, "snapshots", json={}), 400, "invalid_input")
    key = {"Idempotency-Key": "snap"}
    first = ok(api.post(memory, "snapshots", json={"name": "x"}, headers=key))
    assert ok(api.post(memory, "snapshots", json={"name": "x"}, headers=key)) == first
