"""Does the code under a claim still stand as it did? Path anchors and `git:` evidence, held against the query commit.

Of each item one state:

* `unchanged`: a bound path holds the blob that it was bound to (or is still absent); an object cited as evidence is
  in the tree of the query commit where it was in the tree of the anchor, or is an ancestor of it;
* `changed`: something else is there now;
* `moved`: it is not there, but the same object is at another path, which `now` names;
* `gone`: neither; also for an object that is not in this clone, or a commit that is in another history.

It says nothing about whether the claim holds, only whether its ground is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hn_memory.errors import NotFoundError
from hn_memory.protocol.identifiers import ABSENT
from hn_memory.repository.base import Repository, parse_tree
from hn_memory.repository.reading import commit_links, corrupt

_TREE_MODE = "040000"


def evidence_states(
    repository: Repository, commit: str, rows: Iterable[Mapping[str, Any]]
) -> dict[str, list[dict[str, str]]]:
    """The states of all items of projected rows by memory ID; rows without an item are left out."""
    judge = _Judge(repository, commit)
    states: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        items = [
            *(judge.path(pair["path"], pair["blob"]) for pair in row["anchor"].get("paths", ())),
            *(
                judge.object(item[4:], row["anchor"]["commit"])
                for item in row["data"]["evidence"]
                if item.startswith("git:")
            ),
        ]
        if items:
            states[row["id"]] = items
    return states


class _Judge:
    """Looks into the trees of one query commit and of the anchors, each once."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._commit = commit
        self._trees: dict[str, dict[str, list[str]]] = {}
        self._now: dict[str, str] | None = None

    def path(self, path: str, blob: str) -> dict[str, str]:
        item = {"item": f"path:{path}", "state": "unchanged"}
        now = self._at_query().get(path)
        if now == (None if blob == ABSENT else blob):
            return item
        if blob == ABSENT or now is not None:
            return item | {"state": "changed"}
        return item | self._elsewhere(blob)

    def object(self, oid: str, anchor: str) -> dict[str, str]:
        item = {"item": f"git:{oid}", "state": "unchanged"}
        info = self._repository.info([oid]).get(oid)
        if info is None:
            return item | {"state": "gone"}
        if info.type == "commit":
            return item if self._repository.ancestry(self._commit, [oid])[oid] is True else item | {"state": "gone"}
        if info.type == "tag":
            return item
        then = self._objects(anchor).get(oid, [])
        here = self._objects(self._commit).get(oid, [])
        if here and (not then or set(then) & set(here)):
            return item
        if here:
            return item | self._elsewhere(oid)
        if any(path in self._at_query() for path in then):
            return item | {"state": "changed"}
        return item | {"state": "gone"}

    def _elsewhere(self, oid: str) -> dict[str, str]:
        here = self._objects(self._commit).get(oid)
        return {"state": "moved", "now": min(here)} if here else {"state": "gone"}

    def _at_query(self) -> dict[str, str]:
        if self._now is None:
            self._now = {path: oid for oid, paths in self._objects(self._commit).items() for path in paths}
        return self._now

    def _objects(self, commit: str) -> dict[str, list[str]]:
        if commit not in self._trees:
            self._trees[commit] = objects_of(self._repository, commit)
        return self._trees[commit]


def objects_of(repository: Repository, commit: str) -> dict[str, list[str]]:
    """The paths of every object in the tree of a commit, the tree itself under an empty path; empty where the
    commit is not here. Trees that are not here are passed over."""
    found: dict[str, list[str]] = {}
    waiting: list[tuple[str, str]] = []
    try:
        for oid, kind, data in repository.read([commit]):
            if kind == "commit":
                waiting.append(("", commit_links(oid, data)[0]))
    except NotFoundError:
        return found
    for path, oid in waiting:
        found.setdefault(oid, []).append(path)
    while waiting:
        below: list[tuple[str, str]] = []
        contents = _read_trees(repository, [oid for _, oid in waiting])
        for path, oid in waiting:
            for entry in contents.get(oid, ()):
                name = entry[1].decode("utf-8", "surrogateescape")
                full = f"{path}/{name}" if path else name
                found.setdefault(entry[2], []).append(full)
                if entry[0] == _TREE_MODE:
                    below.append((full, entry[2]))
        waiting = below
    return found


def _read_trees(repository: Repository, oids: Sequence[str]) -> dict[str, list[tuple[str, bytes, str]]]:
    trees: dict[str, list[tuple[str, bytes, str]]] = {}
    for oid, kind, data in repository.read(list(dict.fromkeys(oids))):
        if kind == "tree":
            try:
                trees[oid] = [(entry.mode, entry.name, entry.oid) for entry in parse_tree(data, repository.oid_length)]
            except ValueError:
                raise corrupt(oid) from None
    return trees
