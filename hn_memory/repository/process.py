"""The backend that asks Git itself.

Objects come from one long-lived `git cat-file` (started with the first question), refs and writes from short
plumbing commands. It opens whatever Git opens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from hn_memory.errors import HnError, NotFoundError
from hn_memory.protocol.gitobject import object_id
from hn_memory.repository import reading
from hn_memory.repository.ahead import SOURCE_PREFIXES, Ahead, backend_environment, listing
from hn_memory.repository.base import (
    Layout,
    ObjectInfo,
    ObjectType,
    Ref,
    RefUpdate,
    Repository,
    TreeEntry,
)
from hn_memory.repository.catfile import CatFile
from hn_memory.repository.discover import GIT, git_environment, lazy_fetch_forbidden
from hn_memory.repository.paths import display, without_homes
from hn_memory.repository.reffile import read_ref_file
from hn_memory.repository.spawn import Child, Completed, collect, limited, run, stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike

    from hn_memory.repository.scratch import Scratch

# Up to this many objects stay loose; more become one pack, as `git fetch` would decide in the same order.
_LOOSE_LIMIT = 1000

# Up to this many objects are written here: a child takes longer to start.
_FEW = 16

# A first-parent walk starts with single reads; only a long one is worth a child of its own.
_SHORT_WALK = 64

_READ_BATCH = 256

# Bytes of a pack that wait before they are offered to Git.
_SEND_FROM = 1 << 17

# Characters of a revision that a refusal repeats.
_SHOWN = 200


class ProcessRepository(Repository):
    """A repository served by Git children. One thread at a time."""

    backend = "git"

    def __init__(self, layout: Layout, *, legacy_cat_file: bool = False, ahead: Ahead | None = None) -> None:
        """Nothing starts yet. `legacy_cat_file` does without `--batch-command`, as Git before 2.36.

        `ahead` are children that run already, for this same repository; they are ours to end.
        """
        self.layout = layout
        self._legacy = legacy_cat_file
        # Relative URLs of a remote, which a lazy fetch may need, are relative to here.
        self._command = [*GIT, "-C", layout.tree or layout.git, f"--git-dir={layout.git}"]
        self._env = backend_environment(git_environment())
        self._ahead = ahead
        self._scratch: Scratch | None = None
        self._checker: CatFile | None = None
        self._fetcher: CatFile | None = None
        self._stamp: object = None
        self._settings = reading.file_stamp(f"{layout.common}/config") if layout.plain_store else None
        self._decided = reading.Decided()
        self._coming: tuple[str, Child] | None = None
        self._compares = True
        self._walks: dict[str, Child] = {}

    def close(self) -> None:
        self._take_listing("")
        for walk in self._walks.values():
            walk.stop()
        self._walks.clear()
        for reader in (self._checker, self._fetcher):
            if reader is not None:
                reader.close()
        if self._scratch is not None:
            self._scratch.close()
        if self._ahead is not None:
            self._ahead.stop()
        self._checker = self._fetcher = self._scratch = None

    # -- refs ---------------------------------------------------------------------------------------------

    def refs(self, *prefixes: str) -> list[Ref]:
        if not prefixes:
            return []
        found: dict[str, Ref] = {}
        for line in self._listing(prefixes).stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]:
            name, target, symbolic = line.split("\0")
            found[name] = Ref(name, None, symbolic) if symbolic else Ref(name, target)
        inside = [ref for ref in found.values() if reading.is_below(ref.name, prefixes)]
        return sorted(inside, key=lambda ref: ref.name.encode("utf-8", "surrogateescape"))

    def ref(self, name: str) -> Ref | None:
        if self.layout.ref_format == "files":
            target = read_ref_file(self.layout.common, name, self.oid_length)
            if target is not None:
                return Ref(name, target)
        if name.startswith("refs/"):
            found = next((ref for ref in self.refs(name) if ref.name == name), None)
            if found is not None:
                return found
            # Git lists no symbolic ref whose end does not exist.
        done = self._run("symbolic-ref", "-q", "--", name)
        if done.status == 0:
            return Ref(name, None, done.stdout.decode("utf-8", "surrogateescape").rstrip("\n"))
        if name.startswith("refs/"):
            return None
        done = self._run("rev-parse", "-q", "--verify", "--end-of-options", name)
        return Ref(name, done.stdout.decode("ascii").strip()) if done.status == 0 else None

    def update_refs(self, updates: Sequence[RefUpdate], message: str, pass_fds: Sequence[int] = ()) -> None:
        self.move_refs(self, updates, message, pass_fds)

    def move_refs(
        self, reader: Repository, updates: Sequence[RefUpdate], message: str, pass_fds: Sequence[int] = ()
    ) -> None:
        """`update_refs`, with `reader` to look what the refs hold while Git has them locked."""
        from hn_memory.repository.refwriter import move_refs

        move_refs(reader, self._command, self._env, updates, message, pass_fds)

    # -- revisions ----------------------------------------------------------------------------------------

    def resolve_commit(self, revision: str) -> str:
        if reading.is_full_id(revision, self.oid_length):
            header = self.info([revision]).get(revision)
            if header is not None and header.type == "commit":
                return revision
            if header is None:
                raise _unknown(revision)
        if not revision or revision.startswith("-") or any(mark in revision for mark in "\n\r\0"):
            raise _unknown(revision)
        peeled = f"{revision}^{{commit}}"
        if not self.layout.promisor:
            answer = self._reader().info([peeled])[0]
            if answer is None:
                raise _unknown(revision)
            return answer[0]
        # The reader that does not fetch knows no refs, so here it takes a child.
        done = self._run("rev-parse", "-q", "--verify", "--end-of-options", peeled)
        if done.status:
            raise _unknown(revision)
        return done.stdout.decode("ascii").strip()

    def config(self, name: str) -> str | None:
        done = self._run("config", "-z", "--get", name)
        if done.status:
            return None
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\0")

    # -- objects ------------------------------------------------------------------------------------------

    def info(self, oids: Iterable[str]) -> Mapping[str, ObjectInfo]:
        names = reading.full_ids(list(dict.fromkeys(oids)), self.oid_length)
        if not names:
            return {}
        return dict(answer for answer in self._reader().info(names) if answer is not None)

    def absent(self, oids: Iterable[str]) -> set[str]:
        return self.ask_absent(oids)()

    def ask_absent(self, oids: Iterable[str]) -> Callable[[], set[str]]:
        wanted = oids if isinstance(oids, set) else set(oids)
        names = reading.full_ids(list(wanted), self.oid_length)
        # An ID of the wrong length does not exist; it is no abbreviation.
        malformed = wanted.difference(names) if len(names) < len(wanted) else set()
        if not names:
            return lambda: malformed
        answer = self._reader().ask_absent(names)
        return lambda: malformed | answer()

    def read(self, oids: Iterable[str]) -> Iterator[tuple[str, ObjectType, bytes]]:
        for batch in reading.batches(oids, self.oid_length, _READ_BATCH):
            for oid, kind, data in self._reader(fetching=True).contents(batch):
                # `cat-file` takes the word of a pack for what an object holds; we do not.
                if self._compares and object_id(kind, data, self.layout.object_format) != oid:
                    raise reading.corrupt(oid)
                yield oid, kind, data

    @contextmanager
    def unchecked(self) -> Iterator[None]:
        self._compares = False
        try:
            yield
        finally:
            self._compares = True

    def entries(self, commit: str, paths: Sequence[str]) -> dict[str, TreeEntry | None]:
        return reading.entries(self._here, commit, paths)

    def ancestry(self, commit: str, anchors: Iterable[str]) -> dict[str, bool | str]:
        present = self.info(wanted := list(anchors))
        commits = {oid for oid in wanted if oid in present and present[oid].type == "commit"}
        if not commits:
            return {}
        return self._decided.answer(commit, commits, lambda unknown: self._walked(commit, unknown))

    def expect_ancestry(self, commit: str) -> None:
        if not self.layout.shallow and not self._decided.knows(commit):
            self._take_listing("")
            self._coming = commit, self._list_commits(commit)

    def expect_parents(self, tip: str, memory_limit: int | None = None) -> None:
        if tip not in self._walks:
            self._walks[tip] = self._list_first_parents(tip, memory_limit)
            self._walks[tip].widen()

    def parents(self, tip: str, stop: str | None = None) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        at: str | None = tip
        listing = self._walks.pop(tip, None)
        if listing is None:
            for step in reading.first_parents(self._here, tip, stop, _SHORT_WALK):
                yield step
                at = step[2][0] if step[2] else None
        if at is None or at == stop:
            if listing is not None:
                listing.stop()
            return
        for step in _first_parents(listing or self._list_first_parents(at)):
            if step[0] != at:
                break
            yield step
            at = step[2][0] if step[2] else None
            if at is None or at == stop:
                return
        # Git stopped listing at something absent or damaged: walking on says what it is.
        yield from reading.first_parents(self._here, at, stop)

    # -- writing ------------------------------------------------------------------------------------------

    def write_objects(self, objects: Sequence[tuple[ObjectType, bytes]]) -> list[str]:
        if not objects:
            return []
        if len(objects) <= _FEW and self._store_is_plain():
            from hn_memory.repository.loose import write_all

            with suppress(OSError):
                # Where it fails, Git tries again, and says why.
                return write_all(self.layout.store, objects, self.layout.object_format)
        from hn_memory.repository.pack import pack

        # Git refuses a pack that holds an object twice.
        once = list(dict.fromkeys(objects))
        data = pack(once, self.layout.object_format)
        verb = ("unpack-objects", "-q") if len(once) <= _LOOSE_LIMIT else ("index-pack", "--stdin")
        done = run([*self._command, *verb], self._env, stdin=data)
        if done.status:
            raise store_refused(self.layout.store, done.reason)
        return [object_id(kind, content, self.layout.object_format) for kind, content in objects]

    def _store_is_plain(self) -> bool:
        """Does the store want no more of a new object than that it is whole, by settings that were read just now?"""
        return self.layout.plain_store and self._settings == reading.file_stamp(f"{self.layout.common}/config")

    def write_pack(self, count: int, objects: Iterable[tuple[ObjectType, bytes]]) -> None:
        from hn_memory.repository.pack import pack_parts

        if count <= _LOOSE_LIMIT:
            self.write_objects(list(objects))
            return
        # Git indexes the first objects while the last ones are still being made.
        child = Child([*self._command, "index-pack", "--stdin"], self._env)
        outgoing = bytearray()
        try:
            for part in pack_parts(count, objects, self.layout.object_format):
                outgoing += part
                if len(outgoing) >= _SEND_FROM and not child.send(outgoing):
                    break
            done = collect(child, bytes(outgoing))
        finally:
            child.stop()
        if done.status:
            raise store_refused(self.layout.store, done.reason)

    # -- children -----------------------------------------------------------------------------------------

    def _run(self, *arguments: str) -> Completed:
        return run([*self._command, *arguments], self._env)

    def _listing(self, prefixes: Sequence[str]) -> Completed:
        running = self._ahead.take("refs") if self._ahead is not None and tuple(prefixes) == SOURCE_PREFIXES else None
        done = self._run(*listing(prefixes)) if running is None else collect(running)
        if done.status:
            raise HnError("refs-unreadable", f"Git cannot list the refs: {without_homes(done.reason)}")
        return done

    def _here(self, oids: Sequence[str]) -> Iterator[tuple[str, ObjectType, bytes]]:
        """Contents of those objects that are here now, never fetched."""
        return self._reader().contents(oids)

    def _reader(self, *, fetching: bool = False) -> CatFile:
        """The child for a question: the one that may fetch, or the one that cannot.

        Git keeps the packs it has opened, so after a change of the packs on disk a new child is asked: an
        object that is gone must not be answered from an old mapping (spec section 5).
        """
        stamp = reading.store_stamp(self.layout.store)
        if stamp != self._stamp:
            for reader in (self._checker, self._fetcher):
                if reader is not None:
                    reader.close()
            self._stamp = stamp
        if fetching and self.layout.promisor and not lazy_fetch_forbidden():
            if self._fetcher is None:
                env = {name: value for name, value in self._env.items() if name != "GIT_NO_LAZY_FETCH"}
                # A fetch must know the true boundary of a shallow repository.
                env.pop("GIT_SHALLOW_FILE", None)
                self._fetcher = CatFile(self._command, env, legacy=self._legacy)
            return self._fetcher
        if self._checker is None:
            # An empty repository stands between Git and a promisor, and that is not the one it runs ahead in.
            running = None if self._ahead is None or self.layout.promisor else self._ahead.take("objects")
            self._checker = CatFile(*self._unfetching(), legacy=self._legacy, running=running)
        return self._checker

    def _unfetching(self) -> tuple[list[str], dict[str, str]]:
        """Command and environment in which Git cannot fetch, whatever its version.

        `GIT_NO_LAZY_FETCH` is young, so in a repository with a promisor remote Git is shown the object store
        through an empty repository that has no remotes.
        """
        if not self.layout.promisor:
            return self._command, self._env
        if self._scratch is None:
            from hn_memory.repository.scratch import Scratch

            self._scratch = Scratch(self.layout)
        return self._scratch.command, self._env | self._scratch.environment

    def _walked(self, commit: str, anchors: set[str]) -> dict[str, bool | str]:
        if not self.layout.shallow and (listed := self._listed(commit, anchors)) is not None:
            return listed
        return reading.ancestry(self._here, commit, anchors)

    def _listed(self, commit: str, anchors: set[str]) -> dict[str, bool | str] | None:
        """Ancestry by `git rev-list`, which knows commit-graphs; None when it meets a missing commit.

        The listing is left as soon as every anchor has come by. Limiting it with the anchors would be quicker
        still for those that are no ancestors, but such a limit trusts the dates of commits.
        """
        unmet = {anchor.encode() for anchor in anchors}
        child = self._take_listing(commit) or self._list_commits(commit)
        rest = b""
        for chunk in stream(child):
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            unmet.difference_update(lines)
            if not unmet:
                break
        if unmet and child.wait():
            return None
        return {anchor: anchor.encode() not in unmet for anchor in sorted(anchors)}

    def _list_commits(self, commit: str) -> Child:
        command, env = self._unfetching()
        return Child([*command, "rev-list", commit, "--"], env)

    def _take_listing(self, commit: str) -> Child | None:
        """The listing of a commit that was begun, if it is the one; any other is ended."""
        coming, self._coming = self._coming, None
        if coming is None or (coming[0] == commit and coming[1].mine):
            return coming and coming[1]
        coming[1].stop()
        return None

    def _list_first_parents(self, tip: str, memory_limit: int | None = None) -> Child:
        """Git, listing commits along first parents with their trees and parents, as far as it gets.

        A commit-graph would be quicker still, but is a copy of what the commits say, and may be a wrong one.
        """
        command, env = self._unfetching()
        command = [*command, "-c", "core.commitGraph=false"]
        command += ["rev-list", "--first-parent", "--format=%T %P", tip, "--"]
        return Child(limited(command, memory_limit=memory_limit), env)


def _first_parents(listing: Child) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """What `_list_first_parents` lists: commit, tree, parents."""
    rest = ""
    for chunk in stream(listing):
        lines = (rest + chunk.decode("ascii")).split("\n")
        # Two lines each; the last one here is not known to be whole.
        whole = (len(lines) - 1) // 2 * 2
        rest = "\n".join(lines[whole:])
        for name, links in zip(lines[:whole:2], lines[1:whole:2], strict=True):
            tree, *parents = links.split()
            yield name.removeprefix("commit "), tree, tuple(parents)


def store_refused(directory: str | PathLike[str], why: str) -> HnError:
    """The refusal of a write of objects, for both backends."""
    return HnError(
        "object-write-failed",
        f"cannot write to {display(directory)}: {without_homes(why)}",
        hint="check the permissions, the owner and the free space of that directory",
    )


def _unknown(revision: str) -> NotFoundError:
    if not revision:
        return NotFoundError("revision-unknown", "the name of a commit is empty", hint="HEAD is what is checked out.")
    cut = revision if len(revision) <= _SHOWN else f"{revision[:_SHOWN]}..."
    shown = cut if cut.isprintable() else cut.encode("unicode_escape").decode("ascii")
    hint = "This branch has no commit yet: make one first, or name one with --at." if revision == "HEAD" else None
    return NotFoundError("revision-unknown", f"no single commit here has the name {shown}", hint=hint)
