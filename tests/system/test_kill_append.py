"""`kill -9` in the middle of an append: whatever was reached, the next append works and nothing is lost.

Each append is killed at every system call of `hn` and of its Git children that makes, moves, empties or removes a
name in the repository, one after the other, until one gets through unharmed. Where the system lets nobody trace, the
stages that Python and a wrapper around Git can see take the place of system calls; these are tested everywhere.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from syscall_tracer import UNAVAILABLE
from system_harness import HERE, HN, Machine, chain, copy_of, fsck, make_project, memory_refs

from hn_memory import RecordArguments, open_repository
from hn_memory.protocol.identifiers import derived_stream, local_ref

LIMIT = 150
OBJECTS = ".git/objects"
INDEX = ".git/hn/memory"


class Outcome(NamedTuple):
    """What became of one append. `killed` is the point at which it was killed, None if it was not."""

    killed: str | None
    acknowledged: str | None
    err: str


Killer = Callable[[Path, int], Outcome]


class Case(NamedTuple):
    """What is killed. `most`: stop after so many points instead of when an append gets through."""

    program: Callable[[Path], list[str]]
    records: int
    family: bool
    indexed: bool = True
    pass_over: tuple[str, ...] = ()
    most: int | None = None
    fewest: int = 6


class Scene(NamedTuple):
    machine: Machine
    template: Path
    ref: str
    scratch: Path


@pytest.fixture
def scene(machine: Machine, tmp_path: Path, request: pytest.FixtureRequest) -> Scene:
    """A repository with as many records as the case says; reflogs are kept for every ref."""
    case: Case = CASES[request.param]
    path = make_project(machine, tmp_path / "project")
    machine.git(path, "config", "core.logAllRefUpdates", "always")
    with open_repository(path, backend="git") as service:
        actor = service.init("Ada")["identity"]["actor"]
        for number in range(case.records):
            service.record(RecordArguments(kind="decision", content=f"before {number}"))
        if case.indexed:
            service.log()
    if case.most is None:
        # Which of these directories an append makes is left to chance; with all of them here, the points of one
        # append are the points of the next.
        for number in range(256):
            (path / OBJECTS / f"{number:02x}").mkdir(exist_ok=True)
    return Scene(machine, path, local_ref(actor, derived_stream(actor, "default")), tmp_path)


def command(project: Path) -> list[str]:
    return [*HN, "memory", "record", "-k", "decision", "--json", "the one that is killed"]


def worker(project: Path) -> list[str]:
    return [sys.executable, str(HERE / "append_worker.py"), str(project), "libgit2", "1", "worker"]


def acknowledgement(out: bytes) -> str | None:
    """The ID that was acknowledged, by a command or by a worker."""
    found = [json.loads(line).get("memoryId") for line in out.split(b"\n")[:-1]]
    return next((each for each in found if each), None)


def by_system_calls(scene: Scene, program: Callable[[Path], list[str]], *flags: str) -> Killer:
    def kill(project: Path, number: int) -> Outcome:
        report = scene.scratch / "report.json"
        tracer = [sys.executable, "-I", "-S", str(HERE / "syscall_tracer.py"), "--below", str(project)]
        tracer += ["--report", str(report), "--kill-at", str(number), *flags, "--", *program(project)]
        done = scene.machine.run(tracer, project, stdin=b"go\n")
        assert done.status == 0, done
        told = json.loads(report.read_text())
        assert len(told["calls"]) >= number or told["killed"] is None
        # What a process said before it was killed counts: somebody may have read it.
        return Outcome(told["killed"], acknowledgement(done.out), done.err.decode())

    return kill


def by_stages(scene: Scene, family: bool) -> Killer:
    programs = scene.scratch / "programs"
    programs.mkdir()
    wrapper = programs / "git"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "{HERE / "stage_killer.py"}" git "$@"\n')
    wrapper.chmod(0o755)
    log = scene.scratch / "stages"
    git = shutil.which("git", path=scene.machine.env["PATH"])
    assert git is not None

    def kill(project: Path, number: int) -> Outcome:
        log.write_bytes(b"")
        env = {
            "PATH": f"{programs}:{scene.machine.env['PATH']}",
            "HN_STAGE_LOG": str(log),
            "HN_STAGE_KILL_AT": str(number),
            "HN_STAGE_FAMILY": str(int(family)),
            "HN_STAGE_GIT": git,
        }
        arguments = command(project)[len(HN) :]
        done = scene.machine.run([sys.executable, str(HERE / "stage_killer.py"), "hn", *arguments], project, env=env)
        stages = log.read_text().splitlines()
        killed = stages[number - 1] if len(stages) >= number else None
        return Outcome(killed, acknowledgement(done.out), done.err.decode())

    return kill


def can_trace(machine: Machine, tmp_path: Path) -> bool:
    report = str(tmp_path / "trial.json")
    tracer = [sys.executable, "-I", "-S", str(HERE / "syscall_tracer.py"), "--below", str(tmp_path), "--report", report]
    done = subprocess.run([*tracer, "--", "git", "--version"], env=machine.env, capture_output=True, check=False)
    assert done.returncode in (0, UNAVAILABLE), done
    return done.returncode == 0


def kill_at_every_point(scene: Scene, kill: Killer, most: int | None = None) -> list[str]:
    """Kill at point 1, 2, ... of an append to a copy of the same repository, and look at what is left each time."""
    machine, ref = scene.machine, scene.ref
    before = chain(machine, scene.template, ref) if ref in memory_refs(machine, scene.template) else []
    hit: list[str] = []
    for number in range(1, LIMIT):
        project = copy_of(scene.template, scene.scratch / f"copy{number}")
        outcome = kill(project, number)
        where = (number, outcome)
        assert "Traceback" not in outcome.err and "internal error" not in outcome.err, where

        # The ref is old or new, and what it holds is whole.
        refs = memory_refs(machine, project)
        assert set(refs) <= {ref}, where
        after = chain(machine, project, ref) if refs else []
        assert after[: len(before)] == before and len(after) - len(before) in (0, 1), where
        if outcome.acknowledged:
            assert [memory.id for memory in after[len(before) :]] == [outcome.acknowledged], where

        # The next append works, with either backend, and follows on what is there.
        with open_repository(project, backend=("git", "libgit2")[number % 2]) as service:
            answer = service.record(RecordArguments(kind="observation", content="the next one"))
            verified = service.verify() if number % 3 == 0 else None
            logged = service.log()
        ended = chain(machine, project, ref)
        assert ended[:-1] == after and ended[-1].id == answer["memoryId"], where
        assert verified is None or (verified["valid"] and verified["memories"] == len(ended)), where
        assert {row["id"] for row in logged["entries"]} == {memory.id for memory in ended}, where
        assert not (project / ".git" / f"{ref}.lock").exists(), where
        assert (project / ".git" / "hn" / "lock").read_bytes() == b"", where
        fsck(machine, project)
        shutil.rmtree(project)

        if outcome.killed is None:
            assert outcome.acknowledged, where
            return hit
        hit.append(outcome.killed)
        if len(hit) == most:
            return hit
    raise AssertionError("the append never got through")


CASES = {
    "command, all die": Case(command, 2, family=True, indexed=False, fewest=24),
    "command, one dies": Case(command, 2, family=False, pass_over=(OBJECTS, INDEX), fewest=5),
    "first command, one dies": Case(command, 0, family=False, indexed=False, pass_over=(OBJECTS, INDEX), fewest=10),
    "first objects": Case(command, 0, family=True, indexed=False, most=11, fewest=11),
    "service": Case(worker, 2, family=True, pass_over=(INDEX,), fewest=12),
}


@pytest.mark.parametrize(("scene", "name"), [(name, name) for name in CASES], indirect=["scene"], ids=list(CASES))
def test_killed_at_every_system_call(scene: Scene, name: str) -> None:
    case = CASES[name]
    if not can_trace(scene.machine, scene.scratch):
        hit = kill_at_every_point(scene, by_stages(scene, case.family))
        print(f"{name}: killed at {len(hit)} stages, for want of ptrace:", *hit, sep="\n  ")
        assert len(hit) >= 6
        return
    flags = [
        *(["--family"] if case.family else []),
        *(word for place in case.pass_over for word in ("--pass-over", place)),
    ]
    hit = kill_at_every_point(scene, by_system_calls(scene, case.program, *flags), case.most)
    print(f"{name}: killed at {len(hit)} system calls:", *hit, sep="\n  ")
    assert len(hit) >= case.fewest
    calls = [call.split(": ", 1)[1] for call in hit]
    if case.most is not None:
        assert {call.split()[0] for call in calls if OBJECTS in call} >= {"openat", "mkdir", "rename"}
        return
    # Both ends of the move of the ref are among them, and our journal before and after it.
    assert any(call.startswith("open") and call.endswith(f"{scene.ref}.lock") for call in calls)
    assert any(call.startswith("rename") and call.endswith(scene.ref) for call in calls)
    journal = [call.split()[0] for call in calls if call.endswith(".git/hn/lock")]
    assert {"pwrite64", "ftruncate"} <= set(journal)


@pytest.mark.parametrize("who", ["we store", "git stores"])
@pytest.mark.parametrize("scene", ["command, one dies"], indirect=True)
def test_killed_at_every_stage(scene: Scene, who: str) -> None:
    if who == "git stores":
        # It asks for no more than the default, and leaves the objects to Git all the same.
        scene.machine.git(scene.template, "config", "core.sharedRepository", "umask")
    hit = kill_at_every_point(scene, by_stages(scene, family=False))
    print(f"killed at {len(hit)} stages:", *hit, sep="\n  ")
    assert len(hit) >= 6
    assert "git update-ref: prepared" in hit
    if who == "git stores":
        assert {"git unpack-objects: start", "git unpack-objects: end"} <= set(hit)
    else:
        assert sum(stage.startswith("hn: rename tmp_obj_") for stage in hit) == 4
