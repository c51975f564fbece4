"""Routes of sections 4 to 6.3: records, observe, recall, history, erase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from hn_memory.uhp.access import Caller, neighbourhood
from hn_memory.uhp.faults import UhpError, invalid
from hn_memory.uhp.filters import parse_filters
from hn_memory.uhp.http import models
from hn_memory.uhp.http.memories import CURSOR, LIMIT
from hn_memory.uhp.http.paging import decode_cursor, encode_cursor
from hn_memory.uhp.http.route import Call, Parameter, Route, instant_of
from hn_memory.uhp.instants import parse_instant
from hn_memory.uhp.jobs import PENDING
from hn_memory.uhp.server import Server
from hn_memory.uhp.state.schema import DELETE, READ, WRITE
from hn_memory.uhp.state.snapshot import Node
from hn_memory.uhp.values import (
    SIGNALS,
    UNTRUSTED,
    Content,
    Draft,
    FileReference,
    Hit,
    Patch,
    Question,
    Reference,
    Selection,
    Version,
)

_EPISODE: Final = "episode"


# -- documents --------------------------------------------------------------------------------------------


def record_document(server: Server, caller: Caller, version: Version) -> dict[str, Any]:
    """A version as section 4 shows it; references are resolved with this reader's privileges."""
    content = version.content
    return {
        "id": version.record_id,
        "object": "memory.record",
        "memory_id": version.memory_id,
        "type": version.type,
        "content": _file(server, caller, version, content) if isinstance(content, FileReference) else content,
        "attributes": version.attributes,
        "version": version.number,
        "status": version.status,
        "supersedes": version.supersedes,
        "time": {
            "valid_from": version.valid_from,
            "valid_to": version.valid_to,
            "written_at": version.written_at,
            "invalidated_at": version.invalidated_at,
        },
        "written_by": version.written_by.document(),
        "references": [_reference(server, caller, one) for one in version.references],
        "trust": UNTRUSTED,
    }


def _file(server: Server, caller: Caller, version: Version, content: FileReference) -> dict[str, Any]:
    """The file, and that its bytes are not here where they are not."""
    here = server.provider_of(caller.tree.nodes[version.memory_id]).is_here(version)
    return {"file": content.document() | ({} if here else {"available": False})}


def _reference(server: Server, caller: Caller, reference: Reference) -> dict[str, Any]:
    """The reference, or only its two ids for a reader that may not, or could not, read the target."""
    ids = {"memory_id": reference.memory_id, "record_id": reference.record_id}
    if caller.reads(reference.memory_id):
        node = caller.tree.nodes[reference.memory_id]
        try:
            server.provider_of(node).get(node.id, reference.record_id)
        except UhpError as error:
            if error.code != "memory_record_not_found":
                raise
        else:
            return {"rel": reference.rel, **ids, "available": True}
    return {**ids, "available": False}


def documents(call: Call, versions: Sequence[Version]) -> list[dict[str, Any]]:
    """The records of an answer."""
    return [record_document(call.server, call.caller, version) for version in versions]


def _one(call: Call, versions: list[Version]) -> dict[str, Any]:
    return record_document(call.server, call.caller, versions[0])


def _all(call: Call, versions: list[Version]) -> dict[str, Any]:
    return {"data": documents(call, versions), "next": None}


# -- writing ----------------------------------------------------------------------------------------------


def remember(call: Call) -> dict[str, Any]:
    """Write one record as stated."""
    body: models.NewRecord = call.body
    node = _writable(call)
    draft = Draft(
        content_of(call, node, body.content),
        body.type,
        body.attributes,
        _references(body.references),
        _time(body.time.valid_from, "time.valid_from"),
        _time(body.time.valid_to, "time.valid_to"),
    )
    _check_times(draft)
    provider = call.server.provider_of(node)
    return _one(call, provider.remember(node.id, [draft], call.caller.author, call.witness))


def observe(call: Call) -> Any:
    """Append episodes. Nothing is derived from them here; each is kept as a record."""
    body: models.Observation = call.body
    node = _writable(call)
    drafts = [Draft(one.content, _EPISODE, one.attributes) for one in body.episodes]
    provider = call.server.provider_of(node)
    if call.server.settings.jobs and call.server.writable(node.provider):
        jobs = call.server.jobs
        job = jobs.add(call.connection, node.id, drafts, call.caller.author)
        call.later.append(lambda: jobs.run(job))
        return 202, {"data": [], "next": None, "job": {"id": job, "status": PENDING}}
    return _all(call, provider.remember(node.id, drafts, call.caller.author, call.witness))


def observe_kind(call: Call) -> str:
    """Taking episodes for later changes the state alone."""
    return "change" if call.server.settings.jobs else "write"


def job(call: Call) -> dict[str, Any]:
    """What an observe that answered 202 has written since."""
    node = _readable(call)
    status, error, versions = call.server.jobs.read(node.id, call.params["job"])
    answer = {
        "id": call.params["job"],
        "object": "memory.job",
        "status": status,
        "data": documents(call, versions),
    }
    return answer if error is None else {**answer, "error": error}


def revise(call: Call) -> dict[str, Any]:
    """Append a version with the fields that are given; the others stay."""
    body: models.RecordChange = call.body
    given = call.given
    node = _writable(call)
    fields: dict[str, Any] = {name: getattr(body, name) for name in ("type", "attributes") if name in given}
    if "content" in given:
        fields["content"] = content_of(call, node, body.content)
    if "references" in given:
        fields["references"] = _references(body.references)
    if "time" in given:
        for name in body.time.model_fields_set:
            fields[name] = _time(getattr(body.time, name), f"time.{name}")
    if not fields:
        raise invalid("a revision names at least one of content, type, attributes, references and time")
    if fields.get("type") == _EPISODE:
        raise invalid("a record does not become an episode", "type")
    provider = call.server.provider_of(node)
    version = provider.revise(
        node.id, call.params["rid"], Patch(fields), call.caller.author, call.if_version, call.witness
    )
    return _one(call, [version])


def forget(call: Call) -> dict[str, Any]:
    """Close a record and keep its trace."""
    node = _writable(call)
    provider = call.server.provider_of(node)
    version = provider.forget(node.id, call.params["rid"], call.caller.author, call.if_version, call.witness)
    return _one(call, [version])


def erase(call: Call) -> dict[str, Any]:
    """Take records out of every read for good."""
    body: models.Erasure = call.body
    node = call.caller.require(call.params["id"], DELETE)
    gone = call.server.erase(call.caller, node, body.record_ids)
    return {"erased": list(gone.erased), "unreachable": list(gone.unreachable)}


# -- reading ----------------------------------------------------------------------------------------------


def get(call: Call) -> dict[str, Any]:
    """One record, or as it stood at an instant."""
    node = _readable(call)
    version = call.server.provider_of(node).get(node.id, call.params["rid"], call.instant("as_of"))
    return _one(call, [version]) | neighbourhood(call.caller, node, call.server.extent)


def history(call: Call) -> dict[str, Any]:
    """All versions of a record, oldest first."""
    node = _readable(call)
    versions = call.server.provider_of(node).history(node.id, call.params["rid"])
    return {"object": "list", "data": documents(call, versions), "next": None}


def listing(call: Call) -> dict[str, Any]:
    """The records of one memory, in the order in which they were first written."""
    node = _readable(call)
    wanted = call.query.get("type")
    selection = Selection(
        frozenset() if wanted is None else frozenset({wanted}),
        call.instant("as_of"),
        call.choice("include", ("active", "all")) == "all",
    )
    found = call.server.provider_of(node).listing(
        node.id, selection, decode_cursor(call.query.get("cursor")), call.limit()
    )
    return {
        "object": "list",
        "data": documents(call, found.versions),
        "next": None if found.next is None else encode_cursor(found.next),
        **neighbourhood(call.caller, node, call.server.extent),
    }


def recall(call: Call) -> dict[str, Any]:
    """The best answers of one memory, and of levels below where they are asked for."""
    body: models.Recall = call.body
    node = _readable(call)
    if body.query is None and body.text is None and body.filters is None:
        raise invalid("a recall needs query, text or filters")
    selection = Selection(
        frozenset(body.types or ()),
        None if body.as_of is None else instant_of(body.as_of, "as_of"),
        body.include == "all",
    )
    filters = None if body.filters is None else parse_filters(body.filters)
    question = Question(selection, body.query, body.text, filters, body.limit)
    degraded: dict[str, None] = {}
    most = call.server.provider_of(node).describe()["recall"]["max_depth"]
    depth = body.depth
    if depth > most:
        depth = most
        degraded[f"depth:capped_at_{most}"] = None
    hits: list[Hit] = []
    abstain = True
    for memory in call.caller.walk(node.id, depth):
        below = call.tree.nodes[memory]
        answer = call.server.provider_of(below).recall(memory, question)
        hits += answer.hits
        degraded.update(dict.fromkeys(answer.degraded))
        abstain = abstain and answer.abstain
    # Each memory ranks by its own words alone; between memories only the scores decide, the nearer level first.
    hits.sort(key=lambda hit: -(hit.score or 0.0))
    return {
        "results": [
            {"record": record_document(call.server, call.caller, hit.version), "score": hit.score, "why": list(hit.why)}
            for hit in hits[: body.limit]
        ],
        **neighbourhood(call.caller, node, call.server.extent),
        "degraded": [one for one in degraded if one.split(":")[0] in (*SIGNALS, "depth")],
        "abstain": abstain,
    }


# -- inside -----------------------------------------------------------------------------------------------


def _readable(call: Call) -> Node:
    return call.caller.require(call.params["id"], READ)


def _writable(call: Call) -> Node:
    return call.caller.require(call.params["id"], WRITE)


def content_of(call: Call, node: Node, content: str | models.FileContent) -> Content:
    """What a request's content is: its text, or the file that it names."""
    if isinstance(content, str):
        return content
    return call.server.file(call.caller, node, content.file.id)


def _references(given: list[models.NewReference]) -> tuple[Reference, ...]:
    return tuple(Reference(one.memory_id, one.record_id, one.rel) for one in given)


def _time(text: str | None, param: str) -> str | None:
    if text is not None:
        instant_of(text, param)
    return text


def _check_times(draft: Draft) -> None:
    if draft.valid_from is not None and draft.valid_to is not None:
        start, end = parse_instant(draft.valid_from), parse_instant(draft.valid_to)
        if start is not None and end is not None and start > end:
            raise invalid("valid_to is before valid_from", "time.valid_to")


_SEEN: Final = ("memory_not_found", "memory_forbidden", "memory_unavailable")
_WRITE: Final = (*_SEEN, "memory_invalid", "memory_unsupported")
_ID: Final = "/v1/memories/{id}"
_RECORDS: Final = f"{_ID}/records"
_RECORD: Final = _RECORDS + "/{rid}"
AS_OF: Final = Parameter("as_of", "The instant to look at, inclusive.", {"type": "string", "format": "date-time"})
_NONE: Final = "memory_record_not_found"

ROUTES: Final = (
    Route("POST", f"{_ID}/recall", "Retrieve.", recall, models.Recalled, body=models.Recall,
          codes=(*_SEEN, "memory_invalid")),
    Route("GET", _RECORD, "One record.", get, models.Record, parameters=(AS_OF,), codes=(*_SEEN, _NONE)),
    Route(
        "GET", _RECORDS, "The records of a memory.", listing, models.RecordList,
        parameters=(
            Parameter("type", "Only records of this type."), AS_OF,
            Parameter("include", "Forgotten records too, or not.", {"type": "string", "enum": ["active", "all"]}),
            LIMIT, CURSOR,
        ),
        codes=(*_SEEN, "memory_invalid"),
    ),
    Route("POST", _RECORDS, "Remember: write one record as stated.", remember, models.Record, "write",
          models.NewRecord, codes=(*_WRITE, "file_not_found"), recovered=_one),
    Route("POST", f"{_ID}/observe", "Append episodes.", observe, models.Observed, "write", models.Observation,
          codes=_WRITE, recovered=_all, accepted=models.ObservedLater, kind_of=observe_kind),
    Route("GET", _ID + "/jobs/{job}", "What an observe has written since it answered.", job, models.Job,
          codes=(*_SEEN, "memory_job_not_found")),
    Route("PATCH", _RECORD, "Revise: a new version.", revise, models.Record, "write", models.RecordChange,
          codes=(*_WRITE, _NONE, "memory_conflict", "file_not_found"), recovered=_one, if_match=True),
    Route("DELETE", _RECORD, "Forget: close it, keep the trace.", forget, models.Record, "write",
          codes=(*_WRITE, _NONE, "memory_conflict"), recovered=_one, if_match=True),
    Route("POST", f"{_ID}/erase", "Remove content for good.", erase, models.Erased, "write", models.Erasure,
          codes=_WRITE),
    Route("GET", f"{_RECORD}/history", "All versions of a record.", history, models.History, codes=(*_SEEN, _NONE)),
)  # fmt: skip
