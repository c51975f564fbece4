"""The use case of searching with a regular expression (section 8)."""

from __future__ import annotations

import sqlite3

from hn_memory.errors import UsageError
from hn_memory.protocol.projection import Context
from hn_memory.protocol.query import (
    GREP_CURSOR_DOMAIN,
    GREP_DIGEST_DOMAIN,
    Request,
    grep_document,
    normalise,
    query_digest,
    read_cursor,
    source_fingerprint,
)
from hn_memory.protocol.searchable import searchable
from hn_memory.recall.grep import PatternSelection
from hn_memory.recall.pattern import Pattern, compile_pattern
from hn_memory.recall.receipt import PATTERN_MISSING
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.world import RepositoryWorld
from hn_memory.service.environment import Environment
from hn_memory.service.read import page_of, project_rows, receipt_document, result_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def grep(environment: Environment, request: Request, pattern: str, ignore_case: bool = False) -> dict[str, Any]:
    """One page of matches and the receipt: recall's document, with `matchedFields` by memory ID beside it.

    The checks come in the order of section 8: the pattern (its bytes, its syntax, its estimate, its size), what
    else can be judged without the index, then the index, the work limit, and matching.

    Raises:
        UsageError `pattern-invalid`, `pattern-too-large`, `pattern-too-complex`, `pattern-unsupported`,
            `request-invalid`, `cursor-invalid`, `cursor-stale`.
        NotFoundError `revision-unknown`.
        HnError `policy-invalid`, `work-limit`, `bound-too-small`.
    """
    compiled = compile_pattern(pattern, ignore_case=ignore_case)
    compiled.prepare()
    if request.query:
        raise UsageError("request-invalid", "grep takes a pattern in place of a query", field="query")
    repository = environment.repository
    commit = repository.resolve_commit(request.at)
    world = RepositoryWorld(repository, commit)
    world.expect_ancestry()
    normal = normalise(request, commit)
    cursor = None if normal.cursor is None else read_cursor(GREP_CURSOR_DOMAIN, normal.cursor)
    policy = policy_at(repository, commit)
    context = Context(commit, policy, world, normal.subject, normal.path)
    index = environment.index()
    fingerprint = source_fingerprint(policy.digest, index.heads)
    digest = query_digest(GREP_DIGEST_DOMAIN, grep_document(normal, pattern, ignore_case), fingerprint, policy.digest)
    after = None if cursor is None else cursor.after(digest)

    def ask(db: sqlite3.Connection) -> dict[str, Any]:
        selection = PatternSelection(db, normal, context, world, compiled)
        page = page_of(selection, normal, after)
        rows = project_rows(db, [match.n for match in page.matches], context)
        document = result_document(digest, selection.matched, page, rows, GREP_CURSOR_DOMAIN)
        document["matchedFields"] = {row["id"]: matched_fields(row["data"], compiled) for row in document["memories"]}
        document["receipt"] = receipt_document(selection, context, index, db, no_match=PATTERN_MISSING)
        return document

    document = environment.query(index, ask)
    environment.note_invalid(index.invalid)
    return document


def matched_fields(data: dict[str, Any], pattern: Pattern) -> list[dict[str, Any]]:
    """The fields of a record in which a pattern is found, each with the line on which its first match begins.

    Lines are counted from 1; most fields but the content have only one.
    """
    found: list[dict[str, Any]] = []
    for field, text in searchable(data):
        spans = pattern.spans(text, limit=1)
        if spans:
            found.append({"field": field, "line": text.count("\n", 0, spans[0][0]) + 1})
    return found
