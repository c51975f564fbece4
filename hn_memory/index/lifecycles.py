"""The lifecycles of the records that the index holds: which of them a change touches, and what they are now.

The rules are `protocol.projection`'s. Records are judged many at a time: a question for each would be most of the
work where thousands of relationships come in at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

from hn_memory.index.rows import Rows, entry_of
from hn_memory.index.schema import LIFE_CODES, PATHS_UNKNOWN
from hn_memory.protocol.jsonbytes import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final


_SUPERSEDED: Final = LIFE_CODES["superseded"]
_RETRACTED: Final = LIFE_CODES["retracted"]

_PORTION: Final = 500
"""Payloads held at a time."""


class Lifecycles(Rows):
    """Whoever stores or drops rows calls `_settle` before it looks at lifecycles."""

    def _settle(self) -> None:
        """Lifecycles of every record that a new, dropped or newly found relationship names."""
        affected = set(self._touched)
        spoken_of = set(self._released)
        # Relationships waiting for a target that has come or gone; most memories have none.
        for target, n in self._among("SELECT target, n FROM edge WHERE target", [*(self._targets | self._released)]):
            spoken_of.add(target)
            affected.add(n)
        affected.update(n for (n,) in self._among("SELECT n FROM memory WHERE id", [*spoken_of]))
        self._judge_all(sorted(affected))
        self._write_counts()
        self._touched.clear()
        self._targets.clear()
        self._released.clear()

    def _settle_from_nothing(self) -> None:
        """Lifecycles of all records, where none has been judged so far."""
        related = "SELECT n FROM edge UNION SELECT memory.n FROM edge JOIN memory ON memory.id = edge.target"
        self._judge_all([n for (n,) in self._db.execute(related)])
        self._write_counts()

    def _judge_all(self, affected: Collection[int]) -> None:
        if not affected:
            return
        turned = self._judge(affected)
        # Whether a superseded record is lost depends on the lifecycles of its successors.
        targets = self._among("SELECT m.n FROM edge e JOIN memory m ON m.id = e.target WHERE e.n", turned)
        self._judge_lost({*affected, *(n for (n,) in targets)})

    def _write_counts(self) -> None:
        self._db.executemany(
            "UPDATE class SET records = records + ? WHERE k = ?",
            [(by, klass) for klass, by in self._class_records.items() if by],
        )
        self._class_records.clear()

    def _judge(self, affected: Collection[int]) -> list[int]:
        """Give these records the lifecycles they have now; those that turned, in their order."""
        from hn_memory.protocol.projection import lifecycle_state

        orphans = {
            n
            for (n,) in self._among(
                "SELECT e.n FROM edge e JOIN memory m ON m.n = e.n WHERE e.op = 'supersede' AND e.target <> m.id "
                "AND NOT EXISTS (SELECT 1 FROM memory WHERE id = e.target) AND e.n",
                affected,
            )
        }
        spoken: dict[int, dict[str, int]] = {}
        for n, operation in self._among(
            "SELECT m.n, e.op FROM memory m JOIN class ON k = m.class JOIN voice USING(v) "
            "JOIN edge e ON e.target = m.id AND e.n <> m.n AND e.op <> 'challenge' AND e.a = voice.a WHERE m.n",
            affected,
        ):
            counts = spoken.setdefault(n, {})
            counts[operation] = counts.get(operation, 0) + 1
        turned: list[tuple[int, int, int]] = []
        judged = self._among("SELECT n, memory.life, v, s, k FROM memory JOIN class ON k = class WHERE n", affected)
        for n, life, voice, site, klass in judged:
            counts = spoken.get(n, {})
            state = LIFE_CODES[lifecycle_state(n in orphans, counts.get("retract", 0), counts.get("supersede", 0))]
            if state != life:
                now = self._class(voice, site, state)
                self._count(klass, -1)
                self._count(now, 1)
                turned.append((state, now, n))
        self._db.executemany("UPDATE memory SET life = ?, class = ? WHERE n = ?", turned)
        self._retag({n: klass for _, klass, n in turned})
        return [n for _, _, n in turned]

    def _judge_lost(self, affected: Collection[int]) -> None:
        """A superseded record is lost when every successor is retracted: nothing current speaks for it."""
        superseded = {n for (n,) in self._among(f"SELECT n FROM memory WHERE life = {_SUPERSEDED} AND n", affected)}
        followed = {
            n
            for (n,) in self._among(
                "SELECT m.n FROM memory m JOIN class ON k = m.class JOIN voice USING(v) "
                "JOIN edge e ON e.target = m.id AND e.op = 'supersede' AND e.n <> m.n AND e.a = voice.a "
                f"JOIN memory s ON s.n = e.n AND s.life <> {_RETRACTED} WHERE m.n",
                superseded,
            )
        }
        lost = superseded - followed
        self._db.executemany("DELETE FROM lost WHERE n = ?", _single(set(affected) - lost))
        self._db.executemany("INSERT OR IGNORE INTO lost(n) VALUES(?)", _single(lost))

    def _resolve_unknown_paths(self) -> None:
        """Judge again the paths of records whose anchor was not here when they were read, where it is now."""
        db = self._db
        anchors = [row[0] for row in db.execute(f"SELECT DISTINCT anchor FROM site WHERE paths = {PATHS_UNKNOWN}")]
        if not anchors:
            return
        here = [oid for oid, info in self._repository.info(anchors).items() if info.type == "commit"]
        for anchor in here:
            rows = db.execute(
                "SELECT memory.n, memory.id, memory.life, class.k, class.v, data FROM site "
                "JOIN class ON class.s = site.s JOIN memory ON memory.class = class.k JOIN payload USING(n) "
                "WHERE site.anchor = ? AND site.paths = ?",
                (anchor, PATHS_UNKNOWN),
            ).fetchall()
            moved: dict[int, int] = {}
            for n, raw, life, klass, voice, payload in rows:
                entry = entry_of("sha256:" + raw.hex(), payload)
                self._check_paths([entry])
                now = self._class(voice, self._site(entry), life)
                if now != klass:
                    self._count(klass, -1)
                    self._count(now, 1)
                    moved[n] = now
            db.executemany("UPDATE memory SET class = ? WHERE n = ?", [(klass, n) for n, klass in moved.items()])
            self._retag(moved)
        self._settle()

    def _retag(self, classes: dict[int, int]) -> None:
        """Tell the topics of records that these have another class."""
        numbers = iter(classes)
        while portion := [*islice(numbers, _PORTION)]:
            named = [
                (n, loads(payload)["record"]["topics"])
                for n, payload in self._among("SELECT n, data FROM payload WHERE n", portion)
            ]
            topics = self._numbers("topic", "t", "name", (name for _, names in named for name in names))
            self._db.executemany(
                "UPDATE tagged SET class = ? WHERE t = ? AND n = ?",
                [(classes[n], topics[name], n) for n, names in named for name in names],
            )


def _single(numbers: Iterable[int]) -> Iterator[tuple[Any]]:
    return ((n,) for n in numbers)
