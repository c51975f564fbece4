"""The server's own state, on SQLite and on PostgreSQL: the tree at an epoch, keys, groups, idempotency keys."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import insert
from uhp_harness import make_repository

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.repository.private import PrivateFiles
from hn_memory.uhp.access import Caller
from hn_memory.uhp.faults import UhpError
from hn_memory.uhp.server import Settings, open_server, open_state
from hn_memory.uhp.state import schema
from hn_memory.uhp.state.idempotency import Announcement, Begun, Ledger, Mine, Running, Stored, announce_together
from hn_memory.uhp.state.keys import (
    ADMINISTRATOR,
    change_group,
    create_key,
    digest_of,
    first_key,
    list_groups,
    list_keys,
    revoke_key,
)
from hn_memory.uhp.state.schema import ALL, CREATE, DELETE, READ, WRITE
from hn_memory.uhp.state.store import Store, open_store

ACTOR = "a" * 64


@pytest.fixture
def store(tmp_path: Path, state_url: str | None) -> Iterator[Store]:
    opened = open_store(PrivateFiles(tmp_path), state_url, ACTOR)
    yield opened
    opened.close()


@pytest.fixture
def other(tmp_path: Path, state_url: str | None, store: Store) -> Iterator[Store]:
    """The same state, as another process would open it."""
    opened = open_store(PrivateFiles(tmp_path), state_url, ACTOR)
    yield opened
    opened.close()


def add_node(store: Store, name: str, parent: str | None = None, *, restricted: bool = False) -> str:
    with store.changing() as (connection, tree):
        connection.execute(
            insert(schema.memory).values(
                id=name, name=name, description="", parent_id=parent, restricted=restricted, provider="hn",
                created=len(tree.nodes), updated=0, dropped=False,
            )
        )  # fmt: skip
    return name


def add_grant(store: Store, memory: str, principal: str, privileges: int) -> None:
    with store.changing() as (connection, _):
        connection.execute(
            insert(schema.grant).values(
                id=f"{memory}-{principal}", memory_id=memory, principal=principal, privileges=privileges, created=0
            )
        )


def test_privileges_are_inherited_added_up_and_cut_off(store: Store) -> None:
    add_node(store, "company")
    add_node(store, "sales", "company")
    add_node(store, "hr", "company", restricted=True)
    add_node(store, "files", "hr")
    change_group(store, "staff", ["person:bea"])
    change_group(store, "everyone", ["person:ada", "group:staff"])
    add_grant(store, "company", "group:everyone", READ)
    add_grant(store, "sales", "person:ada", WRITE)
    add_grant(store, "hr", "person:ada", CREATE)
    add_grant(store, "files", "person:ada", DELETE)
    tree = store.snapshot()

    def effective(person: str) -> list[int]:
        return [Caller(tree, person, ALL).mask(memory) for memory in ("company", "sales", "hr", "files")]

    assert effective("person:ada") == [READ, READ | WRITE, CREATE, CREATE | DELETE]
    assert effective("person:bea") == [READ, READ, 0, 0]
    assert effective("person:eve") == [0, 0, 0, 0]
    ada = Caller(tree, "person:ada", READ)
    assert [ada.mask(memory) for memory in ("company", "sales", "hr", "files")] == [READ, READ, 0, 0]
    assert ada.entries() == ["company"]


def test_entries_are_where_the_parent_is_not_seen(store: Store) -> None:
    add_node(store, "company")
    add_node(store, "sales", "company")
    add_node(store, "acme", "sales")
    add_grant(store, "sales", "person:ada", READ)
    add_grant(store, "acme", "person:ada", WRITE)
    add_grant(store, "acme", "person:bea", READ)
    tree = store.snapshot()
    ada, bea = Caller(tree, "person:ada", ALL), Caller(tree, "person:bea", ALL)
    assert ada.entries() == ["sales"] and bea.entries() == ["acme"]
    assert ada.visible_ancestors(tree.nodes["acme"]) == ["sales"] and bea.visible_ancestors(tree.nodes["acme"]) == []
    assert ada.visible_parent(tree.nodes["sales"]) is None
    assert list(ada.walk("sales", 1)) == ["sales", "acme"] and list(ada.walk("sales", 0)) == ["sales"]


def test_another_process_sees_a_change_at_once(store: Store, other: Store) -> None:
    assert other.snapshot().nodes == {}
    add_node(store, "company")
    assert set(other.snapshot().nodes) == {"company"}
    assert other.snapshot() is other.snapshot()
    before = other.snapshot()
    token = create_key(other, "person:ada")["key"]
    assert store.snapshot().keys[digest_of(token)].principal == "person:ada"
    assert other.snapshot() is not before


def test_what_is_no_part_of_the_tree_keeps_the_snapshot(store: Store, other: Store) -> None:
    add_node(store, "company")
    before = store.snapshot()
    Ledger(other).claim("person:ada", "key", b"r" * 32)
    assert store.snapshot() is before


def test_a_change_that_fails_changes_nothing(store: Store) -> None:
    before = store.snapshot().number
    with pytest.raises(ZeroDivisionError), store.changing() as (connection, _):
        connection.execute(
            insert(schema.memory).values(
                id="x", name="x", description="", restricted=False, provider="hn", created=0, updated=0, dropped=False
            )
        )
        raise ZeroDivisionError
    assert store.snapshot().nodes == {} and store.snapshot().number == before


def test_keys_are_kept_as_digests(store: Store, tmp_path: Path) -> None:
    made = create_key(store, "harness:chrn_1", ["read", "write"])
    assert made["key"].startswith("hnk_") and made["privileges"] == ["read", "write"]
    key = store.snapshot().keys[digest_of(made["key"])]
    assert (key.principal, key.privileges, key.administrator) == ("harness:chrn_1", READ | WRITE, False)
    assert made["key"] not in repr(list_keys(store))
    if store.engine.dialect.name == "sqlite":
        data = b"".join(path.read_bytes() for path in (tmp_path / "hn" / "uhp").iterdir())
        assert made["key"].encode() not in data and digest_of(made["key"]) in data
    assert revoke_key(store, made["id"])["revoked"]
    assert digest_of(made["key"]) not in store.snapshot().keys
    with pytest.raises(NotFoundError):
        revoke_key(store, made["id"])


@pytest.mark.parametrize(
    "principal", ["", "ada", "robot:1", "person:", "person:a b", "person:-a", "group:x", "person:é"]
)
def test_only_principals_get_keys(store: Store, principal: str) -> None:
    with pytest.raises(UsageError):
        create_key(store, principal)
    with pytest.raises(UsageError):
        create_key(store, "person:ada", ["fly"])


def test_the_administrator_key_is_made_once(store: Store, other: Store) -> None:
    token = first_key(store)
    assert token is not None
    assert first_key(store) is None and first_key(other) is None
    key = store.snapshot().keys[digest_of(token)]
    assert (key.principal, key.administrator) == (ADMINISTRATOR, True)
    revoke_key(store, key.id)
    assert first_key(other) is None


def test_groups(store: Store) -> None:
    assert change_group(store, "staff", ["person:ada", "person:bea"])["members"] == ["person:ada", "person:bea"]
    assert change_group(store, "group:staff", ["person:ada"], ["person:bea"])["members"] == ["person:ada"]
    assert list_groups(store)["groups"] == [{"group": "group:staff", "members": ["person:ada"]}]
    change_group(store, "all", ["group:staff"])
    for group, add, remove, code in (
        ("staff", ["group:all"], [], "group-loop"),
        ("staff", ["group:staff"], [], "group-loop"),
        ("new", ["group:new"], [], "group-loop"),
        ("staff", ["person:bea", "group:nobody"], [], "group-unknown"),
        ("nobody", [], ["person:ada"], "group-unknown"),
        ("staff", [], ["person:ada", "person:bea"], "member-unknown"),
    ):
        with pytest.raises((UsageError, NotFoundError)) as caught:
            change_group(store, group, add, remove)
        assert (caught.value.code, len(caught.value.message.splitlines())) == (code, 1)
    assert [one["members"] for one in list_groups(store)["groups"]] == [["group:staff"], ["person:ada"]]
    # A state of before may hold a loop.
    with store.changing() as (connection, _):
        connection.execute(insert(schema.member).values(group_id="group:staff", principal="group:all"))
    assert store.snapshot().principals("person:ada") == {"person:ada", "group:staff", "group:all"}
    assert change_group(store, "staff", [], ["group:all"])["members"] == ["person:ada"]


def test_idempotency_keys(store: Store, other: Store) -> None:
    one, two = Ledger(store), Ledger(other)
    request = b"r" * 32
    mine, owner = one.claim("person:ada", "k", request)
    assert isinstance(mine, Mine)
    assert isinstance(two.claim("person:ada", "k", request)[0], Running)
    assert isinstance(two.claim("person:bea", "k", request)[0], Mine)
    with pytest.raises(UhpError) as caught:
        two.claim("person:ada", "k", b"s" * 32)
    assert caught.value.code == "memory_invalid"
    one.announce("person:ada", "k", owner, "hmem_1", "token")
    one.finish("person:ada", "k", owner, Stored(200, b"{}"))
    assert two.claim("person:ada", "k", request)[0] == Stored(200, b"{}")
    assert one.sweep() == 0


def test_a_failed_request_is_left_to_its_repeat(store: Store) -> None:
    ledger = Ledger(store)
    _, owner = ledger.claim("person:ada", "k", b"r" * 32)
    ledger.announce("person:ada", "k", owner, "hmem_1", "token")
    ledger.finish("person:ada", "k", owner, None)
    begun, again = ledger.claim("person:ada", "k", b"r" * 32)
    assert begun == Begun("hmem_1", "token")
    with pytest.raises(UhpError):
        ledger.announce("person:ada", "k", owner, "hmem_1", "other")
    ledger.announce("person:ada", "k", again, "hmem_1", "other")


def test_announcements_made_together_are_those_made_alone(store: Store, other: Store) -> None:
    ledger = Ledger(store)
    owners = {name: ledger.claim("person:ada", name, b"r" * 32)[1] for name in ("a", "b", "c")}

    def announcement(name: str) -> Announcement:
        return Announcement(ledger, "person:ada", name, owners[name], lambda: f"hmem_{name}")

    def begun(name: str) -> object:
        ledger.finish("person:ada", name, owners[name], None)
        state, owners[name] = Ledger(other).claim("person:ada", name, b"r" * 32)
        return state

    assert announce_together([(announcement("a"), "one"), (announcement("b"), "two")])
    assert (begun("a"), begun("b")) == (Begun("hmem_a", "one"), Begun("hmem_b", "two"))
    lost = announcement("c")
    assert begun("c") == Begun(None, None)
    assert not announce_together([(lost, "three"), (announcement("a"), "four")])
    with pytest.raises(UhpError) as caught:
        lost("three")
    assert caught.value.code == "memory_busy"
    announcement("a")("four")
    assert (begun("a"), begun("c")) == (Begun("hmem_a", "four"), Begun(None, None))
    assert not announce_together([])
    assert not announce_together([(announcement("a"), "five"), (print, "six")])


def test_what_a_killed_process_began_is_taken_over(store: Store, tmp_path: Path, state_url: str | None) -> None:
    code = f"""
import os, signal
from pathlib import Path
from hn_memory.repository.private import PrivateFiles
from hn_memory.uhp.state.store import open_store
from hn_memory.uhp.state.idempotency import Ledger
ledger = Ledger(open_store(PrivateFiles(Path({str(tmp_path)!r})), {state_url!r}, {ACTOR!r}))
_, owner = ledger.claim("person:ada", "k", b"r" * 32)
ledger.announce("person:ada", "k", owner, "hmem_1", "token")
print("announced", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "announced\n", done.stderr
    assert Ledger(store).claim("person:ada", "k", b"r" * 32)[0] == Begun("hmem_1", "token")


def test_the_default_state_is_private(repository: Path) -> None:
    server = open_server(Settings(path=str(repository)))
    first_key(server.store)
    directory = repository / ".git" / "hn" / "uhp"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = list(directory.iterdir())
    assert {path.name for path in files} >= {"state.sqlite", "state.sqlite-wal"}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    server.close()


def test_a_state_belongs_to_one_actor(tmp_path: Path, store: Store, state_url: str | None) -> None:
    with pytest.raises(HnError) as caught:
        open_store(PrivateFiles(tmp_path), state_url, "b" * 64)
    assert caught.value.code == "state-foreign"


@pytest.mark.parametrize("url", ["nonsense", "mysql://x/y", ""])
def test_only_two_kinds_of_databases(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(PrivateFiles(tmp_path), url, ACTOR)
    assert caught.value.code == "state-invalid"


@pytest.mark.parametrize("chosen", [False, True], ids=["by default", "by URL"])
def test_a_state_file_is_private_and_never_empty(tmp_path: Path, chosen: bool) -> None:
    files = PrivateFiles(tmp_path)
    path = tmp_path / "chosen.sqlite" if chosen else tmp_path / "hn" / "uhp" / "state.sqlite"
    url = f"sqlite:///{path}" if chosen else None
    before = os.umask(0)
    try:
        open_store(files, url, ACTOR).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not [one for one in path.parent.iterdir() if one.name.endswith(".tmp")]
    whole = path.read_bytes()
    for data, wanted in ((b"", "is empty"), (whole[:4096] + b"\xff" * (len(whole) - 4096), "damaged")):
        path.write_bytes(data)
        with pytest.raises(HnError) as caught:
            open_store(files, url, ACTOR)
        assert caught.value.code == "state-unavailable" and wanted in caught.value.message
        assert path.read_bytes() == data
    path.write_bytes(whole)
    open_store(files, url, ACTOR).close()


def test_a_file_that_cannot_be_used_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "chosen.sqlite"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(HnError) as caught:
        open_store(PrivateFiles(tmp_path), f"sqlite:///{path}", ACTOR)
    assert caught.value.code == "state-unavailable" and "damaged" in caught.value.message
    assert path.read_bytes() == b"not a database at all" * 100
    with pytest.raises(HnError) as caught:
        open_store(PrivateFiles(tmp_path), f"sqlite:///{tmp_path}/no/such/place", ACTOR)
    assert caught.value.code == "state-unavailable" and "No such file" in caught.value.message
    assert str(tmp_path) not in f"{caught.value.message}{caught.value.hint}"


def test_a_database_that_does_not_answer_is_named_without_its_secrets(tmp_path: Path) -> None:
    with pytest.raises(HnError) as caught:
        open_store(PrivateFiles(tmp_path), "postgresql://ada:hunter2@127.0.0.1:9/none", ACTOR)
    assert caught.value.code == "state-unavailable"
    assert "hunter2" not in f"{caught.value.message}{caught.value.hint}"


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    path = make_repository(tmp_path / "bare")
    subprocess.run(["git", "update-ref", "-d", "HEAD"], cwd=path, check=True)
    with pytest.raises(HnError) as caught:
        open_server(Settings(path=str(path)))
    assert caught.value.code == "repository-empty"
    assert open_state(Settings(path=str(path))).snapshot().nodes == {}


def test_nothing_of_uhp_is_loaded_by_the_command_line(repository: Path) -> None:
    code = "import sys; from hn_memory.cli.run import run; run(['memory', 'log']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True)
    assert not any(name in done.stdout for name in ("fastapi", "sqlalchemy", "pydantic", "hn_memory.uhp"))
