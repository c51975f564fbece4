"""What can be said of raw objects, whichever backend fetched their bytes.

The backends differ in how they read an object; what a tree entry, a parent or an ancestor is must not differ,
so it is written once, here, over a function that reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice

from hn_memory.errors import HnError, NotFoundError
from hn_memory.repository.base import ObjectType, TreeEntry

Read = Callable[[Sequence[str]], Iterator[tuple[str, ObjectType, bytes]]]

_HEX = "0123456789abcdef"
_BATCH = 512


def is_full_id(oid: str, length: int) -> bool:
    """Is this the full lower-case form of an object ID of `length` digits?"""
    return len(oid) == length and not oid.strip(_HEX)


def full_ids(oids: list[str], length: int) -> list[str]:
    """Those that are full IDs. Thousands of them, as recall has to ask about, are checked at a stroke."""
    if set(map(len, oids)) <= {length} and not "".join(oids).encode(errors="replace").translate(None, _HEX.encode()):
        return oids
    return [oid for oid in oids if is_full_id(oid, length)]


def missing(oid: str, what: str = "object") -> NotFoundError:
    """The refusal for an object that is needed and not here."""
    return NotFoundError("object-missing", f"{what} {oid} is not in this repository")


def corrupt(oid: str) -> HnError:
    """The refusal for an object whose bytes are not what its ID says."""
    return HnError("object-corrupt", f"object {oid} is damaged", hint="`git fsck` tells more")


def commit_links(oid: str, data: bytes) -> tuple[str, tuple[str, ...]]:
    """Tree and recorded parents of a raw commit: grafts, replacements and shallow boundaries do not count.

    Raises:
        HnError `object-corrupt`: the bytes are no commit.
    """
    if not data.startswith(b"tree "):
        raise corrupt(oid)
    length = len(oid)
    tree = _id_at(oid, data, 5)
    at = length + 6
    parents: list[str] = []
    while data.startswith(b"parent ", at):
        parents.append(_id_at(oid, data, at + 7))
        at += length + 8
    return tree, tuple(parents)


def _id_at(commit: str, data: bytes, at: int) -> str:
    """The ID that fills the rest of a line."""
    end = at + len(commit)
    found = data[at:end].decode("ascii", "replace")
    if not is_full_id(found, len(commit)) or data[end : end + 1] not in (b"\n", b""):
        raise corrupt(commit)
    return found


def read_one(read: Read, oid: str, kind: ObjectType) -> bytes:
    """The bytes of one object of a type.

    Raises:
        NotFoundError `object-missing`: it is not here, or of another type.
    """
    for _, found, data in read([oid]):
        if found == kind:
            return data
        raise NotFoundError("object-missing", f"{oid} is a {found}, not a {kind}")
    raise missing(oid, kind)


def tree_entry(tree: str, data: bytes, name: bytes) -> TreeEntry | None:
    """The entry of that name in a raw tree, without building all the others.

    Raises:
        HnError `object-corrupt`: the bytes are no tree.
    """
    mark = b" " + name + b"\0"
    if mark not in data:
        return None
    raw = len(tree) // 2
    at = 0
    try:
        while at < len(data):
            nul = data.index(b"\0", at)
            # No mode holds a blank, so the name is all that stands between the first one and the zero.
            if data.startswith(mark, nul - len(name) - 1) and b" " not in data[at : nul - len(name) - 1]:
                oid = data[nul + 1 : nul + 1 + raw]
                if len(oid) != raw:
                    raise ValueError("cut short")
                return TreeEntry(data[at : nul - len(name) - 1].decode("ascii").rjust(6, "0"), name, oid.hex())
            at = nul + 1 + raw
    except ValueError as error:
        raise corrupt(tree) from error
    return None


def entries(read: Read, commit: str, paths: Sequence[str]) -> dict[str, TreeEntry | None]:
    """See `Repository.entries`. Trees of one depth are read together, each once."""
    root, _ = commit_links(commit, read_one(read, commit, "commit"))
    answers: dict[str, TreeEntry | None] = dict.fromkeys(paths)
    waiting: list[tuple[str, str, list[bytes]]] = []
    for path in answers:
        try:
            parts = path.encode("utf-8", "surrogateescape").split(b"/")
        except UnicodeEncodeError:
            continue
        if not any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
            waiting.append((path, root, parts))
    if not waiting:
        return answers
    while waiting:
        wanted = list(dict.fromkeys(tree for _, tree, _ in waiting))
        trees = {oid: data for oid, kind, data in read(wanted) if kind == "tree"}
        below: list[tuple[str, str, list[bytes]]] = []
        for path, tree, parts in waiting:
            if tree not in trees:
                raise missing(tree, "tree")
            entry = tree_entry(tree, trees[tree], parts[0])
            if len(parts) == 1:
                answers[path] = entry
            elif entry is not None and entry.mode == "040000":
                below.append((path, entry.oid, parts[1:]))
        waiting = below
    return answers


def ancestry(read: Read, commit: str, anchors: Iterable[str]) -> dict[str, bool | str]:
    """See `Repository.ancestry`: walk all that is here, and remember what is not. The anchors are here.

    An anchor that was met is an ancestor whatever is missing. One that was not met is no ancestor only when
    nothing is missing; else the answer is the smallest missing ID (spec section 5, `anchor-ancestry`).

    Raises:
        NotFoundError `object-missing`: `commit` itself is not here.
    """
    wanted = set(anchors)
    seen = {commit}
    absent: set[str] = set()
    frontier = [commit]
    while frontier and not wanted <= seen:
        batch, frontier = frontier[:_BATCH], frontier[_BATCH:]
        lost = set(batch)
        for oid, kind, data in read(batch):
            if kind != "commit":
                continue
            lost.discard(oid)
            for parent in commit_links(oid, data)[1]:
                if parent not in seen:
                    seen.add(parent)
                    frontier.append(parent)
        absent |= lost
    if commit in absent:
        raise missing(commit, "commit")
    otherwise: bool | str = min(absent) if absent else False
    return {anchor: True if anchor in seen else otherwise for anchor in sorted(wanted)}


class Decided:
    """Ancestry that was decided once. It follows from IDs alone, so no change of the repository alters it.

    Only True and False are kept, never what was missing, and only for the few commits asked about last.
    """

    _COMMITS = 8

    def __init__(self) -> None:
        self._known: dict[str, dict[str, bool]] = {}

    def knows(self, commit: str) -> bool:
        """Was ancestry of this commit asked about before?"""
        return commit in self._known

    def answer(
        self, commit: str, anchors: set[str], walk: Callable[[set[str]], dict[str, bool | str]]
    ) -> dict[str, bool | str]:
        """Answers for all anchors, walking only for those not known yet."""
        known = self._known.pop(commit, {})
        rest = anchors - known.keys()
        answers: dict[str, bool | str] = dict(walk(rest)) if rest else {}
        known.update((anchor, value) for anchor, value in answers.items() if isinstance(value, bool))
        self._known[commit] = known
        while len(self._known) > self._COMMITS:
            del self._known[next(iter(self._known))]
        return {anchor: answers[anchor] if anchor in answers else known[anchor] for anchor in sorted(anchors)}


def first_parents(
    read: Read, tip: str | None, stop: str | None, limit: int | None = None
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """See `Repository.parents`, one commit at a time, at most `limit` of them."""
    at, steps = tip, 0
    while at is not None and at != stop and steps != limit:
        tree, links = commit_links(at, read_one(read, at, "commit"))
        yield at, tree, links
        at = links[0] if links else None
        steps += 1


def is_below(name: str, prefixes: Collection[str]) -> bool:
    """Is a ref at one of the prefixes, or below it? `refs/hn` and `refs/hn/` hold `refs/hn/x`, not `refs/hnx`."""
    return name in prefixes or any(name.startswith(prefix.rstrip("/") + "/") for prefix in prefixes)


def batches(oids: Iterable[str], length: int, size: int) -> Iterator[list[str]]:
    """Full IDs in groups of `size`; whatever is no full ID names no object."""
    pending = iter(oids)
    while some := list(islice(pending, size)):
        if batch := full_ids(some, length):
            yield batch


def store_stamp(store: str) -> tuple[object, ...]:
    """Something that changes whenever packs come or go in an object store or a store it borrows from."""
    stamps: list[object] = [file_stamp(f"{store}/pack"), alternates := file_stamp(f"{store}/info/alternates")]
    if alternates is not None:
        with open(f"{store}/info/alternates", "rb") as file:  # noqa: PTH123 - as below
            lines = os.fsdecode(file.read()).splitlines()
        for line in lines:
            if line and not line.startswith("#"):
                stamps.append(file_stamp(os.path.join(store, line, "pack")))  # noqa: PTH118
    return tuple(stamps)


def file_stamp(path: str) -> tuple[int, int] | None:
    """Something that changes when a file or directory is replaced or changed; None where there is none."""
    # Asked before every answer, so without the cost of path objects.
    try:
        found = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
