"""Authors and streams in memory: everything an honest writer makes, and everything an attacker could.

No repository, no clock, no random source: an author is a number, and the same calls give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hn_memory.protocol.chain import FILE_MODE, MEMORY_FILE, SIGNATURE_FILE, ChainHead, StreamChain, StreamCommit
from hn_memory.protocol.chain import StreamEntry as Entry
from hn_memory.protocol.commit import memory_objects
from hn_memory.protocol.envelope import Envelope, encode_envelope
from hn_memory.protocol.identifiers import derived_stream, fingerprint, memory_id
from hn_memory.protocol.record import Anchor, Applicability, Record
from hn_memory.protocol.signing import encode_base64, encode_signature, public_key_of, sign

OID = "0123456789abcdef0123456789abcdef01234567"
OTHER_OID = "f" * 40


def changed(value: Any, **changes: Any) -> Any:
    """A protocol value with some of its fields replaced."""
    return value._replace(**changes)


def record(content: str = "hello", **changes: Any) -> Record:
    """A plain observation."""
    plain = Record("observation", content, Anchor(OID), Applicability("descendants"))
    return changed(plain, **changes)


class Author:
    """One actor with a key of its own, chosen by a number."""

    def __init__(self, number: int = 1, name: str = "Ada") -> None:
        self.seed = number.to_bytes(32, "big")
        self.name = name
        public_key = public_key_of(self.seed)
        self.public_key = encode_base64(public_key)
        self.actor = fingerprint(public_key)
        self.stream = derived_stream(self.actor, "default")

    def envelope(self, operation: str = "record", /, **changes: Any) -> Envelope:
        """The first envelope of the author's default stream, with changes."""
        fields: dict[str, Any] = {"record": record()} if operation in ("record", "supersede") else {}
        if operation != "record":
            fields["target"] = "sha256:" + "7" * 64
        if operation in ("retract", "challenge"):
            fields["reason"] = "incorrect"
        plain = Envelope(
            operation=operation,
            actor=self.actor,
            actor_name=self.name,
            public_key=self.public_key,
            stream=self.stream,
            sequence=1,
            timestamp="2026-10-01T17:02:11.5Z",
        )
        return changed(plain, **(fields | changes))

    def sign(self, payload: bytes) -> bytes:
        """The 64 raw signature bytes."""
        return sign(self.seed, payload)


class StreamSimulator:
    """One stream that grows commit by commit. `commits` is the truth; attacks are made from copies of it."""

    def __init__(self, author: Author, stream: str | None = None) -> None:
        self.author = author
        self.stream = author.stream if stream is None else stream
        self.commits: list[StreamCommit] = []
        self.memory_ids: list[str] = []

    def grow(self, count: int) -> StreamSimulator:
        """Append that many honest records."""
        for _ in range(count):
            self.append()
        return self

    def append(self, **changes: Any) -> StreamCommit:
        """Append one honest commit."""
        commit = self.forge(**changes)
        self.commits.append(commit)
        self.memory_ids.append(memory_id(payload_of(commit)))
        return commit

    def forge(
        self,
        *,
        at: int | None = None,
        signer: Author | None = None,
        parents: Iterable[str] | None = None,
        operation: str = "record",
        **changes: Any,
    ) -> StreamCommit:
        """A commit that could stand at index `at` (default: the next), not appended.

        `changes` replace fields of the envelope, `parents` those of the commit, `signer` the key.
        """
        at = len(self.commits) if at is None else at
        fields: dict[str, Any] = {"stream": self.stream, "sequence": at + 1}
        if at:
            fields["previous"] = self.memory_ids[at - 1]
        envelope = self.author.envelope(operation, **(fields | changes))
        payload = encode_envelope(envelope)
        signature = encode_signature((signer or self.author).sign(payload))
        parent = self.commits[at - 1].commit if at else None
        oid, _ = memory_objects(envelope, payload, signature, memory_id(payload), parent, "sha1")
        honest = () if parent is None else (parent,)
        entries = (blob(MEMORY_FILE, payload), blob(SIGNATURE_FILE, signature))
        return StreamCommit(oid, honest if parents is None else tuple(parents), entries)

    def chain(self, head: ChainHead | None = None) -> StreamChain:
        """A fresh verifier for the ref of this stream."""
        return StreamChain(self.author.actor, self.stream, head)


def blob(name: str, data: bytes) -> Entry:
    """A regular file as a tree names it."""
    return Entry(FILE_MODE, name, len(data), data)


def payload_of(commit: StreamCommit) -> bytes:
    """The bytes of `memory.json` in a commit."""
    data = commit.entries[0].data
    assert data is not None
    return data
