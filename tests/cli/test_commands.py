"""What the commands do with their flags, and what people see."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_harness import Hn, git, record

ZERO = "sha256:" + "0" * 64


def shown(hn: Hn, memory_id: str) -> dict[str, object]:
    data: dict[str, object] = hn("memory", "show", memory_id, "--json").done().json["projection"]["data"]
    return data


def test_defaults_of_the_daily_case(ada: str, hn: Hn) -> None:
    data = shown(hn, record(hn, "Short.", "-t", "  Mixed Case "))
    assert data["applicability"] == {"mode": "descendants"}
    assert data["anchor"] == {"commit": git("rev-parse", "HEAD")}
    assert data["topics"] == ["mixed case"]


def test_every_flag_of_record_arrives(ada: str, hn: Hn) -> None:
    head, blob = git("rev-parse", "HEAD~1"), git("rev-parse", "HEAD:app.py")
    flags = ["--at", "HEAD~1", "--applies", "subject", "--subject", f"run:{ZERO}", "-t", "b", "-t", "a"]
    flags += ["-e", f"git:{blob}", "-e", f"git:{head}", "-p", "app.py", "-p", "nothing", "--blob", blob]
    flags += ["--blob", "absent", "--outcome", "no-gain"]
    answer = hn("memory", "record", "-k", "attempt", "Tried.", *flags, "--json").done()
    paths = [{"path": "app.py", "blob": blob}, {"path": "nothing", "blob": "absent"}]
    assert shown(hn, answer.json["memoryId"]) == {
        "kind": "attempt",
        "content": "Tried.",
        "anchor": {"commit": head, "paths": paths, "subject": f"run:{ZERO}"},
        "applicability": {"mode": "subject", "subject": f"run:{ZERO}"},
        "topics": ["a", "b"],
        "evidence": [f"git:{blob}", f"git:{head}"],
        "attemptOutcome": "no-gain",
    }


def test_paths_are_relative_to_where_one_stands(ada: str, hn: Hn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("docs")
    here = hn("memory", "record", "-k", "decision", "x", "-p", "plan.md", "-p", ":/app.py", "--json").done().json
    assert [pair["path"] for pair in here["anchor"]["paths"]] == ["app.py", "docs/plan.md"]
    assert hn("memory", "recall", "-p", "plan.md", "--json").done().json["matched"] == 1
    assert hn("memory", "recall", "-p", "../app.py", "--json").done().json["matched"] == 1
    assert hn("memory", "recall", "-p", ":/docs/plan.md", "--json").done().json["matched"] == 1
    assert hn("memory", "recall", "-p", "app.py", "--json").done().json["matched"] == 0


def test_handoff_request_takes_its_context_from_flags(ada: str, hn: Hn) -> None:
    lists = {"completed": ["a"], "assumptions": [], "blockers": [], "nextActions": ["b"]}
    request = {"version": 0, "content": "Half.", "topics": [], "evidence": [], "handoff": lists}

    def send(*flags: str, **fields: object) -> object:
        return hn(
            "memory", "handoff", "--input", "-", *flags, "--json", stdin=json.dumps({**request, **fields}).encode()
        )

    answer = send("--at", "HEAD~1", "--applies", "exact")
    data = shown(hn, answer.done().json["memoryId"])  # type: ignore[attr-defined]
    assert data["anchor"] == {"commit": git("rev-parse", "HEAD~1")}
    assert (data["applicability"], data["handoff"], data["kind"]) == ({"mode": "exact"}, lists, "handoff")
    clash = send("--at", "HEAD~1", anchor={"commit": git("rev-parse", "HEAD")})
    assert (clash.status, clash.error["code"]) == (2, "request-conflict")  # type: ignore[attr-defined]


def test_a_request_is_strict(ada: str, hn: Hn) -> None:
    base = {
        "version": 0, "kind": "decision", "content": "x", "anchor": {"commit": git("rev-parse", "HEAD")},
        "applicability": {"mode": "exact"}, "topics": [], "evidence": [],
    }  # fmt: skip
    before = hn("memory", "log", "--json").json["total"]
    text = json.dumps(base)
    for changed, field in (
        (json.dumps({**base, "mood": "good"}), "mood"),
        (text.replace('"kind"', '"kind": "decision", "kind"'), "kind"),
        (json.dumps({name: value for name, value in base.items() if name != "topics"}), "topics"),
        (json.dumps({**base, "version": 1}), "version"),
        (json.dumps({**base, "content": 5}), "content"),
        (json.dumps({**base, "content": None}), "content"),
        (json.dumps({**base, "anchor": {"commit": "HEAD"}}), "anchor.commit"),
        (text + "{}", None),
        ("[]", None),
        ("x" * 2_000_000, None),
    ):
        answer = hn("memory", "record", "--input", "-", "--json", stdin=changed.encode())
        assert answer.status in (1, 2), changed[:80]
        if field is not None:
            assert answer.error["field"].endswith(field), answer.error
    assert hn("memory", "log", "--json").json["total"] == before


def test_allow_secret_insists(ada: str, hn: Hn) -> None:
    text = "ghp_" + "a1B2" * 9
    refused = hn("memory", "record", "-k", "decision", text, "--json")
    assert (refused.status, refused.error["code"], refused.error["field"]) == (1, "secret-found", "content")
    assert text not in refused.text + hn("memory", "record", "-k", "decision", text).err
    assert hn("memory", "record", "-k", "decision", text, "--allow-secret", "github-token").status == 0


def test_an_actor_for_one_command(ada: str, hn: Hn) -> None:
    other = hn("identity", "new", "Bob", "--json").done().json["identity"]["actor"]
    as_bob = {"HN_ACTOR": other}
    first = hn("memory", "record", "-k", "decision", "x", "--json", env=as_bob).done().json
    assert first["actor"] == other
    assert hn("memory", "record", "-k", "decision", "x", "--json", env={"HN_ACTOR": ""}).json["actor"] == ada
    unknown = hn("memory", "record", "-k", "decision", "x", "--json", env={"HN_ACTOR": "f" * 64})
    assert (unknown.status, unknown.error["code"]) == (3, "identity-unknown")
    listed = hn("identity", "list").done().text.splitlines()
    assert f"* {ada} | Ada" in listed and f"  {other} | Bob" in listed


def test_directories_before_the_command(ada: str, hn: Hn, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Path.cwd()
    monkeypatch.chdir("/")
    name = project.name
    for flags in (
        ("-C", str(project)),
        ("-C", str(project.parent), "-C", name),
        ("-C", f"{project}/docs"),
        ("--git-dir", f"{project}/.git"),
        ("-C", str(project.parent), "--git-dir", f"{name}/.git"),
    ):
        assert hn(*flags, "identity", "list", "--json").done().json["active"] == ada, flags
    relative = hn("-C", f"{project}/docs", "memory", "record", "-k", "decision", "--content-file", "plan.md", "--json")
    assert relative.status == 0


def test_streams_may_be_new_and_chosen(ada: str, hn: Hn) -> None:
    answer = hn("memory", "record", "-k", "decision", "x", "--stream", "new", "--json").done()
    stream = answer.json["stream"]
    assert f"new stream {stream}" in answer.err
    hn("memory", "streams", "--use", stream).done()
    assert hn("memory", "record", "-k", "decision", "y", "--json").json["stream"] == stream
    assert [row["memories"] for row in hn("memory", "streams", "--json").json["streams"]] == [2]
    assert f"* {stream} 2 memories, local" in hn("memory", "streams").text


def test_pages_go_on_with_their_cursor(ada: str, hn: Hn) -> None:
    ids = [record(hn, f"number {number}") for number in range(5)]
    seen: list[str] = []
    flags: list[str] = []
    while True:
        page = hn("memory", "recall", "-n", "2", *flags, "--json").done().json
        seen += [row["id"] for row in page["memories"]]
        if not page["truncated"]:
            break
        text = hn("memory", "recall", "-n", "2", *flags).done().text
        assert f"--cursor {page['nextCursor']}" in text
        flags = ["--cursor", page["nextCursor"]]
    assert sorted(seen) == sorted(ids)


def test_graph_of_a_story(ada: str, hn: Hn) -> None:
    def told(*arguments: str) -> str:
        memory_id: str = hn("memory", *arguments, "--json").done().json["memoryId"]
        return memory_id.removeprefix("sha256:")[:12]

    root = record(hn, "root")
    left = told("supersede", root, "-k", "decision", "left")
    doubt = told("challenge", root, "-r", "doubtful")
    right = told("supersede", root, "-k", "decision", "right")
    alone = told("record", "-k", "observation", "alone")
    gone = told("retract", hn("memory", "show", alone, "--json").json["memoryId"], "-r", "incorrect")
    short = root.removeprefix("sha256:")[:12]
    assert hn("memory", "log", "--graph").done().text.splitlines() == [
        f"* {alone} observation (retracted) | Ada: alone",
        f"| x {gone} retract {alone} | Ada: incorrect",
        f"* {short} decision (branching, challenged) | Ada: root",
        f"| ! {doubt} challenge {short} | Ada: doubtful",
        f"| * {left} decision supersedes {short} | Ada: left",
        "|",
        f"* {right} decision supersedes {short} | Ada: right",
    ]
    assert hn("memory", "log", "-n", "1").done().text.splitlines()[1] == "... and 5 more"
    recalled = hn("memory", "recall", "--lifecycle", "branching").done().text
    assert f"superseded by sha256:{left}" in recalled and f"challenged by sha256:{doubt}" in recalled
    assert "is replaced by more than one record" in hn("memory", "recall").done().text


def test_a_long_chain_can_be_drawn(ada: str, hn: Hn) -> None:
    from hn_memory.cli.render_log import graphed

    ids = [f"sha256:{number:064x}" for number in range(3000)]
    entries = [
        {
            "id": ids[number], "operation": "supersede" if number else "record", "actorName": "Ada", "kind": "decision",
            "lifecycle": "active", "challengers": [], "content": "x", "relationship": "valid",
            **({"target": ids[number - 1]} if number else {}),
        }
        for number in reversed(range(3000))
    ]  # fmt: skip
    lines = graphed({"entries": entries, "total": 3000}).splitlines()
    assert len(lines) == 5999 and lines[-1].startswith("* 000000000000")


def on_terminal(*arguments: str, keys: bytes = b"", env: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Run `hn` as a process on a terminal."""
    leader, follower = pty.openpty()
    code = "import sys; from hn_memory.cli.entry import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=follower, stdout=follower, stderr=follower, env={**os.environ, "TERM": "xterm", **(env or {})},
    )  # fmt: skip
    os.close(follower)
    if keys:
        os.write(leader, keys)
    out, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                chunk = os.read(leader, 65_536)
            except OSError:
                break
            if not chunk:
                break
            out += chunk
        elif process.poll() is not None:
            break
    os.close(leader)
    return process.wait(timeout=60), out


def test_on_a_terminal(ada: str, hn: Hn) -> None:
    record(hn, "Größe \x1b[2J\x9b2J")
    status, out = on_terminal("memory", "recall")
    assert status == 0 and b"\x1b[1m" in out and b"[2J" in out and b"\x1b[2J" not in out
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert b"\x1b" not in on_terminal("memory", "recall", env=env)[1]
    status, out = on_terminal("memory", "recall", "--json")
    assert out.isascii() and b"\x1b" not in out
    assert json.loads(out)["memories"][0]["data"]["content"] == "Größe \x1b[2J\x9b2J"


def test_init_asks_for_a_name_on_a_terminal(repository: Path, hn: Hn) -> None:
    (repository.parent / "home" / ".gitconfig").write_text("")
    status, out = on_terminal("init", keys="Ada Łovelace\n".encode())
    assert status == 0 and b"Your name" in out
    assert hn("identity", "show", "--json").done().json["identity"]["name"] == "Ada Łovelace"
    status, out = on_terminal("init", "--json")
    assert status == 1 and b'"identity-exists"' in out


def test_completion_knows_commands_flags_and_values(hn: Hn) -> None:
    code = "import sys; from hn_memory.cli.entry import main; sys.exit(main())"

    def complete(words: str) -> list[str]:
        env = {**os.environ, "_HN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
        return [line.split(",", 1)[1] for line in done.stdout.splitlines()]

    assert complete("hn i") == ["init", "identity"]
    assert complete("hn memory re") == ["record", "retract", "recall"]
    assert complete("hn memory recall --kind a") == ["assumption", "attempt"]
    assert complete("hn memory recall --lifecycle a") == ["active", "all"]
    assert "--max-records" in complete("hn memory recall --max")
