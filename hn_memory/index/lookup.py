"""Reading single memories and their relationships from the index, in the terms of the protocol."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.protocol.jsonbytes import loads
from hn_memory.protocol.projection import LIFECYCLES, Dependency, Edges, SourceMemory, lifecycle_dependency
from hn_memory.protocol.stored import read_stored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from hn_memory.protocol.chain import ChainHead
    from hn_memory.protocol.lifecycle import Diagnostic, Relationship

_LISTS = {"supersede": "successors", "retract": "retractions", "challenge": "challengers"}

# A relationship counts when its target is a record, not itself, and (challenges aside) of the same actor.
_VALID_EDGES = """
SELECT e.op, m.id, e.n FROM edge e JOIN memory m ON m.n = e.n
WHERE e.target = (SELECT id FROM memory WHERE n = ?1) AND e.n <> ?1 AND (e.op = 'challenge' OR e.a = (
    SELECT voice.a FROM memory t JOIN class ON class.k = t.class JOIN voice ON voice.v = class.v WHERE t.n = ?1))
ORDER BY m.id
"""


def contains(db: sqlite3.Connection, memory_id: str) -> bool:
    """Is a memory (record or not) of that full ID in the verified set?"""
    return db.execute("SELECT 1 FROM memory WHERE id = ?", (bytes.fromhex(memory_id[7:]),)).fetchone() is not None


class KnownMemories:
    """Answers `id in known` for the verified set."""

    __slots__ = ("_db",)

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __contains__(self, memory_id: object) -> bool:
        return isinstance(memory_id, str) and contains(self._db, memory_id)


def find_number(db: sqlite3.Connection, digits: str) -> int:
    """The row number of the memory whose ID begins with hexadecimal digits.

    Raises:
        NotFoundError `memory-unknown`; UsageError `id-ambiguous`.
    """
    low, high = bytes.fromhex(digits.ljust(64, "0")), bytes.fromhex(digits.ljust(64, "f"))
    found = db.execute("SELECT n FROM memory WHERE id BETWEEN ? AND ?", (low, high)).fetchall()
    if not found:
        raise NotFoundError(
            "memory-unknown",
            f"no verified memory of this clone has an ID that begins with {digits}",
            hint="`hn memory log` lists what is here; `hn memory verify` names sources that are left out.",
            field="id",
        )
    if len(found) > 1:
        raise UsageError(
            "id-ambiguous",
            f"{len(found)} memories have an ID that begins with {digits}",
            hint="Give more digits.",
            field="id",
        )
    return int(found[0][0])


def number_of(db: sqlite3.Connection, memory_id: str) -> int | None:
    """The row number of a memory by its full ID."""
    row = db.execute("SELECT n FROM memory WHERE id = ?", (bytes.fromhex(memory_id[7:]),)).fetchone()
    return None if row is None else int(row[0])


def read_memory(db: sqlite3.Connection, n: int) -> SourceMemory:
    """A memory with its envelope and the smallest commit that carries it."""
    row = db.execute("SELECT id, data FROM memory JOIN payload USING(n) WHERE n = ?", (n,)).fetchone()
    (commit,) = db.execute(
        "SELECT min(oid) FROM (SELECT oid FROM link WHERE c = ?1 AND n = ?1 "
        "UNION ALL SELECT oid FROM link WHERE n = ?1 AND c <> n)",
        (n,),
    ).fetchone()
    if row is None or commit is None:
        raise HnError("index-corrupt", "it lost rows that it should hold")
    raw, payload = row
    return SourceMemory("sha256:" + raw.hex(), commit.hex(), read_stored(raw, payload))


def valid_edges(db: sqlite3.Connection, n: int) -> Edges:
    """The relationships that count for a record."""
    edges = Edges()
    for operation, raw, _ in db.execute(_VALID_EDGES, (n,)):
        getattr(edges, _LISTS[operation]).append("sha256:" + raw.hex())
    return edges


def same_content(db: sqlite3.Connection, key: int, apart_from: str) -> str | None:
    """The ID of an active record whose content's digest begins as `index.ingest.digest_key` says; the smallest."""
    row = db.execute(
        "SELECT min(id) FROM same CROSS JOIN memory USING(n) WHERE d = ? AND life = ? AND id <> ?",
        (key, LIFECYCLES.index("active"), bytes.fromhex(apart_from[7:])),
    ).fetchone()
    return None if row[0] is None else "sha256:" + row[0].hex()


def successors(db: sqlite3.Connection, numbers: Iterable[int]) -> dict[int, set[int]]:
    """Of those of the records that were replaced: the row numbers of all that replace them, directly or by one
    another."""
    direct: dict[int, set[int]] = {}
    waiting = set(numbers)
    while waiting:
        found: set[int] = set()
        for n, other in db.execute(
            "SELECT t.n, e.n FROM memory t CROSS JOIN edge e ON e.target = t.id CROSS JOIN class ON class.k = t.class "
            "CROSS JOIN voice ON voice.v = class.v AND voice.a = e.a "
            f"WHERE t.n IN ({','.join(map(str, waiting))}) AND e.op = 'supersede' AND e.n <> t.n"
        ):
            direct.setdefault(n, set()).add(other)
            found.add(other)
        waiting = found - direct.keys()
    return {n: _reached(direct, n) for n in numbers if n in direct}


def _reached(direct: Mapping[int, set[int]], n: int) -> set[int]:
    seen, waiting = {n}, [n]
    while waiting:
        fresh = direct.get(waiting.pop(), set()) - seen
        seen |= fresh
        waiting += fresh
    return seen - {n}


class StoredLifecycles:
    """The lifecycles of some records, as the index has settled them."""

    __slots__ = ("_edges", "_states")

    def __init__(self, db: sqlite3.Connection, memories: Mapping[int, SourceMemory]) -> None:
        self._edges = {memory.id: valid_edges(db, n) for n, memory in memories.items()}
        self._states = {memory.id: lifecycle_of(db, n) or "" for n, memory in memories.items()}

    def state(self, memory_id: str) -> str:
        return self._states[memory_id]

    def edges_of(self, memory_id: str) -> Edges:
        return self._edges[memory_id]


def lifecycle_of(db: sqlite3.Connection, n: int) -> str | None:
    """The lifecycle of a record; None for a memory that is none."""
    (life,) = db.execute("SELECT life FROM memory WHERE n = ?", (n,)).fetchone()
    return None if life is None else LIFECYCLES[life]


def judged_edges(db: sqlite3.Connection, n: int) -> tuple[list[Relationship], list[Diagnostic], list[Dependency]]:
    """Every relationship that a memory makes or that names it, judged: valid ones, diagnostics, missing ones."""
    from hn_memory.protocol.lifecycle import Diagnostic, Relationship, judge_relationship

    (raw,) = db.execute("SELECT id FROM memory WHERE n = ?", (n,)).fetchone()
    relationships: list[Relationship] = []
    diagnostics: list[Diagnostic] = []
    dependencies: list[Dependency] = []
    for (source,) in db.execute("SELECT n FROM edge WHERE n = ? OR target = ?", (n, raw)).fetchall():
        memory = read_memory(db, source)
        envelope = memory.envelope
        target_id = envelope.target or ""
        target = number_of(db, target_id)
        named = None if target is None else read_memory(db, target)
        verdict = judge_relationship(
            memory.id,
            envelope.operation,
            envelope.actor,
            target_id,
            None if named is None else named.envelope.record is not None,
            None if named is None else named.envelope.actor,
        )
        if verdict == "valid":
            relationships.append(
                Relationship(memory.id, envelope.stream, envelope.actor, envelope.operation, target_id)
            )
        elif verdict == "target-unavailable":
            dependencies.append(lifecycle_dependency(memory))
        else:
            diagnostics.append(Diagnostic(memory.id, envelope.operation, target_id, verdict))
    relationships.sort(key=Relationship.order)
    diagnostics.sort(key=lambda item: (item.target_id, item.operation, item.memory_id))
    dependencies.sort(key=Dependency.order)
    return relationships, diagnostics, dependencies


def source_tip(db: sqlite3.Connection, ref: str, head: str) -> ChainHead | None:
    """The verified tip of a source, if the index knows it at that head."""
    from hn_memory.protocol.chain import ChainHead

    row = db.execute(
        "SELECT link.sequence, memory.id FROM source JOIN link ON link.c = source.tip JOIN memory USING(n) "
        "WHERE source.ref = ? AND source.head = ?",
        (ref, head),
    ).fetchone()
    return None if row is None else ChainHead(row[0], "sha256:" + row[1].hex(), head)


def source_rows(db: sqlite3.Connection) -> Iterable[tuple[Any, ...]]:
    """Ref, head, sequence, memory ID and actor name (as last signed) of every valid source, sorted by ref."""
    for *row, payload in db.execute(
        "SELECT source.ref, source.head, link.sequence, memory.id, payload.data FROM source "
        "JOIN link ON link.c = source.tip JOIN memory USING(n) JOIN payload USING(n) ORDER BY source.ref"
    ):
        yield (*row, loads(payload)["actorName"])


def memory_count(db: sqlite3.Connection) -> int:
    """How many memories the verified set holds."""
    return int(db.execute("SELECT count(*) FROM memory").fetchone()[0])


_POSTING_BYTES: Final = len(f'        "sha256:{"0" * 64}"\n')


def term_counts(db: sqlite3.Connection) -> tuple[int, int]:
    """How many terms there are, and a number of bytes that a snapshot of them cannot do without.

    It names every record of every term on a line of its own (section 9).
    """
    db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS temp.term_counts USING fts5vocab('main', 'terms', 'row')")
    count, postings = db.execute("SELECT count(*), coalesce(sum(doc), 0) FROM temp.term_counts").fetchone()
    return count, postings * _POSTING_BYTES
