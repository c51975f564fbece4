"""Which repository is found, in whose environment, and the refusals when none may be used."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hn_memory.errors import HnError, NotFoundError
from hn_memory.repository.base import RefUpdate
from hn_memory.repository.discover import discover, git_environment
from hn_memory.repository.paths import display, without_homes

from .conftest import open_as
from .kinds import World, build, git

NOBODY = 65534
WORLD = Callable[[str], World]


@pytest.fixture
def open_top() -> Iterator[Path]:
    """A directory that every user can reach; pytest's own are for their owner alone."""
    top = Path(tempfile.mkdtemp())
    top.chmod(0o755)
    yield top
    shutil.rmtree(top)


def as_nobody(action: Callable[[], object]) -> str:
    """Run an action in a child process without privileges; its result, or `code|message|hint` of a refusal."""
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            os.environ.pop("HOME", None)
            # Git takes the owner that sudo tells of for a second self.
            os.environ.pop("SUDO_UID", None)
            try:
                told = str(action())
            except HnError as error:
                told = f"{error.code}|{error.message}|{error.hint}"
            except BaseException as error:
                told = f"unexpected {error!r}"
            os.write(there, told.encode())
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here) as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    return told


# -- finding ----------------------------------------------------------------------------------------------


def test_a_subdirectory_gives_the_prefix(world_of: WORLD) -> None:
    start = world_of("plain").start
    found = discover(start / "dir" / "deep")
    assert (found.work_tree, found.prefix) == (start, "dir/deep")
    assert discover(start).prefix == ""
    assert discover(start / ".git").work_tree == start


@pytest.mark.parametrize("name", ["core.sharedRepository", "core.fsync", "core.fsyncObjectFiles"])
def test_a_store_with_wishes_for_its_objects_is_not_plain(tmp_path: Path, name: str) -> None:
    world = build("plain", tmp_path / "repo")
    assert discover(world.start).plain_store
    git(world.start, "config", name, "true" if name.endswith("Files") else "all")
    found = discover(world.start)
    assert not found.plain_store and not found.promisor


def test_the_current_directory_is_the_default(world_of: WORLD, monkeypatch: pytest.MonkeyPatch) -> None:
    start = world_of("odd-path").start
    monkeypatch.chdir(start / "dir")
    assert discover(None) == discover(start / "dir")


def test_a_linked_worktree_shares_the_common_directory(world_of: WORLD) -> None:
    for kind in ("worktree", "worktree-of-bare"):
        world = world_of(kind)
        found = discover(world.start / "dir")
        assert found.git_dir != found.common_dir == world.git_dir
        assert (found.work_tree, found.prefix) == (world.start, "dir")


def test_an_explicit_git_directory_wins(world_of: WORLD, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, bare = world_of("plain"), world_of("bare")
    monkeypatch.chdir(plain.start / "dir")
    assert discover(None, git_dir=bare.start).git_dir == bare.start
    found = discover(None, git_dir=Path("../.git"))
    assert (found.git_dir, found.work_tree, found.prefix) == (plain.git_dir, plain.start, "dir")
    linked = world_of("worktree")
    found = discover(linked.start / "dir", git_dir=discover(linked.start).git_dir)
    assert (found.work_tree, found.prefix) == (linked.start, "dir")
    with pytest.raises(NotFoundError):
        discover(None, git_dir=plain.start / "dir")


def test_a_path_with_a_newline_is_found(tmp_path: Path) -> None:
    world = build("plain", tmp_path / "new\nline")
    found = discover(world.start / "dir")
    assert (found.work_tree, found.prefix) == (world.start, "dir")
    with open_as("git", world.start) as repository:
        assert repository.resolve_commit("HEAD") == world.commits["c3"]


def test_outside_a_repository_there_is_no_fallback(
    tmp_path: Path, world_of: WORLD, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(world_of("plain").git_dir))
    monkeypatch.setenv("HOME", str(tmp_path))
    for start in (tmp_path, tmp_path / "none"):
        with pytest.raises(NotFoundError) as caught:
            discover(start)
        assert caught.value.code == "not-a-repository"
        assert str(tmp_path) not in caught.value.message


def test_an_unknown_extension_is_named(tmp_path: Path) -> None:
    world = build("plain", tmp_path)
    git(world.start, "config", "extensions.fromTomorrow", "true")
    git(world.start, "config", "core.repositoryFormatVersion", "1")
    with pytest.raises(HnError) as caught:
        discover(world.start)
    assert caught.value.code == "repository-unusable"
    assert "fromtomorrow" in caught.value.message


def test_a_missing_git_is_said_so(tmp_path: Path, world_of: WORLD, monkeypatch: pytest.MonkeyPatch) -> None:
    start = world_of("plain").start
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HnError) as caught:
        discover(start)
    assert caught.value.code == "git-missing"


# -- owners and modes -------------------------------------------------------------------------------------


def test_the_repository_of_somebody_else_is_refused(open_top: Path) -> None:
    world = build("plain", open_top)
    told = as_nobody(lambda: discover(world.start))
    if os.geteuid() == 0:
        code, message, hint = told.split("|")
        assert code == "repository-unsafe"
        assert "ownership" in message or "owned by" in message
        assert "safe.directory" in hint
        assert "--add" not in message + hint
    else:
        assert "git_dir" in told


def test_a_read_only_repository_is_read_and_not_written(open_top: Path) -> None:
    world = build("plain", open_top)
    tip = world.commits["c3"]
    settings = open_top / "settings"
    settings.write_text(f"[safe]\n\tdirectory = {world.start}\n")
    if os.geteuid() != 0:
        for directory, _, _ in os.walk(world.git_dir):
            Path(directory).chmod(0o555)

    def trusting(action: Callable[[], object]) -> str:
        def run() -> object:
            os.environ["GIT_CONFIG_GLOBAL"] = str(settings)
            os.chdir(world.start)
            return action()

        return as_nobody(run)

    for backend in ("git", "libgit2"):
        with open_as(backend, world.start) as warm:
            assert warm.resolve_commit("HEAD") == tip

        def read(backend: str = backend) -> object:
            with open_as(backend, world.start) as repository:
                return repository.resolve_commit("HEAD"), [ref.name for ref in repository.refs("refs/heads")]

        def write(backend: str = backend) -> object:
            with open_as(backend, world.start) as repository:
                return repository.write_objects([("blob", b"new")])

        def move(backend: str = backend) -> None:
            with open_as(backend, world.start) as repository:
                repository.update_refs([RefUpdate("refs/heads/main", world.commits["c2"], tip)], "m")

        assert trusting(read) == str((tip, ["refs/heads/main", "refs/heads/side"]))
        began = time.monotonic()
        assert trusting(write).startswith("object-write-failed|cannot write to .git/objects: ")
        assert trusting(move).startswith("ref-write-failed|cannot move refs in .git: ")
        assert time.monotonic() - began < 2
    for directory, _, _ in os.walk(world.git_dir):
        Path(directory).chmod(0o755)


# -- environment ------------------------------------------------------------------------------------------


def test_the_environment_names_no_other_repository(world_of: WORLD, monkeypatch: pytest.MonkeyPatch) -> None:
    other = world_of("bare").start
    hostile = {
        "GIT_DIR": str(other),
        "GIT_COMMON_DIR": str(other),
        "GIT_WORK_TREE": "/",
        "GIT_INDEX_FILE": "/nonexistent/index",
        "GIT_OBJECT_DIRECTORY": "/nonexistent/objects",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(other / "objects"),
        "GIT_NAMESPACE": "elsewhere",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_CONFIG_PARAMETERS": "'core.bare'='true'",
        "GIT_CONFIG": "/nonexistent",
        "GIT_REPLACE_REF_BASE": "refs/heads/",
        "GIT_GRAFT_FILE": "/nonexistent",
        "GIT_SHALLOW_FILE": "/nonexistent",
        "GIT_QUARANTINE_PATH": "/nonexistent",
        "GIT_PREFIX": "dir/",
        "GIT_EXEC_PATH": "/nonexistent",
        "GIT_TRACE": "1",
        "GIT_DEFAULT_HASH": "sha256",
        "LC_ALL": "de_DE.UTF-8",
        "LANGUAGE": "de",
    }
    world = world_of("plain")
    expected = discover(world.start)
    for name, value in hostile.items():
        monkeypatch.setenv(name, value)
    for name in ("GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_NO_LAZY_FETCH", "GIT_CONFIG_GLOBAL"):
        monkeypatch.setenv(name, "")
    env = git_environment()
    left = {name for name in hostile if env.get(name) == hostile[name]}
    assert left == {"LANGUAGE"}
    assert {"GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_NO_LAZY_FETCH", "GIT_CONFIG_GLOBAL"} <= env.keys()
    assert (env["LC_ALL"], env["GIT_NO_REPLACE_OBJECTS"], env["GIT_TERMINAL_PROMPT"]) == ("C", "1", "0")
    assert discover(world.start) == expected
    for backend in ("git", "libgit2"):
        with open_as(backend, world.start) as repository:
            assert repository.resolve_commit("HEAD") == world.commits["c3"]
            (oid,) = repository.write_objects([("blob", b"in the right store " + backend.encode())])
            assert (world.git_dir / "objects" / oid[:2] / oid[2:]).is_file()


@pytest.mark.parametrize("backend", ["git", "libgit2"])
def test_no_configuration_changes_what_is_written(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = build("plain", tmp_path / "repo")
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-update", "pre-auto-gc", "post-commit"):
        # Recursive: a hook that moves a ref calls itself, and would never end.
        (hooks / name).write_text('#!/bin/sh\ntouch ran\ngit update-ref "refs/x/$$" HEAD\nexit 1\n')
        (hooks / name).chmod(0o755)
        shutil.copy(hooks / name, world.git_dir / "hooks" / name)
    (tmp_path / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {hooks}\n\tcompression = 0\n\tautocrlf = true\n\tquotePath = true\n"
        "[commit]\n\tgpgSign = true\n[i18n]\n\tcommitEncoding = ISO-8859-1\n\tlogOutputEncoding = UTF-16\n"
        "[user]\n\tuseConfigOnly = true\n[gpg]\n\tprogram = /bin/false\n[transfer]\n\tfsckObjects = true\n"
        "[core]\n\tlogAllRefUpdates = always\n\tabbrev = 4\n[color]\n\tui = always\n[column]\n\tui = always\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    raw = f"tree {git(world.start, 'rev-parse', 'HEAD^{tree}')}\nauthor Ü <ü> 1 +0000\ncommitter Ü <ü> 1 +0000\n\né\r\n"
    for home in (str(tmp_path), None):
        if home is None:
            monkeypatch.delenv("HOME")
        with open_as(backend, world.start) as repository:
            (oid,) = repository.write_objects([("commit", raw.encode())])
            assert [data for _, _, data in repository.read([oid])] == [raw.encode()]
            name = f"refs/hn/{home is None}"
            repository.update_refs([RefUpdate(name, world.commits["c1"], None)], "m")
            repository.update_refs([RefUpdate(name, oid, world.commits["c1"])], "m")
            assert [ref.target for ref in repository.refs(name)] == [oid]
    assert git(world.start, "for-each-ref", "refs/x") == ""
    assert not list((tmp_path / "repo").rglob("ran"))


# -- messages ---------------------------------------------------------------------------------------------


def test_a_path_is_shown_without_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home" / "somebody"
    (home / "project" / "sub").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "project")
    assert display(Path("sub/../sub")) == "sub"
    assert display(home / "project") == "."
    assert display(home / "other") == "~/other"
    assert display(home) == "~"
    assert display(Path("/etc/x")) == "/etc/x"
    assert without_homes(f"in '{home}' and {home}/x and {home}y") == f"in '~' and ~/x and {home}y"


def test_a_removed_directory_can_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert display(Path("/etc/x")) == "/etc/x"
    with pytest.raises(NotFoundError):
        discover(None)
