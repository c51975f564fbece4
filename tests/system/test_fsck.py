"""Git itself finds nothing wrong in what we wrote: every operation, every kind, every name, both object formats."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from system_harness import HERE, Machine, chain, fsck, make_project, memory_refs
from write_worker import NAMES

from hn_memory import RecordArguments, open_repository
from hn_memory.protocol.identity import new_identity

CASES = [("sha1", "git"), ("sha1", "libgit2"), ("sha256", "git")]


@pytest.mark.parametrize(("object_format", "backend"), CASES)
def test_everything_we_write(machine: Machine, tmp_path: Path, object_format: str, backend: str) -> None:
    project = make_project(machine, tmp_path / "project", f"--object-format={object_format}")
    machine.run([sys.executable, str(HERE / "write_worker.py"), str(project), backend], tmp_path).done()
    fsck(machine, project)
    refs = memory_refs(machine, project)
    assert len(refs) == len(NAMES) + 1
    for ref in refs:
        assert chain(machine, project, ref)
        # Two blobs and nothing else, in the order and with the modes that Git wants.
        for commit in machine.git(project, "rev-list", ref).split():
            entries = machine.git(project, "ls-tree", commit).splitlines()
            assert [(line.split()[0], line.split()[1], line.split("\t")[1]) for line in entries] == [
                ("100644", "blob", "memory.json"),
                ("100644", "blob", "signature"),
            ]

    # Packed and pruned, and seen by a receiver who checks what he is sent.
    machine.git(project, "pack-refs", "--all")
    machine.git(project, "gc", "-q", "--prune=now")
    fsck(machine, project)
    receiver = tmp_path / "receiver.git"
    machine.git(tmp_path, "init", "-q", "--bare", f"--object-format={object_format}", str(receiver))
    machine.git(receiver, "-c", "fetch.fsckObjects=true", "fetch", "-q", str(project), "refs/hn/*:refs/hn/*")
    assert memory_refs(machine, receiver) == refs
    fsck(machine, receiver)
    verified = machine.hn(receiver, "memory", "verify", "--json").done().json
    assert verified["valid"] and len(verified["streams"]) == len(refs)


@pytest.mark.parametrize(("object_format", "backend"), CASES)
def test_names_and_times_at_their_edges(machine: Machine, tmp_path: Path, object_format: str, backend: str) -> None:
    """Names of which nothing is left for Git, and every year that Git can tell."""
    project = make_project(machine, tmp_path / "project", f"--object-format={object_format}")
    names = ("<>", "<<<>>>", ".", "'\"", "\\", ":;", "a\u2028b", "<a>b", " \u00a0 x", "\u200b", "Ada <ada@example.org>")
    years = (0, 1, 951_782_400, 2_147_483_648, 4_102_444_800, 253_402_300_799)
    now = 0
    with open_repository(project, backend=backend, clock=lambda: now) as service:
        keyring = service.environment.keyring
        for at, name in enumerate(names):
            keyring.use(keyring.add(new_identity(name, bytes([at + 100]) * 32)).actor)
            for seconds in years if at < 2 else years[-1:]:
                now = seconds * 1_000_000_000 + 999_999_999
                service.record(RecordArguments(kind="decision", content=f"by {name}"))
        assert service.verify()["valid"]
    refs = memory_refs(machine, project)
    assert len(refs) == len(names)
    for ref in refs:
        chain(machine, project, ref)
        names_of_git = machine.git(project, "log", "--format=%an", ref).splitlines()
        assert all(name and "<" not in name and ">" not in name for name in names_of_git)
    fsck(machine, project)
