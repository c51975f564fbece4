"""Repositories to measure: made once, kept in a work directory, put back in order after each use.

Everything is signed by the project's own protocol core and stored as one pack per repository, as a clone
would hold it. Keys, clock and content are derived from fixed seeds.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from benchlib.corpus import CodeHistory, Corpus, Draft
from hn_memory.protocol.canonical import encode_indented
from hn_memory.protocol.commit import memory_objects
from hn_memory.protocol.envelope import Envelope, encode_envelope
from hn_memory.protocol.identifiers import KINDS, derived_stream, local_ref, memory_id
from hn_memory.protocol.identity import Identity, new_identity
from hn_memory.protocol.policy import POLICY_PATH, POLICY_VERSION
from hn_memory.protocol.signing import encode_base64, encode_signature, sign
from hn_memory.repository.clock import timestamp
from hn_memory.repository.keyring import Keyring

GENERATOR: Final = 1
"""Raised whenever repositories made by an older version must not be used any more."""

ANCHORS: Final = 50
SIDE_ANCHORS: Final = 4
BLOBS: Final = 5_000
FRESH: Final = 64
"""Signed memories beyond the tip, kept aside for measuring how new commits are taken in."""

_EPOCH: Final = 1_735_689_600
_STEP_SECONDS: Final = 211
_META: Final = "bench.json"
_TYPES: Final = {"commit": 1, "tree": 2, "blob": 3}

Note = Callable[[str], None]


class Signed(NamedTuple):
    """One signed memory as Git objects."""

    commit: str
    objects: Sequence[tuple[str, bytes]]


@dataclass
class Meta:
    """What is to be known of a repository; it stands beside it as `bench.json`."""

    generator: int
    size: int
    streams: int
    head: str
    author: str
    main_ref: str
    main_length: int
    payload_bytes: int
    evidence: int
    show: str
    path: str
    tips: dict[str, str] = field(default_factory=dict)
    packs: list[str] = field(default_factory=list)


class Built:
    """A repository that was built, and how to work with it from outside."""

    def __init__(self, root: Path, meta: Meta) -> None:
        self.root = root
        self.meta = meta
        self.common = root / ".git"

    @property
    def memories(self) -> int:
        """How many memories all streams hold together."""
        return self.meta.size

    @property
    def index_files(self) -> list[Path]:
        """The database of the index and what SQLite may keep beside it."""
        return sorted((self.common / "hn" / "memory").glob("index.sqlite*"))

    def forget_index(self) -> None:
        """Delete the index, as the documentation says one may at any moment."""
        for path in self.index_files:
            path.unlink()

    def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Plain Git in this repository; its stdout."""
        return _git(self.root, *arguments, stdin=stdin)

    def restore(self) -> None:
        """Put refs and object store back to what was built. The index notices by itself."""
        here = dict(
            line.split(" ")
            for line in self.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/hn/").decode().splitlines()
        )
        lines = [f"update {ref} {tip}\n" for ref, tip in self.meta.tips.items() if here.get(ref) != tip]
        lines += [f"delete {ref}\n" for ref in here if ref not in self.meta.tips]
        if lines:
            self.git("update-ref", "--stdin", stdin="".join(lines).encode())
        objects = self.common / "objects"
        for path in objects.glob("[0-9a-f][0-9a-f]"):
            shutil.rmtree(path)
        for path in (objects / "pack").iterdir():
            if path.stem not in self.meta.packs:
                path.unlink()

    def code(self) -> CodeHistory:
        """HEAD alone as a history to speak about."""
        readme = self.git("rev-parse", "HEAD:README").decode().strip()
        return CodeHistory(self.meta.head, (self.meta.head,), (readme,), ({"README": readme},))

    def fresh(self) -> list[Signed]:
        """Memories that follow the main stream's tip, signed but stored nowhere yet, in order."""
        return list(_fresh(self))


class Workshop:
    """Builds repositories below one directory, or takes those that are there."""

    def __init__(self, directory: Path, note: Note = lambda _: None) -> None:
        self.directory = directory
        self._note = note

    def get(self, size: int, streams: int = 1) -> Built:
        """The repository of that many memories in that many streams (and one of challenges)."""
        root = self.directory / f"{size}-memories-{streams}-streams"
        meta = _read_meta(root)
        if meta is None:
            shutil.rmtree(root, ignore_errors=True)
            started = time.perf_counter()
            self._note(f"building {size:,} memories in {streams:,} stream(s)")
            meta = _build(root, size, streams)
            self._note(f"built in {time.perf_counter() - started:.1f} s")
        built = Built(root, meta)
        built.restore()
        return built


def actors() -> tuple[Identity, Identity]:
    """The author and the one who challenges; their keys are no secret."""
    return (
        new_identity("Bench Author", hashlib.sha256(b"hn bench author").digest()),
        new_identity("Bench Reviewer", hashlib.sha256(b"hn bench reviewer").digest()),
    )


# -- building ---------------------------------------------------------------------------------------------


class _Stream:
    """The end of a stream while it grows."""

    __slots__ = ("commit", "identity", "length", "previous", "stream")

    def __init__(self, identity: Identity, stream: str) -> None:
        self.identity = identity
        self.stream = stream
        self.length = 0
        self.previous: str | None = None
        self.commit: str | None = None

    @property
    def ref(self) -> str:
        return local_ref(self.identity.actor, self.stream)

    def sign(self, draft: Draft, target: str | None, number: int) -> tuple[str, bytes, Signed]:
        """The next memory: its ID, its payload and its objects."""
        envelope = Envelope(
            operation=draft.operation,
            actor=self.identity.actor,
            actor_name=self.identity.name,
            public_key=encode_base64(self.identity.public_key),
            stream=self.stream,
            sequence=self.length + 1,
            timestamp=timestamp((_EPOCH + number * _STEP_SECONDS) * 1_000_000_000 + number % 1000 * 1_000_000),
            previous=self.previous,
            record=draft.record,
            target=target,
            reason=draft.reason,
        )
        payload = encode_envelope(envelope)
        name = memory_id(payload)
        signature = encode_signature(sign(self.identity.seed, payload))
        commit, objects = memory_objects(envelope, payload, signature, name, self.commit, "sha1")
        self.length, self.previous, self.commit = self.length + 1, name, commit
        return name, payload, Signed(commit, objects)


def _build(root: Path, size: int, streams: int) -> Meta:
    root.mkdir(parents=True)
    _git(root, "init", "-q", "-b", "main", ".")
    author, reviewer = actors()
    code = _write_code(root, [author, reviewer])
    keyring = Keyring(root / ".git")
    keyring.add(author)
    keyring.add(reviewer)
    grown = [_Stream(author, derived_stream(author.actor, _label(at))) for at in range(streams)]
    other = _Stream(reviewer, derived_stream(reviewer.actor, "default"))
    names: list[str] = []
    cited: set[str] = set()
    payload_bytes, show, path = 0, "", ""
    with _PackStream(root, size * 4) as pack:
        turn = 0
        for number, draft in enumerate(Corpus(size, code).drafts(size)):
            if draft.author:
                stream = other
            else:
                stream, turn = grown[turn % streams], turn + 1
            target = None if draft.target is None else names[draft.target]
            name, payload, signed = stream.sign(draft, target, number)
            names.append(name)
            payload_bytes += len(payload)
            if draft.record is not None:
                cited.update(draft.record.evidence)
                if draft.operation == "record" and number <= size // 2:
                    show = name
                if draft.record.anchor.paths:
                    path = draft.record.anchor.paths[0].path
            pack.add(signed.objects)
    tips = {stream.ref: stream.commit for stream in [*grown, other] if stream.commit is not None}
    _git(root, "update-ref", "--stdin", stdin="".join(f"create {ref} {tip}\n" for ref, tip in tips.items()).encode())
    packs = sorted({entry.stem for entry in (root / ".git/objects/pack").iterdir()})
    meta = Meta(
        GENERATOR, size, streams, code.head, author.actor, grown[0].ref, grown[0].length, payload_bytes, len(cited),
        show, path, tips, packs,
    )  # fmt: skip
    (root / _META).write_text(json.dumps(asdict(meta)))
    return meta


def _fresh(built: Built) -> Iterable[Signed]:
    author, _ = actors()
    stream = _Stream(author, derived_stream(author.actor, "default"))
    commit = built.meta.tips[built.meta.main_ref]
    payload = built.git("cat-file", "blob", f"{commit}:memory.json")
    stream.length, stream.previous, stream.commit = built.meta.main_length, memory_id(payload), commit
    corpus = Corpus(0, built.code())
    for number in range(FRESH):
        yield stream.sign(Draft(0, "record", record=corpus.record(number)), None, built.meta.size + number)[2]


def _label(at: int) -> str:
    return "default" if at == 0 else f"bench-{at}"


def _write_code(root: Path, trusted: Sequence[Identity]) -> CodeHistory:
    """A small history of code: 50 commits to anchor at, a few of them on a side branch, and 5,000 blobs."""
    policy = {
        "version": POLICY_VERSION,
        "memory": {"trustedActors": sorted(identity.actor for identity in trusted), "trustedKinds": sorted(KINDS)},
    }
    out: list[bytes] = []
    files: dict[str, int] = {}
    history: list[tuple[int, dict[str, int]]] = []
    mark, blob_marks = 0, []

    def blob(text: bytes) -> int:
        nonlocal mark
        mark += 1
        out.append(b"blob\nmark :%d\ndata %d\n%b\n" % (mark, len(text), text))
        blob_marks.append(mark)
        return mark

    def commit(branch: bytes, at: int, changes: dict[str, int], parent: int | None) -> int:
        nonlocal mark
        mark += 1
        who = b"Bench <bench@hn.invalid> %d +0000" % (_EPOCH - (ANCHORS + 10 - at) * 86_400)
        out.append(
            b"commit refs/heads/%b\nmark :%d\nauthor %b\ncommitter %b\ndata 6\nchange\n" % (branch, mark, who, who)
        )
        if parent is not None:
            out.append(b"from :%d\n" % parent)
        out.extend(b"M 100644 :%d %b\n" % (content, name.encode()) for name, content in changes.items())
        out.append(b"\n")
        return mark

    per_commit = BLOBS // ANCHORS
    main: int | None = None
    policy_mark = blob(encode_indented(policy))
    readme = blob(b"Measured by scripts/bench.\n")
    for at in range(ANCHORS - SIDE_ANCHORS):
        changes = {
            f"src/module_{at % 10}/part_{number:02}.py": blob(b"# %d %d\n" % (at, number))
            for number in range(per_commit)
        }
        if at == 0:
            changes |= {POLICY_PATH: policy_mark, "README": readme}
        main = commit(b"main", at, changes, main)
        files |= changes
        history.append((main, dict(files)))
    side = history[-6][0]
    side_files = dict(history[-6][1])
    for at in range(ANCHORS - SIDE_ANCHORS, ANCHORS):
        changes = {f"side/part_{number:02}.py": blob(b"# side %d %d\n" % (at, number)) for number in range(per_commit)}
        side = commit(b"side", at, changes, side)
        side_files |= changes
        history.append((side, dict(side_files)))
    # HEAD is younger than every anchor, as it is wherever work goes on after the last note.
    head = commit(b"main", ANCHORS + 1, {"README": blob(b"Measured by scripts/bench, lately.\n")}, main)
    marks = root / ".git" / "bench-marks"
    _git(
        root, "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", f"--export-marks={marks}", stdin=b"".join(out)
    )
    ids = {int(key[1:]): oid for key, oid in (line.split(" ") for line in marks.read_text().splitlines())}
    marks.unlink()
    _git(root, "reset", "-q", "--hard", "main")
    # Interleaved, so that the few anchors of the side branch are not the youngest ones.
    history.sort(key=lambda item: item[0] * 7919 % 101)
    chosen = []
    for number, (key, held) in enumerate(history):
        names = sorted(name for name in held if name.endswith(".py"))[number % 7 :: 31]
        chosen.append((ids[key], {name: ids[held[name]] for name in names}))
    return CodeHistory(
        ids[head],
        tuple(oid for oid, _ in chosen),
        tuple(ids[one] for one in blob_marks[2 : 2 + BLOBS]),
        tuple(held for _, held in chosen),
    )


class _PackStream:
    """Objects straight into one pack: `git index-pack` reads them as they are signed."""

    def __init__(self, root: Path, objects: int) -> None:
        self._root = root
        self._left = objects
        self._hash = hashlib.sha1(usedforsecurity=False)
        self._child = subprocess.Popen(
            ["git", "index-pack", "--stdin"],
            cwd=root,
            env=git_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        self._write(b"PACK" + (2).to_bytes(4, "big") + objects.to_bytes(4, "big"))

    def __enter__(self) -> _PackStream:
        return self

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        assert self._child.stdin is not None
        if kind is None:
            assert self._left == 0
            self._child.stdin.write(self._hash.digest())
        self._child.stdin.close()
        if self._child.wait() and kind is None:
            raise RuntimeError("git index-pack failed")

    def add(self, objects: Sequence[tuple[str, bytes]]) -> None:
        """Store objects whole."""
        out = bytearray()
        for kind, data in objects:
            size = len(data)
            byte = _TYPES[kind] << 4 | size & 15
            size >>= 4
            while size:
                out.append(byte | 0x80)
                byte, size = size & 0x7F, size >> 7
            out.append(byte)
            out += zlib.compress(data, 1)
        self._left -= len(objects)
        self._write(bytes(out))

    def _write(self, data: bytes) -> None:
        assert self._child.stdin is not None
        self._hash.update(data)
        self._child.stdin.write(data)


def _read_meta(root: Path) -> Meta | None:
    try:
        meta = Meta(**json.loads((root / _META).read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return meta if meta.generator == GENERATOR else None


def git_environment() -> dict[str, str]:
    """Nothing of the caller's Git settings has a say in what is built or measured."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHON", "HN_"))}
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


def _git(root: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        ["git", *arguments], cwd=root, env=git_environment(), input=stdin, stdout=subprocess.PIPE, check=True
    )
    return done.stdout
