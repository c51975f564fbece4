"""Selection from the verified index: what matches, in which order, and what each gate withholds.

Gates that depend on who speaks and where a record is anchored are judged once per voice and site; the
database joins the verdicts and counts. Records that the filters exclude are never read. What depends on the
object store (anchors, ancestry, evidence, events) is asked of it afresh, in bulk.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from hn_memory.index.lookup import contains, valid_edges
from hn_memory.index.schema import LIFE_CODES, PATHS_BROKEN, PATHS_UNKNOWN
from hn_memory.protocol.projection import LIFECYCLES, Context
from hn_memory.protocol.query import NormalRequest
from hn_memory.recall.gates import (
    EVIDENCE_MISSING,
    FILTERED,
    NO_MATCH,
    applicability_gate,
    lifecycle_gate,
    site_is_filtered,
    trust_gate,
    voice_is_filtered,
)
from hn_memory.repository.world import RepositoryWorld
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


_SORT_AT_MOST = 4096
"""Up to this many candidates are sorted outright; beyond it the order index is walked until a page is full."""


_AT_ONCE: Final = 64
"""Terms of one search of the database."""

_VERDICTS: Final = (
    "CROSS JOIN temp.voice_gate AS voice ON voice.key = class.v CROSS JOIN temp.site_gate AS site ON site.key = class.s"
)
"""In SQL: what withholds the voice and the site of a class."""

_IS_OBJECT: Final = "item >= 'git:' AND item < 'git;'"
"""In SQL: evidence that names a Git object. A range, which the index of the items answers, sorted."""

_IS_NO_OBJECT: Final = "(item < 'git:' OR item >= 'git;')"

_CUT_AT: Final = 32_768
"""Bytes of a term that FTS5 stores."""


class Callout(NamedTuple):
    """A withheld record whose silence would mislead: `branching`, or superseded by something retracted."""

    memory_id: str
    code: str
    successors: tuple[str, ...]


class Match(NamedTuple):
    """A match by its row number, with what ordering and budget need to know."""

    n: int
    memory_id: str
    lifecycle: str
    timestamp: str
    size: int


class Selection:
    """A judged request. Counts are exact; matches are read page by page.

    Attributes:
        withheld: how many records each reason withholds.
        passing: how many records pass every gate but the terms.
        matched: how many match.
    """

    _NEED: str = "size"
    """What a match takes of the content budget, in SQL."""

    def __init__(
        self, connection: sqlite3.Connection, request: NormalRequest, context: Context, world: RepositoryWorld
    ) -> None:
        self._db = connection
        self._request = request
        self._context = context
        self._world = world
        self.withheld: defaultdict[str, int] = defaultdict(int)
        # What narrows the records before the gates: a table of row numbers, or one topic.
        self._narrow: str | None = None
        self._topic: int | None = None
        connection.execute("PRAGMA temp_store = MEMORY")
        # What withholds voices and sites, by the numbers that their tables have for it. Nothing does with number 0.
        self._reasons: list[str | None] = [None]
        # Records that filters and applicability leave, by their life and the number of the trust that withholds them.
        self._open: defaultdict[tuple[int, int], int] = defaultdict(int)
        lifecycles = enumerate(lifecycle_gate(lifecycle, request) for lifecycle in LIFECYCLES)
        self._outlived = {life: reason for life, reason in lifecycles if reason is not None}
        self._is_outlived = f"class.life IN ({','.join(map(str, self._outlived))})"
        self._filter_candidates()
        self._judge_voices()
        self._judge_sites()
        # Git looks for the evidence while the classes are judged.
        absent = self._ask_evidence()
        self._judge_classes()
        self._lacking = self._find_lacking(absent)
        self.passing = self._count_late()
        self.matched = self.passing
        if request.terms:
            self._find_terms()
            self.matched = self._count_matches()
            if self.passing > self.matched:
                self.withheld[NO_MATCH] += self.passing - self.matched

    @property
    def considered(self) -> int:
        """Records looked at: the matches and everything withheld."""
        return self.matched + sum(self.withheld.values())

    # -- the gates ----------------------------------------------------------------------------------------

    def _table(self, name: str, columns: str) -> None:
        """An empty table. It stays for the next question, whose statements are then still prepared."""
        self._db.execute(f"CREATE TEMP TABLE IF NOT EXISTS {name}({columns})")
        self._db.execute(f"DELETE FROM temp.{name}")

    def _filter_candidates(self) -> None:
        """Topics and a path narrow the records before anything else is looked at."""
        request = self._request
        if request.path is None and len(request.topics) == 1:
            self._pool_of_topic(request.topics[0])
            return
        sets = [(_tagged("(SELECT t FROM topic WHERE name = ?)"), topic) for topic in request.topics]
        if request.path is not None:
            sets.append(("SELECT n FROM bound WHERE p = (SELECT p FROM path WHERE name = ?)", request.path))
        if not sets:
            self._pool = "class"
            return
        self._table("candidate", "n INTEGER PRIMARY KEY")
        self._db.execute(
            "INSERT INTO candidate " + " INTERSECT ".join(sql for sql, _ in sets), [value for _, value in sets]
        )
        self._narrow = "candidate"
        self._table("pool", "k INTEGER PRIMARY KEY, records INTEGER")
        self._db.execute(
            "INSERT INTO pool SELECT class, count(*) FROM candidate CROSS JOIN memory USING(n) GROUP BY class"
        )
        self._pool = "temp.pool"

    def _pool_of_topic(self, topic: str) -> None:
        """One topic alone needs no table of candidates: its rows say the class of each record."""
        row = self._db.execute("SELECT t FROM topic WHERE name = ?", (topic,)).fetchone()
        self._topic = -1 if row is None else int(row[0])
        self._table("pool", "k INTEGER PRIMARY KEY, records INTEGER")
        self._db.execute(
            "INSERT INTO pool SELECT class, count(*) FROM tagged WHERE t = ? GROUP BY class", (self._topic,)
        )
        self._pool = "temp.pool"

    def _within(self, column: str) -> str:
        """The condition that a row number is among what the request narrows to."""
        if self._narrow is not None:
            return f"AND {column} IN (SELECT n FROM {self._narrow})"
        if self._topic is not None:
            return f"AND EXISTS (SELECT 1 FROM tagged WHERE tagged.t = {self._topic} AND tagged.n = {column})"
        return ""

    def _note(self, table: str, verdicts: Mapping[str | None, Sequence[str]]) -> None:
        """Make the table of the verdicts on voices or sites, whose numbers are given as text with commas between."""
        self._table(table, "key INTEGER PRIMARY KEY, reason INTEGER NOT NULL")
        for reason, numbers in verdicts.items():
            if reason not in self._reasons:
                self._reasons.append(reason)
            self._db.execute(
                f"INSERT INTO {table} SELECT value, ? FROM json_each(?)",
                (self._reasons.index(reason), f"[{','.join(numbers)}]"),
            )

    def _judge_voices(self) -> None:
        """Of each voice, in `voice_gate`: do the filters exclude it, or the trust class that withholds it."""
        request, policy = self._request, self._context.policy
        verdicts: defaultdict[str | None, list[str]] = defaultdict(list)
        for v, actor, kind in self._db.execute("SELECT v, actor.id, kind FROM voice JOIN actor USING(a)"):
            filtered = voice_is_filtered(actor, kind, request)
            verdicts[FILTERED if filtered else trust_gate(actor, kind, policy, request)].append(str(v))
        self._note("voice_gate", verdicts)

    def _judge_sites(self) -> None:
        """Of each site, in `site_gate`: `filtered`, or the applicability that withholds what is anchored there."""
        # Of a subject it matters only whether it is the one that was asked for.
        asked = self._request.subject
        alike = self._db.execute(
            "SELECT anchor, mode, paths, subject = ?1 AS same, group_concat(s) FROM site "
            "GROUP BY anchor, mode, paths, same",
            (asked or "",),
        ).fetchall()
        open_groups = [group for group in alike if not self._is_filtered(group[3])]
        self._world.prepare_commits(
            {anchor for anchor, *_ in open_groups},
            {anchor for anchor, mode, *_ in open_groups if mode == "descendants"},
            (),
        )
        verdicts: defaultdict[str | None, list[str]] = defaultdict(list)
        for group in alike:
            verdicts[self._judge_group(*group[:4])].append(group[4])
        self._note("site_gate", verdicts)

    def _is_filtered(self, same: int) -> bool:
        return site_is_filtered(self._request.subject if same else None, self._request)

    def _judge_group(self, anchor: str, mode: str, paths: int, same: int) -> str | None:
        if self._is_filtered(same):
            return FILTERED
        state = self._world.commit_state(anchor)
        if state is None and paths == PATHS_BROKEN:
            state = "anchor-invalid"
        elif state is None and paths == PATHS_UNKNOWN:
            state = "anchor-missing"
        return applicability_gate(state, anchor, mode, self._request.subject if same else None, self._context)

    @property
    def _classes(self) -> str:
        """What the request looks at, class by class, with the verdicts on voice and site; in SQL."""
        source = "class" if self._pool == "class" else "temp.pool AS pool CROSS JOIN class USING(k)"
        return f"{source} {_VERDICTS}"

    def _judge_classes(self) -> None:
        """Filters and applicability, class by class; what they leave stands in `_open`."""
        db, withheld = self._db, self.withheld
        records = "class.records"
        if self._pool != "class":
            records = "pool.records"
            everything = db.execute("SELECT sum(records) FROM class").fetchone()[0] or 0
            withheld[FILTERED] += everything - (db.execute("SELECT sum(records) FROM temp.pool").fetchone()[0] or 0)
        # Few sums of many rows: adding them up in place takes half as long as sorting the rows for GROUP BY.
        self._table("judged", "key INTEGER PRIMARY KEY, records INTEGER NOT NULL")
        db.execute(
            f"INSERT INTO judged SELECT (class.life << 16) + (voice.reason << 8) + site.reason, {records} "
            f"FROM {self._classes} WHERE true ON CONFLICT(key) DO UPDATE SET records = records + excluded.records"
        )
        for key, count in db.execute("SELECT key, records FROM judged").fetchall():
            life, voice, site = key >> 16, key >> 8 & 0xFF, key & 0xFF
            reason = FILTERED if self._reasons[voice] == FILTERED else self._reasons[site]
            if reason is None:
                self._open[life, voice] += count
            elif count:
                withheld[reason] += count

    def _ask_evidence(self) -> Callable[[], set[str]]:
        """Begin to ask which of the objects that are cited are absent."""
        # All evidence in one question, whatever the filters: telling which is cited by whom takes longer.
        items = f"SELECT substr(item, 5) AS oid FROM evidence WHERE {_IS_OBJECT}"
        (objects,) = self._db.execute(f"SELECT group_concat(oid) FROM ({items})").fetchone()
        return self._world.ask_absent(objects.split(",") if objects else ())

    def _find_lacking(self, gone: Callable[[], set[str]]) -> bool:
        """Records that cite something absent, in `lacking`; False when there are none."""
        db = self._db
        absent = [
            (e,)
            for e, item in db.execute(f"SELECT e, item FROM evidence WHERE {_IS_NO_OBJECT}").fetchall()
            if not self._is_here(item)
        ]
        absent += [db.execute("SELECT e FROM evidence WHERE item = ?", (f"git:{oid}",)).fetchone() for oid in gone()]
        self._table("lacking", "n INTEGER PRIMARY KEY")
        if not absent:
            return False
        self._table("absent", "e INTEGER PRIMARY KEY")
        db.executemany("INSERT INTO absent VALUES(?)", absent)
        db.execute(
            "INSERT OR IGNORE INTO lacking SELECT cites.n FROM absent CROSS JOIN cites USING(e) "
            f"WHERE 1 {self._within('cites.n')}"
        )
        counted = db.execute(
            "SELECT class.life, voice.reason, count(*) FROM lacking CROSS JOIN memory USING(n) "
            f"CROSS JOIN class ON k = memory.class {_VERDICTS} WHERE site.reason = 0 GROUP BY 1, 2"
        ).fetchall()
        counted = [row for row in counted if self._reasons[row[1]] != FILTERED]
        for life, voice, records in counted:
            self._open[life, voice] -= records
            self.withheld[EVIDENCE_MISSING] += records
        return bool(counted)

    def _is_here(self, item: str) -> bool:
        kind, _, name = item.partition(":")
        return self._world.event_accepted(name) if kind == "event" else contains(self._db, name)

    def _count_late(self) -> int:
        """Lifecycle and trust; classes that pass stand in `passing`."""
        total = 0
        for (life, voice), records in self._open.items():
            reason = self._outlived.get(life) or self._reasons[voice]
            if reason is None:
                total += records
            elif records:
                self.withheld[reason] += records
        self._table("passing", "k INTEGER PRIMARY KEY")
        self._db.execute(
            f"INSERT INTO passing SELECT k FROM {self._classes} WHERE site.reason = 0 AND voice.reason = 0 "
            f"AND NOT {self._is_outlived}"
        )
        return total

    def _find_terms(self) -> None:
        db, wanted = self._db, self._request.terms
        also = self._within("terms.rowid")
        self._table("hit", "n INTEGER PRIMARY KEY")
        db.execute(f"INSERT INTO hit SELECT rowid FROM terms WHERE terms MATCH ? {also}", (_all_of(wanted[:_AT_ONCE]),))
        # The time of a search grows with the square of its terms, so the rest go in portions, over fewer records.
        for at in range(_AT_ONCE, len(wanted), _AT_ONCE):
            if db.execute("SELECT 1 FROM hit").fetchone() is None:
                break
            db.execute(
                "DELETE FROM hit WHERE n NOT IN (SELECT rowid FROM terms WHERE terms MATCH ?)",
                (_all_of(wanted[at : at + _AT_ONCE]),),
            )
        self._compare_long(frozenset(term for term in wanted if len(term.encode()) >= _CUT_AT))
        self._narrow = "hit"

    def _compare_long(self, wanted: frozenset[str]) -> None:
        """The search tables cut terms short: whoever seems to hold a very long one is read."""
        if not wanted:
            return
        from hn_memory.index.rows import entry_of
        from hn_memory.protocol.unicode import terms

        db = self._db
        for n, data in db.execute("SELECT n, data FROM hit CROSS JOIN payload USING(n)").fetchall():
            if not wanted.issubset(terms(entry_of("", data).text)):
                db.execute("DELETE FROM hit WHERE n = ?", (n,))

    def _count_matches(self) -> int:
        (count,) = self._db.execute(
            "SELECT count(*) FROM hit CROSS JOIN memory USING(n) CROSS JOIN passing ON k = class "
            f"WHERE 1 {self._not_lacking()}"
        ).fetchone()
        return int(count)

    def _not_lacking(self) -> str:
        return "AND n NOT IN (SELECT n FROM lacking)" if self._lacking else ""

    # -- matches ------------------------------------------------------------------------------------------

    def find(self, memory_id: str) -> Match | None:
        """The match of that ID, or None when it is none (any more)."""
        rows = self._db.execute(
            f"SELECT n, id, life, ts, {self._NEED} FROM memory WHERE id = ? {self._conditions()}",
            (bytes.fromhex(memory_id[7:]),),
        )
        return next(map(_match, rows), None)

    def first_larger(self, bound: int) -> Match | None:
        """The first match in order that takes more than `bound` bytes of the content budget."""
        rows = self._db.execute(
            f"SELECT n, id, life, ts, {self._NEED} FROM memory WHERE {self._NEED} > ? {self._conditions()} "
            "ORDER BY life, ts DESC, id LIMIT 1",
            (bound,),
        )
        return next(map(_match, rows), None)

    def matches(self, after: Match | None, limit: int) -> Iterator[Match]:
        """Up to `limit` matches in recall's order, after one of them or from the first."""
        start = 0 if after is None else LIFE_CODES[after.lifecycle]
        beyond: tuple[object, ...] = (
            () if after is None else (after.timestamp, after.timestamp, bytes.fromhex(after.memory_id[7:]))
        )
        narrowed = self._narrow or (f"({_tagged(str(self._topic))})" if self._topic else None)
        small = narrowed is not None and self._is_small(narrowed)
        origin = f"{narrowed} CROSS JOIN memory USING(n)" if small else "memory INDEXED BY memory_order"
        narrow = "" if small else self._within("memory.n")
        for life in range(start, len(LIFECYCLES)):
            if limit <= 0:
                return
            later = "AND ts <= ? AND NOT (ts = ? AND id <= ?)" if after is not None and life == start else ""
            for row in self._db.execute(
                f"SELECT memory.n, id, life, ts, {self._NEED} FROM {origin} WHERE life = ? AND class IS NOT NULL "
                f"AND class IN (SELECT k FROM passing) {narrow} {self._not_lacking()} {later} "
                "ORDER BY ts DESC, id LIMIT ?",
                (life, *(beyond if later else ()), limit),
            ).fetchall():
                limit -= 1
                yield _match(row)

    def _is_small(self, table: str) -> bool:
        (rows,) = self._db.execute(f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT {_SORT_AT_MOST + 1})").fetchone()
        return int(rows) <= _SORT_AT_MOST

    def _conditions(self) -> str:
        return f"AND class IN (SELECT k FROM passing) {self._within('memory.n')} {self._not_lacking()}"

    # -- callouts -----------------------------------------------------------------------------------------

    def callouts(self, limit: int) -> tuple[list[Callout], dict[str, int]]:
        """Withheld records whose silence would mislead, sorted by ID, and how many there are of each code."""
        self._table("called", "n INTEGER PRIMARY KEY, id BLOB, code TEXT")
        self._db.execute(f"INSERT INTO called {self._called_out()}")
        counts = dict(self._db.execute("SELECT code, count(*) FROM called GROUP BY code").fetchall())
        if not counts:
            return [], counts
        shown = [
            Callout("sha256:" + raw.hex(), code, tuple(valid_edges(self._db, n).successors))
            for n, raw, code in self._db.execute("SELECT n, id, code FROM called ORDER BY id LIMIT ?", (limit,))
        ]
        return shown, counts

    def _called_out(self) -> str:
        """The query for what is called out: row number, ID and code."""
        narrow = self._within("memory.n")
        lacking = "AND memory.n NOT IN (SELECT n FROM lacking)" if self._lacking else ""
        code = f"CASE WHEN life = {LIFE_CODES['branching']} THEN 'branching' ELSE 'successor-retracted' END"
        tail = (
            f"EXISTS (SELECT 1 FROM class {_VERDICTS} WHERE k = memory.class AND site.reason = 0 AND voice.reason = 0 "
            f"AND {self._is_outlived}) {narrow} {lacking}"
        )
        branching = (
            f"SELECT memory.n, id, {code} AS code FROM memory INDEXED BY memory_order "
            f"WHERE life = {LIFE_CODES['branching']} AND class IS NOT NULL AND {tail}"
        )
        lost = f"SELECT memory.n, id, {code} AS code FROM lost CROSS JOIN memory USING(n) WHERE {tail}"
        return f"{branching} UNION ALL {lost}"


def _tagged(topic: str) -> str:
    """In SQL: what is under a topic. The condition that says nothing has it come in order."""
    return f"SELECT n FROM tagged WHERE t = {topic} AND n > 0"


def _all_of(wanted: Sequence[str]) -> str:
    return " AND ".join(f'"{term}"' for term in wanted)


def _match(row: tuple[int, bytes, int, str, int]) -> Match:
    n, raw, life, timestamp, size = row
    return Match(n, "sha256:" + raw.hex(), LIFECYCLES[life], timestamp, size)
