"""Section 1 of the settled page: what holds on every request, and the limits of a body."""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from uhp_harness import Api, Running, error, ok


@pytest.fixture
def api(running: Running) -> Api:
    return running.api()


@pytest.fixture
def memory(api: Api) -> str:
    return api.create("Notes")


def raw(running: Running, method: str, path: str, body: bytes = b"", **headers: str) -> httpx.Response:
    sent = {"Authorization": f"Bearer {running.key('person:ada')}", **headers}
    return running.client.request(method, path, content=body, headers=sent)


def test_credentials(running: Running, api: Api) -> None:
    for headers in ({}, {"Authorization": "Basic abc"}, {"Authorization": "Bearer"}, {"Authorization": "Token x"}):
        found = running.client.get("/v1/memories", headers=headers)
        assert error(found, 401, "missing_credential")["type"] == "authentication_error"
        assert found.headers["www-authenticate"] == "Bearer"
    wrong = running.client.get("/v1/memories", headers={"Authorization": "Bearer hnk_wrong"})
    assert error(wrong, 401, "invalid_credential")["type"] == "authentication_error"
    assert ok(running.client.get("/v1/uhp"))["object"] == "uhp.discovery"
    # The credential comes before everything that the body says.
    error(running.client.post("/v1/memories", content=b"{"), 401, "missing_credential")


def test_versions(running: Running, api: Api) -> None:
    assert api.get("/v1/memories", headers={"UHP-Version": "2026-10-04"}).headers["uhp-version"] == "2026-10-04"
    for path in ("/v1/memories", "/v1/uhp", "/v1/memories/hmem_x"):
        found = error(api.get(path, headers={"UHP-Version": "2025-01-01"}), 400, "unsupported_protocol_version")
        assert found["detail"] == {"supported": ["2026-10-04"]} and found["param"] == "UHP-Version"


def test_discovery(api: Api) -> None:
    found = ok(api.get("/v1/uhp"))
    assert (found["protocol"], found["versions"], found["default_version"]) == ("uhp", ["2026-10-04"], "2026-10-04")
    assert {name for name, value in found["capabilities"].items() if value} == {"memories", "idempotency"}
    assert all(isinstance(value, bool) for value in found["capabilities"].values())
    assert found["implementation"]["name"] == "hn-memory" and "class" not in json.dumps(found)


def test_paths_that_are_none(api: Api) -> None:
    error(api.get("/v1/nothing"), 404, "route_not_found")
    found = api.call("PATCH", "/v1/memories", json={})
    error(found, 405, "method_not_allowed")
    assert "GET" in found.headers["allow"] or "POST" in found.headers["allow"]


BAD_BODIES: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "two values": b"{} {}",
    "malformed UTF-8": b'{"name": "\xff"}',
    "overlong UTF-8": b'{"name": "\xc0\xaf"}',
    "half of a surrogate pair": b'{"name": "\\ud800"}',
    "the other half as a name": b'{"name": "x", "\\udc00": 1}',
    "a byte order mark": b'\xef\xbb\xbf{"name": "x"}',
    "NaN": b'{"name": "x", "restricted": NaN}',
    "Infinity": b'{"name": "x", "more": -Infinity}',
    "a large integer": b'{"name": "x", "more": 9223372036854775808}',
    "a very large integer": b'{"name": "x", "more": 1' + b"0" * 100_000 + b"}",
    "a large fraction": b'{"name": "x", "more": 1e999}',
    "deep lists": b'{"name": "x", "more": ' + b"[" * 40 + b"]" * 40 + b"}",
    "very deep lists": b'{"name": "x", "more": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
    "deep objects": b'{"name": "x", "more": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
    "unclosed depth": b"[" * 500_000,
    "a list": b"[]",
    "a number for a name": b'{"name": 1}',
    "no name": b"{}",
    "a field twice": b'{"name": "x", "description": "a", "description": "b"}',
    "a field of attributes twice": b'{"name": "x", "more": [{"a": {"b": 1, "b": 1}}]}',
    "null for a name": b'{"name": null}',
    "a text for a flag": b'{"name": "x", "restricted": "true"}',
    "a field twice among very many": b"{%s}" % b",".join(b'"%d":0' % (at % 79_999) for at in range(80_000)),
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_malformed_bodies(running: Running, name: str) -> None:
    found = error(raw(running, "POST", "/v1/memories", BAD_BODIES[name]), 400, "invalid_input")
    assert found["type"] == "invalid_request_error" and "Traceback" not in found["message"]


def test_what_is_named_twice_or_is_none_of_ours(running: Running, api: Api, memory: str) -> None:
    found = error(raw(running, "POST", "/v1/memories", BAD_BODIES["a field twice"]), 400, "invalid_input")
    assert (found["param"], found["message"]) == ("description", 'an object of the body names "description" twice')
    for target, param in (
        ("/v1/memories?limt=3", "limt"),
        (f"/v1/memories/{memory}?as_of=2026-01-01T00:00:00Z", "as_of"),
        (f"/v1/memories/{memory}/records?limit=3&limit=4", "limit"),
    ):
        found = error(api.get(target), 400, "invalid_input")
        assert found["param"] == param and f'"{param}"' in found["message"]
    # Unknown fields of a body are ignored, as the protocol says.
    assert api.remember(memory, "x", written_by={"kind": "person", "id": "eve"}, more=1)["written_by"]["id"] == "ada"


def test_refusals_speak_of_what_was_sent(api: Api, memory: str) -> None:
    for body, wanted in (
        ({"content": 1}, "content: it should be a text, or an object that names a file"),
        ({}, "content: it must be given"),
        ({"content": "x", "references": [{"memory_id": 1}]}, "references.0.memory_id: it should be a text"),
    ):
        assert error(api.post(memory, "records", json=body), 400, "invalid_input")["message"] == wanted
    query = {
        "description": "d", "requires": "read", "language": "sql", "body": "SELECT record_id FROM record",
        "params": {"type": "object", "properties": {"n": {"type": "integer"}, "c": {"enum": ["a", "b"]}}},
    }  # fmt: skip
    ok(api.call("PUT", memory, "queries", "worded", json=query))
    for params, wanted in (
        ({"n": "x"}, "params.n must be of type integer"),
        ({"c": 1}, 'params.c must be one of "a", "b"'),
    ):
        found = error(api.post(memory, "queries", "worded", json={"params": params}), 422, "memory_invalid")
        assert found["message"] == wanted


def test_large_bodies(running: Running, api: Api, memory: str) -> None:
    for size in (1_048_577, 5_000_000):
        error(raw(running, "POST", "/v1/memories", b"x" * size), 413, "input_too_large")

    def chunks() -> Any:
        for _ in range(40):
            yield b"x" * 65_536

    sent = {"Authorization": f"Bearer {running.key('person:ada')}"}
    found = running.client.post("/v1/memories", content=chunks(), headers=sent)
    error(found, 413, "input_too_large")
    body = json.dumps({"name": "x", "more": "y" * 1_000_000}).encode()
    assert raw(running, "POST", "/v1/memories", body.ljust(1_048_576)).status_code == 200
    error(api.post(memory, "records", json={"content": "x" * 65_536}), 422, "memory_invalid")
    assert len(api.remember(memory, "x" * 60_000)["content"]) == 60_000


def test_values_out_of_bounds(api: Api, memory: str) -> None:
    for body in (
        {"name": ""},
        {"name": "  "},
        {"name": "a\x00b"},
        {"name": "x" * 513},
        {"name": "x", "provider": "no"},
    ):
        error(api.post("/v1/memories", json=body), 422, "memory_invalid")
    error(api.post(memory, "records", json={"content": ""}), 422, "memory_invalid")
    error(api.post(memory, "records", json={"content": 1}), 400, "invalid_input")
    error(api.post(memory, "records", json={"content": {"file": {"id": "x"}}}), 404, "file_not_found")
    error(api.post(memory, "records", json={"content": "x", "time": {"valid_from": "soon"}}), 400, "invalid_input")
    reversed_times = {"valid_from": "2026-02-01T00:00:00Z", "valid_to": "2026-01-01T00:00:00Z"}
    error(api.post(memory, "records", json={"content": "x", "time": reversed_times}), 422, "memory_invalid")
    error(api.post(memory, "observe", json={"episodes": []}), 422, "memory_invalid")
    error(api.post(memory, "observe", json={}), 400, "invalid_input")
    for name, value, status in (("limit", "0", 422), ("limit", "x", 400), ("limit", "201", 422), ("as_of", "x", 400),
                                ("include", "some", 422), ("cursor", "!", 400), ("cursor", "eA", 400)):  # fmt: skip
        found = api.get(memory, "records", params={name: value})
        error(found, status, "invalid_input" if status == 400 else "memory_invalid")
    record = api.remember(memory, "x")["id"]
    error(api.call("PATCH", memory, "records", record, json={}), 422, "memory_invalid")


def test_credentials_of_others_are_not_signed(api: Api, memory: str) -> None:
    found = error(api.post(memory, "records", json={"content": "key AKIAZ7QWERTY12345678 x"}), 422, "memory_invalid")
    assert "AKIAZ7" not in found["message"]


def test_pages_cover_each_listing_once(api: Api) -> None:
    root = api.create("Root")
    children = [api.create(f"Child {number}", root) for number in range(7)]
    for query in ({"parent": root}, {"ancestor": root}):
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = ok(api.get("/v1/memories", params={**query, "limit": 3, **cursor}))
            seen += [one["id"] for one in page["data"]]
            if page["next"] is None:
                break
            assert len(page["data"]) == 3
            cursor = {"cursor": page["next"]}
        assert seen == children
    records = [api.remember(root, f"Record {number}")["id"] for number in range(7)]
    seen, cursor = [], {}
    while True:
        page = ok(api.get(root, "records", params={"limit": 3, **cursor}))
        seen += [one["id"] for one in page["data"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == records


# -- idempotency ------------------------------------------------------------------------------------------


def test_a_repeat_gets_the_first_answer(running: Running, api: Api, memory: str) -> None:
    key = {"Idempotency-Key": "once"}
    first = api.post(memory, "records", json={"content": "Once."}, headers=key)
    again = api.post(memory, "records", json={"content": "Once."}, headers=key)
    assert ok(first) == ok(again) and first.content == again.content
    assert len(ok(api.get(memory, "records"))["data"]) == 1
    found = api.post(memory, "records", json={"content": "Other."}, headers=key)
    assert error(found, 422, "memory_invalid")["param"] == "Idempotency-Key"
    other = Api(running.client, running.key("person:bea"))
    error(other.post(memory, "records", json={"content": "Once."}, headers=key), 404, "memory_not_found")


def test_each_kind_of_write_takes_a_key(api: Api, memory: str) -> None:
    record = api.remember(memory, "One.")["id"]
    calls: list[tuple[str, tuple[str, ...], Any]] = [
        ("POST", ("/v1/memories",), {"name": "Twice?"}),
        ("PUT", (memory,), {"name": "Renamed"}),
        ("POST", (memory, "observe"), {"episodes": [{"content": "a"}, {"content": "b"}]}),
        ("PATCH", (memory, "records", record), {"content": "Two."}),
        ("POST", (memory, "grants"), {"principal": "person:bea", "privileges": ["read"]}),
        ("PUT", ("/v1/harnesses/chrn_9/memories",), {"memories": [{"memory_id": memory, "access": "read"}]}),
        ("POST", (memory, "erase"), {"record_ids": [record]}),
        ("DELETE", (memory,), None),
    ]
    for number, (method, path, body) in enumerate(calls):
        key = {"Idempotency-Key": f"kind {number} {memory}"}
        answers = [api.call(method, *path, json=body, headers=key) for _ in range(3)]
        assert [ok(answer) for answer in answers] == [answers[0].json()] * 3, path
    error(api.get(memory), 404, "memory_not_found")


def test_a_refusal_is_an_answer_too(api: Api, memory: str) -> None:
    key = {"Idempotency-Key": f"refused {memory}"}
    missing = "hrec_" + "0" * 32
    for _ in range(2):
        found = api.call("PATCH", memory, "records", missing, json={"content": "x"}, headers=key)
        error(found, 404, "memory_record_not_found")
    key = {"Idempotency-Key": f"refused too {memory}"}
    for _ in range(2):
        error(api.call("PUT", memory, json={"parent_id": memory}, headers=key), 422, "memory_invalid")


@pytest.mark.parametrize(("key", "status"), [("", 400), ("x" * 256, 422), ("x" * 255, 200)])
def test_forms_of_keys(api: Api, memory: str, key: str, status: int) -> None:
    found = api.post(memory, "records", json={"content": "x"}, headers={"Idempotency-Key": key})
    assert found.status_code == status


def test_repeats_at_the_same_moment_wait_for_the_first(running: Running, api: Api, memory: str) -> None:
    def send(number: int) -> bytes:
        body = {"episodes": [{"content": f"{number} {at}"} for at in range(20)]}
        with httpx.Client(base_url=running.url, timeout=60, trust_env=False) as client:
            mine = Api(client, running.key("person:ada"))
            found = mine.post(memory, "observe", json=body, headers={"Idempotency-Key": f"{memory} {number}"})
            assert found.status_code == 200, found.text
            return found.content

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(send, [number % 3 for number in range(24)]))
    for number in range(3):
        assert len({answers[at] for at in range(number, 24, 3)}) == 1
    assert ok(api.get(memory))["records"]["count"] == 60


# -- If-Match ---------------------------------------------------------------------------------------------


def test_if_match(api: Api, memory: str) -> None:
    made = api.post(memory, "records", json={"content": "One."})
    record = ok(made)["id"]
    assert made.headers["etag"] == '"1"'
    for value in ('"1"', "2", "*"):
        headers = {"If-Match": value}
        assert ok(api.call("PATCH", memory, "records", record, json={"content": value}, headers=headers))
    for method, body in (("PATCH", {"content": "x"}), ("DELETE", None)):
        found = api.call(method, memory, "records", record, json=body, headers={"If-Match": '"1"'})
        assert error(found, 409, "memory_conflict")["detail"] == {"version": 4}
    now = ok(api.get(memory, "records", record))
    assert (now["version"], now["content"], now["status"]) == (4, "*", "active")
    bad = api.call("DELETE", memory, "records", record, headers={"If-Match": "now"})
    error(bad, 400, "invalid_input")


def test_of_racing_patches_one_wins_and_the_others_are_told(running: Running, api: Api, memory: str) -> None:
    record = api.remember(memory, "One.")["id"]

    def revise(number: int) -> int:
        with httpx.Client(base_url=running.url, timeout=60, trust_env=False) as client:
            mine = Api(client, running.key("person:ada"))
            headers = {"If-Match": '"1"'}
            return mine.call(
                "PATCH", memory, "records", record, json={"content": f"by {number}"}, headers=headers
            ).status_code

    with ThreadPoolExecutor(10) as pool:
        statuses = list(pool.map(revise, range(10)))
    assert sorted(statuses) == [200] + [409] * 9
    assert len(ok(api.get(memory, "records", record, "history"))["data"]) == 2


# -- references -------------------------------------------------------------------------------------------


def test_references_are_resolved_with_the_readers_privileges(running: Running, api: Api, memory: str) -> None:
    private = api.create("Private", restricted=True)
    source = api.remember(private, "The source.")["id"]
    reference = {"rel": "derived_from", "memory_id": private, "record_id": source}
    nowhere = {"rel": "about", "memory_id": "hmem_" + "0" * 32, "record_id": "hrec_" + "0" * 32}
    record = api.remember(memory, "Shared.", references=[reference, nowhere])
    hidden = [{**{name: one[name] for name in ("memory_id", "record_id")}, "available": False}
              for one in (reference, nowhere)]  # fmt: skip
    assert record["references"] == [{**reference, "available": True}, hidden[1]]
    api.grant(memory, "person:bea", "read", "write")
    bea = running.api("person:bea")
    assert ok(bea.get(memory, "records", record["id"]))["references"] == hidden
    # Writing one needs no privilege on its target.
    assert bea.remember(memory, "By Bea.", references=[reference])["references"] == hidden[:1]
    ok(api.call("DELETE", private, "records", source))
    assert ok(api.get(memory, "records", record["id"]))["references"][0]["available"] is True
    ok(api.post(private, "erase", json={"record_ids": [source]}))
    assert ok(api.get(memory, "records", record["id"]))["references"][0]["available"] is False


# -- the wire ---------------------------------------------------------------------------------------------


def test_answers_on_one_connection_are_not_held_back(running: Running) -> None:
    """Without TCP_NODELAY every answer after the first comes some 40 ms late; with it, ten take a few each."""
    where = urlsplit(running.url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=30)
    headers = {"Authorization": f"Bearer {running.key('person:ada')}"}
    times = []
    for _ in range(30):
        start = time.perf_counter()
        connection.request("GET", "/v1/memories/providers", headers=headers)
        connection.getresponse().read()
        times.append(time.perf_counter() - start)
    connection.close()
    assert sorted(times)[5] < 0.035


def test_operations(running: Running, api: Api) -> None:
    assert running.client.get("/healthz").json() == {"status": "ok"}
    assert running.client.get("/readyz").json() == {"status": "ready"}
    text = running.client.get("/metrics").text
    assert 'uhp_requests_total{route="POST /v1/memories",status="200"}' in text
    assert "hmem_" not in text and "hnk_" not in text


def test_logs_hold_no_content(running: Running, api: Api) -> None:
    memory = api.create("A telling name")
    record = api.remember(memory, "The secret plan.")["id"]
    api.recall(memory, query="plan")
    error(api.post(memory, "records", json={"content": 1}), 400, "invalid_input")
    lines = [json.loads(line) for line in running.logs().splitlines()]
    assert {line["event"] for line in lines} >= {"request"}
    logs = running.logs()
    for text in ("telling", "secret plan", "plan", memory, record, running.key("person:ada")):
        assert text not in logs
    assert all(set(line) <= {"time", "level", "event", "route", "status", "ms", "error"} for line in lines)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=200))
def test_content_comes_back_exactly(api: Api, memory: str, content: str) -> None:
    record = api.remember(memory, content, attributes={content: content})
    got = ok(api.get(memory, "records", record["id"]))
    assert got["content"] == content and got["attributes"] == {content: content}
