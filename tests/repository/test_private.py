"""Owner-only files: what is refused, what is left behind, and which modes come out under any umask."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hn_memory.errors import ConflictError, HnError, NotFoundError
from hn_memory.repository import private
from hn_memory.repository.private import PrivateFiles, read_outside

NOBODY = 65534


def as_nobody(action: Callable[[], object]) -> str:
    """Run an action in a child without privileges; its result as text, or `code: message` of a refusal.

    Where the tests do not run as root they have no privileges to drop, and modes bind them anyway.
    """
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside the threads of a test runner
        pid = os.fork()
    if pid == 0:
        try:
            os.close(here)
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            try:
                told = str(action())
            except HnError as error:
                told = f"{error.code}: {error.message}"
            except BaseException:
                told = traceback.format_exc()
            os.write(there, told.encode())
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here, encoding="utf-8") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    return told


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """A directory that everybody may enter; pytest's own are closed to other users."""
    path = Path(tempfile.mkdtemp(prefix="hn-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def files(tmp_path: Path) -> PrivateFiles:
    return PrivateFiles(tmp_path)


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o177, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def listed(directory: Path) -> list[str]:
    """All names, those that start with a dot included."""
    return sorted(path.name for path in directory.iterdir())


def refusal(action: Callable[[], object]) -> HnError:
    with pytest.raises(HnError) as caught:
        action()
    assert "\n" not in caught.value.message
    return caught.value


def code(action: Callable[[], object]) -> str:
    return refusal(action).code


# -- modes and contents -------------------------------------------------------------------------------------


def test_modes_do_not_depend_on_the_umask(files: PrivateFiles, umask: int) -> None:
    files.write("a/b/written", b"1")
    files.create("a/created", b"2")
    os.close(files.open("a/opened"))
    for directory in ("", "a", "a/b"):
        assert mode(files.path(directory)) == 0o700
    for name in ("a/b/written", "a/created", "a/opened"):
        assert mode(files.path(name)) == 0o600


def test_an_unprivileged_user_writes_under_any_umask(open_dir: Path) -> None:
    open_dir.chmod(0o777)

    def write() -> bytes:
        os.umask(0o777)
        PrivateFiles(open_dir).write("a/b", b"x")
        return PrivateFiles(open_dir).read("a/b", 10)

    assert as_nobody(write) == "b'x'"


@settings(deadline=None)
@given(st.lists(st.binary(max_size=5000), min_size=1, max_size=4))
def test_a_file_holds_what_was_written_last(contents: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        files = PrivateFiles(Path(name))
        for content in contents:
            files.write("f", content)
            assert files.read("f", 5000) == content
        assert files.names() == ["f"]


def test_names_are_sorted_and_leave_out_dot_files(files: PrivateFiles) -> None:
    assert files.names("d") == []
    for name in ("d/b", "d/a", "d/.tmp-1"):
        files.write(name, b"")
    assert files.names("d") == ["a", "b"]


def test_what_is_missing_is_not_found(files: PrivateFiles, tmp_path: Path) -> None:
    for name in ("x", "no/such/dir/x"):
        with pytest.raises(NotFoundError) as caught:
            files.read(name, 10)
        assert caught.value.code == "private-file-missing"
        assert files.remove(name) is False
    assert PrivateFiles(tmp_path / "gone").names() == []


def test_reading_creates_nothing(files: PrivateFiles, tmp_path: Path) -> None:
    files.names("a")
    files.remove("a/b")
    with pytest.raises(NotFoundError):
        files.read("a/b", 1)
    assert list(tmp_path.iterdir()) == []


def test_remove_and_directory(files: PrivateFiles) -> None:
    assert files.directory("q/r") == files.path("q/r")
    files.write("q/r/x", b"")
    assert files.remove("q/r/x") is True
    assert files.names("q/r") == []


def test_a_limit_is_inclusive(files: PrivateFiles) -> None:
    files.write("f", b"12345")
    assert files.read("f", 5) == b"12345"
    error = refusal(lambda: files.read("f", 4))
    assert (error.code, "larger than 4 bytes" in error.message) == ("private-file-unsafe", True)


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../b", "a//b", ".", "a/", "a\0b"])
def test_a_name_that_leads_elsewhere_is_a_mistake(files: PrivateFiles, name: str) -> None:
    with pytest.raises(ValueError, match="private file"):
        files.read(name, 1)
    with pytest.raises(ValueError, match="private file"):
        files.write(name, b"")


def test_open_answers_a_descriptor_that_children_do_not_get(files: PrivateFiles) -> None:
    handle = files.open("f")
    try:
        assert not os.get_inheritable(handle)
        os.write(handle, b"x")
    finally:
        os.close(handle)
    assert files.read("f", 1) == b"x"


# -- what is unsafe -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wide", [0o640, 0o604, 0o620, 0o602, 0o660, 0o666, 0o644, 0o700, 0o4600, 0o601])
def test_a_wider_file_is_refused_and_left_alone(files: PrivateFiles, wide: int) -> None:
    files.write("f", b"x")
    files.path("f").chmod(wide)
    for action in (lambda: files.read("f", 9), lambda: files.write("f", b"y"), lambda: files.open("f")):
        error = refusal(action)
        assert error.code == "private-file-unsafe"
        assert f"{wide:04o}" in error.message
    assert mode(files.path("f")) == wide
    assert files.path("f").read_bytes() == b"x"


@pytest.mark.parametrize("narrow", [0o600, 0o400])
def test_a_narrower_file_is_read(files: PrivateFiles, narrow: int) -> None:
    files.write("f", b"x")
    files.path("f").chmod(narrow)
    assert files.read("f", 9) == b"x"


@pytest.mark.parametrize("directory", ["", "a", "a/b"])
@pytest.mark.parametrize("wide", [0o750, 0o705, 0o711, 0o777, 0o1777])
def test_a_wider_directory_anywhere_on_the_way_is_refused(files: PrivateFiles, directory: str, wide: int) -> None:
    files.write("a/b/f", b"x")
    files.path(directory).chmod(wide)
    for action in (
        lambda: files.read("a/b/f", 9),
        lambda: files.write("a/b/f", b"y"),
        lambda: files.create("a/b/g", b"y"),
        lambda: files.names("a/b"),
        lambda: files.directory("a/b"),
        lambda: files.remove("a/b/f"),
        lambda: files.open("a/b/f"),
    ):
        assert code(action) == "private-file-unsafe"
    assert mode(files.path(directory)) == wide
    assert files.path("a/b/f").read_bytes() == b"x"


def test_an_inherited_set_group_id_bit_is_no_offence(files: PrivateFiles) -> None:
    files.write("a/f", b"x")
    files.path("a").chmod(0o2700)
    assert files.read("a/f", 9) == b"x"


@pytest.mark.parametrize("directory", ["", "a", "a/b"])
def test_a_symbolic_link_on_the_way_is_refused(files: PrivateFiles, tmp_path: Path, directory: str) -> None:
    files.write("a/b/f", b"x")
    real = tmp_path / "elsewhere"
    files.path(directory).rename(real)
    files.path(directory).symlink_to(real)
    for action in (lambda: files.read("a/b/f", 9), lambda: files.write("a/b/f", b"y"), lambda: files.names("a/b")):
        error = refusal(action)
        assert error.code == "private-file-unsafe"
        assert "symbolic link" in error.message


@pytest.mark.parametrize("target", ["real", "absent", "f"])
def test_a_symbolic_link_in_place_of_a_file_is_refused(files: PrivateFiles, target: str) -> None:
    files.write("real", b"x")
    files.path("f").symlink_to(target)
    for action in (lambda: files.read("f", 9), lambda: files.write("f", b"y"), lambda: files.open("f")):
        assert code(action) == "private-file-unsafe"
    assert code(lambda: files.create("f", b"y")) == "private-file-exists"
    assert files.path("f").is_symlink()
    assert files.read("real", 9) == b"x"
    assert files.names() == ["f", "real"]


def test_what_is_no_regular_file_is_refused_without_waiting(files: PrivateFiles, tmp_path: Path) -> None:
    files.directory("d")
    os.mkfifo(files.path("fifo"), 0o600)
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(files.path())  # the path of a socket is short
    try:
        listener.bind("sock")
        files.path("sock").chmod(0o600)
        for name in ("d", "fifo", "sock"):
            for action in (lambda n=name: files.read(n, 9), lambda n=name: files.open(n)):
                error = refusal(action)
                assert (error.code, "regular file" in error.message) == ("private-file-unsafe", True)
            assert code(lambda n=name: files.write(n, b"y")) == "private-file-unsafe"
    finally:
        os.chdir(here)
        listener.close()


def test_a_file_in_place_of_a_directory_is_refused(files: PrivateFiles) -> None:
    files.write("a", b"x")
    for action in (lambda: files.read("a/b", 9), lambda: files.write("a/b", b"y"), lambda: files.names("a")):
        error = refusal(action)
        assert (error.code, "not a directory" in error.message) == ("private-file-unsafe", True)


def test_what_belongs_to_another_user_is_refused(files: PrivateFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    files.write("a/f", b"x")
    with monkeypatch.context() as patch:
        patch.setattr(private.os, "geteuid", lambda: os.getuid() + 1)
        for action in (lambda: files.read("a/f", 9), lambda: files.write("a/f", b"y"), lambda: files.names("a")):
            error = refusal(action)
            assert (error.code, "another user" in error.message) == ("private-file-unsafe", True)
    assert files.read("a/f", 9) == b"x"


# -- writing ------------------------------------------------------------------------------------------------


def test_create_never_overwrites(files: PrivateFiles) -> None:
    files.create("f", b"first")
    with pytest.raises(ConflictError) as caught:
        files.create("f", b"second")
    assert caught.value.code == "private-file-exists"
    assert files.read("f", 9) == b"first"
    assert listed(files.path()) == ["f"]


def test_of_many_creators_one_succeeds(files: PrivateFiles) -> None:
    won: list[int] = []
    start = threading.Barrier(8)

    def run(number: int) -> None:
        start.wait()
        try:
            files.create("d/f", b"%d" % number)
        except ConflictError:
            return
        won.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert files.read("d/f", 9) == b"%d" % won[0]


def test_without_hard_links_create_still_refuses_what_exists(
    files: PrivateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(private.os, "link", no_links)
    files.create("f", b"1")
    assert code(lambda: files.create("f", b"2")) == "private-file-exists"
    assert (files.read("f", 9), files.names(), listed(files.path())) == (b"1", ["f"], ["f"])


@pytest.mark.parametrize("step", ["write", "fsync", "rename"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_anywhere_leaves_the_old_file_and_nothing_else(
    files: PrivateFiles, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    files.write("d/f", b"old")

    def fail(*_: object, **__: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(private.os, step, fail)
        with pytest.raises((HnError, KeyboardInterrupt)) as caught:
            files.write("d/f", b"new")
        if step != "rename":
            with pytest.raises((HnError, KeyboardInterrupt)):
                files.create("d/g", b"new")
    if isinstance(caught.value, HnError):
        assert caught.value.code == "private-write-failed"
        assert "hn/d: No space left" in caught.value.message
    assert listed(files.path("d")) == ["f"]
    assert files.read("d/f", 9) == b"old"


def test_short_writes_are_carried_on(files: PrivateFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.write
    monkeypatch.setattr(private.os, "write", lambda handle, data: whole(handle, bytes(data)[:3]))
    files.write("f", b"0123456789")
    assert files.read("f", 10) == b"0123456789"


def test_descriptors_are_given_back(files: PrivateFiles) -> None:
    def count() -> int:
        return len(listed(Path("/dev/fd")))

    files.write("a/f", b"x")
    before = count()
    files.path("a/link").symlink_to("f")
    for _ in range(3):
        files.read("a/f", 9)
        files.names("a")
        for action in (
            lambda: files.read("a/link", 9),
            lambda: files.open("a/link"),
            lambda: files.read("a/f", 0),
            lambda: files.read("no/f", 9),
            lambda: files.create("a/f", b""),
        ):
            refusal(action)
    assert count() == before


def test_a_directory_that_cannot_be_written_is_named(open_dir: Path) -> None:
    common = open_dir / "common"
    common.mkdir(mode=0o755)
    files = PrivateFiles(common)
    common.chmod(0o555)
    try:
        told = as_nobody(lambda: files.write("a/f", b"x"))
        assert told.startswith("private-write-failed: cannot write in ")
        assert told.endswith("common: Permission denied")
        assert as_nobody(lambda: files.names()) == "[]"
    finally:
        common.chmod(0o755)


def test_a_closed_private_directory_is_named(open_dir: Path) -> None:
    files = PrivateFiles(open_dir)
    files.write("a/f", b"x")
    if os.geteuid() != 0:
        files.path().chmod(0o000)
    try:
        assert as_nobody(lambda: files.read("a/f", 9)).startswith("private-read-failed: cannot read ")
        told = as_nobody(lambda: files.write("a/f", b"y"))
        assert told.startswith("private-write-failed: ")
        assert told.endswith("hn: Permission denied")
    finally:
        files.path().chmod(0o700)


def test_a_missing_common_directory_is_named(tmp_path: Path) -> None:
    error = refusal(lambda: PrivateFiles(tmp_path / "gone").write("f", b""))
    assert error.code == "private-write-failed"
    assert "gone" in error.message


# -- files elsewhere ----------------------------------------------------------------------------------------


def test_a_file_outside_is_held_to_the_same_rules(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert code(lambda: read_outside(path, 9)) == "private-file-missing"
    path.write_bytes(b"x")
    path.chmod(0o644)
    assert code(lambda: read_outside(path, 9)) == "private-file-unsafe"
    path.chmod(0o600)
    assert read_outside(path, 9) == b"x"
    (tmp_path / "link").symlink_to(path)
    assert code(lambda: read_outside(tmp_path / "link", 9)) == "private-file-unsafe"
    assert code(lambda: read_outside(tmp_path, 9)) == "private-file-unsafe"
    assert code(lambda: read_outside(path, 0)) == "private-file-unsafe"
