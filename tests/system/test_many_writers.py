"""Many processes, one actor, one stream: nothing that was acknowledged is lost, and nothing else is there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from system_harness import HERE, HN, Machine, chain, fsck, make_project, memory_refs

from hn_memory import open_repository


@pytest.fixture
def project(machine: Machine, tmp_path: Path) -> Path:
    path = make_project(machine, tmp_path / "project")
    machine.hn(path, "init", "--name", "Ada").done()
    return path


def start(machine: Machine, argv: list[str], cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=machine.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check(machine: Machine, project: Path, acknowledged: dict[str, str]) -> None:
    """The one stream holds exactly the acknowledged records, and every reader agrees."""
    (ref,) = memory_refs(machine, project)
    memories = chain(machine, project, ref)
    held = {memory.id: memory.envelope.record.content for memory in memories if memory.envelope.record}
    assert held == acknowledged
    assert len(memories) == len(acknowledged)
    fsck(machine, project)
    for backend in ("git", "libgit2"):
        with open_repository(project, backend=backend) as service:
            verified = service.verify()
            assert [(stream["ref"], stream["memories"]) for stream in verified["streams"]] == [(ref, len(memories))]
            assert verified["valid"] and not verified["invalid"]
    assert not list((project / ".git").rglob("*.lock.*"))
    assert not (project / ".git" / f"{ref}.lock").exists()


@pytest.mark.parametrize("backend", ["git", "libgit2"])
def test_sixteen_processes_and_fifty_records_each(machine: Machine, project: Path, backend: str) -> None:
    began = time.monotonic()
    worker = str(HERE / "append_worker.py")
    running = [
        start(machine, [sys.executable, worker, str(project), backend, "50", f"writer {number}"], project)
        for number in range(16)
    ]
    for each in running:
        assert each.stdout is not None
        assert json.loads(each.stdout.readline()) == {"ready": True}
    for each in running:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    acknowledged: dict[str, str] = {}
    conflicts = 0
    for each in running:
        out, err = each.communicate(timeout=120)
        assert each.returncode == 0, err
        *lines, last = map(json.loads, out.splitlines())
        conflicts += last["conflicts"]
        acknowledged |= {line["memoryId"]: line["content"] for line in lines}
    assert len(acknowledged) == 16 * 50
    print(f"{backend}: 800 records in {time.monotonic() - began:.1f} s, {conflicts} conflicts told to a caller")
    check(machine, project, acknowledged)


def test_command_lines_and_both_backends_at_once(machine: Machine, project: Path) -> None:
    """Whole commands, with services of either backend that stay open meanwhile."""
    worker = str(HERE / "append_worker.py")
    services = {
        name: start(machine, [sys.executable, worker, str(project), name, "15", f"service {name}"], project)
        for name in ("git", "libgit2")
    }
    for each in services.values():
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    acknowledged: dict[str, str] = {}
    for wave in range(3):
        commands = {
            content: start(machine, [*HN, "memory", "record", "-k", "decision", "--json", content], project)
            for content in (f"command {wave}.{number}" for number in range(6))
        }
        for content, each in commands.items():
            out, err = each.communicate(timeout=120)
            assert each.returncode == 0, err
            acknowledged[json.loads(out)["memoryId"]] = content
    # Read your write: what a command acknowledged is there for the next process, others writing or not.
    shown = machine.hn(project, "memory", "show", next(reversed(acknowledged)), "--json").done()
    assert shown.json["projection"]["data"]["content"] == acknowledged[shown.json["memoryId"]]
    for name, each in services.items():
        out, err = each.communicate(timeout=120)
        assert each.returncode == 0, err
        lines = [json.loads(line) for line in out.splitlines()]
        acknowledged |= {line["memoryId"]: line["content"] for line in lines if "memoryId" in line}
        assert sum(value.startswith(f"service {name} ") for value in acknowledged.values()) == 15
    assert len(acknowledged) == 3 * 6 + 2 * 15
    check(machine, project, acknowledged)
