"""Sync over `file://`: a first import, 500 streams with one new commit each, and nothing new."""

from __future__ import annotations

import shutil
import statistics
import subprocess
from pathlib import Path

from benchlib.bench import Bench, Section
from benchlib.build import Built
from benchlib.report import at_least, at_most
from benchlib.verifying import cores, raw_rate

_IMPORT = 10_000
_STREAMS = 500


def _git(where: Path, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        ["git", "-C", str(where), *arguments], input=stdin, capture_output=True, text=True, check=True
    )
    return done.stdout


def _remote(built: Built, path: Path) -> Path:
    """A bare repository with the memory refs of a built one, packed as a server would have them."""
    shutil.rmtree(path, ignore_errors=True)
    _git(path.parent, "init", "-q", "--bare", str(path))
    _git(built.root, "push", "-q", str(path), "refs/hn/memory/*:refs/hn/memory/*")
    _git(path, "repack", "-qad")
    return path


def _fresh(path: Path, remote: Path) -> Path:
    """A repository that knows the remote and nothing of it."""
    shutil.rmtree(path, ignore_errors=True)
    _git(path.parent, "init", "-q", str(path))
    _git(path, "remote", "add", "origin", f"file://{remote}")
    return path


def _first_import(bench: Bench, top: Path) -> None:
    remote = _remote(bench.repository(_IMPORT), top / "import.git")
    here = top / "importer"
    command = bench.hn(top, "-C", str(here), "sync", "--json", before=lambda: _fresh(here, remote))
    fractions, rates = [], []
    for _ in range(3):
        before = raw_rate(cores())
        taken = bench.compare({"import": command}, runs=1, warm=0)["import"]
        rates.append(_IMPORT / taken.wall[0])
        fractions.append(rates[-1] / ((before + raw_rate(cores())) / 2))
    bench.add("first import, memories", statistics.median(rates), "/s", size=_IMPORT, runs=3)
    bench.add(
        "first import, to raw verifications", statistics.median(fractions), "x", size=_IMPORT, bound=at_least(0.35)
    )
    taken = bench.compare({"same": bench.hn(here, "sync", "--json")})["same"]
    bench.add_time("nothing new, one stream", taken, size=_IMPORT, bound=at_most(250))


def _many_streams(bench: Bench, top: Path) -> None:
    remote = _remote(bench.repository(2 * _STREAMS, _STREAMS), top / "many.git")
    listed = _git(remote, "for-each-ref", "--format=%(refname) %(objectname) %(parent)", "refs/hn").splitlines()
    rows = [line.split(" ") for line in listed]
    new = "".join(f"update {ref} {tip}\n" for ref, tip, _ in rows)
    # A stream of one memory is a new stream then.
    old = "".join(f"update {ref} {parent}\n" if parent else f"delete {ref}\n" for ref, _, parent in rows)
    prepared, here = top / "prepared", top / "follower"
    _git(remote, "update-ref", "--stdin", stdin=old)
    bench.spawner.run(bench.hn(_fresh(prepared, remote), "sync", "--json"))
    _git(remote, "update-ref", "--stdin", stdin=new)

    def again() -> None:
        shutil.rmtree(here, ignore_errors=True)
        shutil.copytree(prepared, here, symlinks=True)

    taken = bench.compare({"one": bench.hn(top, "-C", str(here), "sync", "--json", before=again)}, runs=5)["one"]
    bench.add_time(f"{_STREAMS} streams, one new commit each", taken, size=2 * _STREAMS, bound=at_most(3_000))
    taken = bench.compare({"same": bench.hn(here, "sync", "--json")})["same"]
    bench.add_time(f"nothing new, {_STREAMS} streams", taken, size=2 * _STREAMS, bound=at_most(250))


def _run(bench: Bench) -> None:
    top = bench.repository(2 * _STREAMS, _STREAMS).root.parent / "replication"
    top.mkdir(exist_ok=True)
    try:
        _first_import(bench, top)
        _many_streams(bench, top)
    finally:
        shutil.rmtree(top, ignore_errors=True)


SECTION = Section("replication", "sync over file://, whole process", _run)
