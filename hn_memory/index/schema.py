"""The tables of the verified index.

What never changes is keyed by content: a memory by its ID, its payload, terms, topics, paths, evidence and
relationship, and the commit that carries it with its place in the stream. What depends on tips: which
sources there are (`source`), how many of them hold a commit (`link.live`), and the lifecycle that follows.

A record's judgments are grouped so that a receipt's exact counts come from few rows: a `voice` is an actor
speaking in a kind (trust, filters), a `site` is where and how a record is anchored (applicability), and a
`class` is a voice, a site and a lifecycle with the number of records that share all three.

`tagged` repeats the class, so that the records of a topic are counted without being looked up; `tagged_class` has
them in that order.

`same` finds records of the same content: `d` is the first eight bytes of its digest. `words` holds what search
looks for, with `place` (where a record stands in its stream, and its content's digest), `lengths` (its length, a
byte for each row number), `tally` (how many records and words there are) and `vector` (what an embedder made of a
content). These are filled by the first search that finds them behind (`index.searchtables`), so that nobody else
waits for them.

Of a memory, `size` is what its content takes of recall's budget, `searched` what grep's work limit counts of it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


APPLICATION_ID: Final = 0x686E6D30
SCHEMA_VERSION: Final = 7

LIFE_CODES: Final = {"active": 0, "superseded": 1, "retracted": 2, "branching": 3, "dependency-missing": 4}
"""Lifecycles by their place in recall's order."""

PATHS_NONE: Final = 0
PATHS_HOLD: Final = 1
PATHS_BROKEN: Final = 2
PATHS_UNKNOWN: Final = 3
"""What a record's path pairs amount to at its anchor commit. The first three follow from content alone and
never change; `PATHS_UNKNOWN` is for a commit or tree that was not here when the record was read."""

TABLES: Final = """
CREATE TABLE source(
    ref TEXT PRIMARY KEY, head TEXT NOT NULL, tip INTEGER, code TEXT, reason TEXT, broken TEXT, position INTEGER
) WITHOUT ROWID;
CREATE TABLE actor(a INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
CREATE TABLE stream(s INTEGER PRIMARY KEY, a INTEGER NOT NULL, id TEXT NOT NULL, UNIQUE(a, id));
CREATE TABLE link(
    c INTEGER PRIMARY KEY, oid BLOB NOT NULL, n INTEGER NOT NULL, parent INTEGER,
    s INTEGER NOT NULL, sequence INTEGER NOT NULL, live INTEGER NOT NULL
);
CREATE TABLE memory(
    n INTEGER PRIMARY KEY, id BLOB NOT NULL, class INTEGER, life INTEGER, ts TEXT NOT NULL, size INTEGER,
    searched INTEGER
);
CREATE TABLE payload(n INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE voice(v INTEGER PRIMARY KEY, a INTEGER NOT NULL, kind TEXT NOT NULL, UNIQUE(a, kind));
CREATE TABLE site(
    s INTEGER PRIMARY KEY, anchor TEXT NOT NULL, mode TEXT NOT NULL, subject TEXT NOT NULL, paths INTEGER NOT NULL,
    UNIQUE(anchor, mode, subject, paths)
);
CREATE TABLE class(
    k INTEGER PRIMARY KEY, v INTEGER NOT NULL, s INTEGER NOT NULL, life INTEGER NOT NULL, records INTEGER NOT NULL,
    UNIQUE(v, s, life)
);
CREATE TABLE edge(n INTEGER PRIMARY KEY, op TEXT NOT NULL, a INTEGER NOT NULL, target BLOB NOT NULL);
CREATE TABLE lost(n INTEGER PRIMARY KEY);
CREATE TABLE evidence(e INTEGER PRIMARY KEY, item TEXT NOT NULL UNIQUE);
CREATE TABLE cites(e INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(e, n)) WITHOUT ROWID;
CREATE TABLE topic(t INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE tagged(
    t INTEGER NOT NULL, n INTEGER NOT NULL, class INTEGER NOT NULL, PRIMARY KEY(t, n)
) WITHOUT ROWID;
CREATE TABLE path(p INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE bound(p INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(p, n)) WITHOUT ROWID;
CREATE TABLE same(d INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(d, n)) WITHOUT ROWID;
CREATE VIRTUAL TABLE terms USING fts5(text, content='', detail=none, columnsize=0, tokenize=ascii);
CREATE VIRTUAL TABLE words USING fts5(
    text, content='', detail=none, columnsize=0, tokenize="ascii tokenchars ':+#'"
);
CREATE TABLE place(
    n INTEGER PRIMARY KEY, s INTEGER NOT NULL, sequence INTEGER NOT NULL, digest BLOB NOT NULL
);
CREATE INDEX place_at ON place(s, sequence);
CREATE TABLE lengths(k INTEGER PRIMARY KEY, codes BLOB NOT NULL);
CREATE TABLE tally(records INTEGER NOT NULL, words INTEGER NOT NULL);
INSERT INTO tally VALUES(0, 0);
CREATE TABLE vector(
    digest BLOB NOT NULL, model TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY(digest, model)
) WITHOUT ROWID;
"""

INDEXES: Final = f"""
CREATE UNIQUE INDEX link_oid ON link(oid);
CREATE INDEX link_again ON link(n) WHERE c <> n;
CREATE UNIQUE INDEX memory_id ON memory(id);
CREATE INDEX edge_target ON edge(target);
CREATE INDEX site_unknown ON site(anchor) WHERE paths = {PATHS_UNKNOWN};
"""
"""Made apart from the tables: sorting a hundred thousand keys at once is cheaper than finding each its place."""

JUDGED_INDEXES: Final = """
CREATE INDEX memory_order ON memory(life, ts DESC, class) WHERE class IS NOT NULL;
CREATE INDEX tagged_class ON tagged(t, class);
"""
"""Those over what lifecycles change; made when all records have been judged."""

SEARCH_TABLES: Final = (
    *(f"{table}_{part}" for table in ("terms", "words") for part in ("data", "idx", "docsize", "config", "content")),
    "place", "place_at", "lengths", "tally", "vector",
)  # fmt: skip
"""The tables that serve query and search alone; their size is counted apart."""
