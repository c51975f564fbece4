"""A repository in memory, held to the same contract as the real ones.

For tests of the rooms above: it starts empty, needs no disk, and fails on demand (`locked`, `refuses`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from hn_memory.errors import HnError, NotFoundError
from hn_memory.protocol.gitobject import object_id
from hn_memory.repository import reading
from hn_memory.repository.base import (
    Layout,
    ObjectFormat,
    ObjectInfo,
    ObjectType,
    Ref,
    RefUpdate,
    Repository,
    TreeEntry,
)
from hn_memory.repository.refwriter import holds, locked, moved


class FakeRepository(Repository):
    """Objects and refs in dictionaries; `reflog` keeps (ref, new value, message) of every move."""

    backend = "fake"

    def __init__(self, object_format: ObjectFormat = "sha1", ref_format: str = "files") -> None:
        nowhere = "/nonexistent/fake"
        self.layout = Layout(
            git=f"{nowhere}/.git",
            common=f"{nowhere}/.git",
            tree=nowhere,
            store=f"{nowhere}/.git/objects",
            object_format=object_format,
            ref_format=ref_format,
            shallow=False,
            promisor=False,
            prefix="",
        )
        self.objects: dict[str, tuple[ObjectType, bytes]] = {}
        self.held: dict[str, Ref] = {}
        self.settings: dict[str, str] = {}
        self.locked: set[str] = set()
        self.refuses = False
        self.reflog: list[tuple[str, str | None, str]] = []

    def close(self) -> None:
        pass

    def refs(self, *prefixes: str) -> list[Ref]:
        inside = [ref for name, ref in self.held.items() if reading.is_below(name, prefixes)]
        return sorted(inside, key=lambda ref: ref.name.encode("utf-8", "surrogateescape"))

    def ref(self, name: str) -> Ref | None:
        return self.held.get(name)

    def update_refs(self, updates: Sequence[RefUpdate], message: str, pass_fds: Sequence[int] = ()) -> None:
        after = dict(self.held)
        for update in updates:
            if not holds(self.held.get(update.name), update.old):
                raise moved(update.name)
            if update.name in self.locked:
                raise locked(update.name)
            if update.new is None:
                del after[update.name]
                continue
            above = {update.name[:at] for at, mark in enumerate(update.name) if mark == "/"}
            clash = any(name.startswith(update.name + "/") or name in above for name in after)
            if clash or self.refuses or update.new not in self.objects:
                raise HnError("ref-write-failed", "cannot move refs in the fake repository")
            after[update.name] = Ref(update.name, update.new)
        self.held = after
        self.reflog += [(update.name, update.new, message) for update in updates]

    def resolve_commit(self, revision: str) -> str:
        base, tilde, steps = revision.partition("~")
        oid = self._named(base)
        for _ in range(int(steps or 1) if tilde else 0):
            _, links = reading.commit_links(oid, self.objects[oid][1])
            if not links or links[0] not in self.objects:
                raise NotFoundError("revision-unknown", "no commit has that name")
            oid = links[0]
        return oid

    def _named(self, name: str) -> str:
        found = [oid for oid in self.objects if len(name) >= 4 and oid.startswith(name)]
        for candidate in (name, f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}"):
            ref = self.held.get(candidate)
            while ref is not None and ref.symbolic is not None:
                ref = self.held.get(ref.symbolic)
            if ref is not None and ref.target is not None:
                found = [ref.target]
                break
        while len(found) == 1 and found[0] in self.objects:
            kind, data = self.objects[found[0]]
            if kind == "commit":
                return found[0]
            found = [data[7 : 7 + self.oid_length].decode()] if kind == "tag" else []
        raise NotFoundError("revision-unknown", "no commit has that name")

    def config(self, name: str) -> str | None:
        return self.settings.get(name.lower())

    def info(self, oids: Iterable[str]) -> Mapping[str, ObjectInfo]:
        known = [oid for oid in oids if oid in self.objects]
        return {oid: ObjectInfo(self.objects[oid][0], len(self.objects[oid][1])) for oid in known}

    def read(self, oids: Iterable[str]) -> Iterator[tuple[str, ObjectType, bytes]]:
        for oid in oids:
            if oid in self.objects:
                yield oid, *self.objects[oid]

    def entries(self, commit: str, paths: Sequence[str]) -> dict[str, TreeEntry | None]:
        return reading.entries(self.read, commit, paths)

    def ancestry(self, commit: str, anchors: Iterable[str]) -> dict[str, bool | str]:
        here = {oid for oid in anchors if oid in self.objects and self.objects[oid][0] == "commit"}
        return reading.ancestry(self.read, commit, here) if here else {}

    def parents(self, tip: str, stop: str | None = None) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        return reading.first_parents(self.read, tip, stop)

    def write_objects(self, objects: Sequence[tuple[ObjectType, bytes]]) -> list[str]:
        if self.refuses:
            raise HnError("object-write-failed", "cannot write to the fake repository")
        oids = [object_id(kind, data, self.layout.object_format) for kind, data in objects]
        self.objects.update(zip(oids, objects, strict=True))
        return oids
