"""Free and named queries over HTTP: what they answer, and what no statement reaches."""

from __future__ import annotations

import time
from typing import Any

import pytest
from uhp_harness import Api, Running, error, ok


@pytest.fixture(scope="module")
def api(running: Running) -> Api:
    return running.api("person:ada")


@pytest.fixture(scope="module")
def memory(api: Api) -> str:
    made = api.create("Sales")
    api.remember(made, "Acme renews in March.", attributes={"account": "acme", "worth": 40})
    globex = api.remember(made, "Globex left.", attributes={"account": "globex", "worth": 7}, type="note")
    ok(api.call("PATCH", made, "records", globex["id"], json={"content": "Globex came back."}))
    gone = api.remember(made, "The gone secret of Initech.")["id"]
    ok(api.post(made, "erase", json={"record_ids": [gone]}))
    forgotten = api.remember(made, "Umbrella is a lead.")["id"]
    ok(api.call("DELETE", made, "records", forgotten))
    return made


def query(api: Api, memory: str, statement: str, **params: Any) -> dict[str, Any]:
    return ok(api.post(memory, "query", json={"language": "sql", "statement": statement, "params": params}))


def refused(api: Api, memory: str, statement: str) -> str:
    answer = api.post(memory, "query", json={"language": "sql", "statement": statement})
    return str(error(answer, 422, "memory_invalid")["message"])


def test_rows(api: Api, memory: str) -> None:
    answer = query(api, memory, "SELECT type, content FROM record ORDER BY content")
    assert answer == {
        "results": [], "columns": ["type", "content"],
        "rows": [["fact", "Acme renews in March."], ["note", "Globex came back."]],
        "children": [], "degraded": [], "abstain": False,
    }  # fmt: skip
    versions = query(api, memory, "SELECT version, status, content FROM version ORDER BY content, version")["rows"]
    assert versions == [
        [1, "active", "Acme renews in March."], [2, "active", "Globex came back."],
        [1, "superseded", "Globex left."], [1, "forgotten", "Umbrella is a lead."],
    ]  # fmt: skip
    writers = query(api, memory, "SELECT DISTINCT written_by_kind, written_by_id FROM version")["rows"]
    assert writers == [["person", "ada"]]
    none = query(api, memory, "SELECT content FROM record WHERE type = 'link'")
    assert none["rows"] == [] and none["abstain"] is True
    odd = query(api, memory, "SELECT 9e999, x'00ff', CAST(x'ff' AS TEXT), NULL, 9007199254740993")["rows"]
    assert odd == [[None, "AP8=", "�", None, 9007199254740993]]


def test_records_where_the_result_is_records(api: Api, memory: str) -> None:
    statement = "SELECT record_id, attributes ->> 'worth' AS score FROM record ORDER BY score"
    answer = query(api, memory, statement)
    assert "rows" not in answer and "columns" not in answer
    assert [(one["score"], one["why"], one["record"]["content"]) for one in answer["results"]] == [
        (7, ["sql"], "Globex came back."), (40, ["sql"], "Acme renews in March."),
    ]  # fmt: skip
    assert all(one["record"]["trust"] == "untrusted" for one in answer["results"])
    made_up = query(api, memory, "SELECT 'hrec_" + "0" * 32 + "' AS record_id UNION ALL SELECT 1 UNION ALL SELECT NULL")
    assert made_up["results"] == [] and made_up["abstain"] is True


def test_parameters(api: Api, memory: str) -> None:
    statement = "SELECT content FROM record WHERE attributes ->> 'account' = :account"
    assert query(api, memory, statement, account="acme", unused=1)["rows"] == [["Acme renews in March."]]
    assert query(api, memory, statement, account="x' OR 1=1 --")["rows"] == []
    listed = query(
        api, memory, "SELECT count(*) FROM record, json_each(:all) one WHERE attributes ->> 'account' = one.value",
        all=["acme", "globex", "other"],
    )  # fmt: skip
    assert listed["rows"] == [[2]]
    assert query(api, memory, "SELECT :a, :b, typeof(:c)", a=True, b=1.5, c=None)["rows"] == [[1, 1.5, "null"]]
    assert "binding" in refused(api, memory, statement)


WRITING = [
    "INSERT INTO version SELECT * FROM version", "UPDATE version SET content = 'x'", "DELETE FROM version",
    "REPLACE INTO version SELECT * FROM version", "DROP TABLE version", "CREATE TABLE x(a)", "CREATE TEMP TABLE x(a)",
    "CREATE VIEW x AS SELECT 1", "CREATE TEMP TRIGGER x AFTER INSERT ON version BEGIN SELECT 1; END",
    "CREATE VIRTUAL TABLE x USING fts5(a)", "ALTER TABLE version RENAME TO x", "CREATE INDEX x ON version(type)",
]  # fmt: skip
REACHING = [
    "ATTACH DATABASE '/etc/passwd' AS p", "ATTACH ':memory:' AS p", "DETACH main", "PRAGMA database_list",
    "PRAGMA temp_store_directory = '/'", "PRAGMA query_only = OFF", "PRAGMA writable_schema = ON",
    "SELECT * FROM pragma_database_list", "SELECT * FROM pragma_compile_options", "VACUUM INTO '/tmp/x.sqlite'",
    "VACUUM", "SELECT load_extension('/lib/x.so')", "SELECT readfile('/etc/passwd')", "SELECT writefile('/x', 'y')",
    "SELECT edit('x')", "SELECT fts3_tokenizer('simple')", "SELECT sqlite_version()",
    "SELECT sqlite_compileoption_get(1)",
    "SELECT name FROM sqlite_schema", "SELECT sql FROM sqlite_master", "SELECT * FROM sqlite_dbpage",
    "SELECT * FROM dbstat", "SELECT * FROM fsdir('/')", "BEGIN", "COMMIT", "SAVEPOINT x", "REINDEX", "ANALYZE",
]  # fmt: skip
BROKEN = [
    " ", ";", "--", "SELECT", "SELECT 1; SELECT 2", "SELECT 1; ATTACH ':memory:' AS p", "SELEKT 1",
    "SELECT nothing FROM record", "SELECT * FROM nowhere", "SELECT " + "(" * 500 + "1" + ")" * 500,
    "SELECT " + ", ".join("1" for _ in range(500)), " UNION ".join("SELECT 1" for _ in range(200)),
]  # fmt: skip


@pytest.mark.parametrize("statement", [*WRITING, *REACHING, *BROKEN], ids=lambda one: one[:40])
def test_what_a_statement_may_not_do_is_refused_in_one_line(api: Api, memory: str, statement: str) -> None:
    message = refused(api, memory, statement)
    assert "\n" not in message and "/" not in message.replace(statement, "")


BOMBS = {
    "endless": ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c", "time"),
    "product": ("SELECT sum(json_valid('[' || a.value || ']')) FROM json_each(:l) a, json_each(:l) b, json_each(:l) c, "
                "json_each(:l) d, json_each(:l) e", "time"),
    "one step": ("SELECT instr(replace(printf('%1000000d', 1), ' ', 'a'), "
                 "replace(printf('%600000d', 1), ' ', 'a') || 'b')", "time"),
    "wide rows": ("WITH RECURSIVE c(x, y) AS (SELECT 1, printf('%1000000d', 1) UNION ALL SELECT x + 1, y FROM c) "
                  "SELECT x FROM c ORDER BY y || x", "memory"),
    "many rows": ("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c", "rows"),
    "long rows": ("SELECT printf('%300000d', value) FROM json_each(:l)", "bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_bounded_and_said(api: Api, memory: str, name: str) -> None:
    statement, bound = BOMBS[name]
    started = time.monotonic()
    answer = query(api, memory, statement, l=list(range(60)))
    assert time.monotonic() - started < 30
    assert [one.split(":")[0] for one in answer["degraded"]] == [bound]
    assert answer["degraded"][0].startswith(f"{bound}:capped_at_")
    assert len(answer["rows"]) <= 1000
    assert len(answer["rows"]) == {"rows": 1000, "bytes": 3}.get(bound, 0)
    assert query(api, memory, "SELECT count(*) FROM record")["rows"] == [[2]]


def test_the_server_answers_while_a_statement_runs(running: Running, memory: str) -> None:
    import threading

    import httpx

    key = {"Authorization": f"Bearer {running.key('person:ada')}"}
    body = {"language": "sql", "statement": BOMBS["endless"][0]}
    ended: list[float] = []

    def ask() -> None:
        with httpx.Client(base_url=running.url, timeout=60, trust_env=False) as client:
            assert client.post(f"/v1/memories/{memory}/query", json=body, headers=key).status_code == 200
        ended.append(time.monotonic())

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    ok(running.api("person:ada").get(memory))
    answered = time.monotonic()
    for thread in threads:
        thread.join()
    assert answered < min(ended)


def test_queries_that_wait_are_bounded() -> None:
    """Thirty-two at once; one more is told to come again, and there is room as soon as they are done."""
    import asyncio
    import threading

    from hn_memory.uhp.faults import UhpError
    from hn_memory.uhp.http.endpoint import Workers
    from hn_memory.uhp.precedence import Precedence

    async def run() -> None:
        workers, gate = Workers(Precedence()), threading.Event()
        try:
            waiting = [asyncio.create_task(workers.ask(gate.wait)) for _ in range(32)]
            await asyncio.sleep(0)
            with pytest.raises(UhpError) as refusal:
                await workers.ask(gate.wait)
            assert refusal.value.status == 503
            gate.set()
            assert await asyncio.gather(*waiting) == [True] * 32
            assert await workers.ask(gate.wait)
        finally:
            gate.set()
            workers.close()

    asyncio.run(run())


def test_only_the_rows_of_the_memory_in_the_path(running: Running, api: Api, memory: str) -> None:
    child = api.create("Acme", memory)
    api.remember(child, "Below.")
    eve = running.api("person:eve")
    hers = eve.create("Eve's")
    record = eve.remember(hers, "Eve's own words.")
    target = {"memory_id": hers, "record_id": record["id"]}
    api.remember(child, "Points.", references=[target])
    everything = str(query(api, memory, "SELECT * FROM version")["rows"])
    assert "Below" not in everything and "Eve's own" not in everything and "Initech" not in everything
    assert query(api, child, "SELECT target_memory_id, target_record_id FROM reference")["rows"] == [
        [hers, record["id"]]
    ]
    stolen = query(api, child, f"SELECT '{record['id']}' AS record_id")
    assert stolen["results"] == []
    joined = query(api, child, "SELECT target_record_id AS record_id FROM reference")
    assert joined["results"] == []
    body = {"language": "sql", "statement": "SELECT 1"}
    unknown = error(eve.post("hmem_" + "0" * 32, "query", json=body), 404, "memory_not_found")
    assert error(eve.post(memory, "query", json=body), 404, "memory_not_found") == unknown
    api.grant(memory, "person:eve", "write")
    error(eve.post(memory, "query", json=body), 403, "memory_forbidden")
    api.grant(memory, "person:eve", "read")
    assert query(eve, memory, "SELECT count(*) FROM record")["rows"] == [[2]]


def test_a_write_is_seen_by_the_next_statement(api: Api) -> None:
    made = api.create("Fresh")
    count = "SELECT count(*) FROM record"
    assert query(api, made, count)["rows"] == [[0]]
    for number in range(1, 4):
        record = api.remember(made, f"Number {number}.")
        assert query(api, made, count)["rows"] == [[number]]
    ok(api.post(made, "erase", json={"record_ids": [record["id"]]}))
    assert query(api, made, "SELECT content FROM version ORDER BY content")["rows"] == [["Number 1."], ["Number 2."]]


def test_language_and_shapes(api: Api, memory: str) -> None:
    cypher = {"language": "cypher", "statement": "MATCH (n) RETURN n"}
    error(api.post(memory, "query", json=cypher), 422, "memory_unsupported")
    for bad in ({}, {"language": "sql"}, {"language": "sql", "statement": 1}, {**cypher, "params": []}):
        error(api.post(memory, "query", json=bad), 400, "invalid_input")
    for bad in ({"language": "sql", "statement": ""}, {"language": "sql", "statement": "x" * 40_000}):
        error(api.post(memory, "query", json=bad), 422, "memory_invalid")
    document = next(one for one in ok(api.get("/v1/memories/providers"))["data"] if one["id"] == "hn")
    assert document["queries"] == {"named": True, "free": {"languages": ["sql"], "write": False}}


# -- named queries ----------------------------------------------------------------------------------------

DEALS = {
    "description": "What is known of one account.",
    "params": {
        "type": "object",
        "properties": {"account": {"type": "string", "maxLength": 20}, "least": {"type": "integer", "default": 0}},
        "required": ["account"],
        "additionalProperties": False,
    },
    "language": "sql",
    "body": "SELECT record_id FROM record "
    "WHERE attributes ->> 'account' = :account AND attributes ->> 'worth' >= :least",
}


def test_named_queries(api: Api, memory: str) -> None:
    defined = ok(api.call("PUT", memory, "queries", "deals_of", json=DEALS))
    assert defined == {"name": "deals_of", "requires": "read", **DEALS}
    ok(api.call("PUT", memory, "queries", "all", json={"language": "sql", "body": "SELECT count(*) AS n FROM record"}))
    assert [one["name"] for one in ok(api.get(memory, "queries"))["data"]] == ["all", "deals_of"]
    first = ok(api.get(memory, "queries", params={"limit": 1}))
    second = ok(api.get(memory, "queries", params={"limit": 1, "cursor": first["next"]}))
    assert [first["data"][0]["name"], second["data"][0]["name"], second["next"]] == ["all", "deals_of", None]
    found = ok(api.post(memory, "queries", "deals_of", json={"params": {"account": "acme"}}))
    assert [one["record"]["content"] for one in found["results"]] == ["Acme renews in March."]
    assert found["degraded"] == [] and found["abstain"] is False and found["children"] is not None
    least = ok(api.post(memory, "queries", "deals_of", json={"params": {"account": "acme", "least": 50}}))
    assert least["results"] == [] and least["abstain"] is True
    assert ok(api.post(memory, "queries", "all", json={}))["rows"] == [[2]]
    assert ok(api.call("POST", memory, "queries", "all"))["rows"] == [[2]]
    for params in ({}, {"account": 1}, {"account": "a" * 21}, {"account": "acme", "other": 1}):
        error(api.post(memory, "queries", "deals_of", json={"params": params}), 422, "memory_invalid")
    error(api.post(memory, "queries", "none", json={}), 404, "memory_query_not_found")
    replaced = {**DEALS, "body": "SELECT content FROM record", "params": {}}
    ok(api.call("PUT", memory, "queries", "deals_of", json=replaced))
    assert len(ok(api.post(memory, "queries", "deals_of", json={}))["rows"]) == 2


def test_a_named_query_is_confined_like_any_other(api: Api, memory: str) -> None:
    for at, statement in enumerate((WRITING[0], REACHING[0], REACHING[3], "SELECT 1; SELECT 2")):
        ok(api.call("PUT", memory, "queries", f"bad.{at}", json={"language": "sql", "body": statement}))
        error(api.post(memory, "queries", f"bad.{at}", json={}), 422, "memory_invalid")
    ok(api.call("PUT", memory, "queries", "bomb", json={"language": "sql", "body": BOMBS["endless"][0]}))
    assert ok(api.post(memory, "queries", "bomb", json={}))["degraded"] == ["time:capped_at_1s"]


def test_who_may_define_and_run(running: Running, api: Api) -> None:
    made = api.create("Shared")
    api.remember(made, "Word.")
    body = {"language": "sql", "body": "SELECT content FROM record"}
    ok(api.call("PUT", made, "queries", "open", json=body))
    ok(api.call("PUT", made, "queries", "closed", json={**body, "requires": "delete"}))
    bob = running.api("person:bob")
    for answer in (
        bob.get(made, "queries"), bob.post(made, "queries", "open", json={}),
        bob.call("PUT", made, "queries", "mine", json=body),
    ):  # fmt: skip
        error(answer, 404, "memory_not_found")
    api.grant(made, "person:bob", "write")
    error(bob.post(made, "queries", "open", json={}), 403, "memory_forbidden")
    api.grant(made, "person:bob", "read")
    assert ok(bob.post(made, "queries", "open", json={}))["rows"] == [["Word."]]
    error(bob.post(made, "queries", "closed", json={}), 403, "memory_forbidden")
    error(bob.call("PUT", made, "queries", "mine", json=body), 403, "memory_forbidden")
    assert len(ok(bob.get(made, "queries"))["data"]) == 2


def test_a_definition_is_checked(api: Api, memory: str) -> None:
    body = {"language": "sql", "body": "SELECT 1"}
    for name in ("a b", "-x", "x" * 129, "é"):
        error(api.call("PUT", memory, "queries", name, json=body), 422, "memory_invalid")
    error(api.call("PUT", memory, "queries", "a", json={**body, "name": "b"}), 422, "memory_invalid")
    error(api.call("PUT", memory, "queries", "a", json={**body, "language": "cypher"}), 422, "memory_unsupported")
    error(api.call("PUT", memory, "queries", "a", json={**body, "requires": "all"}), 422, "memory_invalid")
    error(api.call("PUT", memory, "queries", "a", json={**body, "params": []}), 400, "invalid_input")
    for params in ({"$ref": "http://127.0.0.1/"}, {"type": "string"}, {"properties": {"a": {"pattern": "(a+)+$"}}}):
        error(api.call("PUT", memory, "queries", "a", json={**body, "params": params}), 422, "memory_invalid")
    key = {"Idempotency-Key": "define-once"}
    first = api.call("PUT", memory, "queries", "once", json=body, headers=key)
    assert api.call("PUT", memory, "queries", "once", json=body, headers=key).content == first.content
    error(
        api.call("PUT", memory, "queries", "once", json={**body, "body": "SELECT 2"}, headers=key),
        422,
        "memory_invalid",
    )
