"""The policy through the service: shown, checked, and edited in the work tree byte by byte."""

from __future__ import annotations

import json
import os
import resource
import shutil
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hn_memory.errors import ConflictError, HnError, NotFoundError, UsageError
from hn_memory.protocol import limits
from hn_memory.protocol.identifiers import KINDS
from hn_memory.protocol.policy import missing_policy, parse_policy
from hn_memory.protocol.policytext import edit_policy
from hn_memory.repository.treefile import edit_tree_file, read_tree_file
from hn_memory.service.service import Service, open_repository

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
PATH = ".hn/policy.json"
ALL = sorted(KINDS)
NOBODY = 65534


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(where), *arguments], check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.org")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The work tree of an empty repository."""
    place = tmp_path / "tree"
    git(tmp_path, "init", "-q", str(place))
    return place


@pytest.fixture
def service(tree: Path) -> Iterator[Service]:
    with open_repository(tree) as opened:
        yield opened


def commit(tree: Path, data: bytes | None) -> str:
    if data is not None:
        (tree / ".hn").mkdir(exist_ok=True)
        (tree / PATH).write_bytes(data)
        git(tree, "add", "-f", PATH)
    git(tree, "commit", "-q", "--allow-empty", "-m", "x")
    return git(tree, "rev-parse", "HEAD")


def put(tree: Path, data: bytes) -> Path:
    (tree / ".hn").mkdir(exist_ok=True)
    (tree / PATH).write_bytes(data)
    return tree / PATH


def section(actors: list[str], kinds: list[str]) -> dict[str, Any]:
    return {"trustedActors": actors, "trustedKinds": kinds}


def refused(call: Callable[[], object], code: str) -> HnError:
    with pytest.raises(HnError) as caught:
        call()
    assert caught.value.code == code, caught.value.message
    assert "\n" not in caught.value.message
    return caught.value


def left_over(tree: Path) -> list[str]:
    return sorted(path.name for path in (tree / ".hn").iterdir()) if (tree / ".hn").exists() else []


# -- show and check ---------------------------------------------------------------------------------------


def test_show_says_what_holds_at_a_commit(tree: Path, service: Service) -> None:
    first = commit(tree, None)
    data = json.dumps({"version": "hn.policy/0", "memory": section([A, B], ["decision"])}).encode()
    second = commit(tree, data)
    third = commit(tree, b'{"maintainers": {}}')
    assert service.policy_show(first) == {
        "version": 0, "commit": first, "digest": missing_policy().digest, "state": "missing",
        "trustedActors": [], "trustedKinds": [], "names": {},
    }  # fmt: skip
    assert service.policy_show("HEAD~1") == {
        "version": 0, "commit": second, "digest": parse_policy(data).digest, "state": "present",
        "trustedActors": [A, B], "trustedKinds": ["decision"], "names": {},
    }  # fmt: skip
    assert service.policy_show()["state"] == "no-memory-section"
    assert service.policy_show()["commit"] == third


def test_show_names_the_actors_of_this_clone(tree: Path, service: Service) -> None:
    ada = service.init("Ada")["identity"]["actor"]
    service.policy_trust([ada, A])
    git(tree, "add", PATH)
    commit(tree, None)
    assert service.policy_show()["names"] == {ada: "Ada"}


def test_show_of_a_bad_policy_or_an_unknown_revision(tree: Path, service: Service) -> None:
    commit(tree, b'{"memory": {"trustedActors": ["b"]}}')
    assert refused(service.policy_show, "policy-invalid").field == "memory.trustedActors[0]"
    assert refused(lambda: service.policy_show("nowhere"), "revision-unknown").exit_status == 3


def test_check_of_the_work_tree_and_of_a_commit(tree: Path, service: Service) -> None:
    assert service.policy_check() == {
        "version": 0, "source": "work-tree", "state": "missing", "digest": missing_policy().digest, "valid": True,
    }  # fmt: skip
    good = edit_policy(None, [A], ALL)
    head = commit(tree, good)
    put(tree, b'{"version": "hn.policy/0",\r\n "memory": {"trustedActors": [],\r\n  "trustedKinds": ["gossip"]}}')
    error = refused(service.policy_check, "policy-invalid")
    assert error.field == "memory.trustedKinds[0]"
    assert "(line 3, column 20)" in error.message
    checked = service.policy_check("HEAD")
    assert checked["source"] == head
    assert (checked["state"], checked["digest"], checked["valid"]) == ("present", parse_policy(good).digest, True)
    put(tree, b"{\n  nonsense\n}")
    assert "(line 2, column 3)" in refused(service.policy_check, "policy-invalid").message
    put(tree, b" " * (limits.POLICY_BYTES + 1))
    refused(service.policy_check, "policy-invalid")


# -- trust ------------------------------------------------------------------------------------------------


def test_trust_without_a_file_writes_one_that_holds_only_memory(tree: Path, service: Service) -> None:
    mask = os.umask(0o022)
    os.umask(mask)
    assert service.policy_trust([B, A, B]) == {
        "version": 0,
        "path": PATH,
        "changed": True,
        "trustedActors": [A, B],
        "trustedKinds": ALL,
        "notice": "takes effect when committed",
    }
    path = tree / PATH
    assert path.read_text() == json.dumps({"memory": section([A, B], ALL)}, indent=2) + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert stat.S_IMODE((tree / ".hn").stat().st_mode) == 0o777 & ~mask
    assert left_over(tree) == ["policy.json"]
    assert git(tree, "status", "--porcelain") == "?? .hn/"


def test_kinds_on_a_fresh_and_on_an_existing_section(tree: Path, service: Service) -> None:
    assert service.policy_trust([A], ["decision", "attempt"])["trustedKinds"] == ["attempt", "decision"]
    assert service.policy_trust([B])["trustedKinds"] == ["attempt", "decision"]
    assert service.policy_trust([C], ["handoff"])["trustedKinds"] == ["attempt", "decision", "handoff"]
    assert service.policy_trust([], ["decision", "observation"])["trustedActors"] == [A, B, C]
    put(tree, json.dumps({"memory": section([A], [])}).encode())
    assert service.policy_trust([B])["trustedKinds"] == ALL
    put(tree, b'{"memory": {}}')
    assert service.policy_trust([B])["trustedKinds"] == ALL


def test_trusting_again_changes_nothing(tree: Path, service: Service) -> None:
    path = put(tree, b'{"memory":{"trustedKinds":["decision"] , "trustedActors":["%s"]}}' % A.encode())
    before = path.stat()
    done = service.policy_trust([A])
    assert done["changed"] is False
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_untrust_takes_actors_out_and_leaves_kinds(tree: Path, service: Service) -> None:
    service.policy_trust([A, B, C], ["decision"])
    done = service.policy_untrust([C, A])
    assert (done["changed"], done["trustedActors"], done["trustedKinds"]) == (True, [B], ["decision"])
    error = refused(lambda: service.policy_untrust([B, A]), "actor-not-trusted")
    assert isinstance(error, NotFoundError)
    assert A in error.message
    assert parse_policy((tree / PATH).read_bytes()).actors == {B}
    assert service.policy_untrust([B])["trustedActors"] == []
    assert parse_policy((tree / PATH).read_bytes()).state == "present"


def test_untrust_without_a_file_creates_nothing(tree: Path, service: Service) -> None:
    refused(lambda: service.policy_untrust([A]), "actor-not-trusted")
    assert not (tree / ".hn").exists()
    (tree / ".hn").mkdir()
    refused(lambda: service.policy_untrust([A]), "actor-not-trusted")
    assert left_over(tree) == []


@pytest.mark.parametrize("actor", ["", "a" * 63, "A" * 64, "sha256:" + "a" * 64, "alice", "a" * 64 + "\n"])
def test_only_full_actor_ids(tree: Path, service: Service, actor: str) -> None:
    for call in (service.policy_trust, service.policy_untrust):
        assert isinstance(refused(lambda call=call: call([A, actor]), "actor-invalid"), UsageError)
    assert not (tree / ".hn").exists()


def test_unknown_kinds_and_empty_requests(tree: Path, service: Service) -> None:
    refused(lambda: service.policy_trust([A], ["gossip"]), "kind-unknown")
    refused(lambda: service.policy_trust([]), "actor-missing")
    refused(lambda: service.policy_untrust([]), "actor-missing")
    assert not (tree / ".hn").exists()


STYLED = {
    "two spaces": (json.dumps({"version": "hn.policy/0", "memory": section([A], ALL), "pipelines": [1]}, indent=2)),
    "tabs": json.dumps({"memory": section([A], ["decision"]), "proposals": {"x": "é"}}, indent="\t") + "\n",
    "compact": json.dumps({"maintainers": ["x"], "memory": section([A], ["attempt"])}, separators=(",", ":")),
    "one line": json.dumps({"maintainers": ["x"], "memory": section([A], ["attempt"])}),
    "lists on one line": f'{{\n "memory": {{\n  "trustedActors": ["{A}"],\n  "trustedKinds": ["decision"]\n }}\n}}\n',
}


@pytest.mark.parametrize("style", STYLED)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_an_edit_keeps_the_style_and_can_be_taken_back(tree: Path, service: Service, style: str, line_end: str) -> None:
    before = STYLED[style].replace("\n", line_end).encode()
    path = put(tree, before)
    service.policy_trust([C, B])
    between = path.read_bytes()
    assert parse_policy(between).actors == {A, B, C}
    joint = {"compact": b'","', "one line": b'", "', "lists on one line": b'", "'}.get(style)
    if joint is None:
        assert between.count(line_end.encode()) == before.count(line_end.encode()) + 2
        assert between.count(b"\n") == before.count(b"\n") + 2
    else:
        assert between == before.replace(A.encode(), joint.join(x.encode() for x in (A, B, C)))
    service.policy_untrust([B, C])
    assert path.read_bytes() == before


# -- refusals that write nothing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"memory": {}, "memory": {}}', '{"memory": {"trustedActors": ["x"]}}', '{"x": 1}', "\ufeff{}"],
)
def test_an_invalid_policy_is_left_alone(tree: Path, service: Service, text: str) -> None:
    path = put(tree, text.encode())
    refused(lambda: service.policy_trust([A]), "policy-invalid")
    refused(lambda: service.policy_untrust([A]), "policy-invalid")
    assert path.read_bytes() == text.encode()
    assert left_over(tree) == ["policy.json"]


def test_a_policy_that_would_grow_too_large_is_left_alone(tree: Path, service: Service) -> None:
    room = limits.POLICY_BYTES - len('{"pipelines": ""}')
    path = put(tree, b'{"pipelines": "%s"}' % (b"x" * room))
    refused(lambda: service.policy_trust([A]), "policy-invalid")
    assert path.stat().st_size == limits.POLICY_BYTES


def test_a_bare_repository_has_no_place_for_it(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    with open_repository(tmp_path / "bare.git") as service:
        refused(lambda: service.policy_trust([A]), "no-work-tree")
        refused(lambda: service.policy_untrust([A]), "no-work-tree")
        refused(service.policy_check, "no-work-tree")


@pytest.mark.parametrize("what", ["directory", "dangling directory", "file", "dangling file"])
def test_symbolic_links_are_not_followed(tree: Path, service: Service, tmp_path: Path, what: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    if not what.startswith("dangling"):
        (outside / "policy.json").write_bytes(edit_policy(None, [A, B], ALL))
    if what.endswith("directory"):
        (tree / ".hn").symlink_to(outside if what == "directory" else tmp_path / "nowhere")
    else:
        (tree / ".hn").mkdir()
        (tree / PATH).symlink_to(outside / "policy.json")
    before = {path: path.read_bytes() for path in outside.iterdir()}
    for call in (lambda: service.policy_trust([C]), lambda: service.policy_untrust([A]), service.policy_check):
        assert "symbolic link" in refused(call, "work-tree-unsafe").message
    assert {path: path.read_bytes() for path in outside.iterdir()} == before
    assert not (tmp_path / "nowhere").exists()


def test_other_things_in_its_place(tree: Path, service: Service) -> None:
    (tree / ".hn").write_text("a file")
    refused(lambda: service.policy_trust([A]), "work-tree-unsafe")
    (tree / ".hn").unlink()
    (tree / PATH).mkdir(parents=True)
    refused(lambda: service.policy_trust([A]), "work-tree-unsafe")
    (tree / PATH).rmdir()
    os.mkfifo(tree / PATH)
    refused(lambda: service.policy_trust([A]), "work-tree-unsafe")
    refused(service.policy_check, "work-tree-unsafe")


def test_a_sparse_checkout_that_hides_the_policy_is_not_overwritten(tree: Path, service: Service) -> None:
    (tree / "src").mkdir()
    (tree / "src" / "a").write_text("a")
    git(tree, "add", "src")
    commit(tree, edit_policy(b'{"version": "hn.policy/0"}', [A], ALL))
    git(tree, "sparse-checkout", "set", "--cone", "src")
    assert not (tree / PATH).exists()
    for call in (lambda: service.policy_trust([B]), lambda: service.policy_untrust([A]), service.policy_check):
        error = refused(call, "policy-not-checked-out")
        assert "sparse" in (error.hint or "")
    assert not (tree / ".hn").exists()
    git(tree, "sparse-checkout", "add", ".hn")
    assert service.policy_trust([B])["trustedActors"] == [A, B]


def test_a_sparse_checkout_without_a_policy_gets_one(tree: Path, service: Service) -> None:
    git(tree, "config", "core.sparseCheckout", "true")
    assert service.policy_trust([A])["trustedActors"] == [A]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tree: Path, service: Service) -> None:
    path = put(tree, edit_policy(None, [A], ALL))
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(HnError) as caught, edit_tree_file(tree, PATH, 1 << 20, create=True) as file:
            assert file is not None
            file.replace(edit_policy(file.data, [A, B], ALL))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.code == "work-tree-write-failed"
    assert ".hn" in caught.value.message
    assert path.read_bytes() == before
    assert left_over(tree) == ["policy.json"]


def as_nobody(call: Callable[[], object]) -> str:
    """The error code of a call made by somebody who may not write everywhere, or "done"."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            call()
            answer = "done"
        except HnError as error:
            answer = error.code
        except BaseException as error:
            answer = repr(error)
        os.write(write_end, answer.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


@pytest.mark.parametrize("part", [".", ".hn"])
def test_a_read_only_directory_is_named(part: str) -> None:
    root = Path(tempfile.mkdtemp())
    try:
        root.chmod(0o777)
        if part == ".hn":
            put(root, edit_policy(None, [A], ALL))
        (root / part).chmod(0o555)

        def attempt() -> None:
            with edit_tree_file(root, PATH, 1 << 20, create=True) as file:
                assert file is not None
                file.replace(b"{}")

        assert as_nobody(attempt) == "work-tree-write-failed"
        assert as_nobody(lambda: read_tree_file(root, PATH, 1 << 20)) == "done"
    finally:
        (root / part).chmod(0o755)
        shutil.rmtree(root)


def test_a_directory_made_for_nothing_is_taken_away(tree: Path) -> None:
    with pytest.raises(RuntimeError), edit_tree_file(tree, PATH, 10, create=True):
        raise RuntimeError("changed our mind")
    assert not (tree / ".hn").exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_the_mode_of_the_file_is_kept(tree: Path, service: Service, mode: int) -> None:
    path = put(tree, edit_policy(None, [A], ALL))
    path.chmod(mode)
    service.policy_trust([B])
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_an_editor_that_saves_meanwhile_wins(tree: Path) -> None:
    path = put(tree, edit_policy(None, [A], ALL))
    with pytest.raises(ConflictError) as caught, edit_tree_file(tree, PATH, 1 << 20, create=True) as file:
        assert file is not None
        path.write_bytes(edit_policy(None, [A, B, C], ALL))
        file.replace(b"{}")
    assert caught.value.code == "work-tree-changed"
    assert parse_policy(path.read_bytes()).actors == {A, B, C}
    assert left_over(tree) == ["policy.json"]


def test_edits_at_once_lose_nothing(tree: Path) -> None:
    actors = [f"{number:064x}" for number in range(16)]

    def trust(actor: str) -> None:
        with edit_tree_file(tree, PATH, 1 << 20, create=True) as file:
            assert file is not None
            held = parse_policy(file.data).actors if file.data else frozenset()
            file.replace(edit_policy(file.data, held | {actor}, ALL))

    (tree / ".hn").mkdir()
    threads = [threading.Thread(target=trust, args=(actor,)) for actor in actors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parse_policy((tree / PATH).read_bytes()).actors == set(actors)


def test_the_policy_stands_in_the_root_of_the_tree_wherever_one_is(tree: Path) -> None:
    (tree / "deep" / "er").mkdir(parents=True)
    with open_repository(tree / "deep" / "er") as service:
        service.policy_trust([A])
    assert (tree / PATH).is_file()


def test_a_linked_work_tree_has_a_policy_of_its_own(tree: Path, tmp_path: Path) -> None:
    commit(tree, None)
    git(tree, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    with open_repository(tmp_path / "linked") as service:
        service.policy_trust([A])
    assert (tmp_path / "linked" / PATH).is_file()
    assert not (tree / ".hn").exists()


# -- any policy -------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
actor_lists = st.sets(st.sampled_from([A, B, C])).map(sorted)
kind_lists = st.sets(st.sampled_from(KINDS)).map(sorted)
sections = st.fixed_dictionaries({}, optional={"trustedActors": actor_lists, "trustedKinds": kind_lists})
documents = st.fixed_dictionaries(
    {},
    optional={
        "version": st.just("hn.policy/0"), "maintainers": anything, "memory": sections, "proposals": anything,
        "pipelines": anything,
    },
)  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(
    documents,
    st.sampled_from([None, 1, 2, "\t"]),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
    st.lists(st.sampled_from([A, B, C]), min_size=1),
    kind_lists,
)
def test_trust_keeps_every_other_section_byte_for_byte(
    document: dict[str, Any], indent: Any, escape: bool, line_end: str, actors: list[str], kinds: list[str]
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=escape).replace("\n", line_end) + line_end
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory)
        git(tree, "init", "-q")
        path = put(tree, text.encode())
        old = parse_policy(text.encode())
        with open_repository(tree) as service:
            done = service.policy_trust(actors, kinds)
        after = path.read_bytes()
    expected = old.kinds | set(kinds) if kinds or old.kinds else set(KINDS)
    assert (done["trustedActors"], done["trustedKinds"]) == (sorted(old.actors | set(actors)), sorted(expected))
    assert (parse_policy(after).actors, parse_policy(after).kinds) == (old.actors | set(actors), expected)
    assert done["changed"] == (after != text.encode())
    assert {name: value for name, value in json.loads(after).items() if name != "memory"} == {
        name: value for name, value in document.items() if name != "memory"
    }
    for name, value in document.items():
        if name != "memory":
            # Each other member stands there as it was written, whatever its neighbours have become.
            member = json.dumps({name: value}, indent=indent, ensure_ascii=escape).replace("\n", line_end)
            assert member.strip("{}\r\n").encode() in after
