"""Repositories for the tests of the index, and writers that are not the product.

`Twins` are two clones of one project: `here`, where the index lives, and `there`, somebody else's, which has
commits that `here` lacks at first. `Pen` signs and stores memories with libgit2 alone, as another tool would:
it takes no lock, asks nothing, and writes what an honest client refuses, too.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pygit2
from oracle import Oracle

from hn_memory import HnError, Request, Service, open_repository
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.commit import memory_objects
from hn_memory.protocol.envelope import encode_envelope
from hn_memory.protocol.identifiers import derived_stream, local_ref, memory_id
from hn_memory.protocol.identity import Identity, encode_identity, new_identity
from hn_memory.protocol.record import Anchor, Applicability, Record
from hn_memory.protocol.signing import encode_base64, encode_signature, sign
from hn_memory.repository.open import open_repository as open_backend
from hn_memory.repository.private import PrivateFiles
from hn_memory.repository.writer import Statement, next_envelope

PEOPLE = [new_identity(name, bytes([number]) * 32) for number, name in enumerate(("Ada", "Bob", "Chloë"), 1)]
ADA, BOB, CHLOE = PEOPLE
INSTANT = "2026-10-01T17:02:11Z"
TYPES = {"commit": 1, "tree": 2, "blob": 3}


MEMORY = Path("/dev/shm")
ENOUGH = 1 << 30


@contextmanager
def new_directory() -> Iterator[Path]:
    """A directory of our own, in memory where there is plenty."""
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ENOUGH
    path = Path(tempfile.mkdtemp(prefix="index-tests-", dir=MEMORY if roomy else None))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def git(where: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(where), *arguments], check=True, capture_output=True)
    return done.stdout.decode().strip()


def stream_of(identity: Identity, label: str = "default") -> str:
    return derived_stream(identity.actor, label)


@dataclass
class Code:
    """Commits and blobs of the project's code, by name."""

    commits: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    later: tuple[str, ...] = ("future-1", "future-2")


@dataclass
class Twins:
    """Two clones of one project. `there` alone has the branch `future`."""

    here: Path
    there: Path
    code: Code
    pen: Pen
    far: Pen

    def __enter__(self) -> Twins:
        return self

    def __exit__(self, *_: object) -> None:
        self.pen.repo.free()
        self.far.repo.free()

    @property
    def private(self) -> Path:
        return self.here / ".git" / "hn"

    @property
    def database(self) -> Path:
        return self.private / "memory" / "index.sqlite"

    def service(self, backend: str = "libgit2", actor: str | None = None) -> Service:
        return open_repository(self.here, backend=backend, actor=actor)

    def fetch(self, *refspecs: str, prune: bool = False) -> None:
        flags = ["--prune"] if prune else []
        git(self.here, "fetch", "--quiet", "--no-tags", *flags, str(self.there), *refspecs)


class Pen:
    """Writes memories into one repository, and remembers the chains it made."""

    def __init__(self, path: Path) -> None:
        self.repo = pygit2.Repository(str(path))
        self.heads: dict[str, ChainHead] = {}
        self.parents: dict[str, str | None] = {}

    def store(self, kind: str, data: bytes) -> str:
        return str(self.repo.odb.write(TYPES[kind], data))

    def commit(
        self,
        identity: Identity,
        stream: str,
        statement: Statement,
        parent: str | None,
        instant: str = INSTANT,
        message: str = "",
        signer: Identity | None = None,
    ) -> str:
        """Store the memory that follows a commit; no ref moves. A `message` gives the same memory another commit,
        another `signer` a signature that does not hold."""
        head = None if parent is None else self.heads[parent]
        sequence, previous = (0, None) if head is None else (head.sequence, head.memory_id)
        envelope = next_envelope(identity, stream, statement, sequence, previous, instant)
        payload = encode_envelope(envelope)
        return self.carry(payload, signer or identity, parent, message, envelope)

    def carry(self, payload: bytes, signer: Identity, parent: str | None, message: str, envelope: Any) -> str:
        name = memory_id(payload)
        signature = encode_signature(sign(signer.seed, payload))
        _, objects = memory_objects(envelope, payload, signature, name, parent, "sha1")
        oid = ""
        for kind, data in objects:
            oid = self.store(kind, data + message.encode() if kind == "commit" else data)
        self.heads[oid] = ChainHead(envelope.sequence, name, oid)
        self.parents[oid] = parent
        return oid

    def point(self, ref: str, oid: str) -> None:
        self.repo.references.create(ref, oid, force=True)

    def drop(self, ref: str) -> None:
        self.repo.references.delete(ref)

    def tip(self, ref: str) -> str | None:
        found = self.repo.references.get(ref)
        return None if found is None or isinstance(found.target, str) else str(found.target)

    def append(self, identity: Identity, statement: Statement, label: str = "default", instant: str = INSTANT) -> str:
        """Append to a local stream; the memory ID."""
        stream = stream_of(identity, label)
        ref = local_ref(identity.actor, stream)
        tip = self.tip(ref)
        if tip is not None:
            self.learn(tip)
        oid = self.commit(identity, stream, statement, tip, instant)
        self.point(ref, oid)
        return self.heads[oid].memory_id

    def chain(self, tip: str | None) -> list[str]:
        """The commits from a tip down to the first."""
        found = []
        while tip is not None:
            found.append(tip)
            tip = self.parents.get(tip)
        return found

    def payload(self, oid: str) -> bytes:
        """The `memory.json` of a commit."""
        return bytes(self.repo[oid].peel(pygit2.Tree)["memory.json"].data)

    def learn(self, tip: str) -> None:
        """Take in a chain that somebody else wrote."""
        new: list[str] = []
        oid: str | None = tip
        while oid is not None and oid not in self.heads:
            new.append(oid)
            links = self.repo[oid].parent_ids
            before = str(links[0]) if links else None
            self.parents[oid] = before
            oid = before
        for oid in new:
            payload = self.payload(oid)
            self.heads[oid] = ChainHead(json.loads(payload)["sequence"], memory_id(payload), oid)

    def event(self, identity: Identity, body: str, ref: str | None = None, signer: Identity | None = None) -> str:
        """Commit a collaboration event on an actor's ref; its event ID."""
        payload = event_payload(identity, body)
        signature = encode_signature(sign((signer or identity).seed, payload))
        builder = self.repo.TreeBuilder()
        builder.insert("event.json", self.store("blob", payload), 0o100644)
        builder.insert("signature", self.store("blob", signature), 0o100644)
        builder.insert("notes", self.store("blob", b"beside"), 0o100644)
        ref = ref or f"refs/hn/actors/{identity.actor}"
        tip = self.tip(ref)
        self.point(ref, self._commit(str(builder.write()), [] if tip is None else [tip], body))
        return memory_id(payload)

    def code(self, parents: Sequence[str], files: dict[str, bytes | None], message: str = "code") -> str:
        """A commit of code over the first of its parents, with some files changed (None: removed)."""
        tree = None if not parents else self.repo[parents[0]].peel(pygit2.Tree)
        for path, data in files.items():
            tree = self._with(tree, path.split("/"), data)
        assert tree is not None
        return self._commit(str(tree.id), list(parents), message)

    def _with(self, tree: pygit2.Tree | None, parts: list[str], data: bytes | None) -> pygit2.Tree:
        builder = self.repo.TreeBuilder() if tree is None else self.repo.TreeBuilder(tree)
        name, *rest = parts
        if rest:
            below = tree[name] if tree is not None and name in tree else None
            inner = self._with(below if isinstance(below, pygit2.Tree) else None, rest, data)
            builder.insert(name, inner.id, 0o040000)
        elif data is not None:
            builder.insert(name, self.store("blob", data), 0o120000 if name == "link" else 0o100644)
        elif tree is not None and name in tree:
            builder.remove(name)
        found = self.repo[builder.write()]
        assert isinstance(found, pygit2.Tree)
        return found

    def _commit(self, tree: str, parents: list[str], message: str) -> str:
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += ["author A <a@example.org> 0 +0000", "committer A <a@example.org> 0 +0000", "", message, ""]
        return self.store("commit", "\n".join(lines).encode())


def event_payload(identity: Identity, body: str) -> bytes:
    document = {
        "protocol": "hn/0", "actor": identity.actor, "publicKey": encode_base64(identity.public_key), "body": body,
    }  # fmt: skip
    return json.dumps(document).encode()


def policy_file(actors: Sequence[str], kinds: Sequence[str]) -> bytes:
    memory = {"trustedActors": sorted(set(actors)), "trustedKinds": sorted(set(kinds))}
    return json.dumps({"version": "hn.policy/0", "memory": memory}).encode()


def observation(content: str, commit: str, **parts: Any) -> Statement:
    """A plain record that applies to all descendants of a commit."""
    anchor = Anchor(commit, parts.pop("paths", ()), parts.pop("subject", None))
    target = parts.pop("target", None)
    record = Record(parts.pop("kind", "observation"), content, anchor, Applicability("descendants"), **parts)
    return Statement("record" if target is None else "supersede", record=record, target=target)


# -- the two clones ---------------------------------------------------------------------------------------


def build_twins(base: Path) -> Twins:
    """`main` with four commits, `side` off the second, a policy that trusts Ada and Bob on the tip of `main`."""
    base.mkdir()
    for name in ("here", "there"):
        subprocess.run(["git", "init", "-q", "-b", "main", str(base / name)], check=True, capture_output=True)
        shutil.rmtree(base / name / ".git" / "hooks", ignore_errors=True)
    code = Code()
    for name in ("there", "here"):
        pen = Pen(base / name)
        made = code.commits
        made["first"] = pen.code([], {"a.txt": b"one\n", "dir/b.txt": b"b\n", "link": b"a.txt"})
        made["second"] = pen.code([made["first"]], {"a.txt": b"two\n"})
        made["third"] = pen.code([made["second"]], {"dir/b.txt": None, "c/d/e.txt": b"deep\n"})
        made["side"] = pen.code([made["second"]], {"side.txt": b"aside\n"})
        made["merged"] = pen.code([made["third"], made["side"]], {"merged.txt": b"m\n"})
        policy = policy_file([ADA.actor, BOB.actor], ["decision", "observation", "handoff", "verification"])
        made["main"] = pen.code([made["merged"]], {".hn/policy.json": policy})
        if name == "there":
            made["future-1"] = pen.code([made["main"]], {"later.txt": b"later\n"})
            made["future-2"] = pen.code([made["future-1"]], {"a.txt": b"three\n"})
            pen.point("refs/heads/future", made["future-2"])
            code.blobs["future"] = str(pen.repo[made["future-2"]].peel(pygit2.Tree)["a.txt"].id)
        tree = pen.repo[made["main"]].peel(pygit2.Tree)
        code.blobs |= {path: str(tree[path].id) for path in ("a.txt", "link", "c/d/e.txt")}
        pen.point("refs/heads/main", made["main"])
        pen.point("refs/heads/side", made["side"])
        pen.repo.free()
        git(base / name, "repack", "-adkq")
    files = PrivateFiles(base / "here" / ".git")
    for person in PEOPLE[:2]:
        files.create(f"identities/{person.actor}.json", encode_identity(person))
    files.create("active", f"{ADA.actor}\n".encode())
    return Twins(base / "here", base / "there", code, Pen(base / "here"), Pen(base / "there"))


def copy_twins(original: Twins, place: Path) -> Twins:
    place.mkdir(parents=True)
    for name in ("here", "there"):
        shutil.copytree(original.here.parent / name, place / name, symlinks=True)
    copied = Twins(place / "here", place / "there", original.code, Pen(place / "here"), Pen(place / "there"))
    for pen, source in ((copied.pen, original.pen), (copied.far, original.far)):
        pen.heads |= source.heads
        pen.parents |= source.parents
    return copied


# -- what is compared -------------------------------------------------------------------------------------


def oracle_of(place: Path | Service) -> Oracle:
    """A full scan by a backend of its own."""
    if isinstance(place, Service):
        layout = place.environment.repository.layout
    else:
        with open_repository(place) as service:
            layout = service.environment.repository.layout
    return Oracle(open_backend(layout, prefer="libgit2"))


def answer(who: Service | Oracle, request: Request) -> dict[str, Any]:
    """The document without the state of the index, or the refusal."""
    try:
        document = who.recall(request)
    except HnError as error:
        return {"error": error.code, "message": error.message}
    document["receipt"].pop("index", None)
    return document


def text_of(document: dict[str, Any]) -> str:
    """JSON that shows the order of fields, too."""
    return json.dumps(document)


def same_answers(services: Sequence[Service], oracle: Oracle, request: Request) -> dict[str, Any]:
    """Ask everybody and insist on one answer."""
    expected = answer(oracle, request)
    for service in services:
        found = answer(service, request)
        assert text_of(found) == text_of(expected), (request, differences(found, expected))
    if "error" not in expected:
        receipt = expected["receipt"]
        assert receipt["considered"] == expected["matched"] + sum(receipt["withheld"].values())
    return expected


def differences(found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    names = dict.fromkeys([*found, *expected])
    return {name: (found.get(name), expected.get(name)) for name in names if found.get(name) != expected.get(name)}


def everything(at: str = "HEAD", **parts: Any) -> Request:
    """No filter at all."""
    return Request(at, lifecycle=("all",), include_untrusted=True, max_records=10_000, **parts)


def is_private(database: Path) -> bool:
    """A regular file of mode 0600 below directories of mode 0700."""
    status = database.lstat()
    below = [database.parent, database.parent.parent]
    return (
        stat.S_ISREG(status.st_mode)
        and stat.S_IMODE(status.st_mode) == 0o600
        and status.st_uid == os.geteuid()
        and all(stat.S_IMODE(directory.lstat().st_mode) == 0o700 for directory in below)
    )


# -- tables without row numbers ---------------------------------------------------------------------------

_NAMES = {
    "source": (
        "SELECT ref, head, hex(link.oid), code, reason, broken, position FROM source LEFT JOIN link ON link.c = tip"
    ),
    "actor": "SELECT actor.id FROM actor",
    "stream": "SELECT actor.id, stream.id FROM stream JOIN actor USING(a)",
    "link": (
        "SELECT hex(link.oid), hex(memory.id), hex(parent.oid), stream.id, link.sequence, link.live FROM link "
        "JOIN memory USING(n) JOIN stream USING(s) LEFT JOIN link AS parent ON parent.c = link.parent"
    ),
    "memory": (
        "SELECT hex(memory.id), actor.id, kind, anchor, mode, subject, paths, class.life, memory.life, ts, size, "
        "searched FROM memory LEFT JOIN class ON k = class LEFT JOIN voice USING(v) LEFT JOIN site USING(s) "
        "LEFT JOIN actor USING(a)"
    ),
    "payload": "SELECT hex(memory.id), data FROM payload LEFT JOIN memory USING(n)",
    "voice": "SELECT actor.id, kind FROM voice JOIN actor USING(a)",
    "site": "SELECT anchor, mode, subject, paths FROM site",
    "class": (
        "SELECT actor.id, kind, anchor, mode, subject, paths, class.life, records FROM class JOIN voice USING(v) "
        "JOIN site USING(s) JOIN actor USING(a)"
    ),
    "edge": "SELECT hex(memory.id), op, actor.id, hex(target) FROM edge JOIN memory USING(n) JOIN actor USING(a)",
    "lost": "SELECT hex(memory.id) FROM lost LEFT JOIN memory USING(n)",
    "evidence": "SELECT item FROM evidence",
    "cites": "SELECT item, hex(memory.id) FROM cites LEFT JOIN evidence USING(e) LEFT JOIN memory USING(n)",
    "topic": "SELECT topic.name FROM topic",
    "tagged": "SELECT topic.name, hex(memory.id) FROM tagged LEFT JOIN topic USING(t) LEFT JOIN memory USING(n)",
    "path": "SELECT path.name FROM path",
    "bound": "SELECT path.name, hex(memory.id) FROM bound LEFT JOIN path USING(p) LEFT JOIN memory USING(n)",
    "same": "SELECT d, hex(memory.id) FROM same LEFT JOIN memory USING(n)",
    "place": (
        "SELECT hex(memory.id), actor.id, stream.id, sequence, hex(digest) FROM place LEFT JOIN memory USING(n) "
        "LEFT JOIN stream USING(s) LEFT JOIN actor USING(a)"
    ),
    "tally": "SELECT records, words FROM tally",
    "vector": "SELECT hex(digest), model, hex(data) FROM vector",
}


def dump(database: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All tables, with names in place of row numbers, and the number of rows of each."""
    db = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    try:
        (verdict,) = db.execute("PRAGMA integrity_check").fetchone()
        assert verdict == "ok"
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert {name for name in tables if not name.startswith(("terms", "words"))} == {*_NAMES, "lengths"}
        found = {name: sorted(map(repr, db.execute(sql))) for name, sql in _NAMES.items()}
        for name in _NAMES:
            (rows,) = db.execute(f"SELECT count(*) FROM {name}").fetchone()
            assert rows == len(found[name]), name
        for name in ("terms", "words"):
            db.execute(f"CREATE VIRTUAL TABLE temp.of_{name} USING fts5vocab(main, {name}, row)")
            found[name] = sorted(map(repr, db.execute(f"SELECT term, doc FROM temp.of_{name}")))
        found["lengths"] = sorted(
            map(
                repr,
                db.execute(
                    "SELECT hex(id), hex(substr(codes, n % 4096 + 1, 1)) FROM memory JOIN lengths ON k = n / 4096"
                ),
            )
        )
        return found
    finally:
        db.close()
