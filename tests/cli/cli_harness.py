"""What the tests of the command line share: an answer, and the shortest ways to say things."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UPDATE = os.environ.get("HN_UPDATE_SNAPSHOTS") == "1"
SNAPSHOTS = Path(__file__).parent / "snapshots"


@dataclass(frozen=True)
class Answer:
    """What one command gave."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> dict[str, Any]:
        """Stdout as exactly one JSON document on one line."""
        assert self.out.endswith(b"\n") and self.out.count(b"\n") == 1, self.out
        document = json.loads(self.out)
        assert isinstance(document, dict)
        assert document["version"] == 0
        return document

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.json["error"]
        assert {"code", "message", "hint"} <= set(error) <= {"code", "message", "hint", "field"}
        return error

    def done(self) -> Answer:
        assert self.status == 0, (self.status, self.out, self.err)
        return self


Hn = Callable[..., Answer]


class Stream(io.TextIOWrapper):
    def __init__(self, data: bytes = b"") -> None:
        self.bytes = io.BytesIO(data)
        super().__init__(self.bytes, "utf-8", write_through=True)


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def record(hn: Hn, text: str = "Rows live in SQLite.", *flags: str) -> str:
    """Record a decision; its memory ID."""
    memory_id: str = hn("memory", "record", "-k", "decision", "-m", text, "--json", *flags).done().json["memoryId"]
    return memory_id
