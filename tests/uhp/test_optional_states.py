"""Queries, files, snapshots and runs with two processes on one state, SQLite and PostgreSQL."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
from uhp_harness import Running, make_repository, ok


def test_all_of_it_whichever_process_answers(tmp_path: Path, state_url: str | None) -> None:
    with Running(make_repository(tmp_path / "project"), "--workers", "2", state=state_url) as server:
        api = server.api("person:ada")
        memory = api.create("Shared")
        for content in ("Said twice.", "said twice"):
            api.remember(memory, content, attributes={"about": "ä"})
        key = {"Idempotency-Key": "file"}
        sent = [api.call("POST", "/v1/files", content=b"bytes", params={"name": "a"}, headers=key) for _ in range(2)]
        file = ok(sent[0])["id"]
        assert ok(sent[1])["id"] == file
        record = ok(api.post(memory, "records", json={"content": {"file": {"id": file}}}))["id"]
        ok(api.call("PUT", memory, "queries", "n", json={"language": "sql", "body": "SELECT count(*) FROM record"}))
        snapshot = ok(api.post(memory, "snapshots", json={"name": "before"}))
        run = ok(api.call("POST", memory, "consolidations"))["id"]
        for _ in range(200):
            document = ok(api.get(memory, "consolidations", run))
            if document["status"] not in ("queued", "running"):
                break
            time.sleep(0.1)
        assert document["status"] == "completed" and document["changes"]["forgotten"] == 1
        # A connection for each request, so that both processes come to answer.
        for _ in range(6):
            with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
                api.client = client
                assert ok(api.post(memory, "queries", "n", json={}))["rows"] == [[2]]
                assert api.get(memory, "records", record, "content").content == b"bytes"
                assert [one["id"] for one in ok(api.get(memory, "snapshots"))["data"]] == [snapshot["id"]]
                assert len(ok(api.get(memory, "records", params={"as_of": snapshot["at"]}))["data"]) == 3
        api.client = server.client
        reverted = ok(api.call("POST", memory, "consolidations", run, "revert"))
        assert reverted["reverted"]["restored"] == 2
        assert ok(api.call("POST", memory, "queries", "n"))["rows"] == [[3]]
