"""The writers' lock: one at a time, also beyond the death of a writer, and what its leftovers entitle to."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hn_memory
from hn_memory.errors import ConflictError, HnError
from hn_memory.repository import locks
from hn_memory.repository.locks import Journal, Process, WriterLock, decode_journal, encode_journal, identify, is_gone

REF = "refs/hn/memory/" + "a" * 64 + "/" + "b" * 64
OTHER = "refs/hn/remotes/origin/memory/" + "a" * 64 + "/" + "b" * 64
PYTHON_PATH = str(Path(hn_memory.__file__).parents[1])
# The system's first process: alive as long as anybody can ask.
INIT = 1


@pytest.fixture
def common(tmp_path: Path) -> Path:
    """A Git common directory."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path / "r")], check=True, capture_output=True)
    return tmp_path / "r" / ".git"


def lock_file(common: Path) -> Path:
    return common / "hn" / "lock"


def leave(common: Path, *refs: str, process: Process | None = None, left: bool = False) -> None:
    """A journal as a writer left it."""
    with WriterLock(common):
        pass
    gone = Process(2**22 + 1, "-") if process is None else process
    lock_file(common).write_bytes(encode_journal(Journal(gone, left, refs)))


def ref_lock(common: Path, ref: str = REF) -> Path:
    path = common / f"{ref}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def run_child(code: str, common: Path) -> subprocess.Popen[str]:
    """A process that runs `code` with `common` set, and says a line when it is ready."""
    head = "import os, sys, time\nfrom pathlib import Path\nfrom hn_memory.repository.locks import *\n"
    script = f"{head}common = Path(sys.argv[1])\n{code}"
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(common)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def refusal(action: Callable[[], object]) -> HnError:
    with pytest.raises(HnError) as caught:
        action()
    assert "\n" not in caught.value.message
    return caught.value


def take(common: Path, timeout: float = 0.05, ref_format: str = "files") -> tuple[str, ...]:
    """Acquire and give back; the refs whose lock was removed."""
    with WriterLock(common, timeout=timeout, ref_format=ref_format) as lock:
        return lock.removed


# -- one at a time ------------------------------------------------------------------------------------------


def test_the_lock_file_is_private_and_empty(common: Path) -> None:
    with WriterLock(common) as lock:
        assert stat.S_IMODE(os.fstat(lock.fileno()).st_mode) == 0o600
        assert not os.get_inheritable(lock.fileno())
    assert stat.S_IMODE((common / "hn").stat().st_mode) == 0o700
    assert lock_file(common).read_bytes() == b""


def test_a_second_writer_waits_so_long_and_no_longer(common: Path) -> None:
    with WriterLock(common):
        start = time.monotonic()
        error = refusal(lambda: take(common, timeout=0.3))
        waited = time.monotonic() - start
    assert (type(error), error.code) == (ConflictError, "repository-busy")
    assert 0.3 <= waited < 3
    take(common)


def test_no_wait_with_a_timeout_of_zero(common: Path) -> None:
    take(common, timeout=0)
    with WriterLock(common):
        assert refusal(lambda: take(common, timeout=0)).code == "repository-busy"


def test_a_waiting_writer_gets_the_lock(common: Path) -> None:
    got = threading.Event()

    def wait() -> None:
        take(common, timeout=30)
        got.set()

    with WriterLock(common):
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        assert not got.is_set()
    thread.join()
    assert got.is_set()


def test_writers_never_overlap(common: Path) -> None:
    inside = 0
    most = 0

    def write() -> None:
        nonlocal inside, most
        for _ in range(5):
            with WriterLock(common, timeout=60):
                inside += 1
                most = max(most, inside)
                time.sleep(0.001)
                inside -= 1

    threads = [threading.Thread(target=write) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_the_lock_is_given_back_when_the_block_fails(common: Path) -> None:
    with pytest.raises(ZeroDivisionError), WriterLock(common):
        _ = 1 / 0
    take(common)


def test_one_object_locks_again_but_not_twice(common: Path) -> None:
    lock = WriterLock(common)
    for _ in range(2):
        with lock:
            with pytest.raises(RuntimeError):
                lock.__enter__()
            assert lock.fileno() > 2
    with pytest.raises(RuntimeError):
        lock.fileno()


def test_a_lock_file_that_was_deleted_meanwhile_guards_nothing(common: Path) -> None:
    with WriterLock(common) as first:
        waiter: list[int] = []

        def wait() -> None:
            with WriterLock(common, timeout=30) as second:
                waiter.append(os.fstat(second.fileno()).st_ino)

        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        inode = os.fstat(first.fileno()).st_ino
        kept = lock_file(common).with_name("kept")
        lock_file(common).rename(kept)
    thread.join()
    assert waiter == [lock_file(common).stat().st_ino]
    assert waiter != [inode]


def test_a_child_that_inherits_keeps_the_lock(common: Path) -> None:
    with WriterLock(common) as lock:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(lock.fileno(),))
    try:
        assert refusal(lambda: take(common)).code == "repository-busy"
    finally:
        child.kill()
        child.wait()
    take(common)


def test_a_child_that_does_not_inherit_keeps_nothing(common: Path) -> None:
    with WriterLock(common):
        child = subprocess.Popen(["sleep", "60"])
    try:
        take(common)
    finally:
        child.kill()
        child.wait()


# -- where nothing can be written ---------------------------------------------------------------------------


@pytest.fixture
def closed() -> Iterator[Path]:
    """A common directory that everybody may read and nobody may write."""
    top = Path(tempfile.mkdtemp(prefix="hn-test-"))
    top.chmod(0o755)
    common = top / "common"
    common.mkdir(mode=0o755)
    common.chmod(0o555)
    yield common
    common.chmod(0o755)
    shutil.rmtree(top)


def test_without_permission_it_fails_at_once_and_names_the_directory(closed: Path) -> None:
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside the threads of a test runner
        pid = os.fork()
    if pid == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            start = time.monotonic()
            try:
                take(closed, timeout=30)
                told = "acquired"
            except HnError as error:
                told = f"{error.code} {time.monotonic() - start < 1} {error.message}"
            os.write(there, told.encode())
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here, encoding="utf-8") as pipe:
        told = pipe.read()
    os.waitpid(pid, 0)
    assert told.startswith("private-write-failed True cannot write in ")
    assert told.endswith("common: Permission denied")


def test_a_read_only_file_system_fails_at_once(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    take(common)
    whole = os.open

    def read_only(path: str, flags: int, *rest: int, **more: int) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise OSError(30, "Read-only file system")
        return whole(path, flags, *rest, **more)

    monkeypatch.setattr(locks.os, "open", read_only)
    error = refusal(lambda: take(common, timeout=30))
    assert error.code == "private-write-failed"
    assert error.message.endswith("hn: Read-only file system")


def test_an_unsafe_lock_file_is_refused(common: Path) -> None:
    take(common)
    lock_file(common).chmod(0o644)
    assert refusal(lambda: take(common)).code == "private-file-unsafe"
    lock_file(common).unlink()
    lock_file(common).symlink_to("elsewhere")
    assert refusal(lambda: take(common)).code == "private-file-unsafe"
    assert not (common / "hn" / "elsewhere").exists()


# -- the journal --------------------------------------------------------------------------------------------


def test_the_journal_names_refs_and_process_and_is_cleared(common: Path) -> None:
    with WriterLock(common) as lock:
        lock.journal([REF, OTHER])
        journal = decode_journal(lock_file(common).read_bytes())
        assert journal == Journal(identify(os.getpid()), False, (REF, OTHER))
        lock.journal([OTHER], pid=INIT)
        journal = decode_journal(lock_file(common).read_bytes())
        assert journal is not None
        assert (journal.process.pid, journal.refs) == (INIT, (OTHER,))
        lock.clear()
        assert lock_file(common).read_bytes() == b""


ref_names = st.text(st.characters(exclude_characters="\n\0", exclude_categories=["Cs"]), min_size=1)


@settings(deadline=None)
@given(
    st.integers(1, 2**31),
    st.sampled_from(["-", "3f0c:123", "boot-id:0"]),
    st.booleans(),
    st.lists(ref_names, max_size=5),
)
def test_a_journal_reads_back_and_a_broken_one_does_not(pid: int, start: str, left: bool, refs: list[str]) -> None:
    journal = Journal(Process(pid, start), left, tuple(refs))
    data = encode_journal(journal)
    assert decode_journal(data) == journal
    for end in range(len(data)):
        assert decode_journal(data[:end]) is None


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_journal_or_none(data: bytes) -> None:
    decode_journal(data)


@pytest.mark.parametrize(
    "name",
    ["refs/heads/main", "HEAD", "refs/hn/../heads/main", "refs/hn/a//b", "refs/hn/a.lock", "refs/hn/a\nb", "refs/hn/."],
)
def test_only_our_refs_can_be_journalled(common: Path, name: str) -> None:
    with WriterLock(common) as lock, pytest.raises(ValueError, match="not a ref of ours"):
        lock.journal([REF, name])
    assert lock_file(common).read_bytes() == b""


def test_a_full_disk_leaves_no_half_journal(common: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with WriterLock(common) as lock:
        with monkeypatch.context() as patch:
            patch.setattr(locks, "_write", full)
            assert refusal(lambda: lock.journal([REF])).code == "private-write-failed"
        assert lock_file(common).read_bytes() == b""


# -- leftovers ----------------------------------------------------------------------------------------------


def test_exactly_the_journalled_ref_locks_are_removed(common: Path) -> None:
    mine, other = ref_lock(common), ref_lock(common, OTHER)
    branch = common / "refs" / "heads" / "main.lock"
    branch.touch()
    leave(common, REF, "refs/hn/memory/absent/ref")
    assert take(common) == (REF,)
    assert not mine.exists()
    assert other.exists()
    assert branch.exists()
    assert lock_file(common).read_bytes() == b""


def test_git_can_move_the_ref_again(common: Path) -> None:
    def git(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "--git-dir", str(common), *args], capture_output=True, text=True, check=False)

    blob = git("hash-object", "-w", "--stdin").stdout.strip()
    ref_lock(common)
    leave(common, REF)
    assert git("update-ref", REF, blob).returncode != 0
    assert take(common) == (REF,)
    assert git("update-ref", REF, blob).returncode == 0


def test_without_a_journal_nothing_is_removed(common: Path) -> None:
    path = ref_lock(common)
    assert take(common) == ()
    assert path.exists()


def test_a_broken_journal_removes_nothing(common: Path) -> None:
    path = ref_lock(common)
    leave(common, REF)
    lock_file(common).write_bytes(lock_file(common).read_bytes()[:-1])
    assert take(common) == ()
    assert path.exists()


def test_refs_that_are_no_files_are_left_alone(common: Path) -> None:
    path = ref_lock(common)
    leave(common, REF)
    assert take(common, ref_format="reftable") == ()
    assert path.exists()
    assert lock_file(common).read_bytes() == b""


def test_a_journal_of_a_living_process_removes_nothing(common: Path) -> None:
    path = ref_lock(common)
    leave(common, REF, process=identify(INIT))
    before = lock_file(common).read_bytes()
    assert take(common) == ()
    assert path.exists()
    assert lock_file(common).read_bytes() == before


def test_a_later_process_of_the_same_number_is_another(common: Path) -> None:
    ref_lock(common)
    leave(common, REF, process=Process(INIT, "another-boot:1"))
    assert take(common) == (REF,)


def test_a_living_process_that_left_the_lock_has_no_claim(common: Path) -> None:
    ref_lock(common)
    leave(common, REF, process=identify(INIT), left=True)
    assert take(common) == (REF,)


def test_a_move_that_was_broken_off_here_is_cleaned_up_next_time(common: Path) -> None:
    with pytest.raises(ZeroDivisionError), WriterLock(common) as lock:
        lock.journal([REF])
        ref_lock(common)
        _ = 1 / 0
    journal = decode_journal(lock_file(common).read_bytes())
    assert journal is not None
    assert journal.left
    assert take(common) == (REF,)


def test_a_tampered_journal_leads_nowhere_else(common: Path, tmp_path: Path) -> None:
    branch = common / "refs" / "heads" / "main.lock"
    branch.touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.lock").touch()
    (common / "refs" / "hn").mkdir(parents=True, exist_ok=True)
    (common / "refs" / "hn" / "out").symlink_to(outside)
    (common / "refs" / "hn" / "link.lock").symlink_to(branch)
    (common / "refs" / "hn" / "dir.lock").mkdir()
    leave(common, "refs/heads/main", "refs/hn/../heads/main", "refs/hn/out/x", "refs/hn/link", "refs/hn/dir")
    assert take(common) == ()
    assert branch.exists()
    assert (outside / "x.lock").exists()
    assert (common / "refs" / "hn" / "link.lock").is_symlink()


def test_a_killed_writer_is_followed_by_the_next(common: Path) -> None:
    child = run_child(
        f"""
lock = WriterLock(common).__enter__()
lock.journal([{REF!r}])
path = common / {REF + ".lock"!r}
path.parent.mkdir(parents=True)
path.touch()
print("ready", flush=True)
time.sleep(60)
""",
        common,
    )
    with child:
        assert refusal(lambda: take(common)).code == "repository-busy"
        assert (common / f"{REF}.lock").exists()
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert take(common, timeout=5) == (REF,)


def test_a_killed_writer_whose_child_goes_on_still_holds_the_lock(common: Path) -> None:
    child = run_child(
        f"""
import subprocess
lock = WriterLock(common).__enter__()
lock.journal([{REF!r}])
mover = subprocess.Popen(["sleep", "60"], pass_fds=(lock.fileno(),), stdout=subprocess.DEVNULL)
(common / "mover").write_text(str(mover.pid))
print("ready", flush=True)
time.sleep(60)
""",
        common,
    )
    path = ref_lock(common)
    with child:
        child.send_signal(signal.SIGKILL)
        child.wait()
        mover = int((common / "mover").read_text())
        try:
            assert refusal(lambda: take(common)).code == "repository-busy"
            assert path.exists()
        finally:
            os.kill(mover, signal.SIGKILL)
        assert take(common, timeout=5) == (REF,)


# -- processes ----------------------------------------------------------------------------------------------


def test_processes_are_told_apart() -> None:
    assert not is_gone(identify(os.getpid()))
    assert not is_gone(identify(INIT))
    assert is_gone(Process(os.getpid(), "another-boot:1"))
    child = subprocess.Popen(["sleep", "60"])
    process = identify(child.pid)
    assert not is_gone(process)
    child.kill()
    deadline = time.monotonic() + 10
    while not is_gone(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_gone(process)  # a zombie by now
    child.wait()
    assert is_gone(process)


def test_without_proc_a_living_number_counts_as_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "_stat_fields", lambda pid: None)
    locks._identify_self.cache_clear()
    assert identify(os.getpid()) == Process(os.getpid(), "-")
    locks._identify_self.cache_clear()
    assert not is_gone(Process(os.getpid(), "-"))
    assert not is_gone(Process(INIT, "-"))
    assert is_gone(Process(2**22 + 1, "-"))
    assert is_gone(Process(2**70, "-"))
