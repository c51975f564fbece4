"""What projection asks of the object store (`protocol.projection.World`), asked in bulk and afresh.

One instance serves one query: it remembers answers only as long as that query lasts, because objects may
come and go between two of them (section 5).
"""

from __future__ import annotations

from collections.abc import Iterable

from hn_memory.errors import HnError, NotFoundError
from hn_memory.protocol.chain import FILE_MODE, SIGNATURE_FILE
from hn_memory.protocol.events import EVENT_FILE, verify_event
from hn_memory.protocol.identifiers import REMOTES_PREFIX, is_actor_id
from hn_memory.protocol.record import ABSENT, Anchor
from hn_memory.repository.base import ObjectInfo, Repository, parse_tree

_FILE_MODES = frozenset({"100644", "100755", "120000"})
_EVENTS_PREFIX = "refs/hn/actors/"


class RepositoryWorld:
    """The object store as seen from one query commit."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._commit = commit
        self._infos: dict[str, ObjectInfo | None] = {}
        self._anchors: dict[Anchor, str | None] = {}
        self._ancestry: dict[str, bool | str] = {}
        self._events: frozenset[str] | None = None

    def prepare(self, anchors: Iterable[Anchor], descendants: Iterable[str], objects: Iterable[str]) -> None:
        """Ask in bulk what a projection is about to ask one by one.

        Args:
            anchors: anchors whose state will be asked for.
            descendants: commits whose ancestry will be asked for.
            objects: object IDs whose existence will be asked for.
        """
        self.prepare_commits((anchor.commit for anchor in anchors), descendants, objects)

    def prepare_commits(self, commits: Iterable[str], descendants: Iterable[str], objects: Iterable[str]) -> None:
        """As `prepare`, for anchors whose paths are settled already."""
        descendants = list(descendants)
        self._load([self._commit, *commits, *descendants, *objects])
        wanted = [
            commit for commit in dict.fromkeys(descendants) if commit not in self._ancestry and self._is_commit(commit)
        ]
        if wanted and self._is_commit(self._commit):
            self._ancestry |= self._repository.ancestry(self._commit, wanted)

    def query_exists(self) -> bool:
        return self._is_commit(self._commit)

    def object_exists(self, oid: str) -> bool:
        return self._info(oid) is not None

    def anchor_state(self, anchor: Anchor) -> str | None:
        if anchor not in self._anchors:
            self._anchors[anchor] = self._judge_anchor(anchor)
        return self._anchors[anchor]

    def commit_state(self, oid: str) -> str | None:
        """None when the object is a commit that is here; else what an anchor on it amounts to."""
        info = self._info(oid)
        if info is None:
            return "anchor-missing"
        return None if info.type == "commit" else "anchor-invalid"

    def ancestry(self, commit: str) -> bool | str:
        if commit not in self._ancestry:
            self.prepare((), (commit,), ())
        return self._ancestry[commit]

    def event_accepted(self, event_id: str) -> bool:
        if self._events is None:
            self._events = accepted_events(self._repository)
        return event_id in self._events

    def _load(self, oids: Iterable[str]) -> None:
        unknown = [oid for oid in dict.fromkeys(oids) if oid not in self._infos]
        if unknown:
            found = self._repository.info(unknown)
            self._infos.update((oid, found.get(oid)) for oid in unknown)

    def _info(self, oid: str) -> ObjectInfo | None:
        self._load((oid,))
        return self._infos[oid]

    def _is_commit(self, oid: str) -> bool:
        info = self._info(oid)
        return info is not None and info.type == "commit"

    def _judge_anchor(self, anchor: Anchor) -> str | None:
        state = self.commit_state(anchor.commit)
        if state is not None or not anchor.paths:
            return state
        try:
            entries = self._repository.entries(anchor.commit, [pair.path for pair in anchor.paths])
        except NotFoundError:
            return "anchor-missing"
        for pair in anchor.paths:
            entry = entries[pair.path]
            if pair.blob == ABSENT:
                if entry is not None:
                    return "anchor-invalid"
            elif entry is None or entry.mode not in _FILE_MODES or entry.oid != pair.blob:
                return "anchor-invalid"
        return None


def accepted_events(repository: Repository) -> frozenset[str]:
    """The IDs of all verified events (section 5): every commit in the history of every actor ref."""
    found: set[str] = set()
    for ref in repository.refs(_EVENTS_PREFIX, REMOTES_PREFIX):
        parts = ref.name.split("/")
        local = ref.name.startswith(_EVENTS_PREFIX) and len(parts) == 4
        accepted = ref.name.startswith(REMOTES_PREFIX) and len(parts) == 6 and parts[4] == "actors"
        if ref.target is not None and (local or accepted) and is_actor_id(parts[-1]):
            found |= _events_of(repository, ref.target, parts[-1])
    return frozenset(found)


def _events_of(repository: Repository, tip: str, actor: str) -> set[str]:
    pending, seen, found = [tip], {tip}, set()
    trees: list[str] = []
    while pending:
        batch, pending = pending, []
        for _, kind, data in repository.read(batch):
            if kind != "commit":
                continue
            header = data.partition(b"\n\n")[0].decode(errors="replace").split("\n")
            trees += [line[5:] for line in header if line.startswith("tree ")][:1]
            for line in header:
                if line.startswith("parent ") and line[7:] not in seen:
                    seen.add(line[7:])
                    pending.append(line[7:])
    pairs: list[tuple[str, str]] = []
    for _, kind, data in repository.read(dict.fromkeys(trees)):
        if kind != "tree":
            continue
        try:
            files = {
                entry.name: entry.oid for entry in parse_tree(data, repository.oid_length) if entry.mode == FILE_MODE
            }
        except ValueError:
            continue
        event, signature = files.get(EVENT_FILE.encode()), files.get(SIGNATURE_FILE.encode())
        if event is not None and signature is not None:
            pairs.append((event, signature))
    blobs = {
        oid: data
        for oid, kind, data in repository.read(dict.fromkeys(oid for pair in pairs for oid in pair))
        if kind == "blob"
    }
    for event, signature in pairs:
        if event in blobs and signature in blobs:
            try:
                event_id = verify_event(blobs[event], blobs[signature], actor)
            except HnError:
                continue
            if event_id is not None:
                found.add(event_id)
    return found
