"""Every way a command can end: its status, one JSON document or one line on stderr, and nothing more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_harness import Hn, git, record

from hn_memory.errors import ConflictError, PartialError
from hn_memory.service.service import Service

NOWHERE = "sha256:" + "0" * 64
ACTOR = "f" * 64

USAGE = [
    ("--bogus",),
    ("bogus",),
    ("memory",),
    ("memory", "bogus"),
    ("memory", "recall", "--bogus"),
    ("memory", "recall", "words"),
    ("memory", "recall", "-n", "many"),
    ("memory", "recall", "-n", "0"),
    ("memory", "recall", "--max-content-bytes", "-1"),
    ("memory", "recall", "--kind", "poem"),
    ("memory", "recall", "--lifecycle", "all", "--lifecycle", "active"),
    ("memory", "recall", "--trust", "blind"),
    ("memory", "recall", "--actor", "ada"),
    ("memory", "recall", "--subject", "x"),
    ("memory", "recall", "--path", "../outside"),
    ("memory", "recall", "--query", "..."),
    ("memory", "recall", "--cursor", "x"),
    ("memory", "recall", "--input", "-", "--topic", "x"),
    ("memory", "record", "text"),
    ("memory", "record", "-k", "decision"),
    ("memory", "record", "-k", "decision", "a", "b"),
    ("memory", "record", "-k", "decision", "a", "-m", "b"),
    ("memory", "record", "-k", "decision", "a", "--content-file", "app.py"),
    ("memory", "record", "-k", "decision", "a", "--blob", "absent"),
    ("memory", "record", "-k", "decision", "a", "--applies", "always"),
    ("memory", "record", "-k", "decision", "a", "--applies", "subject"),
    ("memory", "record", "-k", "decision", "a", "--path", "docs"),
    ("memory", "record", "-k", "decision", "a", "--path", "../x"),
    ("memory", "record", "-k", "decision", "a", "--stream", "mine"),
    ("memory", "record", "-k", "decision", "a", "--allow-secret", "no-such-rule"),
    ("memory", "record", "--input", "-"),
    ("memory", "record", "--input", "-", "-k", "decision"),
    ("memory", "handoff"),
    ("memory", "handoff", "--input", "-", "-t", "x"),
    ("memory", "supersede"),
    ("memory", "supersede", "abc", "-k", "decision", "x"),
    ("memory", "retract", NOWHERE),
    ("memory", "retract", NOWHERE, "--reason", "Not A Token"),
    ("memory", "challenge", NOWHERE),
    ("memory", "challenge", "abc", "--reason", "x"),
    ("memory", "show"),
    ("memory", "show", "abc"),
    ("memory", "log", "-n", "0"),
    ("memory", "log", "--actor", "ada"),
    ("memory", "streams", "--use", "abc"),
    ("memory", "index"),
    ("identity", "new"),
    ("identity", "use", "abc"),
    ("identity", "show", "abc"),
    ("policy", "trust"),
    ("policy", "trust", "abc"),
    ("policy", "trust", ACTOR, "--kind", "poem"),
    ("policy", "untrust"),
    ("version", "extra"),
    ("--git-dir",),
]

NOT_FOUND = [
    ("memory", "show", "00000000"),
    ("memory", "show", NOWHERE),
    ("memory", "retract", NOWHERE, "-r", "incorrect"),
    ("memory", "challenge", NOWHERE, "-r", "incorrect"),
    ("memory", "supersede", NOWHERE, "-k", "decision", "x"),
    ("memory", "recall", "--at", "no-such-branch"),
    ("memory", "record", "-k", "decision", "x", "--at", "no-such-branch"),
    ("memory", "record", "-k", "decision", "x", "--path", "no-such-file"),
    ("memory", "record", "-k", "decision", "--content-file", "no-such-file"),
    ("memory", "record", "--input", "no-such-file"),
    ("identity", "use", ACTOR),
    ("identity", "show", ACTOR),
    ("identity", "import", "no-such-file"),
    ("policy", "untrust", ACTOR),
    ("policy", "show", "--at", "no-such-branch"),
    ("help", "no-such-topic"),
    ("-C", "no-such-directory", "memory", "log"),
    ("--git-dir", "no-such-directory", "memory", "log"),
]

REFUSED = [
    ("memory", "record", "-k", "poem", "x"),
    ("memory", "record", "-k", "decision", " \n"),
    ("memory", "record", "-k", "attempt", "x"),
    ("memory", "record", "-k", "verification", "x"),
    ("memory", "record", "-k", "decision", "x", "--next-action", "y"),
    ("memory", "record", "-k", "decision", "x", "-e", "git:abc"),
    ("memory", "record", "-k", "decision", "x", "--path", "app.py", "--blob", "absent"),
    ("memory", "record", "-k", "decision", "key ghp_" + "a1B2" * 9),
    ("memory", "record", "-k", "decision", "--content-file", "docs"),
    ("init", "--name", "Again"),
    ("identity", "new", "bad\x07name"),
]

ALL = [
    *((arguments, 2) for arguments in USAGE),
    *((arguments, 3) for arguments in NOT_FOUND),
    *((arguments, 1) for arguments in REFUSED),
]


@pytest.mark.usefixtures("ada")
def test_every_refusal_has_its_status_and_one_document(hn: Hn) -> None:
    for arguments, status in ALL:
        answer = hn(*arguments, "--json")
        assert answer.status == status, (arguments, answer)
        assert answer.error["message"], arguments
        assert "Traceback" not in answer.err
        if status == 2 and answer.error["code"] == "usage":
            assert answer.error["hint"], arguments


@pytest.mark.usefixtures("ada")
def test_refusals_for_people_are_one_line_and_a_hint_on_stderr(hn: Hn) -> None:
    for arguments, status in ALL:
        answer = hn(*arguments)
        assert answer.status == status, (arguments, answer)
        assert answer.out == b"", arguments
        lines = answer.err.splitlines()
        assert lines[0].startswith("hn: error: "), arguments
        assert all(line.startswith("hint: ") for line in lines[1:]), arguments
        assert len(lines) <= 2, arguments


def test_outside_a_repository(clean: Path, hn: Hn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clean)
    for arguments in (("init",), ("memory", "recall"), ("identity", "list"), ("policy", "show"), ("memory", "verify")):
        answer = hn(*arguments, "--json")
        assert answer.status == 3
        assert answer.error["code"] == "not-a-repository"


def test_without_an_identity_nothing_is_written(repository: Path, hn: Hn) -> None:
    assert hn("identity", "list", "--json").done().json["identities"] == []
    assert hn("identity", "list").done().out == b""
    answer = hn("memory", "record", "-k", "decision", "x", "--json")
    assert answer.status == 3
    assert answer.error["code"] == "identity-missing"


def test_a_missing_name_is_a_usage_error_without_a_terminal(
    repository: Path, hn: Hn, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.parent / "home" / ".gitconfig").write_text("")
    answer = hn("init", "--json")
    assert (answer.status, answer.error["code"]) == (2, "name-missing")
    assert hn("init").status == 2
    assert hn("init", "--name", "Ada").status == 0


@pytest.mark.parametrize(
    ("kind", "status"),
    [(ConflictError, 4), (PartialError, 5)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_conflict_and_partial(
    kind: type[ConflictError], status: int, ada: str, hn: Hn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise kind("some-code", "others were faster", hint="Run it again.")

    monkeypatch.setattr(Service, "record", lose)
    answer = hn("memory", "record", "-k", "decision", "x", "--json")
    assert answer.status == status
    assert answer.error == {"code": "some-code", "message": "others were faster", "hint": "Run it again."}


def test_verify_ends_with_six_and_still_answers(ada: str, hn: Hn) -> None:
    record(hn)
    ref = git("for-each-ref", "--format=%(refname)", "refs/hn/memory")
    git("update-ref", ref.rsplit("/", 1)[0] + "/" + "e" * 64, "HEAD")
    answer = hn("memory", "verify", "--json")
    assert answer.status == 6
    assert answer.json["valid"] is False
    assert len(answer.json["invalid"]) == 1 and len(answer.json["streams"]) == 1
    people = hn("memory", "verify")
    assert people.status == 6
    assert b"invalid refs/hn/memory/" in people.out
    recalled = hn("memory", "recall", "--json").done()
    assert recalled.json["matched"] == 1
    assert len(recalled.json["receipt"]["sources"]["invalid"]) == 1
    assert "hn: note: left out refs/hn/memory/" in recalled.err


def test_a_bug_shows_its_name_and_no_more(ada: str, hn: Hn, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError(str(Path.home() / "secret"))

    monkeypatch.setattr(Service, "recall", fail)
    answer = hn("memory", "recall", "--json")
    assert answer.status == 1
    assert answer.error["code"] == "internal"
    assert answer.error["message"] == "internal error: ZeroDivisionError"
    assert answer.err == ""
    people = hn("memory", "recall")
    assert people.err.splitlines()[0] == "hn: error: internal error: ZeroDivisionError"
    assert "secret" not in people.err
    assert "Traceback" in hn("memory", "recall", env={"HN_DEBUG": "1"}).err


def test_interrupted(ada: str, hn: Hn, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Service, "recall", interrupt)
    answer = hn("memory", "recall", "--json")
    assert answer.status == 130
    assert answer.error["code"] == "interrupted"
    assert hn("memory", "recall").status == 130


def test_json_as_a_value_asks_for_nothing(ada: str, hn: Hn) -> None:
    answer = hn("memory", "record", "-k", "decision", "-m", "--json").done()
    assert answer.text.startswith("recorded sha256:")
    assert hn("memory", "record", "-k", "decision", "--", "--json").done().text.startswith("recorded sha256:")


def test_arguments_that_are_no_utf8_are_refused_with_the_place(ada: str, hn: Hn) -> None:
    for flag in ("-m", "--topic", "--evidence", "--path", "--outcome", "--stream", "--at", "--completed"):
        answer = hn("memory", "record", "-k", "decision", "x", flag, "é".encode() + b"\xff", "--json")
        assert answer.status == 2
        assert "not valid UTF-8 at byte 2" in answer.error["message"], flag
    answer = hn("memory", "record", "-k", "decision", b"ab\xed\xa0\x80", "--json")
    assert "not valid UTF-8 at byte 2" in answer.error["message"]
    assert hn(b"\xff", "--json").error["code"] == "usage"
    assert hn("memory", "recall", b"--\xff", "--json").error["code"] == "usage"


def test_input_that_is_no_utf8_is_refused_with_the_place(ada: str, hn: Hn, tmp_path: Path) -> None:
    answer = hn("memory", "record", "-k", "decision", "-", "--json", stdin=b"abc\xc3")
    assert (answer.status, answer.error["code"], answer.error["field"]) == (2, "text-invalid", "record.content")
    assert "byte 3" in answer.error["message"]
    answer = hn("memory", "record", "--input", "-", "--json", stdin=b'{"content": "\xff"}')
    assert "byte 13" in answer.error["message"]
    lone = json.dumps(
        {
            "version": 0, "kind": "decision", "content": "ab\ud800", "topics": [], "evidence": [],
            "anchor": {"commit": git("rev-parse", "HEAD")}, "applicability": {"mode": "exact"},
        }
    )  # fmt: skip
    answer = hn("memory", "record", "--input", "-", "--json", stdin=lone.encode())
    assert answer.status == 2
    assert (answer.error["field"], "character 2" in answer.error["message"]) == ("content", True)


def test_a_file_may_have_any_name(ada: str, hn: Hn, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/\xff.txt"
    Path(os.fsdecode(name)).write_bytes(b"from a file\n")
    memory_id = hn("memory", "record", "-k", "decision", "--content-file", name, "--json").done().json["memoryId"]
    assert hn("memory", "show", memory_id, "--json").json["projection"]["data"]["content"] == "from a file\n"


@pytest.mark.usefixtures("ada")
def test_the_program_itself(repository: Path) -> None:
    """Broken pipes, full disks, closed descriptors: as a process, since Python has a say in them."""
    program = f"{sys.executable} -c 'import sys; from hn_memory.cli.entry import main; sys.exit(main())'"

    def shell(script: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(["bash", "-c", script.replace("HN", program)], capture_output=True, check=False)

    for command in ("HN --help", "HN memory record --help", "HN memory log", "HN help recall"):
        gone = shell(f"exec 3>&1; {{ sleep 0.3; {command}; echo $? >&3; }} | true")
        assert (gone.stdout, gone.stderr) == (b"141\n", b""), command
    full = shell("HN memory log --json > /dev/full")
    assert full.returncode == 1
    assert full.stderr == b"hn: error: the answer could not be written: No space left on device\n"
    closed = shell("HN memory log >&-")
    assert closed.returncode == 1
    assert b"Traceback" not in closed.stderr
    assert shell("HN memory record -k decision - <&-").returncode == 2
    assert shell("HN memory log 2>&-").returncode == 0
    latin = shell("LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 HN memory record -k decision -m 'Größe €' --json")
    memory_id = json.loads(latin.stdout)["memoryId"]
    shown = shell(f"LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 HN memory show {memory_id}")
    assert "  | Größe €\n" in shown.stdout.decode()
