"""Clones, real remotes and forged streams for the tests of replication."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import hn_memory
from hn_memory.protocol.commit import commit_object, tree_object
from hn_memory.protocol.envelope import Envelope, encode_envelope
from hn_memory.protocol.gitobject import object_id
from hn_memory.protocol.identifiers import derived_stream, fingerprint, local_ref, memory_id
from hn_memory.protocol.record import Anchor, Applicability, Record
from hn_memory.protocol.signing import encode_base64, encode_signature, public_key_of, sign
from hn_memory.repository.base import ObjectFormat, ObjectType
from hn_memory.repository.pack import pack

ANCHOR = "1" * 40


def git(where: Path | str, *arguments: str, stdin: bytes = b"", ok: bool = True) -> str:
    """Run Git there; its stdout."""
    done = subprocess.run(["git", "-C", str(where), *arguments], input=stdin, capture_output=True, check=False)
    assert done.returncode == 0 or not ok, (arguments, done.stderr)
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def refs(where: Path | str, *prefixes: str) -> dict[str, str]:
    """Refs and what they hold."""
    listed = git(where, "for-each-ref", "--format=%(refname) %(objectname)", *prefixes)
    return dict(line.split(" ") for line in listed.splitlines())  # type: ignore[misc]


def bare(path: Path, *flags: str) -> Path:
    """A bare repository."""
    git(path.parent, "init", "-q", "--bare", "-b", "main", *flags, str(path))
    return path


def clone(url: str, path: Path, *flags: str) -> Path:
    """A clone of it with one commit, which it pushes if the remote has none."""
    git(path.parent, "clone", "-q", *flags, url, str(path))
    if not git(path, "rev-parse", "-q", "--verify", "HEAD", ok=False):
        (path / "app.py").write_text("print()\n")
        git(path, "add", ".")
        git(path, "commit", "-qm", "Start")
        git(path, "push", "-q", "origin", "HEAD:refs/heads/main")
    return path


def service(path: Path) -> hn_memory.Service:
    """The service over a repository, by Git as the command line uses it."""
    return hn_memory.open_repository(path, backend="git")


def person(path: Path, name: str) -> str:
    """Make an identity there; its actor ID."""
    with service(path) as opened:
        return str(opened.init(name)["identity"]["actor"])


def say(path: Path, *texts: str, stream: str | None = None) -> list[str]:
    """Record decisions; their memory IDs."""
    arguments = [hn_memory.RecordArguments(kind="decision", content=text) for text in texts]
    with service(path) as opened:
        return [row["memoryId"] for row in opened.record_all(arguments, stream=stream)]


def sync(path: Path, target: str | None = "origin", **options: Any) -> dict[str, Any]:
    """Sync there; the document."""
    with service(path) as opened:
        return opened.sync(target, **options)


def words(document: dict[str, Any]) -> list[str]:
    """The outcome words of a sync, sorted."""
    return sorted(row["outcome"] for row in document["outcomes"])


def outcome(document: dict[str, Any], stream: str) -> dict[str, Any]:
    """The outcome of one stream."""
    (row,) = [row for row in document["outcomes"] if row["stream"] == stream]
    assert isinstance(row, dict)
    return row


def texts(path: Path) -> list[str]:
    """Contents of all records there, sorted."""
    with service(path) as opened:
        return sorted(entry["content"] for entry in opened.log()["entries"] if "content" in entry)


def fsck(path: Path) -> None:
    """Everything in the repository is whole."""
    done = subprocess.run(
        ["git", "-C", str(path), "-c", "core.fsmonitor=false", "fsck", "--strict"],
        capture_output=True,
        text=True,
        check=False,
    )
    problems = [
        line for line in (done.stdout + done.stderr).splitlines() if not line.startswith(("dangling", "notice"))
    ]
    assert done.returncode == 0 and not problems, problems


class Author:
    """A key chosen by a number, and everything an owner or an attacker makes with it."""

    def __init__(self, number: int, name: str = "Ada") -> None:
        self.seed = hashlib.sha256(str(number).encode()).digest()
        self.name = name
        key = public_key_of(self.seed)
        self.public_key = encode_base64(key)
        self.actor = fingerprint(key)

    def stream(self, label: str = "default") -> str:
        return derived_stream(self.actor, label)


class Store:
    """Objects on their way into a repository, and the refs to set there."""

    def __init__(self, path: Path, object_format: ObjectFormat = "sha1") -> None:
        self.path = path
        self.format = object_format
        self.objects: dict[tuple[ObjectType, bytes], None] = {}

    def add(self, kind: ObjectType, data: bytes) -> str:
        self.objects[kind, data] = None
        return object_id(kind, data, self.format)

    def flush(self) -> None:
        """Write what was added, in one go and without any check."""
        if self.objects:
            verb = ["unpack-objects", "-q"] if len(self.objects) < 500 else ["index-pack", "--stdin"]
            git(self.path, *verb, stdin=pack(list(self.objects), self.format))
        self.objects.clear()

    def point(self, ref: str, commit: str) -> None:
        self.flush()
        git(self.path, "update-ref", ref, commit)


class Forge:
    """One stream, honest unless told otherwise. Every method answers the commit it made."""

    def __init__(self, store: Store, author: Author, stream: str | None = None) -> None:
        self.store = store
        self.author = author
        self.stream = stream or author.stream()
        self.commits: list[str] = []
        self.ids: list[str] = []

    @property
    def ref(self) -> str:
        return local_ref(self.author.actor, self.stream)

    def envelope(self, content: str, **changes: Any) -> Envelope:
        count = len(self.commits)
        fields: dict[str, Any] = {
            "operation": "record",
            "actor": self.author.actor,
            "actor_name": self.author.name,
            "public_key": self.author.public_key,
            "stream": self.stream,
            "sequence": count + 1,
            "timestamp": "2026-10-01T17:02:11Z",
            "previous": self.ids[-1] if count else None,
            "record": Record("decision", content, Anchor(changes.pop("anchor", ANCHOR)), Applicability("descendants")),
        }
        return Envelope(**(fields | changes))

    def append(
        self,
        content: str = "text",
        *,
        signer: Author | None = None,
        signature: bytes | None = None,
        parents: Sequence[str] | None = None,
        extra: Iterable[tuple[str, str, ObjectType, bytes]] = (),
        mode: str = "100644",
        raw_commit: bytes | None = None,
        memory_tree: bool = False,
        keep: bool = True,
        **changes: Any,
    ) -> str:
        """Append a commit; the keywords say what is wrong with it."""
        envelope = self.envelope(content, **changes)
        payload = encode_envelope(envelope)
        signed = signature if signature is not None else encode_signature(sign((signer or self.author).seed, payload))
        memory, signature_oid = self.store.add("blob", payload), self.store.add("blob", signed)
        tree = tree_object(memory, signature_oid)
        if memory_tree:
            inner = self.store.add("tree", b"100644 x\0" + bytes.fromhex(memory))
            tree = b"40000 memory.json\0" + bytes.fromhex(inner) + b"100644 signature\0" + bytes.fromhex(signature_oid)
        if mode != "100644":
            tree = tree.replace(b"100644 memory.json", f"{mode} memory.json".encode())
        for name, entry_mode, kind, data in extra:
            tree += f"{entry_mode} {name}".encode() + b"\0" + bytes.fromhex(self.store.add(kind, data))
        parent = self.commits[-1] if self.commits else None
        body = commit_object(envelope, memory_id(payload), self.store.add("tree", tree), parent)
        if parents is not None:
            head, _, rest = body.partition(b"\nauthor ")
            lines = [line for line in head.split(b"\n") if not line.startswith(b"parent ")]
            lines += [b"parent " + one.encode() for one in parents]
            body = b"\n".join(lines) + b"\nauthor " + rest
        if raw_commit is not None:
            head = body.partition(b"\nauthor ")[0]
            body = head + b"\n" + raw_commit
        commit = self.store.add("commit", body)
        if keep:
            self.commits.append(commit)
            self.ids.append(memory_id(payload))
        return commit

    def grow(self, count: int, text: str = "text") -> Forge:
        for number in range(count):
            self.append(f"{text} {number}")
        return self

    def publish(self, commit: str | None = None) -> Forge:
        self.store.point(self.ref, commit or self.commits[-1])
        return self


def environment(home: Path) -> dict[str, str]:
    """An environment for whole processes, with nothing of this machine in it."""
    return {"HOME": str(home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
