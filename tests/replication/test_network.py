"""The runner of network children: bounds, process groups, and no credentials in words."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from hn_memory.errors import HnError
from hn_memory.replication.network import Ended, clean_lines, network_environment, redact, run_network


def run(code: str, **options: object) -> Ended:
    settings = {"deadline": time.monotonic() + 20} | options
    return run_network([sys.executable, "-c", code], dict(os.environ), **settings)  # type: ignore[arg-type]


def test_output_input_and_status() -> None:
    done = run(
        "import sys; print(sys.stdin.read().upper()); print('why', file=sys.stderr); sys.exit(3)", stdin=b"x" * 300_000
    )
    assert (done.status, done.stdout, done.words) == (3, b"X" * 300_000 + b"\n", "why")


def test_the_time_limit_ends_the_whole_group(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(mark)!r}, 'w').write(str(child.pid))\ntime.sleep(60)"
    )
    started = time.monotonic()
    done = run(code, deadline=started + 2)
    assert done.timed_out and done.words == "the time limit was reached"
    assert time.monotonic() - started < 10
    pid = int(mark.read_text())
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            break
        if state == "Z":
            break
        time.sleep(0.05)
    else:
        pytest.fail("the grandchild lives on")


def test_the_file_limit(tmp_path: Path) -> None:
    code = f"f = open({str(tmp_path / 'out')!r}, 'wb')\nfor _ in range(100): f.write(b'x' * 65536); f.flush()"
    assert run(code, file_limit=1024 * 1024).status != 0
    assert (tmp_path / "out").stat().st_size <= 1024 * 1024


def test_the_output_limit() -> None:
    with pytest.raises(HnError) as caught:
        run("print('x' * 1000000)", output_limit=1000)
    assert caught.value.code == "git-output-too-large"


def test_a_helper_in_the_background_does_not_hold_us_up() -> None:
    code = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3)']); print('done')"
    )
    started = time.monotonic()
    assert run(code).stdout == b"done\n"
    assert time.monotonic() - started < 2.5


def test_a_missing_program() -> None:
    with pytest.raises(HnError) as caught:
        run_network(["no-such-program"], {}, deadline=time.monotonic() + 5)
    assert caught.value.code == "git-missing"


def test_progress_is_told() -> None:
    told: list[tuple[str, int]] = []
    run(
        "import sys; sys.stderr.write('Receiving objects:  45% (9/20)\\rReceiving objects: 100% (20/20), done.\\n')",
        progress=lambda phase, percent: told.append((phase, percent)),
    )
    assert told == [("Receiving objects", 45), ("Receiving objects", 100)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://u:p@example.org/x", "https://***@example.org/x"),
        ("fatal: unable to access 'https://tok@h/': no", "fatal: unable to access 'https://***@h/': no"),
        ("ssh://git@host:22/x and https://a:b@c", "ssh://***@host:22/x and https://***@c"),
        ("https://example.org/a@b", "https://example.org/a@b"),
        ("https://u:p@ss@h/x", "https://***@h/x"),
        ("mail@example.org", "mail@example.org"),
    ],
)
def test_credentials_are_blotted_out(text: str, expected: str) -> None:
    assert redact(text) == expected


def test_the_words_of_ssh_are_kept_and_advice_is_not() -> None:
    stderr = (
        b"git@example.org: Permission denied (publickey).\r\nfatal: Could not read from remote repository.\n\n"
        b"Please make sure you have the correct access rights\nand the repository exists.\n"
    )
    expected = "git@example.org: Permission denied (publickey).; Could not read from remote repository."
    assert Ended(128, b"", stderr).words == expected


def test_lines_are_what_a_terminal_would_show_last() -> None:
    assert clean_lines(b"a: 1%\ra: 100%\nremote: no\x1b\n\n") == ["a: 100%", "remote: no\x1b"]


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_SSH", "GIT_SSH_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_DIR", "/elsewhere")
    env = network_environment(interactive=False, ssh_command=None)
    assert env["GIT_TERMINAL_PROMPT"] == "0" and env["GIT_SSH_COMMAND"] == "ssh -o BatchMode=yes"
    assert "GIT_DIR" not in env
    assert network_environment(interactive=False, ssh_command="ssh -i key")["GIT_SSH_COMMAND"].startswith("ssh -i key")
    assert "GIT_SSH_COMMAND" not in network_environment(interactive=False, ssh_command="plink -batch")
    assert "GIT_TERMINAL_PROMPT" not in network_environment(interactive=True, ssh_command=None)
