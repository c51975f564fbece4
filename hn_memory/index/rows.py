"""The rows of the index: storing and dropping memories, their names and classes.

Works inside a transaction of the caller's, and knows nothing of sources: which commits are held is told to it.
What lifecycles follow is `index.lifecycles`' business; what it needs to know for that is noted here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from hn_memory.index.schema import PATHS_BROKEN, PATHS_HOLD, PATHS_NONE, PATHS_UNKNOWN
from hn_memory.protocol.identifiers import KINDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from hn_memory.index.ingest import Entry
    from hn_memory.repository.base import Repository
    from hn_memory.repository.world import RepositoryWorld

_NAMES: Final = (("topic", "t", "tagged"), ("path", "p", "bound"), ("evidence", "e", "cites"))
"""Tables of names, their key, and the table that says who uses them."""

_AT_ONCE: Final = 500
"""Values in one question; older builds of SQLite take no more than 999."""


def entry_of(memory_id: str, payload: bytes) -> Entry:
    """The entry of a stored payload, without the commit that carried it."""
    from hn_memory.index.ingest import take_apart
    from hn_memory.protocol.envelope import decode_envelope

    return take_apart("", (), memory_id, decode_envelope(payload), payload)


class Rows:
    """Changes the tables of one connection. Whoever drops rows calls `_sweep` at the end."""

    def __init__(self, connection: sqlite3.Connection, repository: Repository) -> None:
        self._db = connection
        self._repository = repository
        self._ids: dict[tuple[str, tuple[object, ...]], int] = {}
        self._named: dict[str, dict[str, int]] = {}
        self._touched: set[int] = set()
        self._targets: set[bytes] = set()
        self._released: set[bytes] = set()
        self._class_records: dict[int, int] = {}
        self._first_classes: dict[int, dict[tuple[object, ...], int]] = {}
        self._site_checks: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        # What path pairs were judged by, kept as long as these rows are worked on: thousands share a few commits.
        self._world: RepositoryWorld | None = None
        self._emptied = False
        self._unnamed: dict[str, set[int]] = {}
        # True while no memory that comes in can be here already, so that nobody looks for it.
        self._all_new = False

    # -- rows ---------------------------------------------------------------------------------------------

    def _insert(self, entries: Sequence[Entry], parent: int | None) -> int | None:
        """Store verified entries that follow `parent` in one stream; the link of the last one."""
        if not entries:
            return parent
        self._check_paths(entries)
        db = self._db
        row = db.execute("SELECT max((SELECT max(n) FROM memory), (SELECT max(c) FROM link))").fetchone()
        fresh = (row[0] or 0) + 1
        if row[0] is None:
            # max() of a NULL and a number is NULL: one of the tables is empty, and so is the other.
            fresh = 1
        stream = self._stream(entries[0].actor, entries[0].stream)
        memories: list[tuple[object, ...]] = []
        links, payloads, terms, tagged, bound, cites, edges, same = [], [], [], [], [], [], [], []
        raw_ids = [bytes.fromhex(entry.id[7:]) for entry in entries]
        stored = {} if self._all_new else dict(self._among("SELECT id, n FROM memory WHERE id", raw_ids))
        topic_numbers = self._numbers("topic", "t", "name", (name for entry in entries for name in entry.topics))
        path_numbers = self._numbers("path", "p", "name", (path for entry in entries for path, _ in entry.paths))
        evidence_numbers = self._numbers(
            "evidence", "e", "item", (item for entry in entries for item in entry.evidence)
        )
        actor, targets, counts = self._actor(entries[0].actor), self._targets, self._class_records
        classes = self._first_classes.setdefault(actor, {})
        for entry, raw in zip(entries, raw_ids, strict=True):
            # Taken apart at once: a hundred thousand come along here, one after the other.
            (
                commit, _, _, payload, operation, _, _, sequence, _, timestamp, target, kind, anchor, subject, mode,
                pairs, topics, cited, size, text, searched, digest,
            ) = entry  # fmt: skip
            c, fresh = fresh, fresh + 1
            known = stored.get(raw)
            n = c if known is None else known
            links.append((c, bytes.fromhex(commit), n, parent, stream, sequence, 1))
            parent = c
            if known is not None:
                continue
            targets.add(raw)
            payloads.append((n, payload))
            if target is not None:
                named = bytes.fromhex(target[7:])
                edges.append((n, operation, actor, named))
                targets.add(named)
                self._touched.add(n)
            if kind is None:
                memories.append((n, raw, None, None, timestamp, 0, 0))
                continue
            klass = classes.get((kind, anchor, mode, subject, pairs))
            if klass is None:
                # Of a record that nothing has spoken about.
                klass = self._class(self._voice(actor, kind), self._site(entry), 0)
                classes[kind, anchor, mode, subject, pairs] = klass
            counts[klass] = counts.get(klass, 0) + 1
            memories.append((n, raw, klass, 0, timestamp, size, searched))
            terms.append((n, text))
            same.append((digest, n))
            if topics:
                tagged += [(topic_numbers[topic], n, klass) for topic in topics]
            if pairs:
                bound += [(path_numbers[path], n) for path, _ in pairs]
            if cited:
                cites += [(evidence_numbers[item], n) for item in cited]
        db.executemany("INSERT INTO memory(n, id, class, life, ts, size, searched) VALUES(?,?,?,?,?,?,?)", memories)
        db.executemany("INSERT INTO link(c, oid, n, parent, s, sequence, live) VALUES(?,?,?,?,?,?,?)", links)
        db.executemany("INSERT INTO payload(n, data) VALUES(?,?)", payloads)
        db.executemany("INSERT INTO terms(rowid, text) VALUES(?,?)", terms)
        db.executemany("INSERT INTO same(d, n) VALUES(?,?)", same)
        db.executemany("INSERT INTO tagged(t, n, class) VALUES(?,?,?)", tagged)
        db.executemany("INSERT INTO bound(p, n) VALUES(?,?)", bound)
        db.executemany("INSERT INTO cites(e, n) VALUES(?,?)", cites)
        db.executemany("INSERT INTO edge(n, op, a, target) VALUES(?,?,?,?)", edges)
        return parent

    def _drop(self, released: Sequence[int]) -> None:
        """Delete links nobody holds any more, and memories without a link."""
        db = self._db
        for c in released:
            row = db.execute("SELECT n, live FROM link WHERE c = ?", (c,)).fetchone()
            if row[1] > 0:
                continue
            n = row[0]
            db.execute("DELETE FROM link WHERE c = ?", (c,))
            other = (
                db.execute("SELECT 1 FROM link WHERE c = ?1 AND n = ?1", (n,)).fetchone()
                or db.execute("SELECT 1 FROM link WHERE n = ? AND c <> n", (n,)).fetchone()
            )
            if other is None:
                self._delete_memory(n)

    def _delete_memory(self, n: int) -> None:
        from hn_memory.index.searchtables import forget

        db = self._db
        raw, klass, payload = db.execute(
            "SELECT id, class, data FROM memory JOIN payload USING(n) WHERE n = ?", (n,)
        ).fetchone()
        entry = entry_of("sha256:" + raw.hex(), payload)
        if klass is not None:
            self._count(klass, -1)
            # A contentless FTS table forgets a row only when it is told what the row said.
            db.execute("INSERT INTO terms(terms, rowid, text) VALUES('delete', ?, ?)", (n, entry.text))
            db.execute("DELETE FROM same WHERE d = ? AND n = ?", (entry.same, n))
            forget(db, n, payload)
        for table, key, users, column, items in (
            (*_NAMES[0], "name", entry.topics),
            (*_NAMES[1], "name", tuple(path for path, _ in entry.paths)),
            (*_NAMES[2], "item", entry.evidence),
        ):
            numbers = self._numbers(table, key, column, items)
            for number in (numbers[item] for item in items):
                db.execute(f"DELETE FROM {users} WHERE {key} = ? AND n = ?", (number, n))
                self._unnamed.setdefault(table, set()).add(number)
        self._emptied = True
        for table in ("memory", "payload", "edge", "lost"):
            db.execute(f"DELETE FROM {table} WHERE n = ?", (n,))
        self._touched.discard(n)
        self._targets.add(raw)
        if entry.target is not None:
            self._released.add(bytes.fromhex(entry.target[7:]))

    def _check_paths(self, entries: Sequence[Entry]) -> None:
        """What path pairs amount to at their anchors; asked of the repository once per distinct set."""
        wanted = {(entry.anchor, entry.paths) for entry in entries if entry.paths} - self._site_checks.keys()
        if not wanted:
            return
        from hn_memory.protocol.record import Anchor, PathAnchor

        world = self._world
        if world is None:
            from hn_memory.repository.world import RepositoryWorld

            world = self._world = RepositoryWorld(self._repository, "")
        anchors = {
            key: Anchor(key[0], tuple(PathAnchor(path, blob) for path, blob in key[1])) for key in sorted(wanted)
        }
        world.prepare(anchors.values(), (), ())
        for key, anchor in anchors.items():
            state = world.anchor_state(anchor)
            exists = world.commit_state(anchor.commit) is None
            self._site_checks[key] = (
                PATHS_HOLD if state is None
                else PATHS_BROKEN if state == "anchor-invalid" and exists
                else PATHS_UNKNOWN
            )  # fmt: skip

    # -- names --------------------------------------------------------------------------------------------

    def _among(self, question: str, values: Iterable[object]) -> Iterator[Any]:
        """Rows of a question that ends with a column, for all those values of it."""
        pending = iter(values)
        while part := [*islice(pending, _AT_ONCE)]:
            yield from self._db.execute(f"{question} IN ({','.join('?' * len(part))})", part).fetchall()

    def _numbers(self, table: str, key: str, column: str, names: Iterable[str]) -> dict[str, int]:
        """Names and their numbers in a table; those that are new are stored."""
        numbers = self._named.setdefault(table, {})
        unknown = [name for name in dict.fromkeys(names) if name not in numbers]
        numbers.update(self._among(f"SELECT {column}, {key} FROM {table} WHERE {column}", unknown))
        new = [name for name in unknown if name not in numbers]
        if new:
            (last,) = self._db.execute(f"SELECT coalesce(max({key}), 0) FROM {table}").fetchone()
            numbers.update(zip(new, range(last + 1, last + 1 + len(new)), strict=True))
            self._db.executemany(
                f"INSERT INTO {table}({column}, {key}) VALUES(?,?)", [(name, numbers[name]) for name in new]
            )
        return numbers

    def _id(self, table: str, key: str, columns: tuple[str, ...], values: tuple[object, ...]) -> int:
        cached = self._ids.get((table, values))
        if cached is not None:
            return cached
        where = " AND ".join(f"{column} = ?" for column in columns)
        row = self._db.execute(f"SELECT {key} FROM {table} WHERE {where}", values).fetchone()
        if row is None:
            marks = ", ".join("?" * len(values))
            cursor = self._db.execute(f"INSERT INTO {table}({', '.join(columns)}) VALUES({marks})", values)
            row = (cursor.lastrowid,)
        self._ids[(table, values)] = int(row[0])
        return int(row[0])

    def _forget_ids(self) -> None:
        """After a rollback: nothing remembered may name a row that is gone."""
        self._ids.clear()
        self._named.clear()
        self._first_classes.clear()
        self._class_records.clear()
        self._touched.clear()
        self._targets.clear()
        self._released.clear()

    def _actor(self, actor: str) -> int:
        return self._id("actor", "a", ("id",), (actor,))

    def _stream(self, actor: str, stream: str) -> int:
        return self._id("stream", "s", ("a", "id"), (self._actor(actor), stream))

    def _voice(self, actor: int, kind: str) -> int:
        if kind not in KINDS:
            raise ValueError(kind)
        return self._id("voice", "v", ("a", "kind"), (actor, kind))

    def _site(self, entry: Entry) -> int:
        paths = self._site_checks[(entry.anchor, entry.paths)] if entry.paths else PATHS_NONE
        return self._id(
            "site", "s", ("anchor", "mode", "subject", "paths"), (entry.anchor, entry.mode, entry.subject or "", paths)
        )

    def _class(self, voice: int, site: int, life: int) -> int:
        cached = self._ids.get(("class", (voice, site, life)))
        if cached is not None:
            return cached
        row = self._db.execute("SELECT k FROM class WHERE v = ? AND s = ? AND life = ?", (voice, site, life)).fetchone()
        if row is None:
            cursor = self._db.execute("INSERT INTO class(v, s, life, records) VALUES(?,?,?,0)", (voice, site, life))
            row = (cursor.lastrowid,)
        self._ids[("class", (voice, site, life))] = int(row[0])
        return int(row[0])

    def _count(self, klass: int, by: int) -> None:
        self._class_records[klass] = self._class_records.get(klass, 0) + by
        self._emptied = self._emptied or by < 0

    def _sweep(self) -> None:
        """Forget names that nothing uses any more: of what is gone, not even a topic stays."""
        if not self._emptied:
            return
        db = self._db
        for table, key, users in _NAMES:
            db.executemany(
                f"DELETE FROM {table} WHERE {key} = ?1 AND NOT EXISTS (SELECT 1 FROM {users} WHERE {key} = ?1)",
                [(number,) for number in self._unnamed.get(table, ())],
            )
        db.execute("DELETE FROM class WHERE records = 0")
        db.execute("DELETE FROM voice WHERE v NOT IN (SELECT v FROM class)")
        db.execute("DELETE FROM site WHERE s NOT IN (SELECT s FROM class)")
        # Every link hangs on the tip of a source, so the tips name all streams.
        db.execute("DELETE FROM stream WHERE s NOT IN (SELECT link.s FROM source JOIN link ON link.c = source.tip)")
        db.execute("DELETE FROM actor WHERE a NOT IN (SELECT a FROM stream)")
        self._emptied = False
        self._unnamed.clear()
        self._ids.clear()
        self._named.clear()
        self._first_classes.clear()
