"""Records: their values, their JSON shape and their rules (sections 3 and 4).

`read_record` gives a `Record` from decoded JSON, checking shape alone; `check_record` applies the rules;
`record_document` gives back the JSON value in canonical field order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from hn_memory.errors import HnError
from hn_memory.protocol import limits
from hn_memory.protocol.canonical import require_text
from hn_memory.protocol.identifiers import ABSENT, KINDS, is_evidence, is_object_id, is_subject, is_token
from hn_memory.protocol.strictjson import Reader
from hn_memory.protocol.unicode import find_control, is_blank, lower, trim
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final, NoReturn


MODES: Final = ("exact", "descendants", "subject")
HANDOFF_LISTS: Final = (
    ("completed", "completed"),
    ("assumptions", "assumptions"),
    ("blockers", "blockers"),
    ("nextActions", "next_actions"),
)

_HANDOFF_FIELDS: Final = tuple(name for name, _ in HANDOFF_LISTS)
_RECORD_REQUIRED: Final = ("kind", "content", "anchor", "applicability", "topics", "evidence")
_RECORD_OPTIONAL: Final = ("attemptOutcome", "handoff")
RECORD_FIELDS: Final = _RECORD_REQUIRED + _RECORD_OPTIONAL


class PathAnchor(NamedTuple):
    """A repository-relative path and the full ID of its blob, or `absent`."""

    path: str
    blob: str


class Anchor(NamedTuple):
    """The commit a record is about, with optional paths (sorted) and subject."""

    commit: str
    paths: tuple[PathAnchor, ...] = ()
    subject: str | None = None

    def document(self) -> dict[str, Any]:
        """The JSON value; empty parts vanish."""
        return anchor_document(self)


class Applicability(NamedTuple):
    """Where a record applies: `exact`, `descendants` or `subject` (which names the anchor's subject)."""

    mode: str
    subject: str | None = None


class Handoff(NamedTuple):
    """Four separate lists of inert text."""

    completed: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()
    next_actions: tuple[str, ...] = ()

    def lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The lists with their field names, in canonical order."""
        return tuple((name, getattr(self, attribute)) for name, attribute in HANDOFF_LISTS)


class Record(NamedTuple):
    """One deliberate note. Topics are sorted; evidence keeps the author's order."""

    kind: str
    content: str
    anchor: Anchor
    applicability: Applicability
    topics: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    attempt_outcome: str | None = None
    handoff: Handoff | None = None

    def document(self, *, sort_evidence: bool = False) -> dict[str, Any]:
        """The JSON value in canonical field order."""
        return record_document(self, sort_evidence=sort_evidence)


# -- shape ------------------------------------------------------------------------------------------------


def read_anchor(reader: Reader, value: Any, where: str) -> Anchor:
    """An anchor from decoded JSON."""
    fields = reader.object(value, where, ("commit",), ("paths", "subject"))
    paths: list[PathAnchor] = []
    if "paths" in fields:
        if not isinstance(fields["paths"], list):
            reader.fail(f"{where}.paths must be a list", f"{where}.paths")
        for at, item in enumerate(fields["paths"]):
            here = f"{where}.paths[{at}]"
            pair = reader.object(item, here, ("path", "blob"))
            paths.append(PathAnchor(*reader.fields(pair, here, ("path", "blob"))))
    subject = reader.text(fields["subject"], f"{where}.subject") if "subject" in fields else None
    return Anchor(reader.text(fields["commit"], f"{where}.commit"), tuple(paths), subject)


def read_applicability(reader: Reader, value: Any, where: str) -> Applicability:
    """An applicability from decoded JSON."""
    fields = reader.object(value, where, ("mode",), ("subject",))
    subject = reader.text(fields["subject"], f"{where}.subject") if "subject" in fields else None
    return Applicability(reader.text(fields["mode"], f"{where}.mode"), subject)


def read_handoff(reader: Reader, value: Any, where: str) -> Handoff:
    """A handoff from decoded JSON; all four lists are there."""
    fields = reader.object(value, where, _HANDOFF_FIELDS)
    lists = {attribute: tuple(reader.texts(fields[name], f"{where}.{name}")) for name, attribute in HANDOFF_LISTS}
    return Handoff(**lists)


def read_record(reader: Reader, value: Any, where: str) -> Record:
    """A record from decoded JSON, in the shape of the wire format."""
    fields = reader.object(value, where, _RECORD_REQUIRED, _RECORD_OPTIONAL)
    kind, content = reader.fields(fields, where, ("kind", "content"))
    return Record(
        kind=kind,
        content=content,
        anchor=read_anchor(reader, fields["anchor"], f"{where}.anchor"),
        applicability=read_applicability(reader, fields["applicability"], f"{where}.applicability"),
        topics=tuple(reader.texts(fields["topics"], f"{where}.topics")),
        evidence=tuple(reader.texts(fields["evidence"], f"{where}.evidence")),
        attempt_outcome=(
            reader.text(fields["attemptOutcome"], f"{where}.attemptOutcome") if "attemptOutcome" in fields else None
        ),
        handoff=(read_handoff(reader, fields["handoff"], f"{where}.handoff") if "handoff" in fields else None),
    )


@lru_cache(maxsize=256)
def follows(fields: tuple[str, ...], order: tuple[str, ...]) -> bool:
    """Do the fields stand in this order, whichever of them are there? All of them are in `order`."""
    places = [order.index(name) for name in fields]
    return places == sorted(set(places))


def record_in_order(record: dict[str, Any]) -> bool:
    """Do the fields of a record that `read_record` accepted stand in canonical order, without empty `paths`?"""
    anchor, handoff = record["anchor"], record.get("handoff")
    paths = anchor.get("paths")
    return (
        follows(tuple(record), RECORD_FIELDS)
        and follows(tuple(anchor), ("commit", "paths", "subject"))
        and follows(tuple(record["applicability"]), ("mode", "subject"))
        and (paths is None or (paths != [] and all(tuple(pair) == ("path", "blob") for pair in paths)))
        and (handoff is None or tuple(handoff) == _HANDOFF_FIELDS)
    )


def anchor_document(anchor: Anchor) -> dict[str, Any]:
    """The JSON value of an anchor; empty parts vanish."""
    document: dict[str, Any] = {"commit": anchor.commit}
    if anchor.paths:
        document["paths"] = [{"path": pair.path, "blob": pair.blob} for pair in anchor.paths]
    if anchor.subject is not None:
        document["subject"] = anchor.subject
    return document


def record_document(record: Record, *, sort_evidence: bool = False) -> dict[str, Any]:
    """The JSON value of a record in canonical field order.

    Args:
        sort_evidence: as recalled rows show it; the signed form keeps the author's order.
    """
    applicability: dict[str, Any] = {"mode": record.applicability.mode}
    if record.applicability.subject is not None:
        applicability["subject"] = record.applicability.subject
    document: dict[str, Any] = {
        "kind": record.kind,
        "content": record.content,
        "anchor": anchor_document(record.anchor),
        "applicability": applicability,
        "topics": list(record.topics),
        "evidence": sorted(record.evidence) if sort_evidence else list(record.evidence),
    }
    if record.attempt_outcome is not None:
        document["attemptOutcome"] = record.attempt_outcome
    if record.handoff is not None:
        document["handoff"] = {name: list(items) for name, items in record.handoff.lists()}
    return document


# -- rules ------------------------------------------------------------------------------------------------


def _refuse(message: str, field: str | None = None, hint: str | None = None) -> NoReturn:
    raise HnError("memory-invalid", message, field=field, hint=hint)


def _size(text: str, where: str | None) -> int:
    """Bytes of UTF-8; a text that has none is refused with its position (`text-invalid`)."""
    return len(text) if text.isascii() else len(require_text(text, where).encode())


def check_record(record: Record, where: str = "record") -> None:
    """Every rule of section 4 that concerns a record alone.

    Raises:
        HnError `memory-invalid`, with the field.
    """
    if record.kind not in KINDS:
        _refuse(f"unknown kind; kinds are {', '.join(KINDS)}", f"{where}.kind")
    if is_blank(record.content):
        _refuse("content is blank", f"{where}.content")
    size = _size(record.content, f"{where}.content")
    if size > limits.CONTENT_BYTES:
        _refuse(
            f"content has {size} bytes, at most {limits.CONTENT_BYTES} are allowed",
            f"{where}.content",
            "Put the document into the repository and cite it with --evidence git:<blob>.",
        )
    _check_topics(record.topics, f"{where}.topics")
    _check_evidence(record.evidence, f"{where}.evidence")
    _check_anchor(record.anchor, f"{where}.anchor")
    _check_applicability(record, f"{where}.applicability")
    if record.kind == "attempt":
        if record.attempt_outcome is None:
            _refuse(
                "an attempt needs an outcome", f"{where}.attemptOutcome", "Say it with --outcome, for example no-gain."
            )
        if not is_token(record.attempt_outcome, limits.OUTCOME_BYTES):
            _refuse(
                f"an outcome is lower-case letters, digits and inner hyphens, at most {limits.OUTCOME_BYTES}",
                f"{where}.attemptOutcome",
            )
    elif record.attempt_outcome is not None:
        _refuse("only an attempt has an outcome", f"{where}.attemptOutcome")
    if record.kind == "verification" and not record.evidence:
        _refuse(
            "a verification needs at least one evidence ID",
            f"{where}.evidence",
            "Cite what was checked, for example --evidence git:$(git rev-parse HEAD).",
        )
    if record.kind == "handoff":
        if record.handoff is None:
            _refuse("a handoff needs its four lists", f"{where}.handoff")
        _check_handoff(record.handoff, f"{where}.handoff")
    elif record.handoff is not None:
        _refuse("only a handoff has handoff lists", f"{where}.handoff")


def _check_topics(topics: Sequence[str], where: str) -> None:
    if len(topics) > limits.TOPICS:
        _refuse(f"{len(topics)} topics, at most {limits.TOPICS} are allowed", where)
    for at, topic in enumerate(topics):
        try:
            _check_topic(topic)
        except HnError as error:
            error.field = f"{where}[{at}]"
            raise
        if at and topics[at - 1] >= topic:
            _refuse("topics must be sorted and unique", f"{where}[{at}]")


@lru_cache(maxsize=1024)
def _check_topic(topic: str) -> None:
    """The rules for one topic. Many records share few topics, and those that passed are remembered."""
    if not topic or _size(topic, None) > limits.TOPIC_BYTES:
        _refuse(f"a topic has 1 to {limits.TOPIC_BYTES} bytes")
    if topic != lower(trim(topic)):
        _refuse("a topic must be trimmed and lower case")
    if find_control(topic) is not None:
        _refuse("a topic must not hold control characters")


_is_evidence = lru_cache(maxsize=8192)(is_evidence)


def _check_evidence(evidence: Sequence[str], where: str) -> None:
    if len(evidence) > limits.EVIDENCE:
        _refuse(f"{len(evidence)} evidence IDs, at most {limits.EVIDENCE} are allowed", where)
    for at, item in enumerate(evidence):
        if not _is_evidence(item):
            _refuse(
                "evidence must be git:<full object ID>, event:sha256:<hex> or memory:sha256:<hex>",
                f"{where}[{at}]",
                "For a revision, write git:$(git rev-parse REVISION).",
            )
    if len(set(evidence)) != len(evidence):
        _refuse("evidence IDs must be unique", where)


def check_path(path: str, where: str) -> None:
    """The path rules of section 4: relative and clean as Go's path.Clean leaves it."""
    if _size(path, where) > limits.PATH_BYTES:
        _refuse(f"a path has at most {limits.PATH_BYTES} bytes", where)
    if "\\" in path:
        _refuse("a path must not hold a backslash", where)
    if find_control(path) is not None:
        _refuse("a path must not hold control characters", where)
    leading = True
    for part in path.split("/"):
        leading = leading and part == ".."
        if part in ("", ".") or (part == ".." and not leading):
            _refuse("a path must be relative and clean (no empty, `.` or inner `..` component)", where)


def _check_anchor(anchor: Anchor, where: str) -> None:
    if not is_object_id(anchor.commit):
        _refuse("an anchor commit must be a full Git object ID", f"{where}.commit")
    if len(anchor.paths) > limits.PATHS:
        _refuse(f"{len(anchor.paths)} paths, at most {limits.PATHS} are allowed", f"{where}.paths")
    total = 0
    for at, pair in enumerate(anchor.paths):
        here = f"{where}.paths[{at}]"
        check_path(pair.path, f"{here}.path")
        total += _size(pair.path, f"{here}.path")
        if pair.blob != ABSENT and not is_object_id(pair.blob):
            _refuse("a path's blob must be a full Git object ID or `absent`", f"{here}.blob")
        if at and anchor.paths[at - 1].path >= pair.path:
            _refuse("paths must be sorted and unique", f"{here}.path")
    if total > limits.PATHS_TOTAL_BYTES:
        _refuse(
            f"paths have {total} bytes together, at most {limits.PATHS_TOTAL_BYTES} are allowed",
            f"{where}.paths",
        )
    if anchor.subject is not None and not is_subject(anchor.subject):
        _refuse("a subject must be a known type, `:sha256:` and 64 hex digits", f"{where}.subject")


def _check_applicability(record: Record, where: str) -> None:
    mode, subject = record.applicability.mode, record.applicability.subject
    if mode not in MODES:
        _refuse(f"unknown applicability mode; modes are {', '.join(MODES)}", f"{where}.mode")
    if mode == "subject":
        if subject is None or subject != record.anchor.subject:
            _refuse("applicability `subject` must name the anchor's subject", f"{where}.subject")
    elif subject is not None:
        _refuse(f"applicability `{mode}` has no subject", f"{where}.subject")


def _check_handoff(handoff: Handoff, where: str) -> None:
    total = 0
    for name, items in handoff.lists():
        if len(items) > limits.HANDOFF_ENTRIES:
            _refuse(
                f"{len(items)} entries, at most {limits.HANDOFF_ENTRIES} are allowed in a list",
                f"{where}.{name}",
            )
        for at, item in enumerate(items):
            if is_blank(item):
                _refuse("a handoff entry is blank", f"{where}.{name}[{at}]")
            size = _size(item, f"{where}.{name}[{at}]")
            total += size
            if size > limits.HANDOFF_ENTRY_BYTES:
                _refuse(
                    f"a handoff entry has {size} bytes, at most {limits.HANDOFF_ENTRY_BYTES} are allowed",
                    f"{where}.{name}[{at}]",
                )
    if total > limits.HANDOFF_TOTAL_BYTES:
        _refuse(
            f"handoff lists have {total} bytes together, at most {limits.HANDOFF_TOTAL_BYTES} are allowed",
            where,
        )


def searched_fields(record: Mapping[str, Any]) -> list[str]:
    """The texts of a record document whose terms recall looks at: content and each topic (section 7)."""
    return [record["content"], *record["topics"]]
