"""The eight published checks, each driving the server over HTTP with one credential."""

from __future__ import annotations

from typing import Any

import pytest
from uhp_harness import Api, Running, error, ok

UNKNOWN = "hmem_" + "0" * 32
NO_RECORD = "hrec_" + "0" * 32


@pytest.fixture
def api(running: Running) -> Api:
    return running.api("credential:suite")


@pytest.fixture
def memory(api: Api) -> str:
    return api.create("Sales", description="What the sales team knows.")


def provider(api: Api, memory: str) -> dict[str, Any]:
    name = ok(api.get(memory))["provider"]
    return next(one for one in ok(api.get("/v1/memories/providers"))["data"] if one["id"] == name)


def test_me_01_tree_and_listing(api: Api) -> None:
    created = ok(api.post("/v1/memories", json={"name": "Company", "description": "All of it."}))
    assert created["id"].startswith("hmem_") and len(created["id"]) == 37
    assert (created["object"], created["name"], created["description"]) == ("memory", "Company", "All of it.")
    assert created["parent_id"] is None and created["ancestors"] == [] and created["restricted"] is False
    assert created["privileges"] == ["read", "write", "create", "delete"]
    assert created["records"] == {"count": 0} and created["children"] == {"count": 0}
    assert isinstance(created["createdAt"], int) and created["createdAt"] > 10**12
    child = ok(api.post("/v1/memories", json={"name": "Sales", "parent_id": created["id"]}))
    assert child["parent_id"] == created["id"] and child["ancestors"] == [created["id"]]
    assert child["provider"] == created["provider"]
    grandchild = api.create("Acme", child["id"])
    assert ok(api.get(grandchild))["ancestors"] == [created["id"], child["id"]]
    listed = ok(api.get("/v1/memories", params={"parent": created["id"]}))
    assert listed["object"] == "list" and listed["next"] is None
    assert [one["id"] for one in listed["data"]] == [child["id"]]
    assert listed["data"][0]["children"] == {"count": 1}
    below = ok(api.get("/v1/memories", params={"ancestor": created["id"]}))
    assert [one["id"] for one in below["data"]] == [child["id"], grandchild]
    roots = ok(api.get("/v1/memories", params={"limit": 200}))["data"]
    assert created["id"] in [one["id"] for one in roots] and child["id"] not in [one["id"] for one in roots]
    error(api.get(UNKNOWN), 404, "memory_not_found")
    error(api.get("/v1/memories", params={"parent": UNKNOWN}), 404, "memory_not_found")


def test_me_02_a_stated_record_and_its_stamped_writer(api: Api, memory: str) -> None:
    forged = {"written_by": {"kind": "person", "id": "eve"}, "id": "hrec_x", "version": 9, "trust": "trusted"}
    record = api.remember(memory, "Acme renews in March.", attributes={"account": "acme"}, **forged)
    assert record["object"] == "memory.record" and record["memory_id"] == memory
    assert record["id"].startswith("hrec_") and record["content"] == "Acme renews in March."
    assert (record["type"], record["version"], record["supersedes"]) == ("fact", 1, None)
    assert record["written_by"] == {"kind": "credential", "id": "suite"}
    assert record["status"] == "active" and record["trust"] == "untrusted"
    assert record["attributes"] == {"account": "acme"}
    assert record["time"]["written_at"].endswith("Z") and record["time"]["invalidated_at"] is None
    got = ok(api.get(memory, "records", record["id"]))
    assert {name: got[name] for name in record} == record
    assert [one["id"] for one in ok(api.get(memory, "records"))["data"]] == [record["id"]]
    assert ok(api.get(memory))["records"] == {"count": 1}
    odd = api.remember(memory, "?", type="x.unheard.of", attributes={"deep": [{"a": None}]})
    assert (odd["type"], odd["attributes"]) == ("x.unheard.of", {"deep": [{"a": None}]})


def test_me_03_recall_on_one_memory_with_parent_and_children(api: Api, memory: str) -> None:
    child = api.create("Acme", memory, description="All about Acme.")
    api.remember(child, "The renewal is in March.")
    answer = api.recall(memory, query="renewal March")
    assert answer["results"] == [] and answer["abstain"] is True and answer["degraded"] == []
    assert "parent" not in answer
    assert answer["children"] == [
        {
            "id": child, "name": "Acme", "description": "All about Acme.", "records": {"count": 1},
            "children": {"count": 0}, "privileges": ["read", "write", "create", "delete"],
        }
    ]  # fmt: skip
    below = api.recall(child, query="renewal March")
    assert [one["record"]["content"] for one in below["results"]] == ["The renewal is in March."]
    assert below["results"][0]["record"]["trust"] == "untrusted" and below["results"][0]["why"] == ["query"]
    assert below["parent"]["id"] == memory and below["children"] == [] and below["abstain"] is False
    deep = api.recall(memory, query="renewal March", depth=1)
    assert [one["record"]["memory_id"] for one in deep["results"]] == [child]


def test_me_04_each_signal_as_declared(api: Api, memory: str) -> None:
    document = provider(api, memory)
    assert all(isinstance(document[name], dict) for name in ("observe", "recall", "history", "erase", "queries"))
    api.remember(memory, "Acme renews in March.", attributes={"account": "acme"})
    api.remember(memory, "Globex left in May.", attributes={"account": "globex"})
    signals = {
        "query": {"query": "when does acme renews?"},
        "text": {"text": "renews"},
        "filters": {"filters": {"and": [{"field": "attributes.account", "op": "eq", "value": "acme"}]}},
    }
    for name, question in signals.items():
        answer = api.recall(memory, **question)
        if name in document["recall"]["signals"]:
            assert answer["degraded"] == []
            assert answer["results"][0]["record"]["content"] == "Acme renews in March."
            assert name in answer["results"][0]["why"]
        else:
            assert f"{name}:not_supported" in answer["degraded"]
    capped = api.recall(memory, query="acme", depth=99)
    assert capped["degraded"] == [f"depth:capped_at_{document['recall']['max_depth']}"]
    error(api.post(memory, "recall", json={}), 422, "memory_invalid")
    for bad in ({"limit": 0}, {"limit": 101}, {"include": "some"}):
        error(api.post(memory, "recall", json={"query": "x", **bad}), 422, "memory_invalid")
    for filters in ({"field": "colour", "op": "eq", "value": 1}, {"field": "type", "op": "like", "value": "f"}):
        error(api.post(memory, "recall", json={"filters": filters}), 422, "memory_invalid")


def test_me_05_revision_and_history(api: Api, memory: str) -> None:
    record = api.remember(memory, "March.", attributes={"a": 1})
    revised = ok(api.call("PATCH", memory, "records", record["id"], json={"content": "April."}))
    assert (revised["id"], revised["version"], revised["supersedes"]) == (record["id"], 2, 1)
    assert revised["attributes"] == {"a": 1}
    again = ok(api.call("PATCH", memory, "records", record["id"], json={"content": "May.", "attributes": {}}))
    assert again["version"] == 3
    history = ok(api.get(memory, "records", record["id"], "history"))["data"]
    assert [(one["version"], one["content"]) for one in history] == [(1, "March."), (2, "April."), (3, "May.")]
    assert [one["status"] for one in history] == ["superseded", "superseded", "active"]
    as_of = {"as_of": revised["time"]["written_at"]}
    assert ok(api.get(memory, "records", record["id"], params=as_of))["content"] == "April."
    assert [one["content"] for one in ok(api.get(memory, "records", params=as_of))["data"]] == ["April."]
    recalled = api.recall(memory, text="april", **as_of)["results"]
    assert [one["record"]["version"] for one in recalled] == [2]
    assert api.recall(memory, text="april")["results"] == []


def test_me_06_a_record_is_refused_through_another_memory(api: Api, memory: str) -> None:
    other = api.create("Other")
    record = api.remember(memory, "Mine.")["id"]
    for method, body in (("GET", None), ("PATCH", {"content": "x"}), ("DELETE", None)):
        for name in (record, NO_RECORD):
            error(api.call(method, other, "records", name, json=body), 404, "memory_record_not_found")
    error(api.get(other, "records", record, "history"), 404, "memory_record_not_found")
    assert ok(api.post(other, "erase", json={"record_ids": [record]})) == {"erased": [], "unreachable": []}
    assert ok(api.get(memory, "records", record))["content"] == "Mine."


def test_me_07_forget_and_erase(api: Api, memory: str) -> None:
    kept, gone = api.remember(memory, "The kept one.")["id"], api.remember(memory, "The gone one.")["id"]
    forgotten = ok(api.call("DELETE", memory, "records", gone))
    assert forgotten["status"] == "forgotten" and forgotten["time"]["invalidated_at"] is not None
    assert ok(api.get(memory, "records", gone))["status"] == "forgotten"
    assert [one["id"] for one in ok(api.get(memory, "records"))["data"]] == [kept]
    assert [one["id"] for one in ok(api.get(memory, "records", params={"include": "all"}))["data"]] == [kept, gone]
    assert [one["record"]["id"] for one in api.recall(memory, text="one")["results"]] == [kept]
    everything = api.recall(memory, text="one", include="all")["results"]
    assert {one["record"]["id"] for one in everything} == {kept, gone}
    erased = ok(api.post(memory, "erase", json={"record_ids": [gone, NO_RECORD]}))
    assert erased["erased"] == [gone] and set(erased["unreachable"]) <= {gone}
    error(api.get(memory, "records", gone), 404, "memory_record_not_found")
    error(api.get(memory, "records", gone, "history"), 404, "memory_record_not_found")
    error(api.call("DELETE", memory, "records", gone), 404, "memory_record_not_found")
    assert [one["id"] for one in ok(api.get(memory, "records", params={"include": "all"}))["data"]] == [kept]


def test_me_08_moving_and_deleting(api: Api, memory: str) -> None:
    child = api.create("Child", memory)
    grandchild = api.create("Grandchild", child)
    for target in (memory, child, grandchild):
        error(api.call("PUT", memory, json={"parent_id": target}), 422, "memory_invalid")
    moved = ok(api.call("PUT", grandchild, json={"parent_id": memory, "name": "Moved"}))
    assert (moved["parent_id"], moved["name"], moved["ancestors"]) == (memory, "Moved", [memory])
    assert ok(api.call("PUT", child, json={"parent_id": None}))["parent_id"] is None
    ok(api.call("PUT", child, json={"parent_id": memory}))
    record = api.remember(child, "Soon gone.")["id"]
    deleted = ok(api.call("DELETE", memory))
    assert deleted["id"] == memory and deleted["deleted"] is True
    assert set(deleted["memories"]) == {memory, child, grandchild}
    for one in (memory, child, grandchild):
        error(api.get(one), 404, "memory_not_found")
    error(api.get(child, "records", record), 404, "memory_not_found")
