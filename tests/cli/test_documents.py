"""The JSON of every command as one snapshot, with IDs, times and sizes normalised.

Run with HN_UPDATE_SNAPSHOTS=1 to record a change of form, which then shows in review.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_harness import SNAPSHOTS, UPDATE, Hn, git

ZERO = "sha256:" + "0" * 64


class Normaliser:
    """Names what changes from run to run by kind and order of appearance."""

    _PATTERN = re.compile(
        r"(?P<cursor>[A-Za-z0-9_-]{100,}\.[0-9a-f]{64})|(?P<digest>sha256:[0-9a-f]{64})|(?P<hex>(?<![0-9a-f])[0-9a-f]{64}"
        r"(?![0-9a-f]))|(?P<oid>(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f]))|(?P<time>\d{4}-\d\d-\d\dT[0-9:.]+Z)"
        r"|(?P<key>[A-Za-z0-9+/]{43}(?![A-Za-z0-9+/]))"
    )

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def _name(self, found: re.Match[str]) -> str:
        kind, text = found.lastgroup, found[0]
        if kind in ("time", "cursor", "key"):
            return f"<{kind}>"
        if text == ZERO:
            return text
        count = sum(name.startswith(f"<{kind} ") for name in self.names.values())
        return self.names.setdefault(text, f"<{kind} {count + 1}>")

    def __call__(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._PATTERN.sub(self._name, key): self(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self(item) for item in value]
        if isinstance(value, float):
            return "<score>"  # seconds between two records are in it
        return self._PATTERN.sub(self._name, value) if isinstance(value, str) else value


def play(hn: Hn) -> dict[str, Any]:
    """One story that meets every command; the documents by the command that gave them."""
    documents: dict[str, Any] = {}
    normalise = Normaliser()
    ada, absent = "", "sha256:" + "1" * 64

    def run(title: str, *arguments: str, status: int = 0, stdin: str = "", env: dict[str, str] | None = None) -> Any:
        answer = hn(*arguments, "--json", stdin=stdin.encode(), env=env)
        assert answer.status == status, (title, answer)
        document = answer.json
        if "streams" in document:
            document["streams"].sort(key=lambda row: row["memories"])  # by ref, and so by chance
        for name in ("outcomes", "offers", "tips"):
            document.get(name, []).sort(key=lambda row: (row.get("sequence", 0), row["actor"] == ada))
        for selection in [document.get("selection", {}), *document.get("selections", [])]:
            selection.get("memories", []).sort(key=lambda stream: stream == absent)
        documents[title] = normalise(document)
        return document

    run("hn version", "version")
    run("hn memory index verify (none)", "memory", "index", "verify", status=3)
    run("hn memory recall (nobody yet)", "memory", "recall")
    run("hn identity list (none)", "identity", "list")
    run("hn policy show (none)", "policy", "show")
    ada = run("hn init", "init")["identity"]["actor"]
    run("hn policy trust", "policy", "trust", ada, "--kind", "decision", "--kind", "handoff", "--kind", "attempt")
    run("hn policy check", "policy", "check")
    git("add", ".hn")
    git("commit", "-qm", "Trust")
    run("hn policy show", "policy", "show")
    head = git("rev-parse", "HEAD")
    record = ("memory", "record", "-k", "decision")
    first = run(
        "hn memory record",
        *(
            *record,
            "-t",
            "Storage",
            "-p",
            "app.py",
            "-e",
            f"git:{head}",
            "--subject",
            f"issue:{ZERO}",
            "Rows in SQLite.",
        ),
    )["memoryId"]
    run("hn memory show (record)", "memory", "show", first[:20])
    second = run("hn memory supersede", "memory", "supersede", first, "-k", "decision", "Rows in SQLite 3.")["memoryId"]
    run("hn memory show (supersede)", "memory", "show", second)
    request = {
        "version": 0, "kind": "attempt", "content": "Tried WAL.", "anchor": {"commit": head}, "topics": ["storage"],
        "applicability": {"mode": "exact"}, "attemptOutcome": "no-gain", "evidence": [],
    }  # fmt: skip
    run("hn memory record --input", "memory", "record", "--input", "-", stdin=json.dumps(request))
    run(
        "hn memory handoff",
        "memory",
        "handoff",
        "Half done.",
        "--completed",
        "a",
        "--blocker",
        "b",
        "--next-action",
        "c",
    )
    wrong = run("hn memory record (to retract)", *record, "The moon is near.")["memoryId"]
    retraction = run("hn memory retract", "memory", "retract", wrong, "-r", "incorrect")["memoryId"]
    run("hn memory show (retract)", "memory", "show", retraction)
    reviewer = run("hn identity new", "identity", "new", "Reviewer")["identity"]["actor"]
    as_reviewer = {"HN_ACTOR": reviewer}
    run(
        "hn memory challenge",
        *("memory", "challenge", second, "-r", "not-measured", "-e", f"memory:{first}"),
        env=as_reviewer,
    )
    run("hn memory record (a kind not trusted)", "memory", "record", "-k", "observation", "It is slow.")
    run("hn memory record (an actor not trusted)", *record, "Use files.", env=as_reviewer)
    run("hn memory record (missing evidence)", *record, "Seen elsewhere.", "-e", f"memory:{ZERO}")
    run("hn memory recall", "memory", "recall")
    page = run("hn memory recall (a page)", "memory", "recall", "--lifecycle", "all", "--include-untrusted", "-n", "2")
    run(
        "hn memory recall (the next page)",
        *("memory", "recall", "--lifecycle", "all", "--include-untrusted", "-n", "2", "--cursor", page["nextCursor"]),
    )
    run(
        "hn memory recall (a stale cursor)",
        *("memory", "recall", "--include-untrusted", "-n", "2", "--cursor", page["nextCursor"]),
        status=2,
    )
    run("hn memory recall (no match)", "memory", "recall", "-q", "nothing like it", "-p", "app.py")
    run(
        "hn memory recall --input",
        "memory",
        "recall",
        "--input",
        "-",
        stdin=json.dumps({"version": 0, "atCommit": head}),
    )
    run("hn memory grep", "memory", "grep", "^(?:Rows|Half)|^c$")
    run("hn memory grep (a page)", "memory", "grep", "-i", "--lifecycle", "all", "-n", "1", "ROWS")
    run("hn memory search", "memory", "search", "where do rows live?", "--check-evidence")
    run("hn memory search --path", "memory", "search", "--path", "app.py", "--subject", f"issue:{ZERO}")
    run("hn memory search (nothing asked)", "memory", "search", status=2)
    run("hn memory search (no embedder)", "memory", "search", "--mode", "hybrid", "-n", "1", "moon")
    run("hn memory duplicates", "memory", "duplicates", "--lifecycle", "all")
    run("hn memory grep (an invalid pattern)", "memory", "grep", "a(?=b)", status=2)
    run("hn memory log -n", "memory", "log", "-n", "9")
    run("hn memory log --actor", "memory", "log", "--actor", reviewer)
    run("hn memory streams", "memory", "streams")
    run("hn memory streams --use", "memory", "streams", "--use", ZERO)
    run("hn memory verify", "memory", "verify")
    run("hn memory index verify (no snapshot)", "memory", "index", "verify")
    run("hn memory index rebuild", "memory", "index", "rebuild")
    run("hn memory index verify", "memory", "index", "verify")
    run("hn memory index status", "memory", "index", "status")
    for title in ("hn memory index rebuild", "hn memory index status"):
        documents[title] |= {name: "<size>" for name in documents[title] if name.lower().endswith("bytes")}
    run("hn identity show", "identity", "show")
    run("hn identity public", "identity", "public", ada)
    run("hn identity use", "identity", "use", ada)
    names = [row["name"] for row in run("hn identity list", "identity", "list")["identities"]]
    documents["hn identity list"]["identities"].sort(key=lambda row: row["name"])
    assert sorted(names) == ["Ada", "Reviewer"]
    git("init", "-q", "--bare", "../server.git")
    git("remote", "add", "origin", "../server.git")
    git("push", "-q", "origin", "HEAD:refs/heads/main")
    run("hn replication discover (nothing yet)", "replication", "discover", "origin")
    published = run("hn sync (publishes)", "sync")
    git("clone", "-q", "../server.git", "../bea")
    there = ("-C", "../bea")
    for title in ("recall (a remote never asked)", "init (a remote never asked)"):
        words = ("memory", "recall") if title.startswith("recall") else ("init",)
        run(f"hn {' '.join(words)} ({title.partition('(')[2]}", *there, *words)
    run("hn replication discover", *there, "replication", "discover", "origin")
    run("hn memory recall (a remote with streams)", *there, "memory", "recall")
    run("hn replication select --from-policy", *there, "replication", "select", "origin", "--from-policy")
    stream = next(row["stream"] for row in published["outcomes"] if row["actor"] == ada)
    run("hn replication select", *there, "replication", "select", "origin", "--memory", stream, "--memory", absent)
    run("hn replication show", *there, "replication", "show")
    run("hn sync (partial)", *there, "sync", status=5)
    run("hn replication tips", *there, "replication", "tips")
    (ref,) = [row["ref"] for row in run("hn memory streams (accepted)", *there, "memory", "streams")["streams"]]
    git("-C", "../server.git", "update-ref", "-d", ref.replace("remotes/origin/", ""))
    run("hn sync (withdrawn)", *there, "sync", "--no-push", status=5)
    run(
        "hn replication tips accept",
        *(*there, "replication", "tips", "accept", "origin", stream, "--reason", "Ada took it back"),
    )
    run("hn replication gaps", *there, "replication", "gaps")
    run("hn sync (no such remote)", "sync", "nowhere", status=3)
    run("hn memory export", *there, "memory", "export", "--bundle", "../all.bundle")
    documents["hn memory export"]["bytes"] = "<size>"
    run("hn memory verify FILE", "memory", "verify", "../all.bundle")
    run("hn sync FILE", "sync", "../all.bundle", "--as", "courier")
    run("hn policy untrust", "policy", "untrust", ada)
    run("hn memory show (unknown)", "memory", "show", "0" * 8, status=3)
    run("a usage error", "memory", "recall", "words", status=2)
    run("a refusal", *record, "", status=1)
    git("init", "-q", "../other")
    run("hn identity import", "-C", "../other", "identity", "import", str(Path.cwd()), "--actor", reviewer)
    return documents


def test_documents_are_as_recorded(repository: Path, hn: Hn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
    documents = play(hn)
    snapshot = SNAPSHOTS / "documents.json"
    if UPDATE:
        snapshot.write_text(json.dumps(documents, indent=1, ensure_ascii=False) + "\n")
    recorded = json.loads(snapshot.read_text())
    assert list(documents) == list(recorded)
    for title, document in documents.items():
        assert document == recorded[title], title
        assert json.dumps(document) == json.dumps(recorded[title]), f"{title}: the order of the fields"


def test_no_document_holds_a_private_key(repository: Path, hn: Hn) -> None:
    text = json.dumps(play(hn))
    assert "privateKey" not in text
    for path in (repository / ".git" / "hn" / "identities").iterdir():
        assert json.loads(path.read_text())["privateKey"] not in text
