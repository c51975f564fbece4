"""The index may be lost, cut, soiled, locked, forbidden or half written: the answer is that of a full scan.

Where something happened, one line says what; and what is left behind is private.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from index_child import MOMENTS, NOBODY, Child, killed_at
from index_world import (
    ADA,
    BOB,
    CHLOE,
    Twins,
    copy_twins,
    dump,
    everything,
    git,
    is_private,
    new_directory,
    observation,
    oracle_of,
    same_answers,
    stream_of,
    text_of,
)

from hn_memory import Request, Service
from hn_memory.index import flush, ingest, store, usable
from hn_memory.protocol.identifiers import accepted_ref, local_ref
from hn_memory.protocol.record import PathAnchor
from hn_memory.repository import workers
from hn_memory.repository.writer import Statement
from hn_memory.service.building import RecordArguments

PAGE = 4096
YEAR = 365 * 86400
REF = local_ref(ADA.actor, stream_of(ADA))
MADE_ANEW = "the index was rebuilt from the signed commits: "
WITHOUT = "answered without the index file: "


def fill(twins: Twins) -> None:
    main, blob = twins.code.commits["main"], twins.code.blobs["a.txt"]
    known = ""
    for number in range(30):
        person = (ADA, BOB, CHLOE)[number % 3]
        parts: dict[str, Any] = {"topics": (f"topic-{number % 5}", "x")}
        if number % 6 == 3:
            parts |= {"target": known, "evidence": (f"memory:{known}", "git:" + "a" * 40)}
        if number % 4 == 2:
            parts["paths"] = (PathAnchor("a.txt", blob),)
        text = f"{person.name} says {number} " + " ".join(f"word{number * k}" for k in range(20))
        memory_id = twins.pen.append(person, observation(text, main, **parts))
        known = memory_id if person is ADA else known
    twins.pen.append(ADA, Statement("retract", target=known, reason="wrong"))


@pytest.fixture(scope="package")
def filled(original: Twins, scratch: Path) -> Iterator[Twins]:
    """Memories, and no index yet; copy it, never change it."""
    with copy_twins(original, scratch / "filled") as twins:
        fill(twins)
        git(twins.here, "repack", "-adkq")
        yield twins


class Place:
    """A copy with an index, and what everybody must answer there."""

    def __init__(self, twins: Twins) -> None:
        self.twins = twins
        self.database = twins.database
        self.lock = twins.private / "memory" / "index.lock"
        main = twins.code.commits["main"]
        self.requests = [
            everything(main),
            Request(main, query="word10 says", include_untrusted=True),
            Request(main, topics=("topic-1",), lifecycle=("all",), max_records=2),
            Request(main, path="a.txt", include_untrusted=True, max_content_bytes=2000),
        ]
        self.expect()
        with twins.service() as service:
            service.recall(everything())
        assert is_private(self.database)

    def expect(self) -> None:
        """Scan again."""
        oracle = oracle_of(self.twins.here)
        self.expected = [same_answers([], oracle, request) for request in self.requests]

    def add(self) -> None:
        """A memory that the index does not know."""
        self.twins.pen.append(
            BOB, observation("word10 says more", self.twins.code.commits["main"], topics=("topic-1",))
        )
        self.expect()

    def answers(self, service: Service, *, brief: bool = False) -> list[str]:
        """The notices, after every request (`brief`: the first two) was answered as by a full scan."""
        said = len(service.notices)
        for request, expected in list(zip(self.requests, self.expected, strict=True))[: 2 if brief else None]:
            document = service.recall(request)
            document["receipt"].pop("index")
            assert text_of(document) == text_of(expected)
        return service.notices[said:]

    def fresh(self, *, brief: bool = False) -> list[str]:
        with self.twins.service() as service:
            return self.answers(service, brief=brief)

    def is_well(self) -> None:
        """From now on it is as if nothing had happened."""
        assert self.fresh(brief=True) == []
        assert is_private(self.database)
        assert not [path for path in self.database.parent.iterdir() if path.suffix == ".sqlite-journal"]
        dump(self.database)

    def note_as_ours(self) -> None:
        """Write the note that a change of ours leaves, so that nothing shows from outside."""
        self.lock.write_bytes(usable.stamp_of(self.database.lstat()))


@pytest.fixture
def place(filled: Twins, tmp_path: Path) -> Iterator[Place]:
    with copy_twins(filled, tmp_path / "place") as twins:
        yield Place(twins)


def one_line(notices: list[str], beginning: str) -> str:
    assert len(notices) == 1, notices
    assert notices[0].startswith(beginning) and "\n" not in notices[0]
    return notices[0].removeprefix(beginning)


# -- what may happen to the file --------------------------------------------------------------------------


def test_cut_at_every_page(place: Place) -> None:
    whole = place.database.stat().st_size
    assert whole > 20 * PAGE
    with place.twins.service() as long_lived:
        place.answers(long_lived)
        for number, size in enumerate([*range(0, whole, PAGE), whole - 1, 1, 100]):
            os.truncate(place.database, size)
            if number % 2:
                notices = place.fresh(brief=True)
            else:
                notices = place.answers(long_lived, brief=True)
            assert one_line(notices, MADE_ANEW) == "it was changed by something else"
            assert is_private(place.database)
            assert place.database.stat().st_size == whole
        assert place.answers(long_lived) == []
    place.is_well()


def test_cut_without_a_trace(place: Place) -> None:
    """A file that lost its end, with a note that fits: SQLite notices, or nothing that matters is missing."""
    whole = place.database.read_bytes()
    for size in range(0, len(whole), 3 * PAGE):
        place.database.write_bytes(whole[:size])
        place.note_as_ours()
        place.fresh()
        place.is_well()


def test_garbage_anywhere(place: Place) -> None:
    chance = random.Random(7)
    whole = place.database.stat().st_size
    for offset in [0, 16, 18, 24, 60, 68, 100, *range(PAGE // 2, whole, 3 * PAGE), whole - 8]:
        with place.database.open("r+b") as file:
            file.seek(offset)
            file.write(chance.randbytes(64))
        assert one_line(place.fresh(brief=True), MADE_ANEW) == "it was changed by something else"
        assert is_private(place.database)
    place.is_well()


def test_pages_of_garbage_without_a_trace(place: Place) -> None:
    """The disk gave back other bytes than were written to it, and nothing shows from outside."""
    pages = range(0, place.database.stat().st_size // PAGE, 4)
    rebuilt = 0
    for page in pages:
        with place.database.open("r+b") as file:
            file.seek(page * PAGE)
            file.write(bytes([(0x55, 0x00, 0xFF)[page // 4 % 3]]) * PAGE)
        place.note_as_ours()
        before = place.database.stat().st_ino
        with place.twins.service() as service:
            place.answers(service)
        rebuilt += place.database.stat().st_ino != before
        if place.database.stat().st_ino == before:
            # Nothing asked for the page. The next change starts from a whole file all the same.
            place.database.unlink()
            place.fresh(brief=True)
    assert rebuilt > len(pages) // 4
    place.is_well()


@pytest.mark.parametrize("pragma", ["user_version", "application_id"])
@pytest.mark.parametrize("noted", [True, False], ids=["its own note", "no note"])
def test_of_another_version(place: Place, pragma: str, noted: bool) -> None:
    with closing(sqlite3.connect(place.database)) as db:
        db.execute(f"PRAGMA {pragma} = 99")
    if noted:
        place.note_as_ours()
    why = "it was made by another version" if noted else "it was changed by something else"
    assert one_line(place.fresh(), MADE_ANEW) == why
    place.is_well()


def test_a_row_that_somebody_else_put_in(place: Place) -> None:
    """Any other program that opens and changes the file leaves its times changed."""
    with closing(sqlite3.connect(place.database)) as db:
        db.execute("UPDATE memory SET ts = '9999-01-01T00:00:00Z' WHERE n = 1")
        db.commit()
    status = place.database.stat()
    os.utime(place.database, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert one_line(place.fresh(), MADE_ANEW) == "it was changed by something else"
    place.is_well()


def a_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE mine(x)")


def a_text(path: Path) -> None:
    path.write_text("mine\n")


@pytest.mark.parametrize("make", [a_database, a_text, None], ids=["database", "text", "dangling"])
def test_a_symbolic_link_in_its_place(place: Place, tmp_path: Path, make: Callable[[Path], None] | None) -> None:
    foreign = tmp_path / "foreign"
    if make is not None:
        make(foreign)
    before = (foreign.read_bytes(), foreign.stat()) if make else None
    place.database.unlink()
    place.database.symlink_to(foreign)
    assert one_line(place.fresh(), MADE_ANEW) == "something else than a file was in its place"
    if before is None:
        assert not foreign.exists()
    else:
        assert foreign.read_bytes() == before[0]
        assert (foreign.stat().st_mtime_ns, foreign.stat().st_mode) == (before[1].st_mtime_ns, before[1].st_mode)
    place.is_well()


def test_a_link_to_the_index_itself(place: Place) -> None:
    place.database.rename(place.database.with_name("moved"))
    place.database.symlink_to("moved")
    one_line(place.fresh(), MADE_ANEW)
    place.is_well()


def test_a_directory_in_its_place(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.database.unlink()
    place.database.mkdir(mode=0o700)
    (place.database / "mine").write_text("mine\n")
    verified: list[object] = []
    original = ingest.verify_commit
    monkeypatch.setattr(ingest, "verify_commit", lambda commit: verified.append(commit) or original(commit))
    for _ in range(2):
        verified.clear()
        with place.twins.service() as service:
            service.recall(everything())
            assert one_line(service.notices, WITHOUT) == "a directory is in its place"
            assert len(verified) == 31
            # As long as the process lives nothing is verified twice.
            place.answers(service)
            assert len(verified) == 31
    assert (place.database / "mine").read_text() == "mine\n"
    assert not list(place.database.parent.glob("index.new-*"))


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o601])
def test_of_a_wider_mode(place: Place, mode: int) -> None:
    place.database.chmod(mode)
    assert one_line(place.fresh(), MADE_ANEW) == "others could write or read it"
    place.is_well()


@pytest.mark.parametrize("which", ["memory", "."])
def test_in_a_directory_of_a_wider_mode(place: Place, which: str) -> None:
    directory = place.twins.private / which
    directory.chmod(0o755)
    before = place.database.stat()
    with place.twins.service() as service:
        service.recall(everything())
        assert "0755" in one_line(service.notices, WITHOUT)
        assert len(place.answers(service)) == len(place.requests)
    assert directory.stat().st_mode & 0o777 == 0o755
    assert place.database.stat() == before
    directory.chmod(0o700)
    place.is_well()


def a_link(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_text("mine\n")
    path.symlink_to(target)


@pytest.mark.parametrize("make", [a_link, Path.mkdir, lambda path: os.mkfifo(path, 0o600)], ids=["link", "dir", "fifo"])
def test_something_else_in_the_place_of_the_lock(place: Place, make: Callable[[Path], None]) -> None:
    place.lock.unlink()
    make(place.lock)
    with place.twins.service() as service:
        service.recall(everything())
        one_line(service.notices, WITHOUT)
        place.answers(service)
    elsewhere = place.lock.with_name("elsewhere")
    assert not elsewhere.exists() or elsewhere.read_text() == "mine\n"


@pytest.mark.parametrize("name", ["index.sqlite", "index.lock", "."])
def test_deleted(place: Place, name: str) -> None:
    with place.twins.service() as long_lived:
        place.answers(long_lived)
        if name == ".":
            shutil.rmtree(place.database.parent)
        else:
            (place.database.parent / name).unlink()
        one_line(place.answers(long_lived), MADE_ANEW)
        assert place.answers(long_lived) == []
    place.is_well()


def test_the_clock_set_back(place: Place) -> None:
    """Neither the times of files nor the clock of the writer decide what is new."""
    past = time.time() - YEAR
    for path in (place.database, place.lock, place.database.parent):
        os.utime(path, (past, past))
    one_line(place.fresh(), MADE_ANEW)
    os.utime(place.lock, (past, past))
    assert place.fresh() == []
    for years in (1, -1, 3):
        with place.twins.service() as service:
            service.environment.clock = lambda years=years: time.time_ns() - years * YEAR * 10**9
            service.record(RecordArguments(kind="observation", content=f"word10 says {years}", topics=("topic-1",)))
            place.expect()
            assert place.answers(service) == []
    place.is_well()


# -- what may be forbidden --------------------------------------------------------------------------------


@contextmanager
def handed_over(twins: Twins) -> Iterator[Twins]:
    """A copy that belongs to nobody in particular, where such a user can reach it."""
    with new_directory() as root:
        root.chmod(0o755)
        with copy_twins(twins, root / "place") as copied:
            yield copied
        for directory, _, _ in os.walk(root):
            Path(directory).chmod(0o700)


def give_away(root: Path, *, writable: bool) -> None:
    for directory, _, files in os.walk(root):
        for name in (".", *files):
            path = Path(directory, name)
            if os.geteuid() == 0 and path.lstat().st_uid != NOBODY:
                os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        if not writable:
            Path(directory).chmod(Path(directory).stat().st_mode & 0o555)


@pytest.mark.parametrize("state", ["missing", "fresh", "behind"])
def test_a_read_only_directory(filled: Twins, state: str) -> None:
    with handed_over(filled) as twins:
        place = Place(twins)
        if state == "missing":
            shutil.rmtree(place.database.parent)
        give_away(twins.here, writable=True)
        if state != "missing":
            # Made anew by its owner, since a file that was given away is not the one that was noted.
            Child(place.fresh, user=NOBODY).wait()
        if state == "behind":
            place.add()
        give_away(twins.here, writable=False)

        def ask() -> list[list[str]]:
            with twins.service() as service:
                return [place.answers(service), place.answers(service)]

        for notices in Child(ask, user=NOBODY).wait():
            if state == "fresh":
                assert notices == []
            else:
                assert len(notices) == len(place.requests)
                one_line(sorted(set(notices)), WITHOUT)
        assert (place.database.exists()) == (state != "missing")
        give_away(twins.here, writable=False)


def test_of_another_user(filled: Twins) -> None:
    """What belongs to somebody else is neither read nor replaced."""
    if os.geteuid() != 0:
        # Without the right to give files away the owner cannot be another; the check itself is the same.
        return
    with handed_over(filled) as twins:
        place = Place(twins)
        os.chown(place.database, NOBODY, NOBODY)
        before = place.database.stat()
        assert one_line(place.fresh(), MADE_ANEW) == "others could write or read it"
        assert place.database.stat().st_ino != before.st_ino
        os.chown(place.database.parent, NOBODY, NOBODY)
        with twins.service() as service:
            service.recall(everything())
            assert "another user" in one_line(service.notices, WITHOUT)


@pytest.mark.parametrize("begin", ["EXCLUSIVE", "IMMEDIATE", "DEFERRED"])
@pytest.mark.parametrize("behind", [False, True], ids=["fresh", "behind"])
def test_locked_by_another_connection(place: Place, begin: str, behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_BUSY_SECONDS", 0.05)
    if behind:
        place.add()
    with closing(sqlite3.connect(place.database, isolation_level=None)) as db:
        db.execute(f"BEGIN {begin}")
        db.execute("SELECT count(*) FROM memory").fetchone()
        notices = place.fresh()
        if begin == "EXCLUSIVE" or behind:
            assert len(notices) == len(place.requests)
            assert "locked" in one_line(sorted(set(notices)), WITHOUT)
        else:
            assert notices == []
        db.execute("ROLLBACK")
    place.is_well()


def test_the_lock_held_by_another_process(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(store, "_LOCK_SECONDS", 0.05)
    with place.lock.open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Nothing to write, so nothing to wait for.
        assert place.fresh() == []
        place.add()
        assert one_line(sorted(set(place.fresh())), WITHOUT) == "another process is writing it"
        place.database.unlink()
        assert one_line(sorted(set(place.fresh())), WITHOUT) == "another process is writing it"
    assert not place.database.exists()
    one_line(place.fresh(), MADE_ANEW)
    place.is_well()


@pytest.mark.parametrize("bound", [0, 3 * PAGE, 12 * PAGE])
@pytest.mark.parametrize("missing", [True, False], ids=["missing", "behind"])
def test_a_full_disk(place: Place, missing: bool, bound: int) -> None:
    if missing:
        place.database.unlink()
    else:
        for _ in range(8):
            place.add()

    def ask() -> list[str]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (bound, bound))
        return place.fresh()

    notices = Child(ask).wait()
    assert len(notices) == len(place.requests)
    for notice in notices:
        one_line([notice], WITHOUT)
    assert not list(place.database.parent.glob("index.new-*"))
    with place.twins.service() as service:
        place.answers(service)
        assert len(service.notices) <= 1
    place.is_well()


# -- what may happen at once ------------------------------------------------------------------------------


def test_several_processes_rebuild_at_once(place: Place) -> None:
    place.database.unlink()

    def ask() -> list[str]:
        with place.twins.service() as service:
            return place.answers(service)

    def rebuild() -> list[str]:
        with place.twins.service() as service:
            service.index_rebuild()
            return place.answers(service)

    children = [Child(act) for act in (ask, rebuild, ask, rebuild, ask)]
    for child in children:
        for line in child.wait():
            assert line == MADE_ANEW + "it was missing"
    assert not list(place.database.parent.glob("index.new-*"))
    place.is_well()


@pytest.mark.parametrize("behind", [False, True], ids=["fresh", "behind"])
def test_a_reader_during_a_rebuild(place: Place, behind: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_LOCK_SECONDS", 0.05)
    heard: list[list[str]] = []
    if behind:
        place.add()
    with place.twins.service() as reader, place.twins.service() as builder:
        original = ingest.verify_commit

        def reading(commit: Any) -> Any:
            if len(heard) < 2:
                heard.append([])
                monkeypatch.setattr(ingest, "verify_commit", original)
                heard[-1] = [*place.answers(reader), *place.fresh()]
                monkeypatch.setattr(ingest, "verify_commit", reading)
            return original(commit)

        monkeypatch.setattr(ingest, "verify_commit", reading)
        builder.index_rebuild()
        monkeypatch.setattr(ingest, "verify_commit", original)
        assert len(heard) == 2
        for lines in heard:
            assert set(lines) == ({WITHOUT + "another process is writing it"} if behind else set())
        assert place.answers(reader) == []
    place.is_well()


def test_a_writer_between_two_questions_of_one_recall(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process takes in new memories after this one has listed the refs and before it counts."""
    query = store.Index.query
    pen, main = place.twins.pen, place.twins.code.commits["main"]
    chloes = local_ref(CHLOE.actor, stream_of(CHLOE))
    tip, before = pen.tip(REF), pen.tip(chloes)
    assert tip is not None and before is not None

    def meddle() -> None:
        monkeypatch.setattr(store.Index, "query", query)
        pen.append(CHLOE, observation("word10 says it in between", main, topics=("topic-1",)))
        pen.point(REF, pen.chain(tip)[4])
        with place.twins.service() as other:
            other.recall(everything())

    def interrupted(self: store.Index, ask: Callable[[sqlite3.Connection], Any]) -> Any:
        meddle()
        return query(self, ask)

    for request, expected in zip(place.requests, place.expected, strict=True):
        with place.twins.service() as service:
            monkeypatch.setattr(store.Index, "query", interrupted)
            document = service.recall(request)
            document["receipt"].pop("index")
            assert text_of(document) == text_of(expected)
        for ref, oid in ((REF, tip), (chloes, before)):
            pen.point(ref, oid)
    place.is_well()


def test_readers_and_a_writer(place: Place) -> None:
    """Two readers never see a mixture: the number of records is that of the heads in the digest."""
    main = place.twins.code.commits["main"]

    def write() -> str:
        with place.twins.service() as service:
            for number in range(25):
                service.record_all([RecordArguments(kind="decision", content=f"both {number}", at=main)] * 2)
                service.log(max_count=1)
        return "written"

    def read() -> int:
        seen = set()
        with place.twins.service() as service:
            end = time.monotonic() + 60
            while time.monotonic() < end:
                document = service.recall(Request(main, kinds=("decision",), include_untrusted=True, max_records=100))
                receipt = document["receipt"]
                assert receipt["considered"] == document["matched"] + sum(receipt["withheld"].values())
                assert document["matched"] == len(document["memories"])
                assert document["matched"] % 2 == 0
                assert receipt["index"]["state"] in ("fresh", "updated", "memory"), receipt["index"]
                seen.add((document["queryDigest"], document["matched"]))
                if document["matched"] == 50:
                    break
        assert len({digest for digest, _ in seen}) == len(seen) == len({matched for _, matched in seen})
        return document["matched"]

    children = [Child(write), Child(read), Child(read)]
    assert [child.wait() for child in children] == ["written", 50, 50]
    place.expect()
    place.is_well()


# -- killed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_in_a_rebuild(place: Place, moment: str) -> None:
    def rebuild() -> None:
        with place.twins.service() as service:
            service.index_rebuild()

    died = 0
    for at in range(12):
        if at % 2:
            place.database.unlink()
        if not killed_at(moment, at, rebuild):
            break
        died += 1
        place.fresh(brief=True)
        place.is_well()
    assert died
    rebuild()
    assert not list(place.database.parent.glob("index.new-*"))


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_in_an_update(place: Place, moment: str) -> None:
    """New memories, a rewound stream and a new source, taken in by a process that is killed."""
    pen, main = place.twins.pen, place.twins.code.commits["main"]
    other = accepted_ref("x", CHLOE.actor, stream_of(CHLOE, "far"))

    def update() -> None:
        with place.twins.service() as service:
            service.recall(everything())

    died = 0
    for at in range(10):
        tip = pen.tip(REF)
        assert tip is not None
        pen.point(REF, pen.chain(tip)[1])
        pen.append(BOB, observation(f"word10 says {at}", main, topics=(f"only at {at}", "topic-1")))
        far = pen.commit(CHLOE, stream_of(CHLOE, "far"), observation(f"far {at}", main), pen.tip(other))
        pen.point(other, far)
        place.expect()
        if not killed_at(moment, at, update):
            break
        died += 1
        # A change that was not finished is undone or done over; nothing is built anew for it.
        assert place.fresh() == [] or moment == "around the note"
        place.is_well()
    assert died


def test_killed_at_random_moments(place: Place) -> None:
    chance = random.Random(11)
    main = place.twins.code.commits["main"]

    def change() -> None:
        with place.twins.service() as service:
            while True:
                service.index_rebuild()
                service.record(RecordArguments(kind="observation", content="word10 says it again", at=main))
                service.recall(everything())

    for _ in range(8):
        child = Child(change)
        time.sleep(chance.uniform(0.02, 0.25))
        child.kill()
        assert child.wait() is None
        place.expect()
        place.fresh()
        place.is_well()
    with place.twins.service() as service:
        service.index_rebuild()
    assert sorted(path.name for path in place.database.parent.iterdir()) == [
        "index-v0.json", "index.lock", "index.sqlite",
    ]  # fmt: skip


def test_what_a_killed_writer_left_goes_with_the_next_rebuild(place: Place) -> None:
    left = place.database.parent / ".tmp-0123456789abcdef01234567"
    left.write_bytes(b"half a snapshot")
    with place.twins.service() as service:
        service.index_rebuild()
    assert not left.exists()
    place.is_well()


def test_a_large_file_is_brought_to_the_disk_while_it_is_written(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(threading.current_thread().name)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    for large, threads in ((flush.LARGE, 1), (0, 2)):
        synced.clear()
        monkeypatch.setattr(flush, "LARGE", large)
        place.database.unlink()
        place.fresh()
        assert len(set(synced)) == threads
        assert synced[-1] == threading.current_thread().name
        place.is_well()


def test_killed_with_workers(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers do not outlive the process that started them, nor do they keep its lock."""
    monkeypatch.setattr(ingest, "PARALLEL_FROM", 8)
    monkeypatch.setattr(workers, "CHUNK", 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    place.database.unlink()

    def rebuild() -> None:
        with place.twins.service() as service:
            service.index_rebuild()

    for moment, at in (("while storing", 0), ("while storing", 2), ("after a source", 1)):
        assert killed_at(moment, at, rebuild)
        start = time.monotonic()
        place.fresh()
        assert time.monotonic() - start < store._LOCK_SECONDS
        place.is_well()
        place.database.unlink()
