"""From what a caller says to a record that may be signed: defaults, look-ups, and what is refused on the way."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from hn_memory.errors import HnError, NotFoundError, UsageError
from hn_memory.protocol.canonical import require_text
from hn_memory.protocol.identifiers import (
    ABSENT,
    require_subject,
)
from hn_memory.protocol.record import (
    MODES,
    Anchor,
    Applicability,
    Handoff,
    PathAnchor,
    Record,
)
from hn_memory.protocol.requests import RecordRequest, normal_topics
from hn_memory.repository.base import Layout, Repository
from hn_memory.repository.paths import display
from hn_memory.service.environment import Environment
from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


_BLOB_MODES: Final = frozenset({"100644", "100755", "120000"})


class RecordArguments(NamedTuple):
    """What a caller wants recorded, before defaults and look-ups.

    `paths` are pairs of a path as given (relative to the caller's directory, or from the root after `:/`)
    and an expected blob, or None to look it up. A `request` (from `--input`) replaces everything but `at`
    and `applies`, which then only supply what the request leaves out.
    """

    kind: str = ""
    content: str = ""
    at: str | None = None
    applies: str | None = None
    topics: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    paths: tuple[tuple[str, str | None], ...] = ()
    subject: str | None = None
    outcome: str | None = None
    handoff: Handoff | None = None
    stream: str | None = None
    request: RecordRequest | None = None


def build(repository: Repository, arguments: RecordArguments, resolve: Callable[[str], str] | None = None) -> Record:
    resolve = resolve or repository.resolve_commit
    request = arguments.request
    if request is None:
        for value, name in ((arguments.content, "record.content"), (arguments.subject or "", "record.anchor.subject")):
            require_text(value, name)
        if arguments.subject is not None:
            require_subject(arguments.subject, "subject")
        commit = resolve("HEAD" if arguments.at is None else arguments.at)
        anchor = Anchor(commit, _look_up(repository, commit, arguments.paths), arguments.subject)
        applicability = _applicability(arguments.applies, anchor)
        return Record(
            kind=arguments.kind,
            content=arguments.content,
            anchor=anchor,
            applicability=applicability,
            topics=normal_topics([require_text(topic, "record.topics") for topic in arguments.topics]),
            evidence=arguments.evidence,
            attempt_outcome=arguments.outcome,
            handoff=arguments.handoff,
        )
    anchor = _request_anchor(repository, arguments, request)
    applicability = request.applicability or _applicability(arguments.applies, anchor)
    if request.applicability and arguments.applies and request.applicability.mode != arguments.applies:
        raise UsageError(
            "request-conflict", "--applies differs from the request's applicability", field="applicability"
        )
    return Record(
        kind=request.kind,
        content=request.content,
        anchor=anchor,
        applicability=applicability,
        topics=request.topics,
        evidence=request.evidence,
        attempt_outcome=request.attempt_outcome,
        handoff=request.handoff,
    )


def _applicability(applies: str | None, anchor: Anchor) -> Applicability:
    mode = applies or "descendants"
    if mode not in MODES:
        raise UsageError("applies-invalid", f"--applies must be one of {', '.join(MODES)}", field="applies")
    if mode == "subject":
        if anchor.subject is None:
            raise UsageError("subject-missing", "--applies subject needs --subject", field="subject")
        return Applicability(mode, anchor.subject)
    return Applicability(mode)


def _request_anchor(repository: Repository, arguments: RecordArguments, request: RecordRequest) -> Anchor:
    if request.anchor is None:
        return Anchor(repository.resolve_commit("HEAD" if arguments.at is None else arguments.at))
    if arguments.at is not None and repository.resolve_commit(arguments.at) != request.anchor.commit:
        raise UsageError("request-conflict", "--at differs from the request's anchor", field="anchor.commit")
    anchor = request.anchor
    if repository.resolve_commit(anchor.commit) != anchor.commit:
        raise UsageError("request-invalid", "anchor.commit must be the ID of a commit", field="anchor.commit")
    _look_up(repository, anchor.commit, tuple((f":/{pair.path}", pair.blob) for pair in anchor.paths))
    return anchor


def _look_up(repository: Repository, commit: str, paths: Iterable[tuple[str, str | None]]) -> tuple[PathAnchor, ...]:
    """Bind paths to the blobs they have at a commit (section 4: a file, symbolic links included)."""
    wanted = [(from_root(repository.layout, given), blob) for given, blob in paths]
    if not wanted:
        return ()
    entries = repository.entries(commit, [path for path, _ in wanted])
    pairs: dict[str, PathAnchor] = {}
    for path, expected in wanted:
        entry = entries[path]
        if entry is not None and entry.mode not in _BLOB_MODES:
            what = "a directory" if entry.mode == "040000" else "a submodule"
            raise UsageError(
                "path-not-file",
                f"{path!a} is {what} at {commit[:12]}; an anchor binds a file",
                hint="Name the files it is about.",
                field="path",
            )
        actual = ABSENT if entry is None else entry.oid
        if expected is None and entry is None:
            raise NotFoundError(
                "path-unknown",
                f"{path!a} is not in the tree of {commit[:12]}",
                hint="Commit it first, choose another --at, or bind its absence with --blob absent.",
                field="path",
            )
        if expected is not None and expected != actual:
            raise HnError(
                "path-mismatch",
                f"{path!a} is {actual[:12]} at {commit[:12]}, not {expected[:12]}",
                hint="Leave --blob out to bind what is there.",
                field="path",
            )
        pairs[path] = PathAnchor(path, actual)
    return tuple(pairs[path] for path in sorted(pairs))


def from_root(layout: Layout, given: str) -> str:
    """A path as the caller wrote it, as a clean path from the root of the work tree.

    Raises:
        UsageError `path-invalid`: it leaves the work tree.
    """
    require_text(given, "path")
    if given.startswith("/"):
        path = _inside(layout.work_tree, given)
    elif given.startswith(":/"):
        path = given[2:]
    else:
        path = posixpath.join(layout.prefix, given)
    clean = posixpath.normpath(path) if path else ""
    if not given or clean in ("", ".") or clean.startswith(("/", "../")) or clean == "..":
        raise UsageError(
            "path-invalid",
            f"path {_shown(given)} does not name a file inside the work tree",
            hint="Name it from the current directory, from the root after :/, or in full.",
            field="path",
        )
    return clean


def _inside(work_tree: Path | None, given: str) -> str:
    """An absolute path from the root of the work tree; as it is where it lies elsewhere.

    Its directory may be reached through symbolic links; what it names itself may be one, and is not followed.
    """
    if work_tree is None:
        return given
    top = os.fspath(work_tree)
    above, name = posixpath.split(posixpath.normpath(given))
    for text in (above, os.path.realpath(above)):
        path = posixpath.join(text, name)
        for root in (top, os.path.realpath(top)):
            if posixpath.commonpath((root, path)) == root:
                return posixpath.relpath(path, root)
    return given


def _shown(given: str) -> str:
    return f"{(display(Path(given)) if given.startswith('/') else given)[:200]!a}"


def note_missing_evidence(environment: Environment, evidence: Sequence[str]) -> None:
    """A record whose evidence is not here is withheld from recall, which its author should know."""
    objects = [item[4:] for item in evidence if item.startswith("git:")]
    if objects:
        here = environment.repository.info(objects)
        environment.notices += [
            f"evidence git:{oid} is not in this clone; recall withholds the record until it is"
            for oid in objects
            if oid not in here
        ]


def refuse_secrets(built: Record, allowed: Collection[str]) -> None:
    from hn_memory.service import secrets

    fields: list[tuple[str, str]] = [("content", built.content)]
    fields += [(f"topics[{at}]", topic) for at, topic in enumerate(built.topics)]
    if built.handoff is not None:
        for name, items in built.handoff.lists():
            fields += [(f"handoff.{name}[{at}]", item) for at, item in enumerate(items)]
    secrets.refuse(secrets.scan(fields), allowed)
