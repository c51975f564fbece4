"""The ledger of tips, the journal of a promotion, and the list of gaps: what replication remembers, as bytes.

For every remote and stream the ledger holds the highest verified link. It survives the deletion of refs, so a
rewind or a withdrawal is noticed whatever happened to the refs. Pure: bytes in, values or errors out.
"""

from __future__ import annotations

from typing import Any, Final

from hn_memory.protocol.canonical import encode_indented
from hn_memory.protocol.chain import ChainHead
from hn_memory.protocol.identifiers import is_actor_id, is_digest, is_object_id, is_remote_name
from hn_memory.protocol.strictjson import Reader, loads
from hn_memory.values import NamedTuple

LEDGER_VERSION: Final = 1
LEDGER_BYTES: Final = 256 * 1024 * 1024
ACCEPTABLE: Final = ("rewound", "withdrawn", "forked", "equivocated")
"""Outcomes that a person may look at and let pass."""

_TIP: Final = ("remote", "actor", "stream", "sequence", "memoryId", "commit")
_ACCEPTANCE: Final = ("remote", "actor", "stream", "outcome", "offered", "reason", "at")
_MOVE: Final = ("ref", "old", "new")
_GAP: Final = ("remote", "actor", "stream", "kind", "ownerId", "missingId")


class Tip(NamedTuple):
    """The highest verified link that a remote showed of a stream."""

    remote: str
    actor: str
    stream: str
    sequence: int
    memory_id: str
    commit: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What a ledger holds once."""
        return self.remote, self.actor, self.stream

    @property
    def head(self) -> ChainHead:
        """The link itself."""
        return ChainHead(self.sequence, self.memory_id, self.commit)


class Acceptance(NamedTuple):
    """A person looked at what a remote did to a stream. `offered` is the head then, None for none."""

    remote: str
    actor: str
    stream: str
    outcome: str
    offered: str | None
    reason: str
    at: str


class Ledger(NamedTuple):
    """All tips and acceptances of one clone."""

    tips: dict[tuple[str, str, str], Tip]
    accepted: list[Acceptance]


class Move(NamedTuple):
    """One ref of a promotion: from `old` (None: absent) to `new`."""

    ref: str
    old: str | None
    new: str


class Journal(NamedTuple):
    """A promotion under way: the refs it moves and the tips it will record."""

    moves: tuple[Move, ...]
    tips: tuple[Tip, ...]


class Gap(NamedTuple):
    """Something a stream needs that this shallow clone does not have. `owner_id` is the memory that needs it."""

    remote: str
    actor: str
    stream: str
    kind: str
    owner_id: str
    missing_id: str


def encode_ledger(ledger: Ledger) -> bytes:
    """The exact bytes of `tips.json`."""
    return encode_indented(
        {
            "version": LEDGER_VERSION,
            "tips": [tip_document(ledger.tips[key]) for key in sorted(ledger.tips)],
            "accepted": [acceptance_document(item) for item in ledger.accepted],
        }
    )


def tip_document(tip: Tip) -> dict[str, Any]:
    """The JSON value of a tip."""
    return dict(zip(_TIP, tip, strict=True))


def acceptance_document(item: Acceptance) -> dict[str, Any]:
    """The JSON value of an acceptance."""
    return dict(zip(_ACCEPTANCE, item, strict=True))


def gap_document(gap: Gap) -> dict[str, Any]:
    """The JSON value of a gap."""
    return dict(zip(_GAP, gap, strict=True))


def decode_ledger(data: bytes) -> Ledger:
    """Read `tips.json`.

    Raises:
        HnError `ledger-invalid`.
    """
    reader = Reader("ledger-invalid", usage=False)
    fields = _fields(reader, "ledger-invalid", data, "tips file", ("tips", "accepted"))
    ledger = Ledger({}, [])
    for at, value in enumerate(_items(reader, fields["tips"], "tips")):
        tip = _tip(reader, value, f"tips[{at}]")
        ledger.tips[tip.key] = tip
    for at, value in enumerate(_items(reader, fields["accepted"], "accepted")):
        where = f"accepted[{at}]"
        item = reader.object(value, where, _ACCEPTANCE)
        texts = [reader.text(item[name], f"{where}.{name}") for name in _ACCEPTANCE if name != "offered"]
        offered = None if item["offered"] is None else _oid(reader, item["offered"], f"{where}.offered")
        if texts[3] not in ACCEPTABLE:
            reader.fail("no such outcome", f"{where}.outcome")
        ledger.accepted.append(Acceptance(texts[0], texts[1], texts[2], texts[3], offered, texts[4], texts[5]))
    return ledger


def encode_journal(journal: Journal) -> bytes:
    """The exact bytes of a promotion's journal."""
    return encode_indented(
        {
            "version": LEDGER_VERSION,
            "moves": [dict(zip(_MOVE, move, strict=True)) for move in journal.moves],
            "tips": [tip_document(tip) for tip in journal.tips],
        }
    )


def decode_journal(data: bytes) -> Journal:
    """Read the journal of a promotion.

    Raises:
        HnError `journal-invalid`.
    """
    reader = Reader("journal-invalid", usage=False)
    fields = _fields(reader, "journal-invalid", data, "promotion journal", ("moves", "tips"))
    moves: list[Move] = []
    for at, value in enumerate(_items(reader, fields["moves"], "moves")):
        where = f"moves[{at}]"
        item = reader.object(value, where, _MOVE)
        ref = reader.text(item["ref"], f"{where}.ref")
        if not ref.startswith(("refs/hn/remotes/", "refs/hn/evidence/")):
            reader.fail("not a ref that a promotion moves", f"{where}.ref")
        old = None if item["old"] is None else _oid(reader, item["old"], f"{where}.old")
        moves.append(Move(ref, old, _oid(reader, item["new"], f"{where}.new")))
    tips = tuple(_tip(reader, value, f"tips[{at}]") for at, value in enumerate(_items(reader, fields["tips"], "tips")))
    return Journal(tuple(moves), tips)


def encode_gaps(gaps: list[Gap]) -> bytes:
    """The exact bytes of the list of gaps."""
    return encode_indented({"version": LEDGER_VERSION, "gaps": [gap_document(gap) for gap in sorted(gaps)]})


def decode_gaps(data: bytes) -> list[Gap]:
    """Read the list of gaps.

    Raises:
        HnError `gaps-invalid`.
    """
    reader = Reader("gaps-invalid", usage=False)
    fields = _fields(reader, "gaps-invalid", data, "list of gaps", ("gaps",))
    gaps: list[Gap] = []
    for at, value in enumerate(_items(reader, fields["gaps"], "gaps")):
        item = reader.object(value, f"gaps[{at}]", _GAP)
        gap = Gap(*(reader.text(item[name], f"gaps[{at}].{name}") for name in _GAP))
        _oid(reader, gap.missing_id, f"gaps[{at}].missingId")
        gaps.append(gap)
    return gaps


def _fields(reader: Reader, code: str, data: bytes, what: str, names: tuple[str, ...]) -> Any:
    value = loads(data, code, what, usage=False)
    fields = reader.object(value, "", ("version", *names))
    if reader.integer(fields["version"], "version") != LEDGER_VERSION:
        reader.fail(f"version is not {LEDGER_VERSION}", "version")
    return fields


def _items(reader: Reader, value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        reader.fail(f"{where} must be a list", where)
    return value


def _tip(reader: Reader, value: Any, where: str) -> Tip:
    item = reader.object(value, where, _TIP)
    sequence = reader.integer(item["sequence"], f"{where}.sequence")
    remote, actor, stream, memory_id = (
        reader.text(item[name], f"{where}.{name}") for name in ("remote", "actor", "stream", "memoryId")
    )
    if not (is_remote_name(remote) and is_actor_id(actor) and is_digest(stream) and is_digest(memory_id)):
        reader.fail("malformed identifier", where)
    if sequence < 1:
        reader.fail("a sequence starts at 1", f"{where}.sequence")
    return Tip(remote, actor, stream, sequence, memory_id, _oid(reader, item["commit"], f"{where}.commit"))


def _oid(reader: Reader, value: Any, where: str) -> str:
    text = reader.text(value, where)
    if not is_object_id(text):
        reader.fail("not a full Git object ID", where)
    return text
