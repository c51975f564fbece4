"""What the rest of the project may ask of a Git repository, whichever library answers.

Two backends serve this interface, and one contract suite holds both to it:

* `process.ProcessRepository`: Git itself, through one long-lived `git cat-file` and short plumbing commands.
  It opens everything Git opens (SHA-256, reftable, promisor remotes) and starts in milliseconds.
* `libgit.LibgitRepository`: libgit2. The fast path of a process that reads or appends many times.

Object IDs are full lower-case hexadecimal strings of the repository's own length (40 or 64). Replace refs
and grafts are never followed. Nothing here reads or writes the files of refs by hand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from hn_memory.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Literal, TypeAlias


ObjectFormat: TypeAlias = "Literal['sha1', 'sha256']"
ObjectType: TypeAlias = "Literal['blob', 'tree', 'commit', 'tag']"


class Ref(NamedTuple):
    """One ref. `target` is the object ID it holds; a symbolic ref has `symbolic` (a ref name) instead."""

    name: str
    target: str | None
    symbolic: str | None = None


class ObjectInfo(NamedTuple):
    """The header of an object: its type and its size in bytes, known without reading the content."""

    type: ObjectType
    size: int


class TreeEntry(NamedTuple):
    """One entry of a tree. `mode` is the octal text Git prints (`100644`, `040000`, `120000`, `160000`)."""

    mode: str
    name: bytes
    oid: str


class RefUpdate(NamedTuple):
    """One compare-and-swap of a ref: from `old` (None: the ref must not exist) to `new` (None: delete it)."""

    name: str
    new: str | None
    old: str | None


class Layout(NamedTuple):
    """Where a repository lives. All places are absolute; a bare repository has no work tree.

    They are kept as text, since a short command needs no paths and `pathlib` takes its time to load: `git`,
    `common`, `tree` and `store` (the directory of the main object store) are `git_dir`, `common_dir`, `work_tree`
    and `objects` as paths. `prefix` is the caller's directory relative to the
    work tree in `/`-separated form without a trailing slash (`""` at the root or outside the work tree).
    `plain_store` says that no setting asks for special modes or flushing of new objects.
    """

    git: str
    common: str
    tree: str | None
    store: str
    object_format: ObjectFormat
    ref_format: str
    shallow: bool
    promisor: bool
    prefix: str
    plain_store: bool = False

    @property
    def git_dir(self) -> Path:
        """The Git directory."""
        return _path(self.git)

    @property
    def common_dir(self) -> Path:
        """The Git directory that all worktrees share."""
        return _path(self.common)

    @property
    def work_tree(self) -> Path | None:
        """The root of the work tree."""
        return None if self.tree is None else _path(self.tree)

    @property
    def objects(self) -> Path:
        """The directory of the main object store."""
        return _path(self.store)


def _path(place: str) -> Path:
    from pathlib import Path

    return Path(place)


class Repository(ABC):
    """An open repository. Methods raise `HnError`; the codes are named at each method."""

    layout: Layout
    backend: Literal["git", "libgit2", "fake"]

    @property
    def oid_length(self) -> int:
        """Hexadecimal digits of an object ID here: 40 or 64."""
        return 40 if self.layout.object_format == "sha1" else 64

    @abstractmethod
    def close(self) -> None:
        """End helper processes and release handles. Safe to call twice."""

    def __enter__(self) -> Repository:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- refs ---------------------------------------------------------------------------------------------

    @abstractmethod
    def refs(self, *prefixes: str) -> list[Ref]:
        """All refs at or below the given prefixes (`refs/hn/memory/`), each once, sorted by name (bytes).

        Symbolic refs are reported, not followed. Ref names that are not UTF-8 use `surrogateescape`.
        """

    @abstractmethod
    def ref(self, name: str) -> Ref | None:
        """One ref by its full name, or None."""

    @abstractmethod
    def update_refs(self, updates: Sequence[RefUpdate], message: str, pass_fds: Sequence[int] = ()) -> None:
        """Move refs in one transaction, each against the value read before; write reflogs with `message`.

        No hook runs. A ref is never moved through a symbolic ref. `pass_fds` are descriptors that a child
        which moves refs inherits, so that a lock on them lasts as long as it does.

        Raises:
            ConflictError `ref-moved`: a ref does not hold its `old` value (nothing was moved).
            ConflictError `ref-locked`: another writer holds the lock of a ref.
            HnError `ref-move-broken-off`: the writing process was killed; each ref is old or new, and may be locked.
            HnError `ref-write-failed`: the store refused (read-only, full, ...); names the directory.
        """

    # -- revisions ----------------------------------------------------------------------------------------

    @abstractmethod
    def resolve_commit(self, revision: str) -> str:
        """The commit that a revision (`HEAD`, `main~2`, an abbreviation) names, tags peeled.

        Raises:
            NotFoundError `revision-unknown`: nothing, or something that is no commit, has that name.
        """

    @abstractmethod
    def config(self, name: str) -> str | None:
        """The effective (last) value of one Git setting as text, or None."""

    # -- objects ------------------------------------------------------------------------------------------

    @abstractmethod
    def info(self, oids: Iterable[str]) -> Mapping[str, ObjectInfo]:
        """Headers of those objects that exist here, asked of the store now and without fetching.

        An ID of the wrong length for the repository, or of any other form, does not exist.
        """

    @abstractmethod
    def read(self, oids: Iterable[str]) -> Iterator[tuple[str, ObjectType, bytes]]:
        """Contents (ID, type, bytes) of those objects that exist, in the order asked, streamed.

        In a repository with a promisor remote Git may fetch an absent object here, unless
        `GIT_NO_LAZY_FETCH` is set. Absent objects are left out.
        """

    @contextmanager
    def unchecked(self) -> Iterator[None]:
        """Within it the store is believed what an object holds, and IDs are not computed again.

        For who proves contents by other means, and asks once more outside where the proof fails.
        """
        yield

    def read_within(
        self, limits: Mapping[str, int], known: Mapping[str, ObjectInfo | tuple[str, int]]
    ) -> tuple[Mapping[str, ObjectInfo | tuple[str, int]], dict[str, bytes]]:
        """Contents of those blobs that have no more bytes than `limits` says for each; nothing larger is read.

        Args:
            known: headers of objects as `info` gives them, where the caller has them and need not ask again.

        Returns:
            Headers, of the objects that were not read at least, and the contents. What is absent is asked for as
            `read` asks: in a partial clone Git may fetch it.
        """
        unknown = [oid for oid in limits if oid not in known] if known else limits
        # What is known may be far more than is asked about: it is not copied as a whole.
        headers = known
        if unknown:
            headers = {**{oid: known[oid] for oid in limits if oid in known}, **self.info(unknown)}
        wanted = [
            oid for oid, limit in limits.items()
            if (header := headers.get(oid)) is None or (header[0] == "blob" and header[1] <= limit)
        ]  # fmt: skip
        return headers, {oid: data for oid, kind, data in self.read(wanted) if kind == "blob"}

    @abstractmethod
    def entries(self, commit: str, paths: Sequence[str]) -> dict[str, TreeEntry | None]:
        """What each `/`-separated path is in the tree of a commit; None where it is absent.

        Asked without fetching. A path through a file or a missing directory is absent. `".."`, `"."`, an
        empty component or an empty path is absent too. The ID of the entry need not exist.

        Raises:
            NotFoundError `object-missing`: the commit or one of the trees on the way is not here.
        """

    @abstractmethod
    def ancestry(self, commit: str, anchors: Iterable[str]) -> dict[str, bool | str]:
        """For each existing commit in `anchors`: is it `commit` itself or an ancestor of it?

        True or False where the objects here decide it; otherwise the ID of the first commit (smallest ID
        among the boundary) that is missing on the way, as in a shallow clone. A shallow boundary commit's
        recorded parents count as missing commits. Replace refs and grafts are not followed.
        """

    @abstractmethod
    def parents(self, tip: str, stop: str | None = None) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Walk first parents from `tip` down to, not including, `stop`: (commit, tree, parents), newest first.

        Raises:
            NotFoundError `object-missing`: a commit on the way is not here, or is no commit.
        """

    # -- writing ------------------------------------------------------------------------------------------

    @abstractmethod
    def write_objects(self, objects: Sequence[tuple[ObjectType, bytes]]) -> list[str]:
        """Store objects and answer their IDs, in order. Writing one that exists is no error.

        Raises:
            HnError `object-write-failed`: the store refused; names the directory.
        """

    def absent(self, oids: Iterable[str]) -> set[str]:
        """Those of the IDs under which nothing exists here; asked as `info` asks, and cheaper."""
        wanted = set(oids)
        return wanted - self.info(wanted).keys()

    def ask_absent(self, oids: Iterable[str]) -> Callable[[], set[str]]:
        """Begin to ask what `absent` asks; what is returned answers it, and waits where it has to."""
        return lambda: self.absent(oids)

    def expect_ancestry(self, commit: str) -> None:  # noqa: B027 - nothing need be done
        """`ancestry` of a commit is about to be asked for; a backend may begin to find out."""

    def expect_parents(self, tip: str, memory_limit: int | None = None) -> None:  # noqa: B027 - nothing need be done
        """`parents` of a tip, a long way down, is about to be asked for; a backend may begin to find out.

        Args:
            memory_limit: most bytes of memory that whoever finds out may use.
        """

    def write_pack(self, count: int, objects: Iterable[tuple[ObjectType, bytes]]) -> None:
        """Store `count` distinct objects as they come, as one pack where the backend can.

        Raises:
            HnError `object-write-failed`: as `write_objects`.
        """
        self.write_objects(list(objects))


def parse_tree(data: bytes, oid_length: int) -> list[TreeEntry]:
    """Entries of a raw tree object in stored order.

    Raises:
        ValueError: the bytes are no tree of IDs of `oid_length` hexadecimal digits.
    """
    entries: list[TreeEntry] = []
    raw = oid_length // 2
    at = 0
    while at < len(data):
        space = data.index(b" ", at)
        nul = data.index(b"\0", space)
        end = nul + 1 + raw
        if end > len(data):
            raise ValueError("tree entry is cut short")
        mode = data[at:space].decode("ascii").rjust(6, "0")
        entries.append(TreeEntry(mode, data[space + 1 : nul], data[nul + 1 : end].hex()))
        at = end
    return entries
