"""Every answer of the reference implementation, through the service, on every backend that opens the clone.

The expectations are the reference's own. We may add top-level fields to a document, never change one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hn_memory import HnError, Request, Service, open_repository

VECTORS = Path(__file__).parents[2] / "fixtures" / "vectors"
LISTS = {
    "--topic": "topics",
    "--kind": "kinds",
    "--actor": "actors",
    "--lifecycle": "lifecycle",
    "--trust": "trust",
}
CASES = [
    ("plain", "git", "repository-expect.jsonl"),
    ("plain", "libgit2", "repository-expect.jsonl"),
    ("sha256", "git", "repository-sha256-expect.jsonl"),
    ("shallow", "git", "repository-shallow-expect.jsonl"),
    ("shallow", "libgit2", "repository-shallow-expect.jsonl"),
]


def git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("vectors")
    git("clone", "--mirror", str(VECTORS / "repository.bundle"), str(base / "plain"))
    git("clone", "--mirror", str(VECTORS / "repository-sha256.bundle"), str(base / "sha256"))
    origin = f"file://{base / 'plain'}"
    git("clone", "--no-tags", "--single-branch", "--depth", "1", origin, str(base / "shallow"))
    git("-C", str(base / "shallow"), "fetch", "origin", "+refs/hn/*:refs/hn/*")
    return {name: base / name for name in ("plain", "sha256", "shallow")}


@pytest.fixture(params=CASES, ids=["-".join(case[:2]) for case in CASES])
def opened(request: pytest.FixtureRequest, clones: dict[str, Path], tmp_path: Path) -> Iterator[tuple[Service, str]]:
    clone, backend, expectations = request.param
    copy = tmp_path / clone
    shutil.copytree(clones[clone], copy)
    with open_repository(copy, backend=backend) as service:
        assert service.environment.repository.backend == backend
        yield service, expectations


def recall_request(arguments: list[str]) -> Request:
    values: dict[str, Any] = {"at": "HEAD"}
    words = iter(arguments)
    for word in words:
        if word == "--json":
            continue
        if word == "--include-untrusted":
            values["include_untrusted"] = True
        elif word in LISTS:
            values[LISTS[word]] = (*values.get(LISTS[word], ()), next(words))
        elif word in ("--max-records", "--max-content-bytes"):
            values[word[2:].replace("-", "_")] = int(next(words))
        elif word in ("--at", "--subject", "--path", "--query", "--cursor"):
            values[word[2:]] = next(words)
        else:
            raise HnError("usage", f"not an argument of recall: {word}")
    return Request(**values)


def answer(service: Service, arguments: list[str]) -> dict[str, Any]:
    match arguments:
        case ["recall", *rest]:
            return service.recall(recall_request(rest))
        case ["show", memory, *_]:
            return service.show(memory)
        case ["index", "rebuild"]:
            return service.index_rebuild()
        case ["index", "verify"]:
            return service.index_verify()
    raise AssertionError(f"unknown vector {arguments}")


def test_service_gives_the_reference_answers(opened: tuple[Service, str]) -> None:
    service, expectations = opened
    checked = 0
    for line in (VECTORS / expectations).read_bytes().splitlines():
        vector = json.loads(line)
        if "args" not in vector:
            snapshot = service.environment.repository.layout.common_dir / "hn/memory/index-v0.json"
            assert json.loads(snapshot.read_bytes()) == vector["index"]
            checked += 1
            continue
        try:
            document = answer(service, vector["args"])
        except HnError as error:
            assert not vector["ok"], (vector["args"], error.code, error.message)
            checked += 1
            continue
        assert vector["ok"], vector["args"]
        expected = vector.get("json") or {}
        assert {name: document.get(name) for name in expected} == expected, vector["args"]
        if vector["args"][0] == "recall":
            receipt = document["receipt"]
            assert receipt["considered"] == document["matched"] + sum(receipt["withheld"].values())
        checked += 1
    assert checked > 100
