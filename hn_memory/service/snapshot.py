"""The use cases of the index: rebuild, verify, status, and the `index-v0.json` snapshot (HEAD, no filter)."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from hn_memory.errors import ConflictError, HnError, NotFoundError
from hn_memory.index.lookup import memory_count, term_counts
from hn_memory.index.schema import SEARCH_TABLES
from hn_memory.index.snapshotfile import SNAPSHOT_FILE, read_snapshot, write_snapshot
from hn_memory.index.staleness import stale_sources
from hn_memory.index.store import DATABASE, Index
from hn_memory.index.usable import MISSING, UnusableIndexError, is_busy
from hn_memory.protocol import limits
from hn_memory.protocol.projection import Context
from hn_memory.protocol.query import source_fingerprint
from hn_memory.protocol.snapshot import Snapshot, build_snapshot
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.private import PrivateFiles
from hn_memory.repository.streams import list_sources
from hn_memory.repository.world import RepositoryWorld
from hn_memory.service.environment import Environment
from hn_memory.service.read import project_rows


def rebuild(environment: Environment) -> dict[str, Any]:
    """Build the index anew from the signed commits, and the snapshot of every record at HEAD from it."""
    index = environment.open_index()
    try:
        index.rebuild()
    except UnusableIndexError as error:
        raise HnError("index-unwritable", f"the index was not rebuilt: {error.why}") from None
    environment.note_invalid(index.invalid)
    context = _at_head(environment)
    tokens, least = term_counts(index.db)
    document: dict[str, Any] = {
        "version": 0,
        "state": "rebuilt",
        "memories": memory_count(index.db),
        "records": index.db.execute("SELECT coalesce(sum(records), 0) FROM class").fetchone()[0],
        "tokens": tokens,
        "snapshot": "too-large",
        "bytes": None,
        "sourceFingerprint": source_fingerprint(context.policy.digest, index.heads),
    }
    # Projecting everything for a file that will not be written would take longer than all the rest.
    if least <= limits.SNAPSHOT_BYTES:
        try:
            found = _snapshot(index, context)
            size = index.exclusively(lambda: write_snapshot(_files(environment), found))
        except UnusableIndexError as error:
            raise HnError("index-unwritable", f"the snapshot was not written: {error.why}") from None
        except HnError as error:
            if error.code != "snapshot-too-large":
                raise
        else:
            return document | {"snapshot": "written", "bytes": size}
    # What is there tells of other sources, and nothing would ever bring it up to date.
    _files(environment).remove(SNAPSHOT_FILE)
    environment.notices.append(
        f"the snapshot would have more than {limits.SNAPSHOT_BYTES} bytes and was not written; only other tools read it"
    )
    return document


def verify(environment: Environment) -> dict[str, Any]:
    """Check the database against the refs, and the snapshot, if there is one, against the sources.

    Raises:
        NotFoundError `index-missing`: there is neither a database nor a snapshot.
        HnError `index-corrupt`, `index-incompatible`, `index-stale`.
        ConflictError `index-locked`: another program holds the database, so that it cannot be looked at.
    """
    database = _database_state(environment)
    if database == "locked":
        raise ConflictError(
            "index-locked", "another program holds the index database", hint="Try again when it has let go of it."
        )
    if database in ("corrupt", "incompatible"):
        raise _bad(database, "the index database")
    snapshot: str = "missing"
    try:
        stored = read_snapshot(_files(environment))
    except NotFoundError:
        if database == "missing":
            raise NotFoundError(
                "index-missing", "there is no index", hint="`hn memory index rebuild` writes it."
            ) from None
    else:
        current = _snapshot(environment.index(), _at_head(environment))
        if stored.source_fingerprint != current.source_fingerprint:
            raise _bad("stale", "the index snapshot")
        if stored != current:
            moved = _without_judgments(stored) == _without_judgments(current)
            raise _bad("stale" if moved else "corrupt", "the index snapshot")
        snapshot = "valid"
    if database == "stale":
        raise _bad("stale", "the index database")
    return {"version": 0, "state": "valid", "database": database, "snapshot": snapshot}


# What HEAD and the object store decide of a row; the fingerprint covers neither.
_JUDGMENTS: Final = frozenset({"applicability", "evidence", "evidenceDetails", "dependencies"})


def _without_judgments(snapshot: Snapshot) -> Snapshot:
    rows = [{name: row[name] for name in row if name not in _JUDGMENTS} for row in snapshot.records]
    return snapshot._replace(records=rows)


def status(environment: Environment) -> dict[str, Any]:
    """What the index is and holds, without changing it."""
    document: dict[str, Any] = {"version": 0, "state": _database_state(environment)}
    path = _files(environment).path(DATABASE)
    if path.is_file():
        document["bytes"] = path.stat().st_size
    index = Index(environment.repository)
    try:
        index.check()
    except (UnusableIndexError, HnError):
        return document
    document["memories"] = memory_count(index.db)
    document["payloadBytes"] = index.db.execute("SELECT coalesce(sum(length(data)), 0) FROM payload").fetchone()[0]
    marks = ",".join("?" * len(SEARCH_TABLES))
    document["searchBytes"] = index.db.execute(
        f"SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name IN ({marks})",  # noqa: S608 - marks only
        SEARCH_TABLES,
    ).fetchone()[0]
    index.close()
    return document


def _bad(state: str, what: str) -> HnError:
    reasons = {
        "corrupt": "does not hold what its sources say",
        "incompatible": "was made by another version",
        "stale": "is older than the streams, the policy, HEAD or what evidence is here, which is no fault of theirs",
    }
    return HnError(f"index-{state}", f"{what} {reasons[state]}", hint="`hn memory index rebuild` writes it again.")


def _database_state(environment: Environment) -> str:
    """`valid`, `stale`, `missing`, `corrupt`, `incompatible` or `locked`, as the file stands."""
    index = Index(environment.repository)
    try:
        index.check()
        sources, _ = list_sources(environment.repository)
        moved, gone = stale_sources(index.db, sources, lambda source, broken: False)
    except UnusableIndexError as error:
        if error.busy:
            return "locked"
        return {MISSING: "missing", "it was made by another version": "incompatible"}.get(error.why, "corrupt")
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
        return "locked"
    finally:
        index.close()
    return "stale" if moved or gone else "valid"


def _files(environment: Environment) -> PrivateFiles:
    return PrivateFiles(environment.repository.layout.common_dir)


def _at_head(environment: Environment) -> Context:
    repository = environment.repository
    commit = repository.resolve_commit("HEAD")
    return Context(commit, policy_at(repository, commit), RepositoryWorld(repository, commit))


def _snapshot(index: Index, context: Context) -> Snapshot:
    def ask(db: sqlite3.Connection) -> Snapshot:
        numbers = [n for (n,) in db.execute("SELECT n FROM memory WHERE class IS NOT NULL ORDER BY id")]
        rows = (row.document() for row in project_rows(db, numbers, context))
        return build_snapshot(source_fingerprint(context.policy.digest, index.heads), rows)

    # All of it in one transaction: the file would be locked and let go of for every question else.
    return index.query(ask)
