"""The use case of searching with a question; how it ranks is `recall.ranking`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import partial

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.index import searchtables
from hn_memory.index.store import Index
from hn_memory.index.usable import UnusableIndexError
from hn_memory.index.words import Stemmer, is_irregular
from hn_memory.protocol.projection import Context
from hn_memory.protocol.query import (
    SEARCH_CURSOR_DOMAIN,
    SEARCH_DIGEST_DOMAIN,
    NormalRequest,
    Request,
    normalise,
    query_digest,
    read_cursor,
    search_document,
    source_fingerprint,
)
from hn_memory.recall.ranking import DIGITS, MEANING_PLAIN, MODES, Mode, abstains
from hn_memory.recall.receipt import WORDS_MISSING
from hn_memory.recall.search import Hit, RankedSelection
from hn_memory.repository.policyfile import policy_at
from hn_memory.repository.settings import own_settings
from hn_memory.repository.world import RepositoryWorld
from hn_memory.service.environment import Environment
from hn_memory.service.read import (
    add_evidence_states,
    page_of,
    policy_hints,
    project_rows,
    receipt_document,
    result_document,
)
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

    from hn_memory.service.embedders import Embedder

_ANCHORS: Final = 256
"""Anchor commits in whose trees a path is looked up."""
_QUESTION_BYTES: Final = 65_536


class _Plan(NamedTuple):
    """How a question is answered: the signals, what was asked for, and why it is less than that."""

    mode: Mode
    asked: Mode
    model: str | None = None
    vector: bytes | None = None
    degraded: str | None = None


def search(
    environment: Environment,
    request: Request,
    question: str,
    mode: str | None = None,
    *,
    check_evidence: bool = False,
) -> dict[str, Any]:
    """One page of ranked matches and the receipt: recall's document, whose rows carry `score` and `why`, with
    `abstain` beside them. The path of the request is no filter here: it asks for what concerns that file.

    Raises:
        UsageError `request-invalid`, `cursor-invalid`, `cursor-stale`.
        NotFoundError `revision-unknown`.
        HnError `policy-invalid`, `bound-too-small`.
    """
    if request.query:
        raise UsageError("request-invalid", "search takes a question in place of a query", field="query")
    asked = _mode(mode)
    question = _question(question)
    repository = environment.repository
    commit = repository.resolve_commit(request.at)
    world = RepositoryWorld(repository, commit)
    world.expect_ancestry()
    normal = normalise(request, commit)
    cursor = None if normal.cursor is None else read_cursor(SEARCH_CURSOR_DOMAIN, normal.cursor)
    policy = policy_at(repository, commit)
    # The gates do not ask for the path.
    gates = normal._replace(path=None)
    context = Context(commit, policy, world, normal.subject, None)
    index = environment.index()
    if index.query(searchtables.missing):
        index.extend(partial(searchtables.fill, progress=environment.progress))
        environment.note_index(index)
    plan = _plan(environment, index, question, asked)
    digest = query_digest(
        SEARCH_DIGEST_DOMAIN,
        search_document(normal, question, plan.mode, plan.model),
        source_fingerprint(policy.digest, index.heads),
        policy.digest,
    )
    after = None if cursor is None else cursor.after(digest)

    def ask(db: sqlite3.Connection) -> dict[str, Any]:
        _complete(index, db)
        concern = None if normal.path is None else _concern(environment, db, normal)
        without: list[int] = []
        selection = RankedSelection(
            db, gates, context, world, question, plan.mode, _nearness(plan, without), concern, environment.stemmer
        )
        environment.stemmer = selection.stemmer
        page = page_of(selection, gates, after)
        rows = project_rows(db, [match.n for match in page.matches], context)
        document = result_document(digest, selection.matched, page, rows, SEARCH_CURSOR_DOMAIN)
        hits = [selection.hit(match.n) for match in page.matches]
        document["abstain"] = _abstains(plan.mode, hits)
        stems = frozenset(selection.stems)
        for row, hit in zip(document["memories"], hits, strict=True):
            row["score"] = hit.score
            row["why"] = _why(row["data"], hit, stems, selection.stemmer)
        document["receipt"] = receipt_document(selection, context, index, db, no_match=WORDS_MISSING)
        document["receipt"]["search"] = _described(plan)
        if not selection.words and normal.path is None and plan.mode != "meaning":
            document["receipt"]["hints"].append("the question holds no word to look for")
        if any(without):
            document["receipt"]["hints"].append(
                f"{sum(without)} found by words alone: the embedder gave zeros for them"
            )
        return document

    document = environment.query(index, ask)
    if check_evidence:
        add_evidence_states(environment, document, commit, document["memories"])
    if plan.degraded is not None:
        document["receipt"]["hints"].append(f"answered by words alone: {plan.degraded}")
    document["receipt"]["hints"] += policy_hints(environment, policy, document["matched"])
    environment.note_invalid(index.invalid)
    return document


def _mode(mode: str | None) -> Mode | None:
    for known in MODES:
        if mode == known:
            return known
    if mode is None:
        return None
    raise UsageError("request-invalid", f"unknown mode {mode[:40]!a}; one of {', '.join(MODES)}", field="mode")


def _question(question: str) -> str:
    try:
        size = len(question.encode())
    except UnicodeEncodeError:
        raise UsageError("request-invalid", "the question is not valid UTF-8", field="question") from None
    if size > _QUESTION_BYTES:
        raise UsageError("request-invalid", f"the question has more than {_QUESTION_BYTES} bytes", field="question")
    return question


def _complete(index: Index, db: sqlite3.Connection) -> None:
    """Between two looks somebody may have brought in more."""
    if not searchtables.missing(db):
        return
    if index.on_disk:
        raise UnusableIndexError("another process is changing it", rebuild=False)
    searchtables.fill(db)


# -- meaning ----------------------------------------------------------------------------------------------


def _plan(environment: Environment, index: Index, question: str, asked: Mode | None) -> _Plan:
    """What the question can be answered by; whatever is wrong with the embedder leaves the words."""
    if asked == "lexical" or not question.strip():
        return _Plan("lexical", asked or "lexical")
    wanted: Mode = asked or "hybrid"
    try:
        settings = own_settings(environment.repository)
    except HnError as error:
        return _Plan("lexical", wanted, degraded=error.message)
    if not settings and asked is None:
        return _Plan("lexical", "lexical")
    # Most clones have no embedder, and load none of this.
    from hn_memory.service import embedders

    try:
        embedder = embedders.configured(environment, settings)
        if embedder is None:
            if asked is None:
                return _Plan("lexical", "lexical")
            return _Plan("lexical", wanted, degraded="no embedder is configured; see `hn help search`")
        vector = _embed_all(environment, index, embedder, question)
    except HnError as error:
        if not error.code.startswith("embedder-"):
            raise
        embedders.discard(environment)
        return _Plan("lexical", wanted, degraded=error.message)
    return _Plan(wanted, wanted, embedder.model, vector)


def _embed_all(environment: Environment, index: Index, embedder: Embedder, question: str) -> bytes:
    """The question's vector, after every content that has none yet was given one."""
    from hn_memory.index import vectors

    (answer,) = embedder.embed([question], "question")
    own = vectors.pack(answer)
    if not vectors.has_direction(own):
        raise HnError("embedder-failed", "the embedder gave the question a vector of zeros")
    # What a former model of the same name left is asked anew.
    waiting = index.query(lambda db: vectors.waiting(db, embedder.model, own))
    done = 0
    while done < len(waiting):
        batch = waiting[done : done + embedder.batch]
        texts = index.query(lambda db, batch=batch: vectors.contents(db, [n for _, n in batch]))  # type: ignore[misc]
        made = embedder.embed(texts, "content")
        odd = next((vector for vector in made if len(vector) != len(answer)), None)
        if odd is not None:
            raise HnError(
                "embedder-failed", f"the embedder gave vectors of different lengths, {len(answer)} and {len(odd)}"
            )
        packed = [(digest, vectors.pack(vector)) for (digest, _), vector in zip(batch, made, strict=True)]
        index.extend(partial(vectors.keep, model=embedder.model, vectors=packed))
        done += len(batch)
        if environment.progress is not None:
            environment.progress("embed", done, len(waiting))
    return own


def _nearness(plan: _Plan, without: list[int]) -> Any:
    if plan.model is None or plan.vector is None:
        return None
    from hn_memory.recall.meaning import nearness

    def near(db: sqlite3.Connection, gated: Any) -> dict[int, float]:
        signals, count = nearness(db, plan.model or "", plan.vector or b"", gated)
        without.append(count)
        return signals

    return near


def _described(plan: _Plan) -> dict[str, Any]:
    described: dict[str, Any] = {"mode": plan.mode, "asked": plan.asked}
    if plan.model is not None:
        described["model"] = plan.model
    if plan.degraded is not None:
        described["degraded"] = plan.degraded
    return described


# -- rows -------------------------------------------------------------------------------------------------


def _abstains(mode: Mode, hits: list[Hit]) -> bool:
    if any(hit.path for hit in hits):
        return False
    return abstains(mode, max((hit.text for hit in hits), default=0.0), max((hit.meaning for hit in hits), default=0.0))


def _why(data: dict[str, Any], hit: Hit, stems: frozenset[str], stemmer: Stemmer) -> list[str]:
    """The signals that made a row a match, the strongest kinds first."""
    beginnings = {stem[0] for stem in stems}

    def holds(words: Iterable[str]) -> bool:
        # A stem begins as its word does, an irregular form mostly as well.
        likely = [word for word in words if word[0] in beginnings or is_irregular(word)]
        known = stemmer.stems(likely)
        return any(known[word] in stems for word in likely)

    fields = searchtables.field_words(data, ("topic", "path"))
    topic, path = holds(fields["topic"]), holds(fields["path"])
    why: list[str] = []
    if hit.path or path:
        why.append("path")
    if topic:
        why.append("topic")
    # Where nothing else holds a word the text does; what a record inherits counts as its text.
    if hit.text and (not (topic or path) or holds(searchtables.field_words(data, ("text",))["text"])):
        why.append("text")
    if hit.meaning >= MEANING_PLAIN or (round(hit.meaning, DIGITS) and not why):
        why.append("meaning")
    if hit.fresh:
        why.append("recency")
    return why


# -- a file -----------------------------------------------------------------------------------------------


def _concern(environment: Environment, db: sqlite3.Connection, request: NormalRequest) -> dict[int, float]:
    from hn_memory.recall.concern import concerned

    return concerned(db, request.path or "", _blobs(environment, db, request))


def _blobs(environment: Environment, db: sqlite3.Connection, request: NormalRequest) -> set[str]:
    """What the path is at the query commit, and what it was where records are anchored."""
    repository = environment.repository
    path = request.path or ""
    anchors = [
        anchor for (anchor,) in db.execute("SELECT DISTINCT anchor FROM site ORDER BY anchor LIMIT ?", (_ANCHORS,))
    ]
    found: set[str] = set()
    for commit in dict.fromkeys([request.at_commit, *anchors]):
        try:
            entry = repository.entries(commit, [path])[path]
        except NotFoundError:
            continue
        except HnError as error:
            if error.code != "object-corrupt":
                raise
            continue
        if entry is not None:
            found.add(entry.oid)
    return found
