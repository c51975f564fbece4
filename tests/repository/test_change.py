"""What other processes do between two questions, and what Git may fetch: seen, or not, as the contract says."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from hn_memory.errors import ConflictError, HnError
from hn_memory.repository.base import Ref, RefUpdate, Repository
from hn_memory.repository.catfile import CatFile
from hn_memory.repository.discover import discover
from hn_memory.repository.libgit import LibgitRepository
from hn_memory.repository.open import open_repository
from hn_memory.repository.process import ProcessRepository

from .conftest import open_as
from .kinds import World, build, git

WORLD = Callable[[str], World]


@pytest.fixture(params=["git", "libgit2"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def own(tmp_path: Path) -> World:
    """A plain world that a test may damage."""
    return build("plain", tmp_path)


def test_work_of_other_processes_is_seen(backend: str, own: World) -> None:
    with open_as(backend, own.start) as repository:
        tip = own.commits["c3"]
        assert repository.refs("refs/hn") == []
        made = git(own.start, "commit-tree", "-m", "x", "-p", tip, f"{tip}^{{tree}}")
        assert repository.info([made])[made].type == "commit"
        git(own.start, "update-ref", "refs/hn/x", made)
        assert repository.refs("refs/hn") == [Ref("refs/hn/x", made)]
        git(own.start, "pack-refs", "--all")
        git(own.start, "repack", "-adq")
        git(own.start, "prune-packed", "-q")
        assert repository.ref("refs/hn/x") == Ref("refs/hn/x", made)
        assert [oid for oid, _, _ in repository.read([made, tip])] == [made, tip]
        repository.update_refs([RefUpdate("refs/hn/x", tip, made)], "m")
        assert git(own.start, "rev-parse", "refs/hn/x") == tip
        repository.update_refs([RefUpdate("refs/hn/x", None, tip)], "m")
        assert repository.ref("refs/hn/x") is None


def test_an_object_dropped_from_the_packs_is_gone(backend: str, own: World) -> None:
    made = git(own.start, "hash-object", "-w", "--stdin", stdin=b"short-lived")
    git(own.start, "update-ref", "refs/keep", made)
    git(own.start, "repack", "-adq")
    git(own.start, "prune-packed", "-q")
    with open_as(backend, own.start) as repository:
        assert made in repository.info([made])
        git(own.start, "update-ref", "-d", "refs/keep")
        git(own.start, "reflog", "expire", "--expire=now", "--all")
        git(own.start, "gc", "-q", "--prune=now")
        assert repository.info([made]) == {}
        assert list(repository.read([made])) == []
        assert repository.resolve_commit("HEAD") == own.commits["c3"]


def test_replacements_and_grafts_are_not_followed(backend: str, own: World) -> None:
    c = own.commits
    git(own.start, "replace", c["c3"], c["s2"])
    (own.git_dir / "info" / "grafts").write_text(f"{c['c2']}\n{c['s1']} {c['c2']}\n")
    with open_as(backend, own.start) as repository:
        assert [oid for oid, _, _ in repository.parents(c["c3"])] == [c["c3"], c["c2"], c["c1"]]
        assert repository.ancestry(c["c3"], [c["s2"], c["c1"], c["s1"]]) == {
            oid: oid != c["s2"] for oid in (c["s2"], c["c1"], c["s1"])
        }
        assert repository.ancestry(c["s1"], [c["c2"]]) == {c["c2"]: False}
        assert repository.resolve_commit("HEAD~2") == c["c1"]
        ((_, _, raw),) = repository.read([c["c3"]])
        assert raw.endswith(b"\n\nc3\n")


def test_damage_is_named(backend: str, own: World) -> None:
    with open_as(backend, own.start) as repository:
        good, bad = repository.write_objects([("blob", b"good" * 50), ("blob", b"bad" * 50)])
        files = [own.git_dir / "objects" / oid[:2] / oid[2:] for oid in (good, bad)]
        files[1].chmod(0o644)
        files[1].write_bytes(files[0].read_bytes())
        with pytest.raises(HnError) as caught:
            list(repository.read([bad]))
        assert caught.value.code in {"object-corrupt", "object-store-broken"}
        assert [oid for oid, _, _ in repository.read([good])] == [good]


def test_a_ref_without_an_id_is_no_ref(backend: str, own: World) -> None:
    (own.git_dir / "refs" / "hn").mkdir()
    (own.git_dir / "refs" / "hn" / "x").write_text("garbage\n")
    git(own.start, "update-ref", "refs/hn/y", "HEAD")
    git(own.start, "symbolic-ref", "refs/hn/z", "refs/hn/nowhere")
    with open_as(backend, own.start) as repository:
        assert repository.refs("refs/hn") == [Ref("refs/hn/y", own.commits["c3"])]
        assert repository.ref("refs/hn/x") is None
        with pytest.raises(HnError) as caught:
            repository.update_refs([RefUpdate("refs/hn/x", own.commits["c1"], None)], "m")
        assert caught.value.code == "ref-write-failed"


def test_the_reflog_has_our_message(backend: str, own: World) -> None:
    git(own.start, "config", "core.logAllRefUpdates", "always")
    c = own.commits
    with open_as(backend, own.start) as repository:
        repository.update_refs([RefUpdate("refs/hn/x", c["c1"], None)], "hn: append memory")
        repository.update_refs([RefUpdate("refs/hn/x", c["c2"], c["c1"])], "hn: append\nmemory")
    lines = (own.git_dir / "logs" / "refs" / "hn" / "x").read_text().splitlines()
    assert [line.split("\t")[1] for line in lines] == ["hn: append memory"] * 2
    assert all(" hn <hn@hn.invalid> " in line for line in lines)


def test_group_writable_repositories_stay_so(backend: str, own: World) -> None:
    git(own.start, "config", "core.sharedRepository", "group")
    with open_as(backend, own.start) as repository:
        (oid,) = repository.write_objects([("blob", b"shared")])
        repository.update_refs([RefUpdate("refs/hn/x", own.commits["c1"], None)], "m")
        repository.update_refs([RefUpdate("refs/hn/x", own.commits["c2"], own.commits["c1"])], "m")
    assert (own.git_dir / "objects" / oid[:2]).stat().st_mode & 0o070 == 0o070
    assert (own.git_dir / "refs" / "hn" / "x").stat().st_mode & 0o060 == 0o060


def test_a_repository_that_becomes_group_writable_is_so_from_then_on(backend: str, own: World) -> None:
    with open_as(backend, own.start) as repository:
        (oid,) = repository.write_objects([("blob", b"before")])
        assert not (own.git_dir / "objects" / oid[:2]).stat().st_mode & 0o020
        git(own.start, "config", "core.sharedRepository", "group")
        (oid,) = repository.write_objects([("blob", b"after it")])
    assert (own.git_dir / "objects" / oid[:2]).stat().st_mode & 0o070 == 0o070


def _append(backend: str, start: str, name: str, rounds: int) -> None:
    """Append to one ref as a writer does: read, write on top, swap, and again when somebody was first."""
    with open_as(backend, Path(start)) as repository:
        done = 0
        while done < rounds:
            held = repository.ref(name)
            old = held.target if held else None
            (tree,) = repository.write_objects([("tree", b"")])
            parent = f"parent {old}\n" if old else ""
            raw = f"tree {tree}\n{parent}author A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n{uuid.uuid4()}\n"
            (new,) = repository.write_objects([("commit", raw.encode())])
            try:
                repository.update_refs([RefUpdate(name, new, old)], "m")
            except ConflictError:
                continue
            done += 1


def test_of_several_writers_none_loses_an_append(own: World) -> None:
    fork = multiprocessing.get_context("fork")
    jobs = [("git", 5), ("libgit2", 8), ("git", 5), ("libgit2", 8)]
    writers = [fork.Process(target=_append, args=(b, str(own.start), "refs/hn/one", n)) for b, n in jobs]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert git(own.start, "rev-list", "--count", "refs/hn/one") == "26"


# -- fetching ---------------------------------------------------------------------------------------------


def _blobs(world: World) -> list[str]:
    return git(world.start, "ls-tree", "-r", "--format=%(objectname)", "HEAD").split()


def _scratches() -> set[str]:
    return {name for name in os.listdir(tempfile.gettempdir()) if name.startswith("hn-")}  # noqa: PTH208


@pytest.mark.parametrize("legacy", [False, True])
def test_reading_may_fetch_and_asking_never_does(tmp_path: Path, legacy: bool) -> None:
    world = build("partial", tmp_path)
    wanted = _blobs(world)
    before = _scratches()
    with ProcessRepository(discover(world.start), legacy_cat_file=legacy) as repository:
        assert repository.info(wanted) == {}
        assert len(list(repository.read(wanted))) == len(wanted)
        assert sorted(repository.info(wanted)) == sorted(set(wanted))
    assert _scratches() <= before


def test_fetching_can_be_forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = build("partial", tmp_path)
    wanted = _blobs(world)
    monkeypatch.setenv("GIT_NO_LAZY_FETCH", "1")
    with ProcessRepository(discover(world.start)) as repository:
        assert list(repository.read(wanted)) == []
        assert repository.info(wanted) == {}


def test_a_missing_commit_of_a_partial_clone_is_not_fetched(tmp_path: Path) -> None:
    world = build("partial", tmp_path)
    late = git(tmp_path / "source", "commit-tree", "-m", "late", "HEAD^{tree}")
    with ProcessRepository(discover(world.start)) as repository:
        for question in (repository.resolve_commit, lambda oid: repository.entries(oid, ["x"])):
            with pytest.raises(HnError):
                question(late)
        with pytest.raises(HnError):
            repository.ancestry(late, [world.commits["c1"]])
        assert repository.ancestry(world.commits["c3"], [late]) == {}
        assert repository.info([late]) == {}


# -- the choice of a backend ------------------------------------------------------------------------------


def test_the_backend_fits_the_repository(world_of: WORLD) -> None:
    def chosen(kind: str, **preference: str) -> Repository:
        repository = open_repository(discover(world_of(kind).start), **preference)  # type: ignore[arg-type]
        repository.close()
        return repository

    assert isinstance(chosen("plain", prefer="git"), ProcessRepository)
    assert isinstance(chosen("plain", prefer="libgit2"), LibgitRepository)
    assert isinstance(chosen("worktree-of-bare", prefer="libgit2"), LibgitRepository)
    assert isinstance(chosen("sha256", prefer="libgit2"), ProcessRepository)
    assert isinstance(chosen("partial", prefer="libgit2"), ProcessRepository)
    assert isinstance(chosen("plain"), LibgitRepository)


def test_an_extension_that_libgit2_does_not_know_is_left_to_git(own: World) -> None:
    git(own.start, "config", "core.repositoryFormatVersion", "1")
    git(own.start, "config", "extensions.partialClone", "")
    git(own.start, "config", "--unset", "extensions.partialClone")
    git(own.start, "config", "extensions.preciousObjects", "true")
    with open_repository(discover(own.start), prefer="libgit2") as repository:
        assert repository.resolve_commit("HEAD") == own.commits["c3"]


# -- the reader -------------------------------------------------------------------------------------------


def test_a_reader_whose_child_died_starts_another(own: World) -> None:
    layout = discover(own.start)
    with ProcessRepository(layout) as repository:
        tip = own.commits["c3"]
        assert tip in repository.info([tip])
        assert isinstance(repository, ProcessRepository)
        reader = repository._checker
        assert isinstance(reader, CatFile)
        for pipe in reader._pipes.values():
            os.kill(pipe.child.pid, 9)
        with pytest.raises(HnError) as caught:
            repository.info([tip])
        assert caught.value.code == "object-store-broken"
        assert tip in repository.info([tip])


def test_a_forked_copy_does_not_steal_answers(own: World) -> None:
    tip = own.commits["c3"]
    fork = multiprocessing.get_context("fork")
    with ProcessRepository(discover(own.start)) as repository:
        assert tip in repository.info([tip])
        copy = fork.Process(target=lambda: os._exit(0 if tip in repository.info([tip]) else 1))
        copy.start()
        copy.join(20)
        assert copy.exitcode == 0
        assert tip in repository.info([tip])


def test_writes_are_left_to_git_where_it_hardens_them(own: World) -> None:
    git(own.start, "config", "core.fsync", "all")
    c = own.commits
    with LibgitRepository(discover(own.start)) as repository:
        (oid,) = repository.write_objects([("blob", b"hard")])
        repository.update_refs([RefUpdate("refs/hn/x", c["c1"], None)], "m")
        repository.update_refs([RefUpdate("refs/hn/x", c["c2"], c["c1"])], "m")
        assert oid in repository.info([oid])
        assert repository.ref("refs/hn/x") == Ref("refs/hn/x", c["c2"])
