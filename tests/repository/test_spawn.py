"""Children: no deadlock, no leak, no zombie. And packs, as Git reads them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hn_memory.errors import HnError
from hn_memory.protocol.gitobject import object_id
from hn_memory.repository.base import ObjectFormat
from hn_memory.repository.pack import pack
from hn_memory.repository.spawn import Child, reason, run, stream

from .kinds import git

ENV = dict(os.environ)


def python(code: str, stdin: bytes = b"", pass_fds: tuple[int, ...] = ()) -> tuple[int, bytes, bytes]:
    done = run([sys.executable, "-I", "-c", code], ENV, stdin=stdin, pass_fds=pass_fds)
    return done.status, done.stdout, done.stderr


def test_a_child_that_fills_every_pipe_does_not_block() -> None:
    code = "import sys; e = sys.stderr; e.write('e' * 300000); e.flush(); d = sys.stdin.buffer.read(); "
    code += "sys.stdout.buffer.write(d * 2)"
    status, out, err = python(code, b"x" * 1_000_000)
    assert (status, len(out), set(err)) == (0, 2_000_000, {ord("e")})
    status, out, _ = python(
        "import shutil,sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)", b"y" * 3_000_000
    )
    assert (status, len(out)) == (0, 3_000_000)


def test_a_child_that_does_not_read_is_no_error() -> None:
    assert python("raise SystemExit(7)", b"x" * 1_000_000) == (7, b"", b"")


def test_a_signal_shows_in_the_status() -> None:
    assert python("import os; os.kill(os.getpid(), 9)")[0] == -signal.SIGKILL


def test_descriptors_are_closed_unless_passed() -> None:
    here, there = os.pipe()
    code = f"import os\ntry: os.write({there}, b'!')\nexcept OSError: print('closed')"
    assert python(code)[1] == b"closed\n"
    assert python(code, pass_fds=(there,))[1] == b""
    assert os.read(here, 9) == b"!"
    os.close(here)
    os.close(there)


def test_output_can_be_bounded() -> None:
    with pytest.raises(HnError) as caught:
        run(["git", "help", "-a"], ENV, limit=10)
    assert caught.value.code == "git-output-too-large"


def test_leaving_a_stream_ends_the_child() -> None:
    child = Child([sys.executable, "-I", "-c", "while True: print('x' * 1000)"], ENV)
    for chunk in stream(child):
        assert chunk.startswith(b"x")
        break
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_nothing_is_left_behind() -> None:
    before = len(os.listdir("/dev/fd"))  # noqa: PTH208
    for _ in range(5):
        run(["git", "version"], ENV)
        with pytest.raises(HnError):
            run(["no-such-program-here"], ENV)
    assert len(os.listdir("/dev/fd")) == before  # noqa: PTH208
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_the_reason_is_one_line() -> None:
    assert reason(b"hint: x\nwarning: y\nerror: first\nfatal: last\nmore\n") == "last"
    assert reason(b"warning: y\nerror: first\nerror: second\n") == "first"
    assert reason(b"odd\n") == "odd"
    assert reason(b"") == "no reason given"


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(blobs=st.lists(st.binary(max_size=5000), max_size=5))
def test_git_reads_our_packs(tmp_path: Path, object_format: ObjectFormat, blobs: list[bytes]) -> None:
    top = tmp_path / object_format
    if not top.exists():
        top.mkdir()
        git(top, "init", "-q", "--bare", f"--object-format={object_format}")
    blobs += [b"x" * size for size in (15, 16, 2047, 2048)]
    git(top, "index-pack", "--strict", "--stdin", stdin=pack([("blob", b) for b in set(blobs)], object_format))
    for blob in blobs:
        oid = object_id("blob", blob, object_format)
        assert git(top, "cat-file", "-s", oid) == str(len(blob))
