"""Three actors, three clones, one remote, random operations: after everyone synced twice, all project the same rows.

HN_SYNC_RUNS sets how many runs (200), HN_SYNC_STEPS how many steps each has (30). The runs
are dealt to groups, so that they spread over all cores, and live in memory where the system has a place for that:
what costs time here is the disk and the starting of Git, and every sync is a real one with everything that Git does.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
from world import bare, clone, fsck, git, refs

import hn_memory
from hn_memory.protocol.query import Request

RUNS = int(os.environ.get("HN_SYNC_RUNS", "200"))
STEPS = int(os.environ.get("HN_SYNC_STEPS", "30"))
GROUPS = 20
NAMES = ("ada", "bea", "cyd")
# Everything that costs more than it finds is looked at in one run of so many.
THOROUGH = 10


@pytest.fixture(scope="module")
def template(fast: Path) -> Path:
    """A bare remote and three clones, to be copied: making them costs more than a run does."""
    top = fast / "template"
    top.mkdir()
    empty = top / "empty"
    empty.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_TEMPLATE_DIR", str(empty))
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "x")
            patch.setenv(f"GIT_{role}_EMAIL", "x@example.org")
        remote = bare(top / "remote.git")
        git(remote, "config", "receive.autogc", "false")
        git(remote, "config", "core.fsync", "none")
        for name in NAMES:
            path = clone(f"file://{remote}", top / name)
            # Relative, so that a copy of the whole finds its own.
            git(path, "remote", "set-url", "origin", "../remote.git")
            with hn_memory.open_repository(path) as service:
                service.init(name.title())
    return top


class Run:
    """One random story."""

    def __init__(self, top: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.top = top
        self.services = [hn_memory.open_repository(top / name) for name in NAMES]
        self.known: list[list[str]] = [[] for _ in NAMES]
        self.own: list[list[str]] = [[] for _ in NAMES]
        self.count = 0

    def close(self) -> None:
        for service in self.services:
            service.close()

    def step(self) -> None:
        who = self.random.randrange(len(NAMES))
        service, own = self.services[who], self.own[who]
        weights = {"record": 6, "sync": 4, "supersede": 3, "retract": 1, "challenge": 3, "new": 1, "upkeep": 0.3}
        (what,) = self.random.choices(list(weights), list(weights.values()))
        self.count += 1
        arguments = hn_memory.RecordArguments(
            kind=self.random.choice(["decision", "observation"]), content=f"text {self.count}", topics=("t",)
        )
        if what == "record" or (what in ("supersede", "retract") and not own):
            own.append(service.record(arguments)["memoryId"])
        elif what == "new":
            own.append(service.record(arguments._replace(stream="new"))["memoryId"])
        elif what == "supersede":
            own.append(service.record(arguments, target=self.random.choice(own))["memoryId"])
        elif what == "retract":
            service.retract(self.random.choice(own), "incorrect")
        elif what == "challenge":
            records = [entry["id"] for entry in service.log()["entries"] if "kind" in entry]
            if records:
                service.challenge(self.random.choice(sorted(records)), "not-measured")
        elif what == "upkeep":
            where = self.top / self.random.choice([*NAMES, "remote.git"])
            git(where, *self.random.choice([("gc", "-q"), ("pack-refs", "--all"), ("repack", "-qad")]))
        else:
            self.sync(who)

    def sync(self, who: int) -> None:
        document = self.services[who].sync("origin")
        assert document["complete"], document

    def look(self, seed: int) -> None:
        """Everybody has accepted what is published, the next sync brings nothing, and a clone is whole."""
        published = refs(self.top / "remote.git", "refs/hn")
        assert published
        for who, name in enumerate(NAMES):
            accepted = refs(self.top / name, "refs/hn/remotes")
            assert sorted(accepted.values()) == sorted(published.values()), f"seed {seed}"
            assert {row["outcome"] for row in self.services[who].sync("origin")["outcomes"]} == {"unchanged"}
        fsck(self.top / NAMES[seed % len(NAMES)])

    def rows(self, who: int) -> str:
        request = Request(at="HEAD", lifecycle=("all",), include_untrusted=True, max_records=10_000)
        page = self.services[who].recall(request)
        return json.dumps([page["matched"], page["memories"], page["missingDependencies"]])


@pytest.mark.parametrize("group", range(GROUPS))
def test_all_clones_project_the_same_rows(group: int, template: Path, fast: Path) -> None:
    for seed in range(group, RUNS, GROUPS):
        thorough = seed // GROUPS % THOROUGH == 0
        top = fast / str(seed)
        shutil.copytree(template, top)
        run = Run(top, seed)
        try:
            for _ in range(STEPS):
                run.step()
            for _ in range(2):
                for who in range(len(NAMES)):
                    run.sync(who)
            rows = [run.rows(who) for who in range(len(NAMES))]
            assert rows[0] == rows[1] == rows[2], f"seed {seed}"
            if thorough:
                run.look(seed)
        finally:
            run.close()
        shutil.rmtree(top)
