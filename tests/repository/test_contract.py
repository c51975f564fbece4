"""One contract for every backend over every kind of repository. Ours: base.py is the text, this is the judge."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from hn_memory.errors import ConflictError, HnError, NotFoundError
from hn_memory.protocol.gitobject import object_id
from hn_memory.repository import refwriter
from hn_memory.repository.base import ObjectInfo, ObjectType, Ref, RefUpdate, Repository, TreeEntry, parse_tree

from .kinds import World, git


@pytest.fixture
def area() -> str:
    """A place for refs of one test alone."""
    return f"refs/hn/{uuid.uuid4().hex}"


def absent_id(repository: Repository, digit: str = "d") -> str:
    return digit * repository.oid_length


def commit_object(tree: str, parents: Sequence[str], text: str = "m") -> bytes:
    lines = [f"tree {tree}", *(f"parent {oid}" for oid in parents)]
    who = "A <a@example.org> 1700000000 +0000"
    return "\n".join([*lines, f"author {who}", f"committer {who}", "", text, ""]).encode()


def add_commit(repository: Repository, parents: Sequence[str] = (), text: str = "m") -> str:
    (tree,) = repository.write_objects([("tree", b"")])
    return repository.write_objects([("commit", commit_object(tree, parents, text))])[0]


def refusal(error: type[HnError], code: str, repository: Repository, *updates: RefUpdate) -> None:
    before = repository.refs("refs/hn")
    with pytest.raises(error) as caught:
        repository.update_refs(updates, "m")
    assert caught.value.code == code
    assert repository.refs("refs/hn") == before


# -- layout -----------------------------------------------------------------------------------------------


def test_the_layout_says_what_kind_of_repository_it_is(repository: Repository, world: World) -> None:
    layout = repository.layout
    fake = repository.backend == "fake"
    assert layout.object_format == ("sha256" if world.kind == "sha256" else "sha1")
    assert repository.oid_length == (64 if world.kind == "sha256" else 40)
    assert layout.promisor is world.blobless
    assert layout.shallow is not world.complete
    assert (layout.work_tree is None) is world.bare
    assert fake or layout.common_dir == world.git_dir
    assert layout.objects == layout.common_dir / "objects"


# -- refs -------------------------------------------------------------------------------------------------


def test_refs_are_listed_below_prefixes_in_order(repository: Repository, area: str) -> None:
    oid = add_commit(repository)
    names = [f"{area}/{name}" for name in ("b", "a/x", "a-x", "ü", "a/y")]
    repository.update_refs([RefUpdate(name, oid, None) for name in names], "m")
    expected = [Ref(name, oid) for name in sorted(names, key=str.encode)]
    assert repository.refs(area) == expected
    assert repository.refs(area + "/", area) == expected
    assert repository.refs(f"{area}/a", f"{area}/b") == [Ref(f"{area}/{n}", oid) for n in ("a/x", "a/y", "b")]
    assert repository.refs(f"{area}/none") == []
    assert repository.refs() == []


def test_one_ref_is_found_by_its_whole_name_only(repository: Repository, area: str) -> None:
    oid = add_commit(repository)
    repository.update_refs([RefUpdate(f"{area}/x/y", oid, None)], "m")
    assert repository.ref(f"{area}/x/y") == Ref(f"{area}/x/y", oid)
    assert repository.ref(f"{area}/x") is None
    assert repository.ref(f"{area}/x/y/z") is None


def test_head_is_a_symbolic_ref_or_a_commit(repository: Repository, world: World) -> None:
    head = repository.ref("HEAD")
    detached = world.kind.startswith("worktree-of") or world.kind == "worktree"
    assert head == (Ref("HEAD", world.commits["c3"]) if detached else Ref("HEAD", None, "refs/heads/main"))


def test_a_ref_is_created_moved_and_deleted(repository: Repository, area: str) -> None:
    name = f"{area}/stream"
    first, second = add_commit(repository, text="1"), add_commit(repository, text="2")
    repository.update_refs([RefUpdate(name, first, None)], "hn: append memory")
    assert repository.ref(name) == Ref(name, first)
    repository.update_refs([RefUpdate(name, second, first)], "hn: append memory")
    assert repository.ref(name) == Ref(name, second)
    repository.update_refs([RefUpdate(name, None, second)], "hn: append memory")
    assert repository.ref(name) is None


def test_a_ref_that_moved_is_a_conflict(repository: Repository, area: str) -> None:
    name = f"{area}/stream"
    first, second = add_commit(repository, text="1"), add_commit(repository, text="2")
    refusal(ConflictError, "ref-moved", repository, RefUpdate(name, second, first))
    refusal(ConflictError, "ref-moved", repository, RefUpdate(name, None, first))
    repository.update_refs([RefUpdate(name, first, None)], "m")
    refusal(ConflictError, "ref-moved", repository, RefUpdate(name, second, None))
    refusal(ConflictError, "ref-moved", repository, RefUpdate(name, first, second))
    refusal(ConflictError, "ref-moved", repository, RefUpdate(name, None, second))


def test_several_refs_move_together_or_not_at_all(repository: Repository, area: str) -> None:
    first, second = add_commit(repository, text="1"), add_commit(repository, text="2")
    updates = [RefUpdate(f"{area}/{n}", first, None) for n in range(5)]
    refusal(ConflictError, "ref-moved", repository, *updates, RefUpdate(f"{area}/none", second, first))
    repository.update_refs(updates, "m")
    moves = [RefUpdate(f"{area}/{n}", second, first) for n in range(4)]
    refusal(ConflictError, "ref-moved", repository, *moves, RefUpdate(f"{area}/4", None, second))
    repository.update_refs([*moves, RefUpdate(f"{area}/4", None, first)], "m")
    assert [ref.target for ref in repository.refs(area)] == [second] * 4


def test_a_name_above_or_below_a_ref_is_refused(repository: Repository, area: str) -> None:
    oid = add_commit(repository)
    repository.update_refs([RefUpdate(f"{area}/x/y", oid, None)], "m")
    refusal(HnError, "ref-write-failed", repository, RefUpdate(f"{area}/x", oid, None))
    refusal(HnError, "ref-write-failed", repository, RefUpdate(f"{area}/x/y/z", oid, None))


def test_a_ref_to_an_absent_object_is_refused(repository: Repository, area: str) -> None:
    oid = add_commit(repository)
    absent = absent_id(repository)
    refusal(HnError, "ref-write-failed", repository, RefUpdate(f"{area}/x", absent, None))
    repository.update_refs([RefUpdate(f"{area}/x", oid, None)], "m")
    refusal(HnError, "ref-write-failed", repository, RefUpdate(f"{area}/x", absent, oid))


def test_a_symbolic_ref_is_shown_and_never_moved(repository: Repository, world: World, area: str) -> None:
    if repository.backend == "fake":
        repository.held[f"{area}/s"] = Ref(f"{area}/s", None, "refs/heads/main")  # type: ignore[attr-defined]
    else:
        git(world.start, "symbolic-ref", f"{area}/s", "refs/heads/main")
    oid, tip = add_commit(repository), world.commits["c3"]
    assert repository.refs(area) == [Ref(f"{area}/s", None, "refs/heads/main")]
    for update in (
        RefUpdate(f"{area}/s", oid, tip),
        RefUpdate(f"{area}/s", oid, None),
        RefUpdate(f"{area}/s", None, tip),
    ):
        refusal(ConflictError, "ref-moved", repository, update)
    assert repository.ref("refs/heads/main") == Ref("refs/heads/main", tip)


def test_a_ref_that_moves_after_it_was_looked_at_is_a_conflict(repository: Repository, world: World, area: str) -> None:
    name = f"{area}/stream"
    first, second, third = (add_commit(repository, text=text) for text in "123")
    for elsewhere in (Ref(name, second), Ref(name, None, f"{area}/other")):
        repository.update_refs([RefUpdate(f"{area}/other", first, None), RefUpdate(name, first, None)], "m")
        assert repository.ref(name) == Ref(name, first)
        if repository.backend == "fake":
            repository.held[name] = elsewhere  # type: ignore[attr-defined]
        elif elsewhere.symbolic is not None:
            git(world.start, "symbolic-ref", name, elsewhere.symbolic)
        else:
            git(world.start, "update-ref", name, second)
        refusal(ConflictError, "ref-moved", repository, RefUpdate(name, third, first))
        assert repository.ref(name) == elsewhere
        if elsewhere.symbolic is None:
            done = [RefUpdate(name, None, second), RefUpdate(f"{area}/other", None, first)]
            repository.update_refs(done, "m")


def test_a_symbolic_ref_to_nowhere_is_no_free_name(repository: Repository, world: World, area: str) -> None:
    dangling = Ref(f"{area}/s", None, f"{area}/none")
    if repository.backend == "fake":
        repository.held[dangling.name] = dangling  # type: ignore[attr-defined]
    else:
        git(world.start, "symbolic-ref", dangling.name, f"{area}/none")
    assert repository.ref(dangling.name) == dangling
    refusal(ConflictError, "ref-moved", repository, RefUpdate(dangling.name, add_commit(repository), None))
    assert repository.ref(f"{area}/none") is None


def test_the_lock_of_another_writer_is_told_from_a_move(
    repository: Repository, area: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refwriter, "_LOCK_WAIT", ("-c", "core.filesRefLockTimeout=20"))
    name = f"{area}/stream"
    first, second = add_commit(repository, text="1"), add_commit(repository, text="2")
    repository.update_refs([RefUpdate(name, first, None)], "m")
    if repository.backend == "fake":
        repository.locked.add(name)  # type: ignore[attr-defined]
    else:
        (repository.layout.common_dir / f"{name}.lock").touch()
    refusal(ConflictError, "ref-locked", repository, RefUpdate(name, second, first))


def test_nothing_outside_refs_can_be_moved(repository: Repository, world: World) -> None:
    oid = add_commit(repository)
    with pytest.raises(HnError):
        repository.update_refs([RefUpdate("HEAD", oid, "0" * repository.oid_length)], "m")
    assert repository.resolve_commit("HEAD") == world.commits["c3"]


# -- revisions --------------------------------------------------------------------------------------------


def test_revisions_name_commits(repository: Repository, world: World) -> None:
    tip = world.commits["c3"]
    for revision in ("HEAD", "main", "refs/heads/main", tip, tip[:12]):
        assert repository.resolve_commit(revision) == tip
    if world.complete:
        assert repository.resolve_commit("HEAD~1") == world.commits["c2"]
        assert repository.resolve_commit("main~2") == world.commits["c1"]
        assert repository.resolve_commit("v1") == world.commits["c2"]
        assert repository.resolve_commit("side") == world.commits["s2"]


def test_what_names_no_commit_is_unknown(repository: Repository) -> None:
    for revision in ("none", "", "-h", "--all", "HEAD\nHEAD", "HEAD:a.txt", "HEAD^{tree}", "\0", "a b"):
        with pytest.raises(NotFoundError) as caught:
            repository.resolve_commit(revision)
        assert caught.value.code == "revision-unknown"
        assert "\n" not in caught.value.message


def test_an_absent_commit_is_unknown_and_not_fetched(repository: Repository, world: World) -> None:
    wanted = [absent_id(repository), *([] if world.complete else [world.commits["c1"], "HEAD~1"])]
    for revision in wanted:
        with pytest.raises(NotFoundError):
            repository.resolve_commit(revision)
    tree = repository.entries(world.commits["c3"], ["dir"])["dir"]
    assert tree is not None
    with pytest.raises(NotFoundError):
        repository.resolve_commit(tree.oid)


def test_settings_are_read(repository: Repository, world: World) -> None:
    expected = "1" if world.kind in {"sha256", "partial", "partial-no-fetch", "worktree-config", "reftable"} else "0"
    assert repository.config("core.repositoryFormatVersion") == expected
    assert repository.config("hn.none") is None
    assert repository.config("no name") is None


# -- objects ----------------------------------------------------------------------------------------------


def test_objects_are_written_and_read_back(repository: Repository, world: World) -> None:
    content = uuid.uuid4().bytes + b"\0\r\n" * 3
    (tree,) = repository.write_objects([("tree", b"")])
    objects = [("blob", content), ("blob", b""), ("commit", commit_object(tree, [])), ("blob", b"x" * 3_000_000)]
    oids = repository.write_objects(objects)  # type: ignore[arg-type]
    assert oids == [object_id(kind, data, repository.layout.object_format) for kind, data in objects]  # type: ignore[arg-type]
    found = repository.read([*reversed(oids), absent_id(repository), oids[0]])
    assert list(found) == [
        (oid, *item) for oid, item in [*reversed(list(zip(oids, objects, strict=True))), (oids[0], objects[0])]
    ]
    assert repository.info(oids) == {oid: ObjectInfo(k, len(d)) for oid, (k, d) in zip(oids, objects, strict=True)}  # type: ignore[arg-type]
    assert repository.write_objects(objects) == oids  # type: ignore[arg-type]
    assert repository.write_objects([]) == []
    if repository.backend != "fake":
        assert git(world.start, "hash-object", "--stdin", stdin=content) == oids[0]
        assert git(world.start, "cat-file", "-t", oids[2]) == "commit"


def test_many_objects_are_written_at_once(repository: Repository) -> None:
    salt = uuid.uuid4().hex
    contents: list[tuple[ObjectType, bytes]] = [("blob", f"{salt} {n}".encode()) for n in range(1200)]
    oids = repository.write_objects([*contents, contents[0]])
    assert oids.pop() == oids[0]
    assert len(set(oids)) == 1200
    assert [data.decode() for _, _, data in repository.read(oids)] == [f"{salt} {n}" for n in range(1200)]


def test_only_a_full_id_names_an_object(repository: Repository) -> None:
    (oid,) = repository.write_objects([("blob", b"here")])
    other = oid + oid[:24] if len(oid) == 40 else oid[:40]
    forms = [oid[:12], oid[:-1], other, oid.upper(), "HEAD", "", f"{oid}\n{oid}", f"{oid} ", "-" * len(oid)]
    assert repository.info(forms) == {}
    assert list(repository.read(forms)) == []
    assert list(repository.info([oid, *forms, oid])) == [oid]


def test_questions_may_come_in_the_middle_of_an_answer(repository: Repository) -> None:
    oids = repository.write_objects([("blob", b"%d" % n * 5000) for n in range(20)])
    seen = []
    for oid, _, data in repository.read(oids):
        assert repository.info([oid])[oid].size == len(data)
        assert [found for found, _, _ in repository.read([oids[3], oids[5]])] == [oids[3], oids[5]]
        seen.append(oid)
    assert seen == oids
    next(iter(repository.read(oids)))
    assert list(repository.info(oids[:1])) == oids[:1]


def test_existence_is_asked_anew_each_time(repository: Repository) -> None:
    content = uuid.uuid4().bytes
    oid = object_id("blob", content, repository.layout.object_format)
    assert repository.info([oid]) == {}
    assert repository.write_objects([("blob", content)]) == [oid]
    assert repository.info([oid]) == {oid: ObjectInfo("blob", 16)}


def test_blobs_of_a_partial_clone_are_not_fetched_by_asking(repository: Repository, world: World) -> None:
    entry = repository.entries(world.commits["c3"], ["dir/deep/b.txt"])["dir/deep/b.txt"]
    assert entry is not None
    assert (entry.oid in repository.info([entry.oid])) is not world.blobless


# -- trees ------------------------------------------------------------------------------------------------


def test_entries_of_a_tree(repository: Repository, world: World) -> None:
    paths = ["a.txt", "run.sh", "link", "dir", "dir/deep/b.txt", "dir/naïve 메모.txt"]
    found = repository.entries(world.commits["c3"], paths)
    assert {path: entry and (entry.mode, entry.name.decode()) for path, entry in found.items()} == {
        "a.txt": ("100644", "a.txt"),
        "run.sh": ("100755", "run.sh"),
        "link": ("120000", "link"),
        "dir": ("040000", "dir"),
        "dir/deep/b.txt": ("100644", "b.txt"),
        "dir/naïve 메모.txt": ("100644", "naïve 메모.txt"),
    }
    deep = found["dir/deep/b.txt"]
    assert deep is not None
    assert deep.oid == object_id("blob", b"two\n", repository.layout.object_format)


def test_what_a_tree_does_not_hold_is_absent(repository: Repository, world: World) -> None:
    names = ["none", "none/x", "a.txt/x", "link/x", "A.txt", "a.tx", "a.txt\0", "\ud800", "dir/nai\u0308ve 메모.txt"]
    names += ["", "/", "/a.txt", "dir/", "dir//deep", ".", "./a.txt", "..", "dir/../a.txt"]
    assert repository.entries(world.commits["c3"], names) == dict.fromkeys(names)
    assert repository.entries(world.commits["c3"], []) == {}


def test_an_entry_need_not_exist(repository: Repository) -> None:
    absent = absent_id(repository)
    raw = b"160000 sub\0" + bytes.fromhex(absent)
    (tree,) = repository.write_objects([("tree", raw)])
    (commit,) = repository.write_objects([("commit", commit_object(tree, []))])
    assert repository.entries(commit, ["sub", "sub/x"]) == {"sub": TreeEntry("160000", b"sub", absent), "sub/x": None}
    assert parse_tree(raw, repository.oid_length) == [TreeEntry("160000", b"sub", absent)]


def test_entries_need_the_trees_on_the_way(repository: Repository, world: World) -> None:
    absent = absent_id(repository)
    (tree,) = repository.write_objects([("tree", b"40000 d\0" + bytes.fromhex(absent))])
    (commit, blob) = repository.write_objects([("commit", commit_object(tree, [])), ("blob", b"x")])
    assert repository.entries(commit, ["d"]) == {"d": TreeEntry("040000", b"d", absent)}
    for commit_id, path in ((commit, "d/x"), (absent, "x"), (blob, "x"), (tree, "d")):
        with pytest.raises(NotFoundError) as caught:
            repository.entries(commit_id, [path])
        assert caught.value.code == "object-missing"


# -- history ----------------------------------------------------------------------------------------------


def test_ancestry_where_everything_is_here(repository: Repository, world: World) -> None:
    c = world.commits
    if world.complete:
        everything = [c["c1"], c["c2"], c["c3"], c["s1"], c["s2"]]
        assert repository.ancestry(c["c3"], everything) == {oid: oid != c["s2"] for oid in everything}
        assert repository.ancestry(c["s1"], everything) == {oid: oid in (c["c1"], c["s1"]) for oid in everything}
        assert repository.ancestry(c["s1"], iter(everything)) == repository.ancestry(c["s1"], everything)
    assert repository.ancestry(c["c3"], [c["c3"]]) == {c["c3"]: True}
    assert repository.ancestry(c["c3"], []) == {}


def test_ancestry_names_the_smallest_missing_commit(repository: Repository, world: World) -> None:
    low, high = absent_id(repository, "1"), absent_id(repository, "e")
    base = add_commit(repository, text="base")
    left = add_commit(repository, [base, high], "left")
    tip = add_commit(repository, [left, low], "tip")
    other = add_commit(repository, [base], "other")
    assert repository.ancestry(tip, [base, left, tip, other]) == {base: True, left: True, tip: True, other: low}
    assert repository.ancestry(left, [other, base]) == {other: high, base: True}
    if not world.complete:
        boundary = min(world.commits["c2"], world.commits["s1"])
        assert repository.ancestry(world.commits["c3"], [other]) == {other: boundary}


def test_ancestry_is_for_commits_that_are_here(repository: Repository, world: World) -> None:
    tip = world.commits["c3"]
    (blob,) = repository.write_objects([("blob", b"x")])
    assert repository.ancestry(tip, [absent_id(repository), blob, "x", tip[:10], tip]) == {tip: True}


def test_a_missing_commit_has_no_ancestry(repository: Repository, world: World) -> None:
    with pytest.raises(NotFoundError) as caught:
        repository.ancestry(absent_id(repository), [world.commits["c3"]])
    assert caught.value.code == "object-missing"


def test_ancestry_that_was_foreseen_is_the_same(repository: Repository, world: World) -> None:
    tip, low = world.commits["c3"], absent_id(repository, "1")
    broken = add_commit(repository, [tip, low], "broken")
    for foreseen in (tip, broken, low):
        for asked in (broken, tip):
            expected = repository.ancestry(asked, [tip, broken])
            repository.expect_ancestry(foreseen)
            repository.expect_ancestry(foreseen)
            assert repository.ancestry(asked, [tip, broken]) == expected
    assert repository.ancestry(tip, [tip, broken])[tip] is True
    repository.expect_ancestry(low)


def test_absence_is_asked_while_others_ask(repository: Repository, world: World) -> None:
    oids = repository.write_objects([("blob", b"%d" % number) for number in range(300)])
    gone = [absent_id(repository, digit) for digit in "1e"]
    waiting = repository.ask_absent([*oids, gone[0], "x", oids[0][:10]])
    assert dict(repository.info([oids[7], gone[0]])) == {oids[7]: ObjectInfo("blob", 1)}
    other = repository.ask_absent([gone[1], oids[8]])
    assert [data for _, _, data in repository.read(oids[2:4])] == [b"2", b"3"]
    assert other() == {gone[1]}
    assert waiting() == waiting() == {gone[0], "x", oids[0][:10]}
    assert repository.ask_absent(iter(()))() == set()
    # A new pack has other readers take over, and what was asked of the old ones is answered all the same.
    early = repository.ask_absent([oids[0], gone[0]])
    repository.write_pack(1, [("blob", b"later")])
    assert list(repository.info([oids[0]])) == [oids[0]]
    assert early() == {gone[0]}


def test_ancestry_does_not_believe_dates(repository: Repository) -> None:
    (tree,) = repository.write_objects([("tree", b"")])
    objects: list[tuple[ObjectType, bytes]] = []
    tip, chain = "", []
    for n in range(40):
        when = 1_800_000_000 if n < 20 else 1_000_000 + n * 7 % 13
        who = f"A <a@example.org> {when} +0000"
        parent = f"parent {tip}\n" if tip else ""
        objects.append(("commit", f"tree {tree}\n{parent}author {who}\ncommitter {who}\n\n{n}\n".encode()))
        tip = object_id(*objects[-1], repository.layout.object_format)
        chain.append(tip)
    repository.write_objects(objects)
    assert repository.ancestry(tip, chain) == dict.fromkeys(chain, True)
    assert repository.ancestry(chain[10], chain) == {oid: n <= 10 for n, oid in enumerate(chain)}


def test_first_parents_are_walked_newest_first(repository: Repository, world: World) -> None:
    c = world.commits
    if world.complete:
        walked = list(repository.parents(c["c3"]))
        assert [(oid, links) for oid, _, links in walked] == [
            (c["c3"], (c["c2"], c["s1"])),
            (c["c2"], (c["c1"],)),
            (c["c1"], ()),
        ]
        assert [oid for oid, _, _ in repository.parents(c["c3"], c["c1"])] == [c["c3"], c["c2"]]
    assert list(repository.parents(c["c3"], c["c3"])) == []


def test_a_long_walk_ends_where_history_does(repository: Repository) -> None:
    absent = absent_id(repository)
    (tree,) = repository.write_objects([("tree", b"")])
    objects, tip = [], absent
    for n in range(300):
        raw = commit_object(tree, [tip], str(n))
        tip = object_id("commit", raw, repository.layout.object_format)
        objects.append(("commit", raw))
    oids = repository.write_objects(objects)  # type: ignore[arg-type]
    seen = []
    with pytest.raises(NotFoundError) as caught:
        for oid, root, links in repository.parents(tip):
            assert root == tree
            seen.append((oid, links))
    assert caught.value.code == "object-missing"
    assert absent in caught.value.message
    assert [oid for oid, _ in seen] == oids[::-1]
    assert [oid for oid, _, _ in repository.parents(tip, oids[100])] == oids[:100:-1]


def test_a_long_walk_tells_what_commits_record(repository: Repository, world: World, area: str) -> None:
    """Not what a commit-graph, a graft or a replacement says of them; every merge with all its parents."""
    (tree,) = repository.write_objects([("tree", b"")])
    objects: list[tuple[ObjectType, bytes]] = []
    expected: list[tuple[str, str, tuple[str, ...]]] = []
    for n in range(200):
        parents = [step[0] for step in [*expected[-1:], *(expected[:1] if n % 7 == 3 else [])]]
        objects.append(("commit", commit_object(tree, parents, f"long\n\ncommit {n}")))
        oid = object_id(*objects[-1], repository.layout.object_format)
        expected.append((oid, tree, tuple(parents)))
    repository.write_objects(objects)
    walked, tip = expected[::-1], expected[-1][0]
    assert list(repository.parents(tip)) == walked
    for stop in (None, expected[150][0], expected[0][0], tip, None):
        # Asked for ahead or not, and whether or not anybody then wants to know.
        repository.expect_parents(tip)
        repository.expect_parents(expected[100][0], 1 << 30)
        left = len(walked) if stop is None else [step[0] for step in walked].index(stop)
        assert list(repository.parents(tip, stop)) == walked[:left]
    assert list(repository.parents(expected[100][0])) == walked[99:]
    repository.expect_parents(absent_id(repository))
    with pytest.raises(NotFoundError):
        list(repository.parents(absent_id(repository)))
    if repository.backend == "fake":
        return
    common, replaced = repository.layout.common_dir, f"refs/replace/{expected[30][0]}"
    grafts, graph = common / "info" / "grafts", common / "objects" / "info" / "commit-graph"
    for name, target in ((area, tip), (replaced, expected[5][0])):
        git(common, "update-ref", name, target)
    grafts.parent.mkdir(exist_ok=True)
    grafts.write_text(f"{expected[20][0]} {expected[3][0]}\n")
    try:
        assert list(repository.parents(tip)) == walked
        grafts.unlink()
        git(common, "update-ref", "-d", replaced)
        if world.complete:
            git(common, "commit-graph", "write", "--reachable")
            true = graph.read_bytes()
            assert bytes.fromhex(tree) in true
            graph.chmod(0o644)
            graph.write_bytes(true.replace(bytes.fromhex(tree), bytes.fromhex(absent_id(repository))))
            assert list(repository.parents(tip)) == walked
    finally:
        grafts.unlink(missing_ok=True)
        graph.unlink(missing_ok=True)
        for name in (replaced, area):
            git(common, "update-ref", "-d", name)


def test_ids_are_compared_with_contents_unless_told_otherwise(repository: Repository) -> None:
    if repository.backend == "fake":
        return
    content = f"said under another name: {uuid.uuid4()}".encode()
    (true,) = repository.write_objects([("blob", content)])
    false, objects = absent_id(repository, "e"), repository.layout.objects
    place = objects / false[:2] / false[2:]
    place.parent.mkdir(exist_ok=True)
    place.write_bytes((objects / true[:2] / true[2:]).read_bytes())
    try:
        for _ in range(2):
            with pytest.raises(HnError) as caught:
                list(repository.read([false]))
            assert caught.value.code == "object-corrupt"
            with repository.unchecked():
                assert list(repository.read([true, false])) == [(true, "blob", content), (false, "blob", content)]
                assert repository.read_within({false: len(content)}, {})[1] == {false: content}
    finally:
        place.unlink()


def test_a_walk_refuses_what_is_no_commit(repository: Repository) -> None:
    (blob,) = repository.write_objects([("blob", b"x")])
    for oid in (blob, absent_id(repository)):
        with pytest.raises(NotFoundError):
            list(repository.parents(oid))


def test_closing_twice_is_fine(repository: Repository) -> None:
    repository.close()
    repository.close()
