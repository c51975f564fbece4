"""What is written through HTTP is an ordinary signed record: the same in the command line, in Python and elsewhere."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from uhp_harness import Api, Running, error, make_repository, ok, run_hn

from hn_memory import Request, open_repository
from hn_memory.uhp.hn.trailers import split


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = make_repository(tmp_path_factory.mktemp("streams") / "project")
    with open_repository(path) as service:
        service.policy_trust([service.identity_show()["identity"]["actor"]])
    for arguments in (("add", ".hn"), ("commit", "-qm", "Trust")):
        subprocess.run(["git", *arguments], cwd=path, check=True)
    with Running(path) as server:
        yield server


def test_the_command_line_shows_and_verifies_it(running: Running) -> None:
    api = running.api("harness:chrn_1")
    memory = api.create("Sales")
    record = api.remember(memory, "Acme renews.\n\nIn March.", type="note", attributes={"account": "acme"})
    recalled = run_hn(running.repository, "memory", "recall", "-q", "acme renews march")
    (found,) = recalled["memories"]
    assert found["data"]["kind"] == "decision"
    assert found["data"]["content"] == (
        "Acme renews.\n\nIn March.\n\nUhp-Type: note\nUhp-Written-By: harness chrn_1\n"
        'Uhp-Attributes: {"account":"acme"}'
    )
    assert record["id"] == "hrec_" + found["id"][7:39]
    assert record["time"]["written_at"] == found["signedTimestamp"]
    assert run_hn(running.repository, "memory", "verify")["valid"]
    ok(api.call("DELETE", memory, "records", record["id"]))
    assert run_hn(running.repository, "memory", "recall", "-q", "acme renews march")["memories"] == []
    (entry,) = [one for one in run_hn(running.repository, "memory", "log")["entries"] if one["operation"] == "retract"]
    assert (entry["target"], entry["reason"], entry["relationship"]) == (found["id"], "forgotten", "valid")


@pytest.mark.parametrize("stream", [(), ("--stream", "sha256:" + "7" * 64)], ids=["default stream", "another stream"])
def test_what_the_command_line_says_of_a_record_holds(running: Running, stream: tuple[str, ...]) -> None:
    api, path = running.api(), running.repository
    memory = api.create("Corrected")
    names = [api.remember(memory, f"Zebra number {number}.")["id"] for number in range(4)]
    retracted, superseded, challenged, kept = names
    with open_repository(path) as service:
        ids = {name: first_id(service, name) for name in names}
    before = ok(api.get(memory, "records", kept))["time"]["written_at"]
    run_hn(path, "memory", "retract", ids[retracted], "--reason", "wrong", *stream)
    replacing = ("--kind", "observation", "-m", "Zebra, corrected.", *stream)
    run_hn(path, "memory", "supersede", ids[superseded], *replacing)
    run_hn(path, "memory", "challenge", ids[challenged], "--reason", "doubtful", *stream)
    # A stream that nobody has seen before is met by the next look around.
    until = time.monotonic() + 30
    while (listed := {one["id"] for one in ok(api.get(memory, "records"))["data"]}) != {challenged, kept}:
        assert time.monotonic() < until, listed
        time.sleep(0.1)
    found = api.recall(memory, query="zebra number", limit=10)["results"]
    assert {one["record"]["id"] for one in found} == {challenged, kept}
    rows = {"language": "sql", "statement": "SELECT record_id FROM record"}
    assert {one["record"]["id"] for one in ok(api.post(memory, "query", json=rows))["results"]} == {challenged, kept}
    assert ok(api.get(memory))["records"] == {"count": 2}
    for name in (retracted, superseded):
        now = ok(api.get(memory, "records", name))
        assert now["status"] == "forgotten" and now["time"]["invalidated_at"] is not None
        (only,) = ok(api.get(memory, "records", name, "history"))["data"]
        assert only.items() <= now.items()
        earlier = ok(api.get(memory, "records", name, params={"as_of": before}))
        assert (earlier["status"], earlier["time"]["invalidated_at"]) == ("active", None)
        error(api.call("PATCH", memory, "records", name, json={"content": "No."}), 422, "memory_invalid")
        assert run_hn(path, "memory", "show", ids[name])["projection"]["lifecycle"] in ("retracted", "superseded")
    ok(api.call("PATCH", memory, "records", kept, json={"content": "Zebra, revised."}))
    # The first version is no longer what the record says, so that speaking of it changes nothing.
    run_hn(path, "memory", "retract", ids[kept], "--reason", "late", *stream)
    time.sleep(0.1)
    assert ok(api.get(memory, "records", kept))["status"] == "active"
    said = [ok(api.get(memory, "records", name, "history"))["data"] for name in names]
    running.restart()
    api = running.api()
    assert [ok(api.get(memory, "records", name, "history"))["data"] for name in names] == said
    assert run_hn(path, "memory", "verify")["valid"]


def test_a_clone_that_syncs_sees_it(running: Running, tmp_path: Path) -> None:
    api = running.api()
    memory = api.create("Synced")
    api.remember(memory, "Carried along with the code.")
    remote, clone = tmp_path / "remote.git", tmp_path / "clone"
    subprocess.run(["git", "init", "-q", "--bare", str(remote)], check=True)
    for arguments in (("remote", "add", "origin", str(remote)), ("push", "-q", "origin", "HEAD:main")):
        subprocess.run(["git", *arguments], cwd=running.repository, check=True)
    run_hn(running.repository, "sync")
    subprocess.run(["git", "clone", "-q", "-b", "main", str(remote), str(clone)], check=True)
    run_hn(clone, "sync")
    (found,) = run_hn(clone, "memory", "recall", "-q", "carried along")["memories"]
    assert found["data"]["content"].startswith("Carried along with the code.\n\nUhp-Type: fact\n")


def test_what_is_left_when_the_state_is_lost(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "project")
    with open_repository(path) as service:
        service.policy_trust([service.identity_show()["identity"]["actor"]])
    for arguments in (("add", ".hn"), ("commit", "-qm", "Trust")):
        subprocess.run(["git", *arguments], cwd=path, check=True)
    with Running(path) as running:
        api = running.api()
        memory = api.create("Lost")
        kept = api.remember(memory, "kept one")["id"]
        ok(api.call("PATCH", memory, "records", kept, json={"content": "kept two"}))
        erased = api.remember(memory, "erased one")["id"]
        ok(api.call("PATCH", memory, "records", erased, json={"content": "erased two"}))
        assert ok(api.post(memory, "erase", json={"record_ids": [erased]}))["unreachable"] == [erased]
        contents = {one["content"].split("\n\n")[0]: one["id"] for one in log(path)}
    shutil.rmtree(path / ".git" / "hn" / "uhp")
    assert {text: one["id"] for one in log(path) for text in [one["content"].split("\n\n")[0]]} == contents
    assert set(contents) == {"kept one", "kept two", "erased one", "erased two"}
    for name in contents.values():
        assert run_hn(path, "memory", "show", name)["memoryId"] == name
    recalled = run_hn(path, "memory", "recall", "-q", "one")["memories"]
    recalled += run_hn(path, "memory", "recall", "-q", "two")["memories"]
    assert [one["data"]["content"].split("\n\n")[0] for one in recalled] == ["kept two"]
    with Running(path) as again:
        error(again.api().get(memory), 404, "memory_not_found")


def log(path: Path) -> list[dict[str, Any]]:
    return [one for one in run_hn(path, "memory", "log")["entries"] if "content" in one]


TEXT = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30)
# Each example starts commands; shrinking would take longer than reading the failure.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["remember", "observe", "revise", "forget", "erase"]),
        TEXT,
        st.sampled_from(["fact", "note", "procedure", "link", "x.thing"]),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=12,
)


class Model:
    """What a memory must hold, as a plain list of versions per record."""

    def __init__(self) -> None:
        self.records: dict[str, list[tuple[str, str]]] = {}
        self.forgotten: set[str] = set()
        self.erased: set[str] = set()
        self.episodes: set[str] = set()

    def pick(self, number: int) -> str | None:
        names = [name for name in self.records if name not in self.erased]
        return names[number % len(names)] if names else None


@settings(max_examples=15, deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_all_doors_say_the_same(running: Running, steps: list[tuple[str, str, str, int]]) -> None:
    api = running.api()
    memory = api.create("Random")
    model = Model()
    for operation, text, kind, number in steps:
        apply(api, memory, model, operation, text, kind, number)
    with open_repository(running.repository) as service:
        for name, versions in model.records.items():
            if name in model.erased:
                error(api.get(memory, "records", name), 404, "memory_record_not_found")
                continue
            history = ok(api.get(memory, "records", name, "history"))["data"]
            assert [(one["content"], one["type"]) for one in history] == versions
            last = ok(api.get(memory, "records", name))
            shown = run_hn(running.repository, "memory", "show", first_id(service, name))
            state = shown["projection"]["lifecycle"]
            expected = "superseded" if len(versions) > 1 else "retracted" if name in model.forgotten else "active"
            assert state == expected
            in_python = service.show(first_id(service, name))
            assert in_python == shown
            stated = split(shown["projection"]["data"]["content"])
            assert stated is not None
            assert (stated.draft.content, stated.draft.type) == versions[0]
            assert shown["envelope"]["timestamp"] == history[0]["time"]["written_at"]
            assert (last["status"] == "forgotten") == (name in model.forgotten)
        current = {name for name in model.records if name not in model.erased and name not in model.forgotten}
        listed = ok(api.get(memory, "records", params={"limit": 200}))["data"]
        assert {one["id"]: one["content"] for one in listed} == {name: model.records[name][-1][0] for name in current}
        assert service.verify()["valid"]
        page = service.recall(Request(at="HEAD", max_records=10_000, max_content_bytes=10_000_000))
        stream = shown_stream(service, memory)
        recalled = [one for one in page["memories"] if one["stream"] == stream]
        contents = sorted(str(split(one["data"]["content"]).draft.content) for one in recalled)  # type: ignore[union-attr]
        assert contents == sorted(model.records[name][-1][0] for name in current)


def apply(api: Api, memory: str, model: Model, operation: str, text: str, kind: str, number: int) -> None:
    name = model.pick(number)
    if operation == "remember" or name is None:
        model.records[api.remember(memory, text, type=kind)["id"]] = [(text, kind)]
    elif operation == "observe":
        done = ok(api.post(memory, "observe", json={"episodes": [{"content": text}, {"content": text}]}))
        for one in done["data"]:
            model.records[one["id"]] = [(text, "episode")]
            model.episodes.add(one["id"])
    elif operation == "revise":
        found = api.call("PATCH", memory, "records", name, json={"content": text})
        if name in model.forgotten or name in model.episodes:
            error(found, 422, "memory_invalid")
        else:
            ok(found)
            model.records[name].append((text, model.records[name][-1][1]))
    elif operation == "forget":
        assert ok(api.call("DELETE", memory, "records", name))["status"] == "forgotten"
        model.forgotten.add(name)
    else:
        assert ok(api.post(memory, "erase", json={"record_ids": [name]}))["erased"] == [name]
        model.erased.add(name)


def first_id(service: Any, record: str) -> str:
    found: str = service.show(record.removeprefix("hrec_"))["memoryId"]
    return found


def shown_stream(service: Any, memory: str) -> str:
    from hn_memory.protocol.identifiers import derived_stream

    return derived_stream(service.identity_show()["identity"]["actor"], f"uhp:{memory}")
