"""Verification of one stream as a pure state machine (sections 2 and 4).

The rules, applied to each commit from the first to the tip:

1. The tree holds exactly two entries, `memory.json` and `signature`, both blobs of mode `100644`.
2. `memory.json` has at most 524,288 bytes and `signature` at most 128.
3. The bytes are a canonical envelope that keeps every rule of its own, and the signature holds.
4. Owner and stream are those of the ref.
5. Sequences run 1..n without gap or repetition.
6. The first commit has no parent; every later one has exactly one, the commit verified just before it.
7. `previous` is the memory ID in that parent.

One bad commit condemns its stream. Message, author, dates and further headers of a commit are not signed
and are not looked at. The machine does no input or output: it is handed what a commit holds.
"""

from __future__ import annotations

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.identifiers import FILE_MODE, MEMORY_FILE, SIGNATURE_FILE
from hn_memory.protocol.memory import VerifiedMemory, verify_memory
from hn_memory.protocol.signing import decode_signature
from hn_memory.values import NamedTuple, make

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol
else:
    Protocol = object


_MEMORY_BYTES, _SIGNATURE_BYTES = (limits.FILE_BYTES[name] for name in (MEMORY_FILE, SIGNATURE_FILE))


class StreamEntry(NamedTuple):
    """One entry of a memory commit's tree. `size` and `data` are None where the object is not a blob here."""

    mode: str
    name: str
    size: int | None
    data: bytes | None


class StreamCommit(NamedTuple):
    """What a commit holds, as read and before it is trusted. `entries` is None where its tree is not here."""

    commit: str
    parents: tuple[str, ...]
    entries: tuple[StreamEntry, ...] | None


class ChainHead(NamedTuple):
    """The last verified link of a stream."""

    sequence: int
    memory_id: str
    commit: str


class Place(Protocol):
    """What the rules of a chain need to know of an envelope."""

    @property
    def actor(self) -> str: ...
    @property
    def stream(self) -> str: ...
    @property
    def sequence(self) -> int: ...
    @property
    def previous(self) -> str | None: ...


class StreamChain:
    """Feeds on commits in order, oldest first, and answers verified memories.

    Args:
        actor: the owner that the ref names.
        stream: the stream that the ref names.
        head: a link verified before, to go on from.
    """

    __slots__ = ("actor", "head", "stream")

    def __init__(self, actor: str, stream: str, head: ChainHead | None = None) -> None:
        self.actor = actor
        self.stream = stream
        self.head = head

    def accept(self, commit: StreamCommit) -> VerifiedMemory:
        """Verify the next commit and advance.

        Raises:
            HnError: the rule that does not hold; the head stays where it was.
        """
        memory = verify_memory(*read_files(commit))
        self.link(commit.commit, commit.parents, memory.id, memory.envelope)
        return memory

    def link(self, commit: str, commit_parents: tuple[str, ...], memory_id: str, envelope: Place) -> None:
        """Rules 4 to 7, for a memory whose bytes have been verified already."""
        if envelope.actor != self.actor:
            raise HnError("owner-mismatch", "the envelope's actor is not the owner that the ref names")
        if envelope.stream != self.stream:
            raise HnError("stream-mismatch", "the envelope's stream is not the one that the ref names")
        expected = 1 if self.head is None else self.head.sequence + 1
        if envelope.sequence != expected:
            raise HnError("sequence-broken", f"sequence is {envelope.sequence}, expected {expected}")
        parents = () if self.head is None else (self.head.commit,)
        if commit_parents != parents:
            count = len(commit_parents)
            raise HnError(
                "parent-mismatch", f"{count} parent{'' if count == 1 else 's'}, not the predecessor alone"
                if parents else f"{count} parents at sequence 1, where none may be",
            )  # fmt: skip
        previous = None if self.head is None else self.head.memory_id
        if envelope.previous != previous:
            raise HnError("previous-mismatch", "previous is not the memory ID in the parent commit")
        self.head = make(ChainHead, (envelope.sequence, memory_id, commit))


def read_files(commit: StreamCommit) -> tuple[bytes, bytes]:
    """Rules 1 and 2: the payload and the raw signature of a commit."""
    entries = commit.entries
    if entries is None:
        raise HnError("object-missing", "the tree of the commit is not in the object store")
    if len(entries) == len(limits.FILE_BYTES):
        # Nearly every commit is in order, which is seen at once; what is wrong with another is said below.
        (mode, name, _, payload), (second_mode, second_name, _, signature) = entries
        if (
            mode == second_mode == FILE_MODE
            and name == MEMORY_FILE and payload is not None and len(payload) <= _MEMORY_BYTES
            and second_name == SIGNATURE_FILE and signature is not None and len(signature) <= _SIGNATURE_BYTES
        ):  # fmt: skip
            return payload, decode_signature(signature)
    found: dict[str, bytes] = {}
    for entry in entries:
        if entry.name not in limits.FILE_BYTES:
            raise HnError("tree-malformed", f"the tree holds another entry beside {MEMORY_FILE} and {SIGNATURE_FILE}")
        if entry.mode != FILE_MODE:
            raise HnError("tree-malformed", f"{entry.name} has mode {entry.mode}, not {FILE_MODE}")
        limit = limits.FILE_BYTES[entry.name]
        if entry.size is not None and entry.size > limit:
            raise HnError("file-too-large", f"{entry.name} has {entry.size} bytes, at most {limit} are allowed")
        if entry.data is None:
            raise HnError("object-missing", f"the blob of {entry.name} is not in the object store")
        found[entry.name] = entry.data
    for name in limits.FILE_BYTES:
        if name not in found:
            raise HnError("tree-malformed", f"the tree has no {name}")
    if len(entries) != len(limits.FILE_BYTES):
        raise HnError("tree-malformed", "the tree names a file twice")
    return found[MEMORY_FILE], decode_signature(found[SIGNATURE_FILE])
