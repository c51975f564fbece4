"""What projection asks of the object store (`protocol.projection.World`), asked in bulk and afresh.

One instance serves one query: it remembers answers only as long as that query lasts, because objects may
come and go between two of them (section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from hn_memory.errors import NotFoundError
from hn_memory.protocol.identifiers import ABSENT
from hn_memory.repository.base import ObjectInfo, Repository, TreeEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hn_memory.protocol.shapes import AnchorLike

_FILE_MODES = frozenset({"100644", "100755", "120000"})


class RepositoryWorld:
    """The object store as seen from one query commit."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._commit = commit
        self._infos: dict[str, ObjectInfo | None] = {}
        self._present: set[str] = set()
        self._anchors: dict[tuple[str, tuple[tuple[str, str], ...]], str | None] = {}
        self._ancestry: dict[str, bool | str] = {}
        self._entries: dict[str, dict[str, TreeEntry | None]] = {}
        self._events: frozenset[str] | None = None

    def prepare(self, anchors: Iterable[AnchorLike], descendants: Iterable[str], objects: Iterable[str]) -> None:
        """Ask in bulk what a projection is about to ask one by one.

        Args:
            anchors: anchors whose state will be asked for.
            descendants: commits whose ancestry will be asked for.
            objects: object IDs whose existence will be asked for.
        """
        anchors = list(anchors)
        self.prepare_commits((anchor.commit for anchor in anchors), descendants, objects)
        paths: dict[str, dict[str, None]] = {}
        for anchor in anchors:
            for pair in anchor.paths:
                paths.setdefault(anchor.commit, {})[pair.path] = None
        for commit, wanted in paths.items():
            if self._is_commit(commit):
                with suppress(NotFoundError):
                    self._entries_of(commit, wanted)

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
        return oid in self._present or self._info(oid) is not None

    def absent(self, oids: Iterable[str]) -> set[str]:
        """Those of the objects that do not exist here; asked in bulk, where not asked before."""
        return self.ask_absent(oids)()

    def ask_absent(self, oids: Iterable[str]) -> Callable[[], set[str]]:
        """As `absent`: the question goes out now, and what is returned waits for the answer."""
        unknown = set(oids)
        if self._present:
            unknown -= self._present
        answer = self._repository.ask_absent(unknown)

        def take() -> set[str]:
            absent = answer()
            here = unknown - absent if absent else unknown
            self._present = self._present | here if self._present else here
            return absent

        return take

    def expect_ancestry(self) -> None:
        """Whether commits are ancestors of the query commit is about to be asked for."""
        self._repository.expect_ancestry(self._commit)

    def anchor_state(self, anchor: AnchorLike) -> str | None:
        key = (anchor.commit, tuple((pair.path, pair.blob) for pair in anchor.paths))
        if key not in self._anchors:
            self._anchors[key] = self._judge_anchor(*key)
        return self._anchors[key]

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
            from hn_memory.repository.events import accepted_events

            self._events = accepted_events(self._repository)
        return event_id in self._events

    def _load(self, oids: Iterable[str]) -> None:
        known = self._infos
        unknown = [oid for oid in dict.fromkeys(oids) if oid not in known]
        if unknown:
            known.update(dict.fromkeys(unknown))
            known.update(self._repository.info(unknown))

    def _info(self, oid: str) -> ObjectInfo | None:
        if oid not in self._infos:
            self._load((oid,))
        return self._infos[oid]

    def _is_commit(self, oid: str) -> bool:
        info = self._info(oid)
        return info is not None and info.type == "commit"

    def _judge_anchor(self, commit: str, pairs: tuple[tuple[str, str], ...]) -> str | None:
        state = self.commit_state(commit)
        if state is not None or not pairs:
            return state
        try:
            entries = self._entries_of(commit, [path for path, _ in pairs])
        except NotFoundError:
            return "anchor-missing"
        for path, blob in pairs:
            entry = entries[path]
            if blob == ABSENT:
                if entry is not None:
                    return "anchor-invalid"
            elif entry is None or entry.mode not in _FILE_MODES or entry.oid != blob:
                return "anchor-invalid"
        return None

    def _entries_of(self, commit: str, paths: Iterable[str]) -> dict[str, TreeEntry | None]:
        """The entries of a commit that were asked for so far, these among them."""
        known = self._entries.setdefault(commit, {})
        unknown = [path for path in paths if path not in known]
        if unknown:
            known.update(self._repository.entries(commit, unknown))
        return known
