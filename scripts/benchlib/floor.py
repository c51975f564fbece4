"""What nothing built of these parts can beat: the interpreter, the imports, Git, OpenSSL, libgit2."""

from __future__ import annotations

import random
import shutil
import time
from typing import Any

import pygit2

from benchlib.bench import Bench, Section
from benchlib.measure import Command
from benchlib.verifying import cores, raw_rate

_IMPORTS = "import sqlite3, hashlib, orjson"


def _run(bench: Bench) -> None:
    here = bench.workshop.directory
    git = shutil.which("git")
    assert git is not None
    samples = bench.compare(
        {
            "python -I -S -c pass": bench.python(here, "-I", "-S", "-c", "pass"),
            "python -I -c pass": bench.python(here, "-I", "-c", "pass"),
            "+ import sqlite3, hashlib, orjson": bench.python(here, "-I", "-c", _IMPORTS),
            "+ import click": bench.python(here, "-I", "-c", f"{_IMPORTS}, click"),
            "+ import click, json, re": bench.python(here, "-I", "-c", f"{_IMPORTS}, click, json, re"),
            "import pygit2 alone": bench.python(here, "-I", "-c", "import pygit2"),
            "git --version": Command([git, "--version"], here),
        }
    )
    for name, taken in samples.items():
        bench.add_time(name, taken)
    bench.add("raw Ed25519 verifications, 1 process", raw_rate(1), "/s")
    bench.add(f"raw Ed25519 verifications, {cores()} processes", raw_rate(cores()), "/s")
    rate = raw_rate(cores(), library="libsodium")
    bench.add(f"raw Ed25519 verifications by libsodium, {cores()} processes", rate, "/s")
    built = bench.workshop.get(bench.sizes[-1])
    bench.add(
        "raw libgit2 reads of memory.json",
        _read_rate(str(built.common), built.meta.tips[built.meta.main_ref]),
        "/s",
        size=built.memories,
    )


def _read_rate(common: str, tip: str, seconds: float = 1.0) -> float:
    """Blobs read a second, in an order that no cache foresees."""
    repository = pygit2.Repository(common)
    blobs: list[pygit2.Oid] = []
    at: Any = repository[tip]
    while len(blobs) < 4000:
        blobs.append(at.tree["memory.json"].id)
        if not at.parents:
            break
        at = at.parents[0]
    random.Random(0).shuffle(blobs)
    done, started = 0, time.perf_counter()
    while (passed := time.perf_counter() - started) < seconds:
        for oid in blobs[:256]:
            repository.odb.read(oid)
        blobs = blobs[256:] + blobs[:256]
        done += min(256, len(blobs))
    return done / passed


SECTION = Section("floor", "what nothing built of these parts can beat", _run)
