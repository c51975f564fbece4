"""Section 3, cell by cell: who may do what where, on a tree of four levels with a cutoff on the third.

    company ─ sales ─ accounts (restricted) ─ acme
            └ people

Each principal holds one privilege in one place, by itself or through a group; the oracle below works out from the
rules of the chapter what each operation on each memory must answer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from uhp_harness import Api, PlainClient, Running, error, ok

from hn_memory.uhp.server import Settings, open_state
from hn_memory.uhp.state.keys import change_group

PARENTS = {"company": None, "sales": "company", "accounts": "sales", "acme": "accounts", "people": "company"}
RESTRICTED = {"accounts"}
PLACES = tuple(PARENTS)
PRIVILEGES = ("read", "write", "create", "delete")
NO_RECORD = "hrec_" + "0" * 32
UNKNOWN = "hmem_" + "0" * 32


@dataclass
class Person:
    """A principal, the grants that reach it, and the most its key may do."""

    name: str
    grants: dict[str, set[str]] = field(default_factory=dict)
    cap: tuple[str, ...] = PRIVILEGES

    def effective(self, place: str) -> set[str]:
        """The union of the grants here and above, up to a restricted memory."""
        held: set[str] = set()
        at: str | None = place
        while at is not None:
            held |= self.grants.get(at, set())
            at = None if at in RESTRICTED else PARENTS[at]
        return held & set(self.cap)


@dataclass(frozen=True)
class Operation:
    """A request on a memory: the privilege it needs, and what it answers where that is held."""

    name: str
    needs: str
    send: Callable[[Api, str, dict[str, str]], httpx.Response]
    answers: tuple[int, str | None] = (200, None)


def body(method: str, *path: str, json: Any = None) -> Callable[[Api, str, dict[str, str]], httpx.Response]:
    def send(api: Api, memory: str, records: dict[str, str]) -> httpx.Response:
        filled = tuple(part.replace("RECORD", records.get(memory, NO_RECORD)) for part in path)
        return api.call(method, memory, *filled, json=json)

    return send


# Where doing it would change the tree for the next cell, the request is one that fails after the check of access.
OPERATIONS = (
    Operation("get", "read", body("GET")),
    Operation("children", "read", lambda api, memory, _: api.get("/v1/memories", params={"parent": memory})),
    Operation("descendants", "read", lambda api, memory, _: api.get("/v1/memories", params={"ancestor": memory})),
    Operation("recall", "read", body("POST", "recall", json={"query": "something"})),
    Operation("list", "read", body("GET", "records")),
    Operation("get record", "read", body("GET", "records", "RECORD")),
    Operation("get no record", "read", body("GET", "records", NO_RECORD), (404, "memory_record_not_found")),
    Operation("history", "read", body("GET", "records", "RECORD", "history")),
    Operation("rename", "write", body("PUT", json={"description": "Described."})),
    Operation("remember", "write", body("POST", "records", json={"content": "Something."})),
    Operation("observe", "write", body("POST", "observe", json={"episodes": [{"content": "Something."}]})),
    Operation("revise", "write", body("PATCH", "records", "RECORD", json={"attributes": {"seen": True}})),
    Operation("forget", "write", body("DELETE", "records", NO_RECORD), (404, "memory_record_not_found")),
    Operation(
        "create", "create",
        lambda api, memory, _: api.post("/v1/memories", json={"name": "x", "parent_id": memory, "provider": "none"}),
        (422, "memory_invalid"),
    ),
    Operation("grants", "delete", body("GET", "grants")),
    Operation(
        "grant", "delete", body("POST", "grants", json={"principal": "?", "privileges": ["read"]}),
        (422, "memory_invalid"),
    ),
    Operation("revoke", "delete", body("DELETE", "grants", "hgrt_0"), (404, "memory_grant_not_found")),
    Operation("erase", "delete", body("POST", "erase", json={"record_ids": [NO_RECORD]})),
)  # fmt: skip


@dataclass
class World:
    running: Running
    client: PlainClient
    owner: Api
    ids: dict[str, str]
    records: dict[str, str]
    people: list[Person]


@pytest.fixture(scope="module")
def world(running: Running) -> Iterator[World]:
    client = PlainClient(running.url)
    owner = plain(client, running, "person:owner")
    ids: dict[str, str] = {}
    for place, parent in PARENTS.items():
        ids[place] = owner.create(place, None if parent is None else ids[parent], restricted=place in RESTRICTED)
    # The restricted one was made below another; its maker holds all on it, as on every memory it made.
    records = {ids[place]: owner.remember(ids[place], f"Of {place}.")["id"] for place in PLACES}
    people = [Person("person:nobody")]
    store = open_state(Settings(path=str(running.repository)))
    for place in PLACES:
        for privilege in PRIVILEGES:
            direct = Person(f"person:{place}-{privilege}", {place: {privilege}})
            through = Person(f"harness:{place}-{privilege}", {place: {privilege}})
            change_group(store, f"{place}-{privilege}", [through.name])
            owner.grant(ids[place], direct.name, privilege)
            owner.grant(ids[place], f"group:{place}-{privilege}", privilege)
            people += [direct, through]
    several: list[tuple[str, dict[str, set[str]], tuple[str, ...]]] = [
        ("adds-up", {"company": {"read"}, "sales": {"write"}, "acme": {"create", "delete"}}, PRIVILEGES),
        ("cut-off", {"company": set(PRIVILEGES), "accounts": {"read"}}, PRIVILEGES),
        ("capped", {"company": set(PRIVILEGES), "accounts": set(PRIVILEGES)}, ("read", "create")),
        ("capped-away", {"company": {"write"}}, ("read",)),
    ]
    for name, grants, cap in several:
        for place, privileges in grants.items():
            owner.grant(ids[place], f"credential:{name}", *privileges)
        people.append(Person(f"credential:{name}", grants, cap))
    store.close()
    yield World(running, client, owner, ids, records, people)
    client.close()


def plain(client: PlainClient, running: Running, principal: str, *cap: str) -> Api:
    api = running.api(principal, *cap)
    api.client = client  # type: ignore[assignment]
    return api


def test_every_cell(world: World) -> None:
    cells = 0
    for person in world.people:
        api = plain(world.client, world.running, person.name, *person.cap)
        for place in PLACES:
            held = person.effective(place)
            memory = world.ids[place]
            for operation in OPERATIONS:
                found = operation.send(api, memory, world.records)
                cells += 1
                status, code = operation.answers
                if not held:
                    status, code = 404, "memory_not_found"
                elif operation.needs not in held:
                    status, code = 403, "memory_forbidden"
                where = (person.name, place, operation.name, found.text)
                assert found.status_code == status, where
                if code is not None:
                    assert found.json()["error"]["code"] == code, where
    assert cells == len(world.people) * len(PLACES) * len(OPERATIONS) > 4000


def test_what_is_named_of_a_memory(world: World) -> None:
    """Privileges, ancestors, parents, children and counts, as far as each caller may see."""
    for person in world.people:
        api = plain(world.client, world.running, person.name, *person.cap)
        seen = {place for place in PLACES if person.effective(place)}
        read = {place for place in PLACES if "read" in person.effective(place)}
        entries = {place for place in seen if PARENTS[place] not in seen}
        listed = ok(api.get("/v1/memories", params={"limit": 200}))["data"]
        assert {one["id"] for one in listed} == {world.ids[place] for place in entries}, person.name
        for place in read:
            shown = ok(api.get(world.ids[place]))
            ancestors = []
            at = PARENTS[place]
            while at is not None and at in seen:
                ancestors.insert(0, world.ids[at])
                at = PARENTS[at]
            assert shown["ancestors"] == ancestors
            assert shown["parent_id"] == (ancestors[-1] if ancestors else None)
            assert set(shown["privileges"]) == person.effective(place)
            below = {one for one in PLACES if PARENTS[one] == place}
            assert shown["children"] == {"count": len(below & seen)}
            near = api.recall(world.ids[place], query="something")
            assert {one["id"] for one in near["children"]} == {world.ids[one] for one in below & read}
            parent = PARENTS[place]
            assert ("parent" in near) == (parent in read)
            children = ok(api.get("/v1/memories", params={"parent": world.ids[place]}))["data"]
            assert {one["id"] for one in children} == {world.ids[one] for one in below & seen}
            deep = api.recall(world.ids[place], text="of", depth=3, limit=100)
            reached = {one["record"]["memory_id"] for one in deep["results"]}
            assert reached <= {world.ids[one] for one in read}
        for place in seen - read:
            error(api.get(world.ids[place]), 403, "memory_forbidden")


def test_unknown_and_forbidden_are_one(world: World) -> None:
    """Status, code and body; only what the client itself sent differs."""
    api = world.running.api("person:nobody")
    records = {UNKNOWN: NO_RECORD, world.ids["acme"]: world.records[world.ids["acme"]]}
    for operation in OPERATIONS:
        answers = [operation.send(api, memory, records) for memory in (world.ids["acme"], UNKNOWN, "hmem_x", "x%20y")]
        assert {(answer.status_code, answer.content) for answer in answers} == {(404, answers[0].content)}
        names = [{name for name in answer.headers if name != "date"} for answer in answers]
        assert names.count(names[0]) == len(names)


def test_unknown_and_forbidden_take_the_same_time(world: World) -> None:
    api = world.running.api("person:nobody")
    times: dict[str, list[float]] = {world.ids["acme"]: [], UNKNOWN: []}
    for _ in range(400):
        for memory, of in times.items():
            start = time.perf_counter()
            api.get(memory)
            of.append(time.perf_counter() - start)
    one, other = (statistics.quantiles(of, n=4) for of in times.values())
    # Half of all answers lie between the quartiles: the medians must not be farther apart than that noise.
    assert abs(one[1] - other[1]) < max(one[2] - one[0], other[2] - other[0])


def test_grants_are_shown_where_they_sit(world: World) -> None:
    grants = ok(world.owner.get(world.ids["people"], "grants"))["data"]
    here = {one["principal"] for one in grants if not one["inherited"]}
    above = {one["principal"] for one in grants if one["inherited"]}
    assert "person:people-read" in here and "person:company-read" in above
    assert {one["memory_id"] for one in grants} == {world.ids["people"], world.ids["company"]}
    restricted = ok(world.owner.get(world.ids["accounts"], "grants"))["data"]
    assert not any(one["inherited"] for one in restricted)
    below = world.running.api("person:people-delete").get(world.ids["people"], "grants")
    assert {one["memory_id"] for one in ok(below)["data"]} == {world.ids["people"]}


def test_a_second_grant_replaces_the_first(running: Running) -> None:
    owner, bea = running.api("person:owner"), running.api("person:bea")
    memory = owner.create("Shared")
    first = owner.grant(memory, "person:bea", "read", "write")
    assert (first["object"], first["inherited"], first["privileges"]) == ("memory.grant", False, ["read", "write"])
    bea.remember(memory, "By Bea.")
    owner.grant(memory, "person:bea", "read")
    error(bea.post(memory, "records", json={"content": "x"}), 403, "memory_forbidden")
    (held,) = [one for one in ok(owner.get(memory, "grants"))["data"] if one["principal"] == "person:bea"]
    child = owner.create("Below", memory)
    error(owner.call("DELETE", child, "grants", held["id"]), 404, "memory_grant_not_found")
    assert ok(owner.call("DELETE", memory, "grants", held["id"])) == {"id": held["id"], "deleted": True}
    error(bea.get(memory), 404, "memory_not_found")
    for bad in ({"principal": "robot:1", "privileges": ["read"]}, {"principal": "person:x", "privileges": []},
                {"principal": "person:x", "privileges": ["fly"]}):  # fmt: skip
        error(owner.post(memory, "grants", json=bad), 422, "memory_invalid")


def test_moving_and_restricting_need_more_than_writing(running: Running) -> None:
    owner, bea = running.api("person:owner"), running.api("person:mover")
    memory, place = owner.create("Moved"), owner.create("Place")
    owner.grant(memory, "person:mover", "read", "write")
    ok(bea.call("PUT", memory, json={"name": "Renamed", "restricted": False, "parent_id": None}))
    error(bea.call("PUT", memory, json={"restricted": True}), 403, "memory_forbidden")
    error(bea.call("PUT", memory, json={"parent_id": place}), 403, "memory_forbidden")
    owner.grant(memory, "person:mover", "read", "write", "delete")
    error(bea.call("PUT", memory, json={"parent_id": place}), 404, "memory_not_found")
    owner.grant(place, "person:mover", "read")
    error(bea.call("PUT", memory, json={"parent_id": place}), 403, "memory_forbidden")
    owner.grant(place, "person:mover", "create")
    assert ok(bea.call("PUT", memory, json={"parent_id": place, "restricted": True}))["restricted"] is True
    assert ok(owner.get(memory))["name"] == "Renamed"


def test_what_cannot_be_seen_goes_unnamed(running: Running) -> None:
    owner, bea = running.api("person:owner"), running.api("person:deleter")
    memory = owner.create("Top")
    hidden = owner.create("Hidden", memory, restricted=True)
    owner.grant(memory, "person:deleter", "delete")
    assert ok(bea.call("DELETE", memory))["memories"] == [memory]
    error(owner.get(hidden), 404, "memory_not_found")


def test_a_moved_memory_inherits_from_its_new_place(running: Running) -> None:
    owner, bea = running.api("person:owner"), running.api("person:heir")
    here, there = owner.create("Here"), owner.create("There")
    memory = owner.create("Moved", here)
    record = owner.remember(memory, "Moves along.")["id"]
    owner.grant(here, "person:heir", "read")
    assert ok(bea.get(memory, "records", record))["content"] == "Moves along."
    ok(owner.call("PUT", memory, json={"parent_id": there}))
    error(bea.get(memory), 404, "memory_not_found")
    owner.grant(there, "person:heir", "read")
    assert ok(bea.get(memory, "records", record))["content"] == "Moves along."


def test_roots_for_the_administrator_alone(repository: Any) -> None:
    with Running(repository, "--roots", "admin") as running:
        assert running.administrator_key is not None
        administrator = Api(running.client, running.administrator_key)
        root = administrator.create("Root")
        ada = running.api("person:ada")
        error(ada.post("/v1/memories", json={"name": "Mine"}), 403, "memory_forbidden")
        administrator.grant(root, "person:ada", "create", "delete", "write", "read")
        child = ada.create("Mine", root)
        error(ada.call("PUT", child, json={"parent_id": None}), 403, "memory_forbidden")
        # Being the administrator gives no privilege on what others restrict.
        private = ada.create("Private", child, restricted=True)
        error(administrator.get(private), 404, "memory_not_found")
