"""`index rebuild`, `verify` and `status`: the database, and the `index-v0.json` beside it (section 9)."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from index_world import (
    ADA,
    BOB,
    CHLOE,
    Twins,
    copy_twins,
    git,
    is_private,
    observation,
    oracle_of,
    policy_file,
    stream_of,
)

from hn_memory import HnError, Service
from hn_memory.errors import NotFoundError
from hn_memory.index import usable
from hn_memory.protocol import limits
from hn_memory.protocol.canonical import encode_indented
from hn_memory.protocol.identifiers import local_ref
from hn_memory.protocol.projection import Context, project_one
from hn_memory.protocol.query import source_fingerprint
from hn_memory.protocol.unicode import terms
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.world import RepositoryWorld
from hn_memory.repository.writer import Statement

VALID = {"version": 0, "state": "valid", "database": "valid", "snapshot": "valid"}


@pytest.fixture
def stocked(twins: Twins) -> Twins:
    main, pen = twins.code.commits["main"], twins.pen
    first = pen.append(ADA, observation("Größe <b> & \u2028 größe", main, topics=("two words",)))
    second = pen.append(ADA, observation("it follows", main, target=first, evidence=(f"memory:{first}", f"git:{main}")))
    pen.append(ADA, Statement("retract", target=second, reason="wrong"))
    pen.append(BOB, observation("of Bob", "c" * 40, evidence=("git:" + "e" * 40,)))
    pen.append(CHLOE, Statement("challenge", target=first, reason="doubt"))
    return twins


@pytest.fixture
def service(stocked: Twins) -> Iterator[Service]:
    with stocked.service() as opened:
        yield opened


@pytest.fixture
def snapshot(stocked: Twins, service: Service) -> Path:
    service.index_rebuild()
    return stocked.private / "memory" / "index-v0.json"


def refusal(call: Callable[[], object]) -> tuple[str, int]:
    with pytest.raises(HnError) as caught:
        call()
    assert "\n" not in caught.value.message
    return caught.value.code, caught.value.exit_status


def expected(service: Service) -> dict[str, Any]:
    """The snapshot by full scan."""
    oracle = oracle_of(service)
    commit = oracle.repository.resolve_commit("HEAD")
    policy = policy_at(oracle.repository, commit)
    context = Context(commit, policy, RepositoryWorld(oracle.repository, commit))
    projected = [project_one(oracle.memories, oracle.lifecycles, context, one) for one in oracle.memories.values()]
    rows = sorted((row for row in projected if row is not None), key=lambda row: row.memory.id)
    tokens: dict[str, list[str]] = {}
    for row in rows:
        for term in sorted({term for text in (row.record.content, *row.record.topics) for term in terms(text)}):
            tokens.setdefault(term, []).append(row.memory.id)
    return {
        "version": 0,
        "sourceFingerprint": source_fingerprint(policy.digest, oracle.verified.heads),
        "records": [row.document() for row in rows],
        "tokens": [{"token": token, "memoryIds": tokens[token]} for token in sorted(tokens)],
    }


# -- what it says -----------------------------------------------------------------------------------------


def test_the_snapshot_is_that_of_a_full_scan(service: Service, snapshot: Path) -> None:
    wanted = expected(service)
    assert json.loads(snapshot.read_bytes()) == wanted
    assert len(wanted["records"]) == 3
    assert snapshot.read_bytes().startswith(b'{\n  "version": 0,\n  "sourceFingerprint": "sha256:')
    assert snapshot.read_bytes().endswith(b"\n}\n")
    assert b"\\u003cb\\u003e \\u0026 \\u2028" in snapshot.read_bytes()
    assert stat.S_IMODE(snapshot.stat().st_mode) == 0o600
    assert is_private(snapshot.parent / "index.sqlite")


def test_the_document_counts(service: Service, snapshot: Path) -> None:
    document = service.index_rebuild()
    wanted = expected(service)
    assert document == {
        "version": 0,
        "state": "rebuilt",
        "memories": 5,
        "records": len(wanted["records"]),
        "tokens": len(wanted["tokens"]),
        "snapshot": "written",
        "bytes": snapshot.stat().st_size,
        "sourceFingerprint": wanted["sourceFingerprint"],
    }


@pytest.mark.parametrize("over", ["by its terms alone", "by its last byte"])
def test_a_snapshot_that_is_too_large_is_not_written(
    service: Service, snapshot: Path, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is rebuilt all the same, and no older snapshot stays behind to be called stale for ever."""
    before = service.index_rebuild()
    monkeypatch.setattr(limits, "SNAPSHOT_BYTES", 82 if over == "by its terms alone" else before["bytes"] - 1)
    assert service.index_rebuild() == before | {"snapshot": "too-large", "bytes": None}
    assert not snapshot.exists()
    assert "was not written" in service.notices[-1]
    assert service.index_verify() == {"version": 0, "state": "valid", "database": "valid", "snapshot": "missing"}
    monkeypatch.setattr(limits, "SNAPSHOT_BYTES", before["bytes"])
    assert service.index_rebuild() == before
    assert snapshot.stat().st_size == before["bytes"]


def test_every_rebuild_gives_the_same_bytes(stocked: Twins, service: Service, snapshot: Path, tmp_path: Path) -> None:
    first = snapshot.read_bytes()
    service.index_rebuild()
    assert snapshot.read_bytes() == first
    snapshot.unlink()
    (snapshot.parent / "index.sqlite").unlink()
    with stocked.service("git") as other:
        other.index_rebuild()
    assert snapshot.read_bytes() == first
    # In a clone that came by the same refs in another order, through refs that came and went.
    with copy_twins(stocked, tmp_path / "clone") as clone, clone.service() as cloned:
        refs = {
            ref: str(clone.pen.tip(ref))
            for ref in git(clone.here, "for-each-ref", "--format=%(refname)", "refs/hn/memory").split()
        }
        for ref in refs:
            clone.pen.drop(ref)
        for ref in reversed(refs):
            clone.pen.point(ref, refs[ref])
            cloned.log()
        cloned.index_rebuild()
        assert (clone.private / "memory" / "index-v0.json").read_bytes() == first


def test_a_valid_index(service: Service, snapshot: Path) -> None:
    assert service.index_verify() == VALID
    status = service.index_status()
    assert status["state"] == "valid"
    assert status["memories"] == 5
    assert status["bytes"] == (snapshot.parent / "index.sqlite").stat().st_size
    assert 0 < status["payloadBytes"] < status["bytes"]
    assert 0 < status["searchBytes"] < status["bytes"]


# -- missing ----------------------------------------------------------------------------------------------


def test_missing(stocked: Twins, service: Service) -> None:
    before = sorted(path.name for path in stocked.private.iterdir())
    assert service.index_status() == {"version": 0, "state": "missing"}
    assert refusal(service.index_verify) == ("index-missing", 3)
    with pytest.raises(NotFoundError):
        service.index_verify()
    assert sorted(path.name for path in stocked.private.iterdir()) == before


def test_without_a_snapshot(service: Service, snapshot: Path) -> None:
    snapshot.unlink()
    assert service.index_verify() == VALID | {"snapshot": "missing"}


def test_without_a_database(service: Service, snapshot: Path) -> None:
    (snapshot.parent / "index.sqlite").unlink()
    assert service.index_status() == {"version": 0, "state": "missing"}
    assert service.index_verify() == VALID | {"database": "missing"}


# -- corrupt and incompatible -----------------------------------------------------------------------------


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """A change of the value, written as we would write it."""

    def apply(data: bytes) -> bytes:
        value = json.loads(data)
        change(value)
        return encode_indented(value)

    return apply


SPOILED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "index-corrupt"),
    "cut": (lambda data: data[:-40], "index-corrupt"),
    "no newline": (lambda data: data[:-1], "index-corrupt"),
    "compact": (lambda data: json.dumps(json.loads(data)).encode(), "index-corrupt"),
    "no JSON": (lambda data: b"\xff" + data, "index-corrupt"),
    "a list": (lambda data: b"[]\n", "index-corrupt"),
    "twice": (lambda data: data.replace(b'"version": 0,', b'"version": 0,\n  "version": 0,', 1), "index-corrupt"),
    "one field more": (edited(lambda value: value.update(more=1)), "index-corrupt"),
    "no tokens": (edited(lambda value: value.pop("tokens")), "index-corrupt"),
    "another lifecycle": (edited(lambda value: value["records"][0].update(lifecycle="active?")), "index-corrupt"),
    "another text": (edited(lambda value: value["records"][0]["data"].update(content="forged")), "index-corrupt"),
    "a record less": (edited(lambda value: value["records"].pop()), "index-corrupt"),
    "a token less": (edited(lambda value: value["tokens"].pop()), "index-corrupt"),
    "version 1": (edited(lambda value: value.update(version=1)), "index-incompatible"),
    "version 1, else": (lambda data: b'{"version": 1, "else": []}', "index-incompatible"),
    "version true": (edited(lambda value: value.update(version=True)), "index-corrupt"),
    "other sources": (edited(lambda value: value.update(sourceFingerprint="sha256:" + "0" * 64)), "index-stale"),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_snapshot(service: Service, snapshot: Path, how: str) -> None:
    spoil, code = SPOILED[how]
    whole = snapshot.read_bytes()
    snapshot.write_bytes(spoil(whole))
    assert refusal(service.index_verify) == (code, 1)
    # It is for other tools: what we answer does not come from it, and nothing repairs it unasked.
    assert service.index_status()["state"] == "valid"
    service.log()
    assert refusal(service.index_verify) == (code, 1)
    service.index_rebuild()
    assert snapshot.read_bytes() == whole
    assert service.index_verify() == VALID


def test_a_snapshot_beyond_its_bound(service: Service, snapshot: Path) -> None:
    os.truncate(snapshot, 256 * 1024 * 1024 + 1)
    assert refusal(service.index_verify) == ("private-file-unsafe", 1)


def as_noted(database: Path) -> None:
    (database.parent / "index.lock").write_bytes(usable.stamp_of(database.lstat()))


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not noted"])
def test_a_corrupt_database(stocked: Twins, service: Service, snapshot: Path, noted: bool) -> None:
    with stocked.database.open("r+b") as file:
        file.seek(4096 * 3)
        file.write(b"\x55" * 8192)
    if noted:
        as_noted(stocked.database)
    before = usable.stamp_of(stocked.database.stat())
    assert service.index_status()["state"] == "corrupt"
    assert refusal(service.index_verify) == ("index-corrupt", 1)
    # Looking changes nothing.
    assert usable.stamp_of(stocked.database.stat()) == before
    if noted:
        service.index_rebuild()
    else:
        service.log()
    assert service.index_verify() == VALID


@pytest.mark.parametrize("pragma", ["user_version", "application_id"])
def test_an_incompatible_database(stocked: Twins, service: Service, snapshot: Path, pragma: str) -> None:
    with closing(sqlite3.connect(stocked.database)) as db:
        db.execute(f"PRAGMA {pragma} = 9")
    as_noted(stocked.database)
    assert service.index_status()["state"] == "incompatible"
    assert refusal(service.index_verify) == ("index-incompatible", 1)
    with stocked.service() as fresh:
        fresh.log()
        assert fresh.index_verify() == VALID


# -- stale ------------------------------------------------------------------------------------------------


def blob_id(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


def more(twins: Twins) -> None:
    twins.pen.append(BOB, observation("more", twins.code.commits["main"]))


def less(twins: Twins) -> None:
    ref = local_ref(ADA.actor, stream_of(ADA))
    twins.pen.point(ref, twins.pen.chain(twins.pen.tip(ref))[1])


def gone(twins: Twins) -> None:
    twins.pen.drop(local_ref(BOB.actor, stream_of(BOB)))


def fetched(twins: Twins) -> None:
    twins.far.append(CHLOE, observation("far", twins.code.commits["main"]))
    twins.fetch("+refs/hn/memory/*:refs/hn/remotes/x/memory/*")


@pytest.mark.parametrize("change", [more, less, gone, fetched])
def test_other_sources_make_it_stale(
    stocked: Twins, service: Service, snapshot: Path, change: Callable[[Twins], None]
) -> None:
    old = snapshot.read_bytes()
    change(stocked)
    assert service.index_status()["state"] == "stale"
    assert refusal(service.index_verify) == ("index-stale", 1)
    service.log()
    # The database has caught up; the snapshot is still that of the old sources.
    assert service.index_status()["state"] == "valid"
    assert refusal(service.index_verify) == ("index-stale", 1)
    snapshot.unlink()
    assert service.index_verify() == VALID | {"snapshot": "missing"}
    service.index_rebuild()
    assert service.index_verify() == VALID
    assert snapshot.read_bytes() != old
    assert json.loads(snapshot.read_bytes()) == expected(service)


def test_a_database_behind_its_sources_is_stale_without_a_snapshot(
    stocked: Twins, service: Service, snapshot: Path
) -> None:
    snapshot.unlink()
    more(stocked)
    assert refusal(service.index_verify) == ("index-stale", 1)


def test_another_head_makes_the_snapshot_stale(stocked: Twins, service: Service, snapshot: Path) -> None:
    main = stocked.code.commits["main"]
    stocked.pen.point("refs/heads/main", stocked.pen.code([], {"unrelated": b"history"}))
    with pytest.raises(HnError, match="HEAD") as caught:
        service.index_verify()
    assert caught.value.code == "index-stale"
    assert service.index_status()["state"] == "valid"
    stocked.pen.point("refs/heads/main", main)
    assert service.index_verify() == VALID


def test_evidence_that_arrives_makes_the_snapshot_stale(stocked: Twins, service: Service, snapshot: Path) -> None:
    body = b"arrives late"
    stocked.pen.append(BOB, observation("cites", stocked.code.commits["main"], evidence=(f"git:{blob_id(body)}",)))
    service.index_rebuild()
    assert service.index_verify() == VALID
    assert stocked.pen.store("blob", body) == blob_id(body)
    assert refusal(service.index_verify) == ("index-stale", 1)
    service.index_rebuild()
    assert service.index_verify() == VALID


def test_a_database_that_another_program_holds(stocked: Twins, service: Service, snapshot: Path) -> None:
    with closing(sqlite3.connect(stocked.database, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        assert service.index_status()["state"] == "locked"
        assert refusal(service.index_verify) == ("index-locked", 4)
        db.execute("ROLLBACK")
    assert service.index_verify() == VALID


def test_another_policy_makes_the_snapshot_stale(stocked: Twins, service: Service, snapshot: Path) -> None:
    oid = stocked.pen.code([stocked.code.commits["main"]], {".hn/policy.json": policy_file([ADA.actor], ["attempt"])})
    stocked.pen.point("refs/heads/main", oid)
    assert refusal(service.index_verify) == ("index-stale", 1)
    assert service.index_status()["state"] == "valid"
    service.index_rebuild()
    assert service.index_verify() == VALID
    bad = stocked.pen.code([oid], {".hn/policy.json": b"{"})
    stocked.pen.point("refs/heads/main", bad)
    assert refusal(service.index_rebuild) == ("policy-invalid", 1)
    assert refusal(service.index_verify) == ("policy-invalid", 1)
    stocked.pen.point("refs/heads/main", oid)
    assert service.index_verify() == VALID


def test_an_invalid_source_is_named_and_left_out(stocked: Twins, service: Service, snapshot: Path) -> None:
    ref = local_ref(BOB.actor, stream_of(BOB))
    git(stocked.here, "update-ref", ref, stocked.code.commits["main"])
    document = service.index_rebuild()
    assert document["memories"] == 4
    assert [line for line in service.notices if ref in line]
    assert service.index_verify() == VALID
    assert json.loads(snapshot.read_bytes()) == expected(service)


# -- in safe places only ----------------------------------------------------------------------------------


def test_a_symbolic_link_in_place_of_the_snapshot(service: Service, snapshot: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.json"
    foreign.write_bytes(snapshot.read_bytes())
    for target in (foreign, tmp_path / "dangling"):
        snapshot.unlink()
        snapshot.symlink_to(target)
        assert refusal(service.index_verify) == ("private-file-unsafe", 1)
        assert refusal(service.index_rebuild) == ("private-file-unsafe", 1)
        assert snapshot.is_symlink()
    assert foreign.read_bytes().startswith(b"{\n")
    assert not (tmp_path / "dangling").exists()


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o604, 0o700])
def test_a_snapshot_of_a_wider_mode(service: Service, snapshot: Path, mode: int) -> None:
    snapshot.chmod(mode)
    assert refusal(service.index_verify) == ("private-file-unsafe", 1)
    assert refusal(service.index_rebuild) == ("private-file-unsafe", 1)
    assert stat.S_IMODE(snapshot.stat().st_mode) == mode
    snapshot.chmod(0o600)
    assert service.index_verify() == VALID


def test_a_directory_in_place_of_the_snapshot(service: Service, snapshot: Path) -> None:
    snapshot.unlink()
    snapshot.mkdir(mode=0o700)
    assert refusal(service.index_verify) == ("private-file-unsafe", 1)
    assert refusal(service.index_rebuild) == ("private-file-unsafe", 1)


@pytest.mark.parametrize("below", ["memory", "."])
def test_a_directory_of_a_wider_mode(stocked: Twins, service: Service, snapshot: Path, below: str) -> None:
    (stocked.private / below).chmod(0o750)
    for call in (service.index_rebuild, service.index_verify, service.index_status):
        assert refusal(call) == ("private-file-unsafe", 1)
    (stocked.private / below).chmod(0o700)
    assert service.index_verify() == VALID


def test_a_directory_in_place_of_the_database(stocked: Twins, service: Service, snapshot: Path) -> None:
    stocked.database.unlink()
    stocked.database.mkdir(mode=0o700)
    assert refusal(service.index_rebuild) == ("index-unwritable", 1)
    assert stocked.database.is_dir()


def test_a_rebuild_leaves_nothing_beside(service: Service, snapshot: Path) -> None:
    (snapshot.parent / "index.new-4194399").write_bytes(b"of a rebuild that was killed")
    (snapshot.parent / "index.sqlite-journal").write_bytes(b"")
    service.index_rebuild()
    assert sorted(path.name for path in snapshot.parent.iterdir()) == ["index-v0.json", "index.lock", "index.sqlite"]
