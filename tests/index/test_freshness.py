"""Only what is new is read and verified; only what is no longer reachable is dropped."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from index_world import (
    ADA,
    BOB,
    CHLOE,
    INSTANT,
    Twins,
    copy_twins,
    dump,
    everything,
    git,
    is_private,
    observation,
    oracle_of,
    same_answers,
    stream_of,
)

from hn_memory import Service
from hn_memory.index import ingest, update, usable
from hn_memory.index.fullscan import verify_sources
from hn_memory.protocol.identifiers import accepted_ref, local_ref
from hn_memory.protocol.record import PathAnchor
from hn_memory.repository import workers
from hn_memory.repository.libgit import LibgitRepository
from hn_memory.repository.scan import scan
from hn_memory.repository.writer import Statement
from hn_memory.service.building import RecordArguments

SOME = 30
STREAM = stream_of(ADA)
REF = local_ref(ADA.actor, STREAM)


@pytest.fixture
def stocked(twins: Twins) -> Twins:
    """Some memories of two people, with everything that the tables hold."""
    main = twins.code.commits["main"]
    known = ""
    for number in range(SOME):
        parts: dict[str, Any] = {"topics": (f"topic-{number % 4}",)}
        if number % 5 == 1:
            parts |= {"target": known, "evidence": (f"memory:{known}", f"git:{main}")}
        if number % 7 == 2:
            parts |= {"paths": (PathAnchor("a.txt", twins.code.blobs["a.txt"]), PathAnchor("none", "absent"))}
        known = twins.pen.append(ADA, observation(f"Ada says {number}", main, **parts))
    for number in range(3):
        twins.pen.append(BOB, observation(f"Bob says {number}", main))
    return twins


@pytest.fixture
def service(stocked: Twins) -> Iterator[Service]:
    with stocked.service() as opened:
        opened.recall(everything())
        yield opened


@pytest.fixture
def verified(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commits that are verified from now on, in order."""
    commits: list[str] = []
    original = ingest.verify_commit

    def counting(commit: Any) -> Any:
        commits.append(commit.commit)
        return original(commit)

    monkeypatch.setattr(ingest, "verify_commit", counting)
    return commits


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The objects whose content is read from now on."""
    objects: list[str] = []
    original = LibgitRepository._read_one

    def counting(self: LibgitRepository, oid: str) -> Any:
        found = original(self, oid)
        objects.append(oid)
        return found

    monkeypatch.setattr(LibgitRepository, "_read_one", counting)
    return objects


def memory_objects_of(twins: Twins, *refs: str) -> set[str]:
    """Every object that carries a memory of some refs."""
    listed = git(twins.here, "rev-list", "--objects", *refs).splitlines()
    return {line.split(" ")[0] for line in listed}


def test_a_missing_index_costs_one_walk(stocked: Twins, verified: list[str], read: list[str]) -> None:
    with stocked.service() as service:
        assert service.recall(everything())["receipt"]["index"] == {"state": "rebuilt", "detail": "it was missing"}
        assert len(verified) == SOME + 3
        carried = memory_objects_of(stocked, REF, local_ref(BOB.actor, stream_of(BOB)))
        times = Counter(oid for oid in read if oid in carried)
        # A commit is read when it is walked; its tree and its two files when it is verified.
        assert len(times) == 4 * (SOME + 3)
        assert max(times.values()) == 1
        read.clear()
        assert service.recall(everything())["receipt"]["index"] == {"state": "fresh"}
    with stocked.service() as another:
        assert another.recall(everything())["receipt"]["index"] == {"state": "fresh"}
        assert another.notices == []
    assert len(verified) == SOME + 3
    assert not carried.intersection(read)


def by_another_tool(twins: Twins) -> list[str]:
    twins.pen.append(ADA, observation("one more", twins.code.commits["main"]))
    return [str(twins.pen.tip(REF))]


def by_several_commits(twins: Twins) -> list[str]:
    before = twins.pen.tip(REF)
    for number in range(4):
        twins.pen.append(ADA, observation(f"more {number}", twins.code.commits["main"]))
    return list(reversed(twins.pen.chain(twins.pen.tip(REF))))[-4:] if before else []


def by_fetch(twins: Twins) -> list[str]:
    for number in range(3):
        twins.far.append(CHLOE, observation(f"from afar {number}", twins.code.commits["main"]))
    twins.fetch("+refs/hn/memory/*:refs/hn/remotes/x/memory/*")
    return list(reversed(twins.far.chain(twins.far.tip(local_ref(CHLOE.actor, stream_of(CHLOE))))))


def by_update_ref(twins: Twins) -> list[str]:
    oid = twins.pen.commit(CHLOE, stream_of(CHLOE, "new"), observation("put", twins.code.commits["main"]), None)
    git(twins.here, "update-ref", accepted_ref("x", CHLOE.actor, stream_of(CHLOE, "new")), oid)
    return [oid]


def by_another_service(twins: Twins) -> list[str]:
    with twins.service("git", BOB.actor) as other:
        other.record(RecordArguments(kind="decision", content="Bob again"))
    # Whoever signs a memory with an index at hand puts it there.
    return []


@pytest.mark.parametrize("change", [by_another_tool, by_several_commits, by_fetch, by_update_ref, by_another_service])
def test_the_next_command_sees_it_and_verifies_nothing_else(
    change: Callable[[Twins], list[str]], stocked: Twins, service: Service, verified: list[str], read: list[str]
) -> None:
    old = memory_objects_of(stocked, "--glob=refs/hn/memory/*")
    tips = {stocked.pen.tip(REF), stocked.pen.tip(local_ref(BOB.actor, stream_of(BOB)))}
    new = change(stocked)
    read.clear()
    verified.clear()
    found = service.recall(everything())
    assert verified == new
    # Of what was here, the walk meets no more than the tip that the new commits stand on.
    assert not old.intersection(read) - tips
    assert found["receipt"]["index"] == {"state": "updated" if new else "fresh"}
    verified.clear()
    with stocked.service("git") as fresh:
        same_answers([service, fresh], oracle_of(service), everything())
    assert verified == []


def test_what_is_here_already_is_not_verified_again(stocked: Twins, service: Service, verified: list[str]) -> None:
    """A ref of another name on the same chain, a move backwards and forwards within what another ref holds."""
    tip = stocked.pen.tip(REF)
    assert tip is not None
    chain = stocked.pen.chain(tip)
    other = accepted_ref("x", ADA.actor, STREAM)
    for steps in ([(other, tip)], [(REF, chain[10])], [(REF, chain[3])], [(REF, tip), (other, chain[-1])]):
        for ref, oid in steps:
            stocked.pen.point(ref, oid)
        same_answers([service], oracle_of(service), everything())
        assert verified == []


# -- dropping ---------------------------------------------------------------------------------------------


def rich(twins: Twins, identity: Any, label: str) -> list[str]:
    """A chain that touches every table, and speaks about the memories of others; its commits."""
    main, pen = twins.code.commits["main"], twins.pen
    stream = stream_of(identity, label)
    known = [head.memory_id for head in pen.heads.values()]
    paths = (PathAnchor("a.txt", twins.code.blobs["a.txt"]), PathAnchor("only-here.txt", "absent"))
    subject = "issue:sha256:" + "3" * 64
    oid: str | None = None
    statements = [
        observation("odd words: zyzzyva", main, topics=("only here",), paths=paths, subject=subject),
        observation(
            "it supersedes", twins.code.commits["future-1"], kind="decision", target=known[0], topics=("topic-1",)
        ),
        observation("so does it", main, target=known[0], evidence=("git:" + "e" * 40,)),
        observation("of the unknown", main, target="sha256:" + "4" * 64),
        Statement("retract", target=known[3], reason="wrong"),
        Statement("challenge", target=known[4], reason="doubt"),
        observation("a last word", "c" * 40, paths=paths),
    ]
    made = []
    for number, statement in enumerate(statements):
        oid = pen.commit(identity, stream, statement, oid, f"2026-11-0{number + 1}T00:00:00Z")
        made.append(oid)
    made.append(
        pen.commit(identity, stream, Statement("retract", target=pen.heads[made[0]].memory_id, reason="x"), oid)
    )
    made.append(
        pen.commit(identity, stream, observation("lost", main, target=pen.heads[made[2]].memory_id), made[-1], INSTANT)
    )
    made.append(
        pen.commit(identity, stream, Statement("retract", target=pen.heads[made[-1]].memory_id, reason="x"), made[-1])
    )
    return made


@pytest.mark.parametrize("identity", [ADA, BOB, CHLOE], ids=["same actor", "other actor", "new actor"])
def test_a_deleted_ref_drops_exactly_what_it_alone_held(stocked: Twins, service: Service, identity: Any) -> None:
    before = dump(stocked.database)
    made = rich(stocked, identity, "rich")
    for ref in (
        local_ref(identity.actor, stream_of(identity, "rich")),
        accepted_ref("x", identity.actor, stream_of(identity, "rich")),
    ):
        stocked.pen.point(ref, made[-1])
        same_answers([service], oracle_of(service), everything())
        assert len(dump(stocked.database)["link"]) == len(before["link"]) + len(made)
        git(stocked.here, "update-ref", "-d", ref)
        same_answers([service], oracle_of(service), everything())
        assert dump(stocked.database) == before


def test_a_rewound_ref_drops_what_followed_and_no_more(stocked: Twins, service: Service, verified: list[str]) -> None:
    """Step by step forwards, then the same steps backwards in leaps: the tables are those of the way there."""
    made = rich(stocked, ADA, "rich")
    ref = local_ref(ADA.actor, stream_of(ADA, "rich"))
    dumps = []
    for oid in made:
        stocked.pen.point(ref, oid)
        service.recall(everything())
        dumps.append(dump(stocked.database))
    verified.clear()
    for place in (7, 4, 2, 0):
        git(stocked.here, "update-ref", ref, made[place])
        same_answers([service], oracle_of(service), everything())
        assert dump(stocked.database) == dumps[place]
    assert verified == []
    # What was dropped is verified when it comes back, and nothing else is.
    git(stocked.here, "update-ref", ref, made[5])
    service.recall(everything())
    assert verified == made[1:6]
    assert dump(stocked.database) == dumps[5]


def test_the_order_of_arrival_leaves_no_trace(stocked: Twins, original: Twins, service: Service) -> None:
    """Taken in bit by bit or all at once, dropped and taken in again: the tables say the same."""
    made = rich(stocked, BOB, "rich")
    ref = local_ref(BOB.actor, stream_of(BOB, "rich"))
    for place in (3, 1, 8, 0, 9):
        stocked.pen.point(ref, made[place])
        service.recall(everything())
    step_by_step = dump(stocked.database)
    service.index_rebuild()
    assert dump(stocked.database) == step_by_step


def test_a_source_that_breaks_drops_its_memories_and_comes_back(stocked: Twins, service: Service) -> None:
    before = dump(stocked.database)
    tip = stocked.pen.tip(REF)
    bad = stocked.pen.commit(ADA, STREAM, observation("forged", stocked.code.commits["main"]), tip, signer=BOB)
    stocked.pen.point(REF, bad)
    found = same_answers([service], oracle_of(service), everything())
    assert [source["ref"] for source in found["receipt"]["sources"]["invalid"]] == [REF]
    assert found["receipt"]["considered"] == 3
    assert len(dump(stocked.database)["memory"]) == 3
    stocked.pen.point(REF, str(tip))
    assert same_answers([service], oracle_of(service), everything())["receipt"]["considered"] == SOME + 3
    assert dump(stocked.database) == before


def test_a_long_source_that_breaks_leaves_nothing_in_a_rebuild(stocked: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    """More commits than go into one batch, then one that does not hold: the batches are undone."""
    main, pen = stocked.code.commits["main"], stocked.pen
    monkeypatch.setattr(update, "BATCH", 16)
    with stocked.service() as service:
        service.index_rebuild()
        before = dump(stocked.database)
        stream = stream_of(CHLOE, "long")
        oid: str | None = None
        for number in range(40):
            oid = pen.commit(CHLOE, stream, observation(f"number {number}", main, topics=(f"t{number}",)), oid)
        assert oid is not None
        tip, ref = oid, local_ref(CHLOE.actor, stream)
        bad = pen.commit(CHLOE, stream, observation("forged", main), tip, signer=BOB)
        # What the same author says elsewhere holds, and is all that may be seen of her.
        pen.append(CHLOE, observation("elsewhere", main))
        pen.point(ref, bad)
        service.index_rebuild()
        found = same_answers([service], oracle_of(service), everything())
        assert found["receipt"]["considered"] == SOME + 3 + 1
        after = dump(stocked.database)
        assert len(after["link"]) == len(before["link"]) + 1
        assert len(after["topic"]) == len(before["topic"])
        # The same when the commits come one after the other.
        pen.point(ref, tip)
        service.recall(everything())
        pen.point(ref, bad)
        same_answers([service], oracle_of(service), everything())
        assert dump(stocked.database) == after


def test_an_object_that_comes_later_is_seen_without_a_move(stocked: Twins, service: Service) -> None:
    """A source whose objects are not all here is tried again, and an anchor is judged again."""
    oid = stocked.far.commit(CHLOE, stream_of(CHLOE), observation("far", stocked.code.commits["main"]), None)
    ref = local_ref(CHLOE.actor, stream_of(CHLOE))
    tip = stocked.far.commit(CHLOE, stream_of(CHLOE), observation("farther", stocked.code.commits["main"]), oid)
    assert stocked.pen.store("commit", stocked.far.repo[tip].read_raw()) == tip
    stocked.pen.point(ref, tip)
    paths = (PathAnchor("later.txt", str(stocked.far.repo.odb.write(3, b"later\n"))),)
    stocked.pen.append(ADA, observation("about what comes", stocked.code.commits["future-1"], paths=paths))
    request = everything(stocked.code.commits["future-1"])
    first = same_answers([service], oracle_of(service), everything())
    assert [source["ref"] for source in first["receipt"]["sources"]["invalid"]] == [ref]
    assert first["receipt"]["withheld"]["anchor-missing"] == 1
    for carried in git(stocked.there, "rev-list", "--objects", "--no-object-names", tip).split():
        stocked.pen.repo.odb.write(*stocked.far.repo.odb.read(carried)[:2])
    stocked.fetch("refs/heads/future:refs/heads/future")
    then = same_answers([service], oracle_of(service), request)
    assert then["receipt"]["sources"]["invalid"] == []
    assert "anchor-missing" not in then["receipt"]["withheld"]
    with stocked.service() as fresh:
        assert fresh.recall(request)["receipt"]["index"] == {"state": "fresh"}


# -- appending --------------------------------------------------------------------------------------------


def test_an_append_reads_nothing_but_the_tip(
    original: Twins, tmp_path: Path, verified: list[str], read: list[str]
) -> None:
    """The same objects are read for a stream of ten and for one of three hundred, and none of them is old."""
    counts = {}
    for length in (10, 300):
        with copy_twins(original, tmp_path / str(length)) as twins:
            for number in range(length):
                twins.pen.append(ADA, observation(f"number {number}", twins.code.commits["main"]))
            with twins.service() as first:
                first.recall(everything())
            old = memory_objects_of(twins, REF)
            for position in range(3):
                # Each time by a process that has only just begun, as the command line does.
                with twins.service() as service:
                    read.clear()
                    verified.clear()
                    tip = str(twins.pen.tip(REF))
                    service.record(RecordArguments(kind="observation", content="next", at=twins.code.commits["main"]))
                    counts.setdefault(position, set()).add(len(read))
                    assert verified == []
                    assert not old.intersection(read) - set(twins.pen.chain(tip)[:3])
                    twins.pen.learn(str(twins.pen.tip(REF)))
                    # And in the same process nothing at all.
                    read.clear()
                    verified.clear()
                    service.record(RecordArguments(kind="observation", content="more", at=twins.code.commits["main"]))
                    assert read == []
                    assert verified == []
                    twins.pen.learn(str(twins.pen.tip(REF)))
            with twins.service() as service:
                found = same_answers([service], oracle_of(service), everything())
                assert found["receipt"]["considered"] == length + 6
    assert all(len(seen) == 1 for seen in counts.values()), counts


def test_an_append_without_an_index_makes_it(stocked: Twins, verified: list[str]) -> None:
    with stocked.service() as service:
        service.record(RecordArguments(kind="observation", content="next"))
        assert len(verified) == SOME + 3
    assert is_private(stocked.database)


def test_what_stays_missing_is_not_written_down_again(stocked: Twins) -> None:
    """A source that lacks an object is looked at by every command, and the file is left alone until it is there."""
    tip = stocked.pen.tip(REF)
    assert tip is not None
    blob = git(stocked.here, "rev-parse", f"{tip}:memory.json").strip()
    loose = stocked.here / ".git" / "objects" / blob[:2] / blob[2:]
    aside = stocked.here / "aside"
    loose.rename(aside)
    with stocked.service() as service:
        assert [source["code"] for source in service.log()["invalid"]] == ["object-missing"]
    before = stocked.database.stat()
    with stocked.service() as service:
        answer = service.recall(everything())
        assert answer["receipt"]["index"] == {"state": "fresh"}
        assert service.log()["invalid"] != []
    after = stocked.database.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    aside.rename(loose)
    with stocked.service() as service:
        assert service.log()["invalid"] == []
        assert service.recall(everything())["receipt"]["index"] == {"state": "fresh"}


def test_damage_met_while_answering_is_said_in_one_line(stocked: Twins) -> None:
    """What a stored memory holds is looked at when it is shown; the answer is right, and stderr says what happened."""
    with stocked.service() as service:
        memory_id = service.log(max_count=1)["entries"][0]["id"]
        expected = service.show(memory_id)
    with closing(sqlite3.connect(stocked.database)) as db:
        db.execute("UPDATE payload SET data = CAST(replace(data, 'says', 'sayz') AS BLOB)")
        db.commit()
    (stocked.database.parent / "index.lock").write_bytes(usable.stamp_of(stocked.database.lstat()))
    with stocked.service() as service:
        assert service.show(memory_id) == expected
        assert service.notices == ["the index was rebuilt from the signed commits: it was corrupt"]


def test_verifying_on_all_cores_says_what_one_core_says(stocked: Twins, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stream that ends with a commit which is no memory, too."""
    tip = stocked.pen.tip(REF)
    assert tip is not None
    stocked.pen.point(REF, stocked.pen.code([tip], {"x": b"no memory"}))
    with stocked.service() as service:
        alone = scan(service.environment.repository)
        monkeypatch.setattr(ingest, "PARALLEL_FROM", 8)
        monkeypatch.setattr(workers, "CHUNK", 4)
        monkeypatch.setattr(os, "cpu_count", lambda: 2)
        together = verify_sources(service.environment.repository)
    assert together.invalid == alone.invalid
    assert [source.code for source in together.invalid] == ["tree-malformed"]
    assert together.valid == alone.valid
    assert together.tips == alone.tips
    assert together.memory_ids == alone.memories.keys()
