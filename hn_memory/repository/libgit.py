"""The backend inside this process: libgit2, for those who read or append many times.

Importing it costs more than a whole short command, so only `open` imports this module, on demand. What libgit2
cannot do as Git does (transactions over several refs, creation and deletion under one lock, waiting for a lock,
revision syntax, shared repositories) is left to Git, and so are the words of every refusal.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pygit2
from pygit2.enums import ConfigLevel, Option, ReferenceType, RepositoryOpenFlag

from hn_memory.errors import HnError
from hn_memory.repository import reading
from hn_memory.repository.base import (
    Layout,
    ObjectInfo,
    ObjectType,
    Ref,
    RefUpdate,
    Repository,
    TreeEntry,
)
from hn_memory.repository.loose import write_all
from hn_memory.repository.process import ProcessRepository, store_refused
from hn_memory.repository.refwriter import IDENTITY, moved, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final


_TYPES: Final[dict[int, ObjectType]] = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_COMMIT: Final = 1
_BATCH: Final = 512

# Beyond this, one pack is quicker to write and to read than loose objects.
_LOOSE_LIMIT = 1000

# Within one run of reads the packs are looked at no more often than this.
_TRUSTED_SECONDS = 0.005

_PRIVATE = frozenset({"", "false", "umask", "0", "no", "off"})


class LibgitRepository(Repository):
    """A repository opened by libgit2. One thread at a time."""

    backend = "libgit2"

    def __init__(self, layout: Layout) -> None:
        """Open it.

        Raises:
            HnError `repository-unusable`: libgit2 cannot open what Git found.
        """
        self.layout = layout
        # What a process that stays knows of the settings may be old; we look at them ourselves.
        self._git = ProcessRepository(layout._replace(plain_store=False))
        # Discovery asked Git whether to trust the owner; a second opinion could only differ.
        pygit2.option(Option.SET_OWNER_VALIDATION, 0)
        self._decided = reading.Decided()
        self._stamp: object = None
        self._checked = 0.0
        self._configured: tuple[int, int] | None = None
        self._is_special = False
        # The ref looked at last: who appends has just read the one that is to be moved.
        self._met: tuple[str, pygit2.Reference] | None = None
        self._opened = self._open()
        self._store = self._opened.odb

    def close(self) -> None:
        self._git.close()
        self._opened.free()

    # -- refs ---------------------------------------------------------------------------------------------

    def refs(self, *prefixes: str) -> list[Ref]:
        names = [name.decode("utf-8", "surrogateescape") for name in self._opened.raw_listall_references()]
        inside = [name for name in dict.fromkeys(names) if reading.is_below(name, prefixes)]
        inside.sort(key=lambda name: name.encode("utf-8", "surrogateescape"))
        found = [self._lookup(name, dangling=False) for name in inside]
        return [ref for ref in found if ref is not None]

    def ref(self, name: str) -> Ref | None:
        return self._lookup(name, dangling=True)

    def update_refs(self, updates: Sequence[RefUpdate], message: str, pass_fds: Sequence[int] = ()) -> None:
        if len(updates) == 1 and not self._special():
            name, new, old = updates[0]
            if new is not None and old is not None and self._move(name, new, old, message):
                return
        # Whatever went wrong, Git tries again: it waits for locks, and its refusals are the ones we word.
        self._git.move_refs(self, updates, message, pass_fds)

    # -- revisions ----------------------------------------------------------------------------------------

    def resolve_commit(self, revision: str) -> str:
        if revision == "HEAD":
            try:
                revision = str(self._opened.head.target)
            except (pygit2.GitError, KeyError, ValueError):
                return self._git.resolve_commit(revision)
        header = self.info([revision]).get(revision)
        if header is not None and header.type == "commit":
            return revision
        return self._git.resolve_commit(revision)

    def config(self, name: str) -> str | None:
        return self._git.config(name)

    # -- objects ------------------------------------------------------------------------------------------

    def info(self, oids: Iterable[str]) -> Mapping[str, ObjectInfo]:
        self._fresh()
        read_header = self._store.read_header
        found: dict[str, ObjectInfo] = {}
        for oid in reading.full_ids(list(dict.fromkeys(oids)), self.oid_length):
            try:
                kind, size = read_header(oid)
            except KeyError:
                continue
            except pygit2.GitError as error:
                raise reading.corrupt(oid) from error
            found[oid] = ObjectInfo(_TYPES[kind], size)
        return found

    def read(self, oids: Iterable[str]) -> Iterator[tuple[str, ObjectType, bytes]]:
        # Compares every object with its ID: libgit2 does so unless told otherwise.
        read_one, types = self._read_one, _TYPES
        for batch in reading.batches(oids, self.oid_length, _BATCH):
            for oid in batch:
                try:
                    kind, data = read_one(oid)
                except KeyError:
                    continue
                except pygit2.GitError as error:
                    raise reading.corrupt(oid) from error
                yield oid, types[kind], data

    @contextmanager
    def unchecked(self) -> Iterator[None]:
        # For the whole process, so only for one that does nothing else.
        pygit2.option(Option.ENABLE_STRICT_HASH_VERIFICATION, False)
        try:
            yield
        finally:
            pygit2.option(Option.ENABLE_STRICT_HASH_VERIFICATION, True)

    def read_within(
        self, limits: Mapping[str, int], known: Mapping[str, ObjectInfo | tuple[str, int]]
    ) -> tuple[Mapping[str, ObjectInfo | tuple[str, int]], dict[str, bytes]]:
        self._fresh()
        read_one = self._read_one
        headers: dict[str, ObjectInfo | tuple[str, int]] = {}
        blobs: dict[str, bytes] = {}
        for oid, limit in limits.items():
            try:
                header = known.get(oid)
                if header is None:
                    # Reading may have opened the store anew.
                    kind, size = self._store.read_header(oid)
                    header = _TYPES[kind], size
                if header[0] == "blob" and header[1] <= limit:
                    blobs[oid] = read_one(oid)[1]
                else:
                    headers[oid] = header
            except KeyError:
                continue
            except pygit2.GitError as error:
                raise reading.corrupt(oid) from error
        return headers, blobs

    def entries(self, commit: str, paths: Sequence[str]) -> dict[str, TreeEntry | None]:
        return reading.entries(self.read, commit, paths)

    def ancestry(self, commit: str, anchors: Iterable[str]) -> dict[str, bool | str]:
        present = self.info(wanted := list(anchors))
        commits = {oid for oid in wanted if oid in present and present[oid].type == "commit"}
        if not commits:
            return {}
        return self._decided.answer(commit, commits, lambda unknown: self._walked(commit, unknown))

    def parents(self, tip: str, stop: str | None = None) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        at: str | None = tip
        while at is not None and at != stop:
            try:
                kind, data = self._read_one(at)
            except (KeyError, ValueError, pygit2.GitError):
                break
            if kind != _COMMIT:
                break
            tree, links = reading.commit_links(at, data)
            yield at, tree, links
            at = links[0] if links else None
        else:
            return
        # Something is absent, damaged or no commit: the same walk again, in slower words.
        yield from reading.first_parents(self.read, at, stop)

    # -- writing ------------------------------------------------------------------------------------------

    def write_objects(self, objects: Sequence[tuple[ObjectType, bytes]]) -> list[str]:
        if len(objects) > _LOOSE_LIMIT or self._special():
            return self._git.write_objects(objects)
        try:
            return write_all(str(self.layout.objects), objects, self.layout.object_format)
        except OSError as error:
            raise store_refused(self.layout.objects, error.strerror or "unknown reason") from error

    def write_pack(self, count: int, objects: Iterable[tuple[ObjectType, bytes]]) -> None:
        if count > _LOOSE_LIMIT:
            self._git.write_pack(count, objects)
        else:
            self.write_objects(list(objects))

    # -- inside -------------------------------------------------------------------------------------------

    def _open(self) -> pygit2.Repository:
        try:
            try:
                opened = self._open_once()
            except pygit2.GitError:
                # Git overlooks a home that it may not read (sudo keeps HOME); libgit2 must be told to.
                for level in (ConfigLevel.GLOBAL, ConfigLevel.XDG):
                    pygit2.option(Option.SET_SEARCH_PATH, level, "")
                opened = self._open_once()
            # Otherwise the reflog wants user.name, which need not be set.
            opened.set_ident(*IDENTITY)
        except (pygit2.GitError, OSError, ValueError, KeyError) as error:
            raise HnError("repository-unusable", "libgit2 cannot open this repository") from error
        return opened

    def _open_once(self) -> pygit2.Repository:
        return pygit2.Repository(str(self.layout.git_dir), RepositoryOpenFlag.NO_SEARCH)

    def _read_one(self, oid: str) -> tuple[int, bytes]:
        now = time.monotonic()
        if now - self._checked > _TRUSTED_SECONDS:
            self._fresh()
            self._checked = now
        try:
            found: tuple[int, bytes] = self._store.read(oid)
        except KeyError:
            # A pack may have gone since; whoever removed it left the object somewhere else.
            self._fresh()
            found = self._store.read(oid)
        return found

    def _fresh(self) -> pygit2.Repository:
        """The repository with the packs that are there now; libgit2 notices new packs, not removed ones."""
        stamp = reading.store_stamp(self.layout.store)
        if stamp != self._stamp:
            if self._stamp is not None:
                self._met = None
                self._opened.free()
                self._opened = self._open()
                self._store = self._opened.odb
            self._stamp = stamp
        return self._opened

    def _special(self) -> bool:
        """Is a write better left to Git?

        libgit2 leaves files of too narrow modes where others write too (core.sharedRepository), and knows
        nothing of core.fsync. Without such a setting Git does not wait for loose objects to reach the disk
        either.
        """
        mark = reading.file_stamp(f"{self.layout.common_dir}/config")
        if mark is None or mark != self._configured:
            self._configured, self._is_special = mark, self._ask_special()
        return self._is_special

    def _ask_special(self) -> bool:
        config = self._opened.config
        name = "core.sharedrepository"
        if name in config and (config[name] or "true").lower() not in _PRIVATE:
            return True
        return "core.fsync" in config or "core.fsyncobjectfiles" in config

    def _lookup(self, name: str, *, dangling: bool) -> Ref | None:
        try:
            found = self._opened.lookup_reference(name)
        except (KeyError, ValueError):
            return self._git.ref(name) if not name.isprintable() else None
        except pygit2.GitError:
            # Its file holds no ID: for Git, too, that is no ref.
            return None
        if found.type != ReferenceType.SYMBOLIC:
            self._met = (name, found)
            return Ref(name, str(found.target))
        if not dangling:
            try:
                found.resolve()
            except (KeyError, ValueError, pygit2.GitError):
                return None
        return Ref(name, None, str(found.target))

    def _move(self, name: str, new: str, old: str, message: str) -> bool:
        """Compare and swap under the lock of the ref; False when libgit2 would not (for want of the object, too)."""
        try:
            # What was looked at before serves as well: under the lock libgit2 compares the ref with it once more.
            known, self._met = self._met, None
            if known is not None and known[0] == name and str(known[1].target) == old:
                found = known[1]
            else:
                found = self._opened.lookup_reference(name)
            if found.type == ReferenceType.SYMBOLIC or str(found.target) != old:
                raise moved(name)
            found.set_target(new, one_line(message))
        except (pygit2.GitError, OSError, KeyError, ValueError):
            return False
        return True

    def _walked(self, commit: str, anchors: set[str]) -> dict[str, bool | str]:
        # libgit2 walks along grafts, and takes the boundary of a shallow repository for such.
        grafted = self._opened.is_shallow or (self.layout.common_dir / "info" / "grafts").exists()
        if not grafted:
            unmet = set(anchors)
            try:
                for met in self._opened.walk(commit):
                    unmet.discard(str(met.id))
                    if not unmet:
                        break
            except (pygit2.GitError, KeyError, ValueError):
                # Something on the way is missing; the slower walk says what.
                return reading.ancestry(self.read, commit, anchors)
            return {anchor: anchor not in unmet for anchor in anchors}
        return reading.ancestry(self.read, commit, anchors)
