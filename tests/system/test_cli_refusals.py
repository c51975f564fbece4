"""Refusals of the real command: the reason, the status, one document, and nothing that is not ours to tell."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from system_harness import HN, Answer, Machine, common_dir, make_project, trust

RECORD = ("memory", "record", "-k", "decision")


class Watched:
    """A machine whose every answer is searched for what must never be in one."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.secrets: list[bytes] = []

    def hn(self, cwd: Path, *arguments: str | bytes, **settings: object) -> Answer:
        answer = self.machine.hn(cwd, *arguments, **settings)  # type: ignore[arg-type]
        self.look_at(answer)
        return answer

    def look_at(self, answer: Answer) -> None:
        for output in (answer.out, answer.err):
            assert b"Traceback" not in output and b"hn_memory" not in output, answer
            assert b"internal error" not in output, answer
            assert os.fsencode(self.machine.home) not in output, answer
            for secret in self.secrets:
                assert secret not in output, answer


@pytest.fixture
def watched(machine: Machine) -> Watched:
    return Watched(machine)


@pytest.fixture
def project(watched: Watched) -> Path:
    """A repository below the home directory, with a trusted identity and one record."""
    machine = watched.machine
    path = make_project(machine, machine.home / "project")
    actor = watched.hn(path, "init", "--name", "Ada", "--json").done().json["identity"]["actor"]
    identity = json.loads((path / ".git" / "hn" / "identities" / f"{actor}.json").read_bytes())
    watched.secrets += [identity["privateKey"].encode(), identity["privateKey"][:43].encode()]
    trust(machine, path, actor)
    watched.hn(path, *RECORD, "Rows live in SQLite.").done()
    watched.hn(path, "memory", "log").done()
    return path


def test_outside_a_repository(watched: Watched) -> None:
    place = watched.machine.home / "nowhere"
    place.mkdir()
    for arguments in (("init",), ("memory", "recall"), (*RECORD, "x"), ("identity", "list"), ("policy", "show")):
        answer = watched.hn(place, *arguments, "--json")
        assert (answer.status, answer.error["code"]) == (3, "not-a-repository"), answer
        assert "--git-dir" in answer.error["hint"]
        answer = watched.hn(place, *arguments)
        assert answer.status == 3 and answer.out == b"" and answer.err.startswith(b"hn: error: . is not in a Git")
    # No global fallback was made.
    assert sorted(path.name for path in watched.machine.home.iterdir()) == ["nowhere"]


def test_a_repository_of_somebody_else(watched: Watched, project: Path, tmp_path: Path) -> None:
    """Git's own reason, and the setting to look at; not the command that would silence it."""
    env = {}
    if os.geteuid() == 0:
        for each in (project, project / ".git"):
            os.chown(each, 12345, 12345)
    else:
        # Nobody but root can give a file away; Git has a switch for its own tests.
        (tmp_path / "bin").mkdir()
        wrapper = tmp_path / "bin" / "git"
        wrapper.write_text(f'#!/bin/sh\nGIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec "{shutil.which("git")}" "$@"\n')
        wrapper.chmod(0o755)
        env["PATH"] = f"{wrapper.parent}:{watched.machine.env['PATH']}"
    for arguments in (("memory", "recall"), (*RECORD, "x"), ("identity", "list"), ("memory", "verify")):
        answer = watched.hn(project, *arguments, "--json", env=env)
        assert (answer.status, answer.error["code"]) == (1, "repository-unsafe"), answer
        assert "dubious ownership" in answer.error["message"]
        assert "safe.directory" in answer.error["hint"]
        assert "git config" not in answer.error["message"] + answer.error["hint"].replace("git help config", "")
    # Whom the user trusts, Git trusts, and so do we.
    watched.machine.git(project.parent, "config", "--global", "safe.directory", str(project))
    assert watched.hn(project, "policy", "show", env=env).status == 0


def without_powers() -> Callable[[], None]:
    """What makes a child of root obey the modes of files: no CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER."""
    prctl = ctypes.CDLL(None).prctl

    def drop() -> None:
        for capability in (1, 2, 3):
            prctl(24, capability, 0, 0, 0)

    return drop


@pytest.mark.parametrize("files_too", [False, True], ids=["directories", "files and directories"])
def test_a_read_only_git_directory(watched: Watched, project: Path, files_too: bool) -> None:
    git_dir = project / ".git"
    paths = [git_dir, *git_dir.rglob("*")]
    changed = [(path, path.stat().st_mode) for path in paths if files_too or path.is_dir()]
    for path, mode in changed:
        path.chmod(mode & ~0o222)
    settings = {"preexec_fn": without_powers()} if os.geteuid() == 0 else {}
    try:
        probe = watched.machine.run(["touch", ".git/probe"], project, **settings)
        assert probe.status != 0, "this process writes where nobody may"
        recalled = watched.hn(project, "memory", "recall", "--json", **settings).done()
        (memory,) = recalled.json["memories"]
        assert memory["data"]["content"] == "Rows live in SQLite."
        assert watched.hn(project, "memory", "show", memory["id"], **settings).status == 0
        assert watched.hn(project, "memory", "log", **settings).status == 0
        assert watched.hn(project, "memory", "verify", **settings).status == 0
        began = time.monotonic()
        watched.hn(project, "memory", "streams", **settings).done()
        reading = time.monotonic() - began
        for arguments in (
            (*RECORD, "x"),
            ("memory", "retract", memory["id"], "-r", "wrong"),
            ("identity", "new", "Bo"),
        ):
            began = time.monotonic()
            answer = watched.hn(project, *arguments, "--json", **settings)
            took = time.monotonic() - began
            assert answer.status == 1, answer
            assert ".git" in answer.error["message"] and "cannot write" in answer.error["message"], answer
            # A second, on a machine that has the time; no lock is waited for.
            assert took < max(1.0, 4 * reading), took
    finally:
        for path, mode in changed:
            path.chmod(mode)
    watched.hn(project, *RECORD, "x").done()


def request(**changes: object) -> bytes:
    body: dict[str, object] = {
        "version": 0,
        "kind": "decision",
        "content": "x",
        "anchor": {"commit": "0" * 40},
        "applicability": {"mode": "exact"},
        "topics": [],
        "evidence": [],
    }
    return json.dumps(body | changes).encode()


INPUTS: dict[str, bytes] = {
    "half of it": b'{"version":0,',
    "a nul byte": b'{"version":0,"kind":"deci\0sion"}',
    "two values": b"{} {}",
    "a byte order mark": b"\xef\xbb\xbf" + request(),
    "invalid utf-8": request().replace(b'"x"', b'"\xff"'),
    "an encoded surrogate": request().replace(b'"x"', b'"\xed\xa0\x80"'),
    "a lone surrogate": request().replace(b'"x"', rb'"ab\ud800"'),
    "a field twice": request().replace(b'"kind"', b'"kind": "attempt", "kind"'),
    "an inner field twice": request().replace(b'"mode"', b'"mode": "subject", "mode"'),
    "an unknown field": request(extra=1),
    "a null": request(topics=None),
    "a huge number": request(version=0).replace(b'"version": 0', b'"version": ' + b"9" * 5000),
    "deep objects": b'{"a":' * 100_000,
    "deep inside": request().replace(b'"topics": []', b'"topics": ' + b"[" * 5000 + b"]" * 5000),
    "too much": b" " * 1_048_577,
    "a missing commit": request(),
    "a path that leaves": request(anchor={"commit": "0" * 40, "paths": [{"path": "../x", "blob": "absent"}]}),
}


def test_json_input_that_is_none(watched: Watched, project: Path, tmp_path: Path) -> None:
    """Each is refused in one document, and with the same words from a file."""
    for name, data in INPUTS.items():
        answer = watched.hn(project, "memory", "record", "--input", "-", "--json", stdin=data)
        assert answer.status in (1, 2, 3), (name, answer)
        assert answer.error["code"] != "usage" and answer.err == b"", (name, answer)
        assert len(answer.out) < 2000, name
    told = watched.hn(project, "memory", "record", "--input", "-", "--json", stdin=INPUTS["a field twice"]).error
    assert "kind" in told["message"] + told.get("field", "")
    told = watched.hn(project, "memory", "record", "--input", "-", "--json", stdin=INPUTS["an unknown field"]).error
    assert "extra" in told["message"] + told.get("field", "")
    for name in ("a lone surrogate", "deep objects", "a nul byte"):
        file = tmp_path / "request.json"
        file.write_bytes(INPUTS[name])
        by_file = watched.hn(project, "memory", "record", "--input", str(file), "--json")
        by_pipe = watched.hn(project, "memory", "record", "--input", "-", "--json", stdin=INPUTS[name])
        assert by_file == by_pipe
        assert watched.hn(project, "memory", "recall", "--input", "-", "--json", stdin=INPUTS[name]).status in (1, 2)
    assert len(watched.hn(project, "memory", "log", "--json").json["entries"]) == 1


def test_a_lone_surrogate_is_refused_with_its_position(watched: Watched, project: Path) -> None:
    answer = watched.hn(project, "memory", "record", "--input", "-", "--json", stdin=INPUTS["a lone surrogate"])
    position = INPUTS["a lone surrogate"].index(rb"\ud800")
    assert any(str(at) in answer.error["message"] for at in (2, position)), answer
    for arguments in ((b"ab\xed\xa0\x80",), (b"-m", b"ab\xff"), (b"ab", b"-t", b"ab\xfe")):
        answer = watched.hn(project, *RECORD, *arguments, "--json")
        assert answer.status == 2 and " 2" in answer.error["message"], answer
    for data in (b"ab\xed\xa0\x80", b"ab\xff\n"):
        answer = watched.hn(project, *RECORD, "-", "--json", stdin=data)
        assert answer.status == 2 and " 2" in answer.error["message"], answer


NOT_UTF8 = b"\xff\xfe"
COMMANDS: tuple[tuple[str | bytes, ...], ...] = (
    (NOT_UTF8,),
    ("memory", NOT_UTF8),
    ("memory", "show", NOT_UTF8),
    ("memory", "show", "\u202e\x1b[31m"),
    ("memory", "show", "x" * 100_000),
    ("memory", "recall", "--at", NOT_UTF8),
    ("memory", "recall", "--at", "HEAD\n"),
    ("memory", "recall", "--at", "HEAD^{tree}"),
    ("memory", "recall", "--at", "@{-1}"),
    ("memory", "recall", "--at", "x" * 100_000),
    ("memory", "recall", "--query", NOT_UTF8),
    ("memory", "recall", "--path", NOT_UTF8),
    ("memory", "recall", "-n", "9" * 5000),
    ("memory", "recall", "-n", "٣x"),
    ("memory", "recall", "--input", "docs"),
    ("memory", "recall", "--input", "no\x1b[2Jsuch"),
    ("memory", "streams", "--use", "\x1b]0;x\x07"),
    (*RECORD, "-t", "\x07", "x"),
    (*RECORD, "-p", "app.py/x", "x"),
    (*RECORD, "-p", "/etc/passwd", "x"),
    (*RECORD, "-p", "app.py", "--blob", "HEAD:app.py", "x"),
    (*RECORD, "--content-file", "docs"),
    (*RECORD, "--content-file", "/"),
    (*RECORD, "--content-file", "app.py/x"),
    (*RECORD, "--content-file", b"\xff"),
    (*RECORD, "x" * 100_000),
    (*RECORD, "\u3000\u0085\n"),
    (*RECORD, "--", "a", "b"),
    ("memory", "record", "-k", "x" * 100_000, "x"),
    ("memory", "retract", "sha256:" + "0" * 63 + "G", "-r", "wrong"),
    ("identity", "new", "a\nb"),
    ("identity", "new", NOT_UTF8),
    ("identity", "import", "docs"),
    ("identity", "import", "/dev/null"),
    ("identity", "use", "../../active"),
    ("help", "../../errors"),
    ("-C", "app.py", "memory", "log"),
    ("-C", b"\xff", "memory", "log"),
    ("--git-dir", "", "memory", "log"),
    ("-C", "", "-C", "/no", "memory", "log"),
)


def test_every_failure_is_one_document(watched: Watched, project: Path) -> None:
    for arguments in COMMANDS:
        shown = [argument if len(argument) < 99 else argument[:9] for argument in arguments]
        answer = watched.hn(project, *_with_json(arguments))
        assert answer.status in (1, 2, 3), (shown, answer.status, answer.out[:300])
        assert answer.error["message"] and len(answer.out) < 6000, (shown, answer.out[:300])
        assert not any(byte < 32 and byte != 10 for byte in answer.out + answer.err), shown
        for character in (answer.out + answer.err).decode():
            assert character not in "\x7f\u202e\u202d\u2066\u2067\u2028\u2029", shown
    assert len(watched.hn(project, "memory", "log", "--json").json["entries"]) == 1


def _with_json(arguments: tuple[str | bytes, ...]) -> list[str | bytes]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return [*arguments[:at], "--json", *arguments[at:]]


def test_standard_output_that_takes_nothing(watched: Watched, project: Path) -> None:
    shell = ["sh", "-c", '"$@" > /dev/full', "sh", *HN]
    for arguments in (
        ("memory", "recall"),
        ("memory", "recall", "--json"),
        ("--help",),
        ("--version",),
        ("help", "json"),
    ):
        answer = watched.machine.run([*shell, *arguments], project)
        watched.look_at(answer)
        assert answer.status == 1, (arguments, answer)
        assert b"could not be written: No space left on device" in answer.err
        assert answer.err.count(b"\n") == 1
    # What was recorded is recorded, and the status says that the answer did not arrive.
    answer = watched.machine.run([*shell, *RECORD, "unheard", "--json"], project)
    watched.look_at(answer)
    assert answer.status == 1
    assert len(watched.hn(project, "memory", "log", "--json").json["entries"]) == 2


def test_closed_streams(watched: Watched, project: Path) -> None:
    for closed, mute in ((">&-", True), ("2>&-", False), ("<&-", False), ("<&- >&- 2>&-", True)):
        for arguments in (("memory", "recall", "--json"), ("memory", "nothing"), (*RECORD, "-"), ("--help",)):
            answer = watched.machine.run(["sh", "-c", f'"$@" {closed}', "sh", *HN, *arguments], project, stdin=b" ")
            watched.look_at(answer)
            assert answer.status in (0, 1, 2), (closed, arguments, answer)
            if arguments == ("--help",):
                assert answer.status == int(mute), (closed, answer)


def test_a_reader_that_leaves(watched: Watched, project: Path) -> None:
    """As `hn ... | head -0`: no noise, and the status that a shell gives for SIGPIPE."""
    for arguments in (("memory", "recall", "--json"), ("help", "json"), ("--help",)):
        script = (
            "import os, sys, subprocess; r, w = os.pipe(); os.close(r); "
            f"sys.exit(subprocess.call({[*HN, *arguments]!r}, stdout=w))"
        )
        answer = watched.machine.run([sys.executable, "-c", script], project)
        watched.look_at(answer)
        assert (answer.status, answer.err) == (141, b""), answer


def test_a_corrupt_identity_gives_nothing_away(watched: Watched, project: Path) -> None:
    hn = common_dir(watched.machine, project) / "hn"
    (file,) = (hn / "identities").iterdir()
    good = file.read_bytes()
    identity = json.loads(good)
    other = identity["privateKey"][::-1]
    broken = {
        "empty": b"",
        "no json": good[:-20],
        "another key": good.replace(identity["privateKey"].encode(), other.encode()),
        "another name": good.replace(b'"Ada"', b'"A\\u0007"'),
        "a field more": good.replace(b'"version": 1', b'"version": 1, "extra": 1'),
        "a field twice": good.replace(b'"version": 1', b'"version": 1, "version": 1'),
        "not available": good.replace(b"available", b"retired"),
        "too large": good + b" " * 20_000,
        "not utf-8": good.replace(b"Ada", b"\xff"),
    }
    watched.secrets.append(other.encode())
    for name, data in broken.items():
        file.write_bytes(data)
        for arguments in ((*RECORD, "x"), ("identity", "list")):
            answer = watched.hn(project, *arguments, "--json")
            assert answer.status == 1, (name, arguments, answer)
            assert answer.error["code"] in ("identity-invalid", "private-file-unsafe"), (name, answer)
    assert watched.hn(project, "memory", "recall", "--json").status == 0
    file.write_bytes(good)
    for path, mode in ((file, 0o644), (file, 0o666), (hn, 0o755), (hn / "identities", 0o777)):
        before = path.stat().st_mode
        path.chmod(mode)
        answer = watched.hn(project, *RECORD, "x", "--json")
        assert (answer.status, answer.error["code"]) == (1, "private-file-unsafe"), answer
        assert path.stat().st_mode & 0o777 == mode, "repaired in silence"
        path.chmod(before)
    moved = hn.with_name("elsewhere")
    for path in (file, hn / "identities", hn / "active", hn):
        path.rename(moved)
        path.symlink_to(moved)
        answer = watched.hn(project, *RECORD, "x", "--json")
        assert (answer.status, answer.error["code"]) == (1, "private-file-unsafe"), (path, answer)
        path.unlink()
        moved.rename(path)
    watched.hn(project, *RECORD, "x").done()
